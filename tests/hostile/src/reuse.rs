//! Two processes with one number, one after the other. The first, in a sandbox, calls mount(2) and is killed while the broker works
//! for it; the second, an innocent program on the host, then gets its number. Both have the arguments of the call at the same
//! addresses and a /dev/fuse with the same number: a broker that does not check who it is dealing with takes those of the innocent.

use std::ffi::{CStr, CString, OsStr};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use libc::{c_int, pid_t};

use crate::fuse;
use crate::sandbox::{mount, mount_words};
use crate::sys::{self, Answer, Errno, PAGE, at, at_mut};

/// Where both have their arguments, a page each.
const ARGUMENTS: usize = 0x2000_0000;
/// What both call their /dev/fuse.
const DEVICE: c_int = 60;

/// The filesystem type in the memory of the innocent: must never be used.
const CANARY: &CStr = c"memory-of-a-stranger";

/// In the sandbox: a child calls mount(2), and this process lives on when it is killed.
pub(crate) fn call(target: &OsStr) -> ExitCode {
    let child = match sys::fork() {
        Ok(None) => {
            let answer = lay_out(c"fuse", target).and_then(mount_words);
            sys::exit(answer.map_or_else(|errno| errno.0, |_| 0))
        }
        Ok(Some(child)) => child,
        Err(errno) => return fail("fork", errno),
    };
    let status = sys::wait(child, 0).unwrap_or(0);
    eprintln!("hostile: the child that called mount(2) ended with {status:#x}");
    ExitCode::FAILURE
}

/// In the sandbox: the same with a filesystem that needs no server; and this process ends as if its child had mounted.
pub(crate) fn lose_caller(target: &OsStr) -> ExitCode {
    let Ok(target) = CString::new(target.as_bytes()) else { return ExitCode::FAILURE };
    match sys::fork() {
        Ok(None) => sys::exit(mount(c"hostile", &target, c"tmpfs", 0, c"").map_or_else(|errno| errno.0, |_| 0)),
        Ok(Some(child)) => {
            let _ = sys::wait(child, 0);
            ExitCode::SUCCESS
        }
        Err(errno) => fail("fork", errno),
    }
}

/// On the host: an innocent process with the number `pid`. Says `ready`, waits for the end of its input, and ends with 0 if its
/// /dev/fuse was not connected to a mount.
pub(crate) fn stand_in(pid: &OsStr, fstype: &OsStr, target: &OsStr) -> ExitCode {
    let fstype = if fstype == "canary" { CANARY } else { c"fuse" };
    let wanted: pid_t = pid.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let child = match fork_as(wanted) {
        Ok(None) => sys::exit(match lay_out(fstype, target) {
            Ok(_) => wait_and_look(),
            Err(errno) => 100 + errno.0,
        }),
        Ok(Some(child)) => child,
        Err(errno) => return fail("clone3 with a chosen number", errno),
    };
    let status = sys::wait(child, 0).unwrap_or(-1);
    ExitCode::from(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as u8 } else { 99 })
}

fn fail(what: &str, errno: Errno) -> ExitCode {
    eprintln!("hostile: {what}: {errno}");
    ExitCode::from(98)
}

/// The arguments of a FUSE mount, and its device. The words of the call.
fn lay_out(fstype: &CStr, target: &OsStr) -> Answer<[usize; 5]> {
    let device = fuse::open_device()?;
    sys::call(libc::SYS_dup3, [device.as_raw_fd() as usize, DEVICE as usize, 0])?;
    let options = CString::new(fuse::options(&DEVICE.to_string())).map_err(|_| Errno(libc::EINVAL))?;
    let target = CString::new(target.as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
    let texts = [c"hostile", &*target, fstype, &*options];
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    sys::call(libc::SYS_mmap, [ARGUMENTS, texts.len() * PAGE, protection, flags, usize::MAX, 0])?;
    let mut words = [0; 5];
    for (index, text) in texts.iter().enumerate() {
        let bytes = text.to_bytes_with_nul();
        let place = ARGUMENTS + index * PAGE;
        // SAFETY: a page of the mapping just made, which is no Rust object, and the texts are shorter than a page.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place as *mut u8, bytes.len().min(PAGE)) };
        // The third word are the flags, the options come after them.
        words[if index == 3 { 4 } else { index }] = place;
    }
    Ok(words)
}

/// `None` in the child. Takes what only root has: to choose a process number.
fn fork_as(pid: pid_t) -> Answer<Option<pid_t>> {
    const SET_TID: usize = 8;
    const SET_TID_SIZE: usize = 9;
    let numbers = [pid];
    let mut arguments = [0u64; 11];
    arguments[4] = libc::SIGCHLD as u64;
    arguments[SET_TID] = at(&numbers) as u64;
    arguments[SET_TID_SIZE] = 1;
    match sys::call(libc::SYS_clone3, [at_mut(&mut arguments), size_of_val(&arguments)])? {
        0 => Ok(None),
        child => Ok(Some(child as pid_t)),
    }
}

/// The kernel answers a read from a /dev/fuse that belongs to no mount with EPERM.
fn wait_and_look() -> c_int {
    println!("ready");
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let mut buffer = [0u8; 16384];
    let flags = sys::call(libc::SYS_fcntl, [DEVICE as usize, libc::F_SETFL as usize, libc::O_NONBLOCK as usize]);
    let read = sys::call(libc::SYS_read, [DEVICE as usize, at_mut(&mut buffer), buffer.len()]);
    if flags.is_ok() && read == Err(Errno(libc::EPERM)) { 0 } else { 7 }
}
