//! In: a path of a package. Out: whether it goes into an image.
//!
//! A mount client needs no manuals. The copyright files stay: redistributing an image requires them.

/// Part of every image's digest: the same packages under other rules are another image.
pub const VERSION: u32 = 2;

/// Added to every image besides the wanted packages: the tools that mount helpers written in shell use, and mount(8) itself.
pub const BASE: [&str; 6] = ["coreutils", "dash", "grep", "mawk", "mount", "sed"];

/// Packages that only describe the file system layout, which is ours to define here. The other way to satisfy a dependency on it would be
/// to install Perl and convert the system.
pub const GIVEN: [&str; 1] = ["usr-is-merged"];

/// Top-level directories that are links into /usr, as everywhere since Debian 12.
pub fn merged(architecture: &str) -> &'static [&'static str] {
    match architecture {
        "amd64" | "loong64" | "ppc64el" => &["bin", "lib", "lib64", "sbin"],
        _ => &["bin", "lib", "sbin"],
    }
}

/// Below usr/share.
const DROPPED: [&[u8]; 11] =
    [b"bash-completion", b"bug", b"doc", b"doc-base", b"fish", b"gtk-doc", b"info", b"lintian", b"locale", b"man", b"zsh"];

/// Whether a package's file goes into the image, by its path without a leading slash or dot.
pub fn keeps(path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        // Provided by the skeleton, whether a package has them as directories or as links.
        [b"bin" | b"lib" | b"lib64" | b"sbin"] => false,
        [b"usr", b"share", b"doc", _, b"copyright"] => true,
        [b"usr", b"share", first, ..] => !DROPPED.contains(&first),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_a_client_needs() {
        let table = [
            ("", true),
            ("bin", false),
            ("bin/sh", true),
            ("lib64/ld-linux-x86-64.so.2", true),
            ("usr/bin/sshfs", true),
            ("usr/share", true),
            ("usr/share/man/man1/sshfs.1.gz", false),
            ("usr/share/doc/sshfs/changelog.gz", false),
            ("usr/share/doc/sshfs", false),
            ("usr/share/doc/sshfs/copyright", true),
            ("usr/share/doc/sshfs/copyright/x", false),
            ("usr/share/locale/de/LC_MESSAGES/a.mo", false),
            ("usr/share/ca-certificates/mozilla/a.crt", true),
            ("usr/share/manual", true),
            ("etc/ssl", true),
        ];
        for (path, kept) in table {
            assert_eq!(keeps(path.as_bytes()), kept, "{path}");
        }
    }
}
