//! Whether a thread looks for a name in order to create it. In: the thread's number. Out: yes or no.
//!
//! mkdir, mknod, symlink and link first look whether the last name of their path is there. The request for that is no other than any
//! look-up, but if it is answered with ESTALE, the kernel does not walk the path again, as it does after every other one: the call
//! fails. Only the kernel's own stack tells which it is: the look-ups for the names before the last one are part of a walk.

use std::path::Path;
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::bounded_call;

/// A thread that waits for us is in the kernel, and its files in /proc can be read; if they cannot, we do not wait for long.
const PATIENCE: Duration = Duration::from_millis(200);
/// A kernel stack is a few dozen lines.
const LONGEST: usize = 16 * 1024;

/// No, where the kernel does not show its stacks: then such a call fails.
pub(crate) fn is_creating(thread: u32) -> bool {
    let path = format!("/proc/{thread}/stack");
    let stack = bounded_call::read(Path::new(&path), LONGEST, Instant::now() + PATIENCE).or_timed_out(String::new);
    stack.is_ok_and(|stack| creates(&String::from_utf8_lossy(&stack)))
}

fn creates(stack: &str) -> bool {
    let has = |function: &str| stack.contains(function);
    ["do_mkdirat", "do_mknodat", "do_symlinkat", "do_linkat"].into_iter().any(has)
        && !["link_path_walk", "path_lookupat", "path_parentat"].into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_look_up_of_the_last_name_creates() {
        let stack = |middle: &str| {
            let names = format!("request_wait_answer __fuse_simple_request fuse_lookup_name fuse_lookup {middle} do_syscall_64");
            names.split(' ').map(|name| format!("[<0>] {name}+0x1b/0x2c\n")).collect::<String>()
        };
        let rows = [
            ("lookup_one_qstr_excl filename_create do_mkdirat __x64_sys_mkdir", true),
            ("__lookup_slow walk_component link_path_walk __filename_parentat filename_create do_mkdirat __x64_sys_mkdir", false),
            ("lookup_one_qstr_excl filename_create do_linkat __x64_sys_linkat", true),
            ("__lookup_slow walk_component path_lookupat filename_lookup do_linkat __x64_sys_linkat", false),
            ("lookup_one_qstr_excl do_unlinkat __x64_sys_unlink", false),
            ("__lookup_slow walk_component path_lookupat filename_lookup vfs_statx __x64_sys_statx", false),
        ];
        for (middle, expected) in rows {
            assert_eq!(creates(&stack(middle)), expected, "{middle}");
        }
    }

    #[test]
    fn a_thread_that_does_not_exist_creates_nothing() {
        assert!(!is_creating(0));
    }
}
