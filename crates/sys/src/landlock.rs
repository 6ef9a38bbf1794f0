//! Landlock scoping of the calling thread: no connections to abstract sockets and no signals to processes outside the
//! sandbox.
//!
//! Abstract sockets belong to the network namespace, which a client shares with the host; no path and no uid protects
//! them. Linux 6.12 (Landlock ABI 6) can.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::error::{Result, checked};

/// The kernel's `struct landlock_ruleset_attr` as of ABI 6.
#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
const LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const LANDLOCK_SCOPE_SIGNAL: u64 = 2;

/// Whether [`restrict_scope`] is supported here.
pub fn can_scope() -> bool {
    // SAFETY: the version query takes no attributes: NULL and 0 are its documented arguments.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, LANDLOCK_CREATE_RULESET_VERSION) };
    abi >= 6
}

/// Restricts this thread and everything it starts. Needs no_new_privs.
pub fn restrict_scope() -> Result<()> {
    let scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
    let attributes = RulesetAttributes { handled_access_fs: 0, handled_access_net: 0, scoped };
    // SAFETY: the pointer and size describe a live struct of the kernel's layout.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size_of::<RulesetAttributes>(), 0u32) };
    let ruleset = checked(|| "landlock_create_ruleset()".into(), result)?;
    // SAFETY: the call succeeded: a new descriptor that nothing else owns.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset as i32) };
    // SAFETY: a descriptor and a zero flag word.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    checked(|| "landlock_restrict_self()".into(), result).map(drop)
}
