//! Defaults without any configuration: Debian's own archive, and the keys that it is signed with (`keys/README.md`).
//!
//! By plain HTTP, because a bare host has no certificates either: the fetched data is trusted only because of its signatures.

/// The release that is used if none is named: Debian's current stable.
pub const SUITE: &str = "trixie";

pub const DISTRIBUTION: &str = "debian";

/// Addresses, and the suffix of the suite's name there. The host is a content delivery network that Debian runs for the public.
pub const ARCHIVES: [(&str, &str); 3] = [
    ("http://deb.debian.org/debian", ""),
    ("http://deb.debian.org/debian", "-updates"),
    ("http://deb.debian.org/debian-security", "-security"),
];

pub const KEYS: [&[u8]; 6] = [
    include_bytes!("../keys/debian-archive-trixie-automatic.gpg"),
    include_bytes!("../keys/debian-archive-trixie-security-automatic.gpg"),
    include_bytes!("../keys/debian-archive-trixie-stable.gpg"),
    include_bytes!("../keys/debian-archive-bookworm-automatic.gpg"),
    include_bytes!("../keys/debian-archive-bookworm-security-automatic.gpg"),
    include_bytes!("../keys/debian-archive-bookworm-stable.gpg"),
];

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::signature::Keyring;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    #[test]
    fn the_keys_are_those_of_the_table_and_live_for_another_year() {
        let table = include_str!("../keys/README.md");
        let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), KEYS.len());
        for content in KEYS {
            let mut keyring = Keyring::default();
            assert_eq!(keyring.add(content), 1);
            let (fingerprint, end) = keyring.lives(SystemTime::now()).pop().expect("one key");
            let end = end.expect("archive keys expire");
            let row = rows.iter().find(|row| row.replace(' ', "").contains(&fingerprint));
            let row = row.unwrap_or_else(|| panic!("{fingerprint} is not in the table"));
            let date = humantime::format_rfc3339_seconds(end).to_string();
            assert!(row.contains(&date[..10]), "{fingerprint} expires at {date}: {row}");
            assert_eq!(keyring.lives(end), [(fingerprint.clone(), None)], "it is not valid when it has expired");
            assert!(end > SystemTime::now() + YEAR, "{fingerprint} expires at {date}: get newer keys (keys/README.md)");
        }
    }
}
