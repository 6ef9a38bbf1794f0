//! Kernel features that the administrator has switched off. Out: facts, read from /proc/sys; where that is not
//! mounted, all features count as enabled.

use std::fs;
use std::path::Path;

/// Whether this kernel has user namespaces, and any may be created.
pub fn has_user_namespaces() -> bool {
    Path::new("/proc/self/ns/user").exists() && !is("user/max_user_namespaces", "0")
}

/// No module can be loaded until the next boot.
pub fn are_modules_locked() -> bool {
    is("kernel/modules_disabled", "1")
}

/// No user, not even root, can trace another process until the next boot.
pub fn is_tracing_forbidden() -> bool {
    is("kernel/yama/ptrace_scope", "3")
}

fn is(name: &str, value: &str) -> bool {
    fs::read_to_string(Path::new("/proc/sys").join(name)).is_ok_and(|text| text.trim() == value)
}
