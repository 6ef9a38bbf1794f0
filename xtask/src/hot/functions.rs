//! Which function is where in a program.

use std::ops::Range;

use anyhow::{Result, ensure};

pub(super) struct Functions(Vec<Function>);

struct Function {
    place: Range<u64>,
    /// How a linker script calls it: by its section, or what is written in assembler by its file.
    wish: String,
}

const FUNCTION: &str = ".text.";

impl Functions {
    /// In: the linker's map.
    pub(super) fn of(map: &str) -> Result<Self> {
        let mut functions = Vec::new();
        let mut lines = map.lines();
        while let Some(line) = lines.next() {
            let Some(line) = line.strip_prefix(' ').filter(|line| line.starts_with(".text")) else { continue };
            let mut words = line.split_ascii_whitespace();
            let Some(section) = words.next() else { continue };
            // A long name has a line of its own.
            let mut words = words.chain(if line == section { lines.next().unwrap_or_default() } else { "" }.split_ascii_whitespace());
            let (Some(start), Some(size)) = (words.next().and_then(number), words.next().and_then(number)) else { continue };
            let wish = match (section.strip_prefix(FUNCTION), words.next()) {
                (Some(_), _) => format!("*({section})"),
                (None, Some(file)) => format!("*{}({section})", object(file)),
                (None, None) => continue,
            };
            // What was left out has no place.
            if start > 0 && size > 0 {
                functions.push(Function { place: start..start + size, wish });
            }
        }
        functions.sort_by_key(|function| function.place.start);
        ensure!(!functions.is_empty(), "the linker names no functions");
        Ok(Self(functions))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// From the first to the last.
    pub(super) fn range(&self) -> Range<u64> {
        let (first, last) = (self.0.first(), self.0.last());
        first.map_or(0, |first| first.place.start)..last.map_or(0, |last| last.place.end)
    }

    /// The one, or those with one place.
    pub(super) fn at(&self, place: u64) -> impl Iterator<Item = &str> {
        let after = self.0.partition_point(|function| function.place.start <= place);
        let here = self.0[..after].iter().rev().take_while(move |function| function.place.contains(&place));
        here.map(|function| function.wish.as_str())
    }
}

fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// `/some/where/libc.a(memcpy.lo)` is `memcpy.lo`.
fn object(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split_once('(').map_or(name, |(_, member)| member.trim_end_matches(')'))
}

/// The same for builds in which functions have other names.
pub(super) fn pattern(wish: &str) -> String {
    match wish.strip_prefix("*(.text.").and_then(|rest| rest.strip_suffix(')')) {
        Some(name) => format!("*(.text.{})", without_hashes(name)),
        None => wish.to_owned(),
    }
}

/// A name without what differs from build to build: the hashes in a Rust name, and what LLVM adds.
fn without_hashes(name: &str) -> String {
    const HASH: &str = "17h";
    let name = name.split_once(".llvm.").map_or(name, |(name, _)| name);
    match name.rfind(HASH) {
        Some(at) if name.starts_with("_ZN") => format!("{}*", &name[..at + HASH.len()]),
        _ if name.starts_with("_R") => without_crate_hashes(name) + "*",
        _ => name.to_owned(),
    }
}

/// In names of the newer kind a crate is `Cs`, its hash, and `_` before its name.
fn without_crate_hashes(name: &str) -> String {
    const CRATE: &str = "Cs";
    let mut parts = name.split(CRATE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once('_') {
        Some((hash, rest)) if hash.chars().all(|c| c.is_ascii_alphanumeric()) => format!("{text}{CRATE}*_{rest}"),
        _ => format!("{text}{CRATE}{part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_the_build_gave_them() {
        let rows = [
            ("_ZN9shorefast4main17h0123456789abcdefE", "_ZN9shorefast4main17h*"),
            ("_ZN9shorefast4main17h0123456789abcdefE.llvm.123", "_ZN9shorefast4main17h*"),
            ("_RNvNtCsaz6eC2DG7lh_3std2rt7cleanup", "_RNvNtCs*_3std2rt7cleanup*"),
            ("_RNvCs1_3oneCs2_3two", "_RNvCs*_3oneCs*_3two*"),
            ("memcpy", "memcpy"),
        ];
        for (name, expected) in rows {
            assert_eq!(without_hashes(name), expected);
            assert_eq!(pattern(&format!("*(.text.{name})")), format!("*(.text.{expected})"));
        }
    }

    #[test]
    fn what_was_executed_is_found_by_its_place() {
        let map = "\
Discarded input sections

 .text.unused   0x0000000000000000       0x10 /some/file.o

.text.mount     0x0000000000001000       0x18
 *(.text.first)
 .text.first    0x0000000000001000       0x10 /some/file.o
 .text.second
                0x0000000000001010        0x8 /some/file.o
                0x0000000000001010                second
 .text          0x0000000000001040        0x8 /some/libc.a(memcpy.lo)
 .data.third    0x0000000000002000        0x8 /some/file.o
";
        let functions = Functions::of(map).unwrap();
        assert_eq!(functions.range(), 0x1000..0x1048);
        let at = |place: u64| functions.at(place).collect::<Vec<_>>();
        assert_eq!(at(0x100f), ["*(.text.first)"]);
        assert_eq!(at(0x1010), ["*(.text.second)"]);
        assert_eq!(at(0x1041), ["*memcpy.lo(.text)"]);
        assert_eq!(at(0x1018), [""; 0]);
        assert_eq!(at(0xfff), [""; 0]);
    }
}
