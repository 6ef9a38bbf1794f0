//! Who has locks on a filesystem, as far as the kernel of this machine keeps them. In: its device number. Out: their holders.
//!
//! Locks belong to a superblock: a new client does not know those of the old one, and would grant them once more.

use std::time::{Duration, Instant};

use crate::error::{Error, Obstacle};
use crate::record::Record;

/// Waits until nobody has any. An error: somebody still has, or the client has died.
pub(crate) fn wait_until_none(record: &Record, deadline: Instant) -> Result<(), Error> {
    loop {
        let holders = of(record);
        if holders.is_empty() {
            return Ok(());
        }
        let why = if !record.init.is_some_and(|init| init.is_alive()) {
            Obstacle::Healing
        } else if Instant::now() >= deadline {
            Obstacle::Locked { holders }
        } else {
            std::thread::sleep(AGAIN);
            continue;
        };
        return Err(Error::CannotReplace { path: record.target.clone(), why });
    }
}

const AGAIN: Duration = Duration::from_millis(20);

/// For people.
pub(crate) fn of(record: &Record) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids = holders(&table, (record.mount.major, record.mount.minor));
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(describe).collect()
}

fn describe(pid: i32) -> String {
    if pid <= 0 {
        // An OFD lock: it belongs to an open file, whoever has that.
        return "an open file".to_owned();
    }
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("pid {pid} ({})", name.trim_end()),
        Err(_) => format!("a file that pid {pid} opened, which has ended"),
    }
}

/// `1: FLOCK  ADVISORY  WRITE 123 00:2a:456 0 EOF`; who waits for one has an arrow after the number.
fn holders(table: &str, device: (u32, u32)) -> Vec<i32> {
    let holder = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let kind = words.next().filter(|kind| *kind != "->")?;
        let pid = words.nth(2)?.parse().ok()?;
        let mut numbers = words.next()?.split(':').map(|number| u32::from_str_radix(number, 16));
        let found = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // A lease is broken when it is in the way.
        (found == device && !["LEASE", "DELEG"].contains(&kind)).then_some(pid)
    };
    table.lines().filter_map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_told_from_those_who_wait_and_from_other_filesystems() {
        let table = "\
1: POSIX  ADVISORY  WRITE 708 00:2a:1234 0 EOF
1: -> POSIX  ADVISORY  WRITE 709 00:2a:1234 0 EOF
2: FLOCK  ADVISORY  READ  710 00:2a:18446744073709551615 0 EOF
3: OFDLCK ADVISORY  READ  -1 00:2a:7 128 128
4: POSIX  ADVISORY  WRITE 711 08:02:1234 0 EOF
5: LEASE  ACTIVE    READ  712 00:2a:1234 0 EOF
6: POSIX  ADVISORY  WRITE 713 00:2b:1234 0 EOF
";
        assert_eq!(holders(table, (0, 0x2a)), [708, 710, -1]);
        assert_eq!(holders(table, (8, 2)), [711]);
        assert_eq!(holders("", (0, 0x2a)), [0; 0]);
    }
}
