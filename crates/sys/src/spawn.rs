//! Starts a program from a descriptor: the program, its arguments and its descriptors in, a [`Child`] out.
//!
//! As vfork(2) and execve(2): the child shares our memory until it executes the program, and the calling thread is
//! suspended meanwhile. The child may be killed at any moment, so until then it must take no lock and allocate nothing:
//! it only makes system calls.

use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::process::{Child, close_all_but, share_memory, stack};

/// The largest number of descriptors that a program is given.
pub const PLACES: usize = 8;

/// What the child needs, prepared before it exists.
struct Task {
    program: RawFd,
    argv: Vec<*const libc::c_char>,
    places: [(RawFd, RawFd); PLACES],
    count: usize,
}

/// Above every fixed number.
const CLEAR: RawFd = 16;
const STACK: usize = 64 << 10;

/// Starts `program` in a new session, in the root directory, with an empty environment. `places`: descriptors and the
/// numbers at which the program expects them, below 16; no other descriptor is passed on.
pub fn start(program: BorrowedFd<'_>, arguments: &[CString], places: &[(BorrowedFd<'_>, RawFd)]) -> Result<Child> {
    let argv = arguments.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let mut task = Task { program: program.as_raw_fd(), argv, places: [(-1, -1); PLACES], count: places.len() };
    for (slot, (fd, number)) in task.places.iter_mut().zip(places) {
        *slot = (fd.as_raw_fd(), *number);
    }
    let mut failed = None;
    let mut pidfd: libc::c_int = -1;
    let mut memory = stack(STACK);
    let pid = share_memory(0, memory.spare_capacity_mut(), &raw mut pidfd, || failed = execute(&task).err())?;
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    let child = Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } };
    match failed {
        None => Ok(child),
        Some(errno) => {
            child.kill_and_reap();
            Err(Error::new("execveat()", errno))
        }
    }
}

/// Runs in the child. Returns only with an error.
fn execute(task: &Task) -> rustix::io::Result<()> {
    let program = lay_out(task)?;
    rustix::process::setsid()?;
    rustix::process::chdir(c"/")?;
    let (empty, nothing): (&CStr, _) = (c"", [std::ptr::null::<libc::c_char>()]);
    // SAFETY: both arrays end with NULL, and the parent, which owns them, is suspended until this process has left its
    // memory.
    unsafe {
        libc::syscall(libc::SYS_execveat, program, empty.as_ptr(), task.argv.as_ptr(), nothing.as_ptr(), libc::AT_EMPTY_PATH);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOEXEC))
}

/// Every descriptor at its number, the standard ones at /dev/null, the program above them with close-on-exec, and no
/// other.
fn lay_out(task: &Task) -> rustix::io::Result<RawFd> {
    let lift = |fd: RawFd| {
        // SAFETY: open in the descriptor table, of which this process has a copy.
        let lifted = rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, CLEAR)?;
        Ok(ManuallyDrop::new(lifted).as_raw_fd())
    };
    let program = lift(task.program)?;
    let mut lifted = [-1; PLACES];
    for (lifted, (fd, _)) in lifted.iter_mut().zip(&task.places[..task.count]) {
        *lifted = lift(*fd)?;
    }
    let null = ManuallyDrop::new(rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?);
    let null = lift(null.as_raw_fd())?;
    (0..3).try_for_each(|standard| place(null, standard))?;
    let mut keep = [-1; PLACES + 4];
    (keep[0], keep[1], keep[2], keep[3]) = (0, 1, 2, program);
    for (slot, (fd, (_, number))) in keep[4..].iter_mut().zip(lifted.iter().zip(&task.places[..task.count])) {
        place(*fd, *number)?;
        *slot = *number;
    }
    keep.sort_unstable();
    close_all_but(&keep);
    Ok(program)
}

fn place(from: RawFd, to: RawFd) -> rustix::io::Result<()> {
    // SAFETY: replacing `to` in this table is the intent; no OwnedFd in this process owns it, before or afterwards.
    let mut to = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(to) });
    // SAFETY: open in this process.
    rustix::io::dup2(unsafe { BorrowedFd::borrow_raw(from) }, &mut to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::time::{Duration, Instant};

    #[test]
    fn a_program_gets_its_descriptors_and_no_others() {
        let (mut output, write) = std::io::pipe().unwrap();
        let (input, mut word) = std::io::pipe().unwrap();
        let shell = std::fs::File::open("/bin/sh").unwrap();
        let arguments = ["sh", "-c", "read word <&3; echo $word $(ls /proc/self/fd | wc -l) >&5"].map(|word| CString::new(word).unwrap());
        let child = start(shell.as_fd(), &arguments, &[(input.as_fd(), 3), (write.as_fd(), 5)]).unwrap();
        drop((input, write));
        std::io::Write::write_all(&mut word, b"now\n").unwrap();
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        // The standard ones, the two places, and the one that ls opens; the pipe to wc replaces a standard one.
        assert_eq!(said.trim(), "now 6");
        assert!(child.ends_by(Instant::now() + Duration::from_secs(60)));
        child.reap();
    }

    #[test]
    fn what_cannot_be_executed_is_an_error() {
        let file = std::fs::File::open("/etc/passwd").unwrap();
        let error = start(file.as_fd(), &[c"x".into()], &[]).unwrap_err();
        assert_eq!(error.errno(), Errno::ACCESS);
    }
}
