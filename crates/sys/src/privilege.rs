//! Changes the calling process's credentials: uids, gids and capability sets in; mostly to give up privileges
//! permanently. Also tells whether our privileges come from a set-uid file.

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Result, call};

/// Whether our privileges come from our own executable (set-uid, set-gid, file capabilities) rather than from our
/// caller: the kernel reports that at execve(2) as AT_SECURE. A security module also sets AT_SECURE on a domain
/// transition, for example for a service that init starts; a process that is root already has gained nothing.
pub fn is_borrowed() -> bool {
    // SAFETY: reads the auxiliary vector; a missing entry reads as 0.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure && !rustix::process::getuid().is_root()
}

/// Changes to this uid and gid. Needs CAP_SETUID and CAP_SETGID over them. The per-thread calls are enough in a process
/// with one thread. Supplementary groups do not change: see [`have_groups`].
pub fn become_user(uid: Uid, gid: Gid) -> Result<()> {
    call(|| format!("setresgid({})", gid.as_raw()), rustix::thread::set_thread_res_gid(gid, gid, gid))?;
    call(|| format!("setresuid({})", uid.as_raw()), rustix::thread::set_thread_res_uid(uid, uid, uid))
}

/// The same, but keeps all capabilities.
pub fn become_user_with_capabilities(uid: Uid, gid: Gid) -> Result<()> {
    let held = call(|| "capget()".into(), rustix::thread::capabilities(None))?;
    call(|| "prctl(PR_SET_KEEPCAPS)".into(), rustix::thread::set_keep_capabilities(true))?;
    become_user(uid, gid)?;
    // PR_SET_KEEPCAPS preserves the permitted set, but not the effective one.
    call(|| "capset()".into(), rustix::thread::set_capabilities(None, held))
}

/// Sets exactly these supplementary groups.
pub fn have_groups(groups: &[Gid]) -> Result<()> {
    call(|| format!("setgroups({groups:?})"), rustix::thread::set_thread_groups(groups))
}

/// From now on no execve can gain privileges.
pub fn no_new_privileges() -> Result<()> {
    call(|| "prctl(PR_SET_NO_NEW_PRIVS)".into(), rustix::thread::set_no_new_privs(true))
}

/// Takes all but `kept` out of the bounding set, up to the last capability that the kernel knows, which may be more than this program knows.
pub fn limit_bounding_set(kept: CapabilitySet) -> Result<()> {
    for number in (0..64).filter(|number| kept.bits() & (1 << number) == 0) {
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
    have_capabilities(CapabilitySet::empty())
}

/// Has these in the permitted and effective sets, and nothing in the inheritable and ambient ones: after execve(2), root of a user namespace has
/// what is in the bounding set as well.
pub fn have_capabilities(set: CapabilitySet) -> Result<()> {
    let sets = CapabilitySets { effective: set, permitted: set, inheritable: CapabilitySet::empty() };
    call(|| "prctl(PR_CAP_AMBIENT_CLEAR_ALL)".into(), rustix::thread::clear_ambient_capability_set())?;
    call(|| format!("capset({set:?})"), rustix::thread::set_capabilities(None, sets))
}
