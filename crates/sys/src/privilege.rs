//! Giving up every privilege, for good; and whether we should have any.

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Result, call};

/// Whether our rights come from our own file (set-uid, set-gid, file capabilities), not from our caller: the kernel says so at
/// execve(2). A security module says the same of a change of domain, as of a service that init starts; who is root already gains nothing.
pub fn is_borrowed() -> bool {
    // SAFETY: reads what the kernel left beside the arguments; an entry that is not there reads as 0.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure && !rustix::process::getuid().is_root()
}

/// Becomes this user and group, with no supplementary groups. Needs CAP_SETUID and CAP_SETGID
/// over them; the per-thread calls are enough in a process with one thread.
pub fn become_user(uid: Uid, gid: Gid) -> Result<()> {
    call(|| format!("setresgid({})", gid.as_raw()), rustix::thread::set_thread_res_gid(gid, gid, gid))?;
    call(|| format!("setresuid({})", uid.as_raw()), rustix::thread::set_thread_res_uid(uid, uid, uid))
}

/// Becomes this user and group but keeps all capabilities.
pub fn become_user_with_capabilities(uid: Uid, gid: Gid) -> Result<()> {
    let held = call(|| "capget()".into(), rustix::thread::capabilities(None))?;
    call(|| "prctl(PR_SET_KEEPCAPS)".into(), rustix::thread::set_keep_capabilities(true))?;
    become_user(uid, gid)?;
    // The permitted set stayed, the effective one did not.
    call(|| "capset()".into(), rustix::thread::set_capabilities(None, held))
}

/// These and no other.
pub fn have_groups(groups: &[Gid]) -> Result<()> {
    call(|| format!("setgroups({groups:?})"), rustix::thread::set_thread_groups(groups))
}

/// Nothing that is executed from here on can gain a privilege.
pub fn no_new_privileges() -> Result<()> {
    call(|| "prctl(PR_SET_NO_NEW_PRIVS)".into(), rustix::thread::set_no_new_privs(true))
}

/// Empties the bounding set, the kernel's own upper limit included: it may know capabilities that
/// this program does not.
pub fn empty_bounding_set() -> Result<()> {
    for number in 0..64 {
        // SAFETY: prctl with integers only; an unknown capability is EINVAL.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        if result != 0 {
            let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO);
            if errno == rustix::io::Errno::INVAL {
                return Ok(());
            }
            return Err(crate::Error::new(format!("prctl(PR_CAPBSET_DROP, {number})"), errno));
        }
    }
    Ok(())
}

/// Empties the permitted, effective, inheritable and ambient sets.
pub fn drop_capabilities() -> Result<()> {
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    call(|| "prctl(PR_CAP_AMBIENT_CLEAR_ALL)".into(), rustix::thread::clear_ambient_capability_set())?;
    call(|| "capset(0)".into(), rustix::thread::set_capabilities(None, none))
}
