//! Namespaces for one test: its own mount table and its own network, and the way back to the old ones.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::wait;

const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// Dropped: the thread is back where it was, and the kernel ends the namespaces when their last process is gone.
#[derive(Debug)]
pub(crate) struct Isolation {
    old_mounts: File,
    old_network: File,
}

impl Isolation {
    pub(crate) fn enter() -> Self {
        let open = |path| File::open(path).expect("every thread can open its own namespaces");
        let isolation = Self { old_mounts: open("/proc/thread-self/ns/mnt"), old_network: open("/proc/thread-self/ns/net") };
        leave_shared_namespaces();
        // No mount of a test may reach the machine, even if its / is shared.
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("cannot make / private");
        isolation
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        // The kernel refuses while a thread that we started is not completely gone, even after it was joined. If one hangs, the test
        // has failed; a panic here would hide why.
        let returned = wait::within(RETURN_WITHIN, || {
            move_into_link_name_space(self.old_mounts.as_fd(), Some(LinkNameSpaceType::Mount)).ok()?;
            move_into_link_name_space(self.old_network.as_fd(), Some(LinkNameSpaceType::Network)).ok()
        });
        if returned.is_none() {
            eprintln!("this thread cannot return to the machine's namespaces: a later test in it may fail for that reason");
        }
    }
}

/// A copy of the mount table for this thread and the processes that it starts from now on. Running processes keep the old one.
pub(crate) fn leave_mount_namespace() {
    leave(UnshareFlags::NEWNS);
}

/// The mount at `root` becomes this thread's whole file tree.
pub(crate) fn enter_root(root: &Path) {
    leave_mount_namespace();
    rustix::process::chdir(root).expect("a new root can be entered");
    rustix::process::pivot_root(".", ".").expect("a mount can become the root");
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH).expect("the old root can be let go");
    rustix::process::chdir("/").expect("there is a root");
}

fn leave_shared_namespaces() {
    leave(UnshareFlags::NEWNS | UnshareFlags::NEWNET);
}

#[expect(unsafe_code, reason = "rustix marks unshare unsafe because one of its flags, FILES, can leave descriptors behind")]
fn leave(flags: UnshareFlags) {
    // SAFETY: FILES is not among the flags, so every descriptor that this process owns stays open for all of its threads.
    unsafe { rustix::thread::unshare_unsafe(flags) }.expect("cannot create namespaces");
}

pub(crate) fn mount_tmpfs(target: impl AsRef<Path>) {
    let target = target.as_ref();
    mount("tmpfs", target, "tmpfs", MountFlags::empty(), c"mode=755")
        .unwrap_or_else(|error| panic!("cannot mount a tmpfs at {}: {error}", target.display()));
}

/// Makes a directory of the machine writable for this test alone.
pub(crate) fn mount_overlay(directory: &str, changes: &Path) {
    let (upper, work) = (changes.join("upper"), changes.join("work"));
    for path in [&upper, &work] {
        std::fs::create_dir_all(path).expect("cannot create directories for an overlay");
    }
    let options = format!("lowerdir={directory},upperdir={},workdir={}", upper.display(), work.display());
    let options = std::ffi::CString::new(options).expect("our own paths have no zero byte");
    mount("overlay", directory, "overlay", MountFlags::empty(), options.as_c_str())
        .unwrap_or_else(|error| panic!("cannot mount an overlay at {directory}: {error}"));
}
