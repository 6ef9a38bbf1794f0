//! In: the unpacked packages. Out: `/etc/ld.so.cache`, the list of libraries that glibc's loader reads before it searches directories.
//!
//! A package's script would have called ldconfig. Without the cache, every program start tries each library in each directory, and misses
//! the directories that only `/etc/ld.so.conf.d` names. The format is the one that glibc reads since 2.2 (`glibc-ld.so.cache1.1`, see
//! elf/cache.c and sysdeps/generic/dl-cache.h there). Variants of libraries for newer processors (`glibc-hwcaps`) are not listed; the
//! loader then takes the generic one.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::io;

use crate::unpacked::Unpacked;

pub(crate) const CACHE: &str = "etc/ld.so.cache";
const CONFIGURATION: &str = "etc/ld.so.conf.d";
/// The loader searches these in any case, in this order; those of the architecture are in a configuration file.
const DIRECTORIES: [&str; 2] = ["/lib", "/usr/lib"];

/// `None`: there are no libraries.
pub(crate) fn cache(image: &Unpacked<'_>) -> io::Result<Option<Vec<u8>>> {
    let mut libraries = Vec::new();
    for directory in directories(image)? {
        let mut names: Vec<_> = image.list(&directory)?.into_iter().map(|(name, _)| name).filter(|name| is_library(name)).collect();
        names.sort();
        for name in names {
            let path = format!("{directory}/{name}");
            // A link may be dangling, and a name may be a directory.
            let flags = image.read(&path, HEADER).ok().and_then(|header| flags(&header));
            libraries.extend(flags.map(|flags| Library { name, path, flags }));
        }
    }
    if libraries.is_empty() { Ok(None) } else { encoded(libraries).map(Some) }
}

/// Each once: with merged /usr, many have two names. The first wins, as with ldconfig.
fn directories(image: &Unpacked<'_>) -> io::Result<Vec<String>> {
    let mut files: Vec<_> = image.list(CONFIGURATION)?.into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".conf")).collect();
    files.sort();
    let mut named = Vec::new();
    for file in files {
        // A link may be dangling here, too.
        let content = image.read(&format!("{CONFIGURATION}/{file}"), 64 << 10).unwrap_or_default();
        named.extend(configured(&String::from_utf8_lossy(&content)));
    }
    named.extend(DIRECTORIES.map(str::to_owned));
    let mut seen = HashSet::new();
    named.retain(|directory| image.identity(directory).is_some_and(|identity| seen.insert(identity)));
    Ok(named)
}

fn configured(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with('/')).map(|line| line.trim_end_matches('/').to_owned())
}

/// The loader compares numbers in names as `int` and other bytes as `char`: names that may overflow or differ there are left to its search.
fn is_library(name: &str) -> bool {
    let looks_like_one = (name.starts_with("lib") || name.starts_with("ld-")) && (name.ends_with(".so") || name.contains(".so."));
    let of_tools = name.ends_with("-gdb.py") || name.ends_with(".dpkg-new") || name.ends_with(".dpkg-tmp");
    let numbers_fit = name.split(|character: char| !character.is_ascii_digit()).all(|number| number.len() <= 9);
    looks_like_one && !of_tools && numbers_fit && name.is_ascii()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Library {
    name: String,
    path: String,
    flags: u32,
}

/// How much of an ELF file is read.
const HEADER: u64 = 52;
const SHARED_OBJECT: u16 = 3;
const LIBC6: u32 = 3;

/// The loader's flags for a library: glibc's `FLAG_ELF_LIBC6`, and the variant where an architecture has several.
fn flags(header: &[u8]) -> Option<u32> {
    let [0x7f, b'E', b'L', b'F', class, endian, ..] = *header else { return None };
    let short = |at: usize| -> Option<u16> {
        let bytes = [*header.get(at)?, *header.get(at + 1)?];
        Some(if endian == 1 { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let (kind, machine) = (short(16)?, short(18)?);
    if kind != SHARED_OBJECT {
        return None;
    }
    let wide = class == 2;
    // The low half of `e_flags`, which has the floating-point ABI.
    let low = match (wide, endian == 1) {
        (true, true) => 48,
        (true, false) => 50,
        (false, true) => 36,
        (false, false) => 38,
    };
    let float = short(low)?;
    let architecture = match (machine, wide) {
        (62, true) => 0x0300,
        (62, false) => 0x0800,
        (3 | 22, false) => 0,
        (183, true) => 0x0a00,
        (40, false) if float & 0x400 != 0 => 0x0900,
        (40, false) if float & 0x200 != 0 => 0x0b00,
        (40, false) => 0,
        (21, true) => 0x0500,
        (22, true) => 0x0400,
        (243, true) if float & 6 == 4 => 0x1000,
        (243, true) if float & 6 == 0 => 0x0f00,
        _ => return None,
    };
    Some(architecture | LIBC6)
}

/// The loader does a binary search, with names in descending order; of equal names it takes the first that fits.
fn encoded(mut libraries: Vec<Library>) -> io::Result<Vec<u8>> {
    libraries.sort_by(|one, other| order(&other.name, &one.name).then(other.flags.cmp(&one.flags)));
    const ENTRY: usize = 24;
    const START: usize = 48;
    let texts = START + libraries.len() * ENTRY;
    let (mut entries, mut strings) = (Vec::new(), Vec::new());
    for library in &libraries {
        let value = texts + strings.len();
        // The name is the tail of the path string.
        let key = value + library.path.len() - library.name.len();
        for field in [library.flags, offset(key)?, offset(value)?, 0, 0, 0] {
            entries.extend_from_slice(&field.to_ne_bytes());
        }
        strings.extend_from_slice(library.path.as_bytes());
        strings.push(0);
    }
    let endian: [u8; 4] = if cfg!(target_endian = "little") { [2, 0, 0, 0] } else { [3, 0, 0, 0] };
    let mut file = b"glibc-ld.so.cache1.1".to_vec();
    file.extend_from_slice(&offset(libraries.len())?.to_ne_bytes());
    file.extend_from_slice(&offset(strings.len())?.to_ne_bytes());
    file.extend_from_slice(&endian);
    file.resize(START, 0);
    file.extend_from_slice(&entries);
    file.extend_from_slice(&strings);
    Ok(file)
}

fn offset(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "too many libraries for one list"))
}

/// As glibc's `_dl_cache_libcmp`: numbers by their value, and after everything else.
fn order(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        match (one.first(), other.first()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(b'0'..=b'9'), Some(b'0'..=b'9')) => {
                let numbers = number(&mut one).cmp(&number(&mut other));
                if numbers.is_ne() {
                    return numbers;
                }
            }
            (Some(b'0'..=b'9'), Some(_)) => return Ordering::Greater,
            (Some(_), Some(b'0'..=b'9')) => return Ordering::Less,
            (Some(first), Some(second)) if first != second => return first.cmp(second),
            _ => (one, other) = (&one[1..], &other[1..]),
        }
    }
}

/// Splits off the leading number of a name.
fn number(name: &mut &[u8]) -> u32 {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = name.split_at(digits);
    *name = rest;
    number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_names_as_the_loader_does() {
        let table = [
            ("libc.so.6", "libc.so.6", Ordering::Equal),
            ("libc.so.10", "libc.so.6", Ordering::Greater),
            ("libc.so.06", "libc.so.6", Ordering::Equal),
            ("libc.so", "libc.so.6", Ordering::Less),
            ("libc1.so", "libcz.so", Ordering::Greater),
            ("libcz.so", "libc1.so", Ordering::Less),
            ("liba.so.1", "libb.so.1", Ordering::Less),
            ("lib-2.36.so", "lib-2.4.so", Ordering::Greater),
        ];
        for (one, other, expected) in table {
            assert_eq!(order(one, other), expected, "{one} {other}");
            assert_eq!(order(other, one), expected.reverse(), "{other} {one}");
        }
    }

    #[test]
    fn knows_libraries_by_their_names() {
        let table = [
            ("libc.so.6", true),
            ("ld-linux-x86-64.so.2", true),
            ("libm.so", true),
            ("libm.a", false),
            ("libfoo.so.1.2.3-gdb.py", false),
            ("libfoo.sock", false),
            ("foo.so", false),
            ("libfoo.so.1.dpkg-new", false),
            ("libfoo.so.12345678901", false),
            ("lib\u{e9}.so", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_library(name), expected, "{name}");
        }
    }

    #[test]
    fn reads_for_whom_a_library_is() {
        let elf = |class: u8, kind: u8, machine: u8, float: u16| {
            let mut header = vec![0; 52];
            header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            (header[16], header[18]) = (kind, machine);
            let at = if class == 2 { 48 } else { 36 };
            header[at..at + 2].copy_from_slice(&float.to_le_bytes());
            header
        };
        let mut s390x = vec![0; 52];
        s390x[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 2]);
        (s390x[17], s390x[19]) = (3, 22);
        let table: [(&str, Vec<u8>, Option<u32>); 10] = [
            ("amd64", elf(2, 3, 62, 0), Some(0x303)),
            ("x32", elf(1, 3, 62, 0), Some(0x803)),
            ("i386", elf(1, 3, 3, 0), Some(0x003)),
            ("arm64", elf(2, 3, 183, 0), Some(0xa03)),
            ("armhf", elf(1, 3, 40, 0x400), Some(0x903)),
            ("riscv64", elf(2, 3, 243, 5), Some(0x1003)),
            ("s390x", s390x, Some(0x403)),
            ("a program", elf(2, 2, 62, 0), None),
            ("cut off", elf(2, 3, 62, 0)[..19].to_vec(), None),
            ("a linker script", b"/* GNU ld script */".to_vec(), None),
        ];
        for (name, header, expected) in table {
            assert_eq!(flags(&header), expected, "{name}");
        }
    }

    #[test]
    fn reads_directories_from_the_configuration() {
        let text = "# Multiarch\n/usr/local/lib/\n\n  /opt/lib # theirs\ninclude /etc/more\n";
        assert_eq!(configured(text).collect::<Vec<_>>(), ["/usr/local/lib", "/opt/lib"]);
    }
}
