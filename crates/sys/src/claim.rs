//! A name that only one process at a time can hold on this machine, across mount, network and pid namespaces and working directories: a key of
//! that name in the user's own keyring. Files and sockets are not shared by all of these; the keyring is, and other users can neither see nor
//! remove the keys in it.

use std::ffi::CString;
use std::time::Duration;

use crate::error::{Error, Result, checked};

/// Dropped: the name is free again.
#[derive(Debug)]
pub struct Claim {
    key: libc::c_long,
}

const PROCESS_KEYRING: libc::c_long = -2;
const USER_KEYRING: libc::c_long = -4;

// From linux/keyctl.h.
const KEYCTL_UNLINK: libc::c_long = 9;
const KEYCTL_SET_TIMEOUT: libc::c_long = 15;
const KEYCTL_MOVE: libc::c_long = 30;
const KEYCTL_MOVE_EXCL: libc::c_long = 1;

impl Claim {
    /// `None`: another process holds the name. An error: this kernel offers no keys, so no name can be claimed.
    ///
    /// A claim of a killed process ends after `at_most`, and its name is free again once the kernel has removed the key
    /// (kernel.keys.gc_delay, five minutes).
    pub fn make(name: &str, at_most: Duration) -> Result<Option<Self>> {
        let text = || format!("claim {name}");
        let description = CString::new(name).map_err(|_| Error::new(text(), rustix::io::Errno::INVAL))?;
        // SAFETY: type and description are strings that end with 0, the payload is one byte; all outlive the call, which only reads.
        let key =
            unsafe { libc::syscall(libc::SYS_add_key, c"user".as_ptr(), description.as_ptr(), c"-".as_ptr(), 1usize, PROCESS_KEYRING) };
        let key = checked(|| format!("add_key({name})"), key)?;
        // No other process searches this keyring; in the user's keyring, the first key wins.
        let seconds = libc::c_long::try_from(at_most.as_secs()).unwrap_or(libc::c_long::MAX).saturating_add(1);
        let claimed = keyctl("KEYCTL_SET_TIMEOUT", [KEYCTL_SET_TIMEOUT, key, seconds.min(u32::MAX.into()), 0, 0])
            .and_then(|_| keyctl("KEYCTL_MOVE", [KEYCTL_MOVE, key, PROCESS_KEYRING, USER_KEYRING, KEYCTL_MOVE_EXCL]));
        match claimed {
            Ok(_) => Ok(Some(Self { key })),
            Err(error) => {
                let _ = keyctl("KEYCTL_UNLINK", [KEYCTL_UNLINK, key, PROCESS_KEYRING, 0, 0]);
                if error.errno() == rustix::io::Errno::EXIST { Ok(None) } else { Err(error) }
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = keyctl("KEYCTL_UNLINK", [KEYCTL_UNLINK, self.key, USER_KEYRING, 0, 0]);
    }
}

fn keyctl(name: &str, [operation, a, b, c, d]: [libc::c_long; 5]) -> Result<libc::c_long> {
    // SAFETY: the three operations that are used here take numbers only.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) };
    checked(|| format!("keyctl({name})"), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_had_once_and_given_back() {
        let name = format!("shorefast-test-{}", std::process::id());
        let claim = |name: &str| Claim::make(name, Duration::from_secs(60)).unwrap();
        let first = claim(&name);
        assert!(first.is_some());
        assert!(claim(&name).is_none(), "claimed twice");
        assert!(claim(&format!("{name}-other")).is_some(), "another name is free");
        drop(first);
        assert!(claim(&name).is_some(), "given back");
    }

    #[test]
    fn the_claim_of_who_vanished_ends() {
        let name = format!("shorefast-test-lost-{}", std::process::id());
        std::mem::forget(Claim::make(&name, Duration::from_secs(0)).unwrap());
        let is_valid = || std::fs::read_to_string("/proc/keys").unwrap().lines().any(|line| line.contains(&name) && !line.contains("expd"));
        assert!(is_valid());
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!is_valid(), "still claimed");
    }
}
