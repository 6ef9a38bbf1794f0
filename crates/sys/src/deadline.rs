//! Waiting until a deadline, however often a signal interrupts it.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;

/// Whether the descriptor is readable (for a pidfd: its process has ended) before the deadline.
pub fn is_readable(fd: BorrowedFd<'_>, deadline: Instant) -> rustix::io::Result<bool> {
    loop {
        let left = timespec(deadline.saturating_duration_since(Instant::now()));
        match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            // A signal. The time that has passed counts.
            Err(Errno::INTR) => {}
            ready => return ready.map(|ready| ready > 0),
        }
    }
}

/// How a child exited. `None`: it has not by then.
pub fn exit_of(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    // It is not reaped yet, so the pid is still its own.
    let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    if is_readable(pidfd.as_fd(), deadline)? { child.try_wait() } else { Ok(None) }
}

/// The same; a child that has not exited by then is killed.
pub fn exit_or_kill(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let ended = exit_of(child, deadline)?;
    if ended.is_none() {
        child.kill()?;
        // In an uninterruptible system call it dies later: then it is not reaped here.
        exit_of(child, Instant::now() + TO_DIE)?;
    }
    Ok(ended)
}

/// A killed process is gone within milliseconds.
const TO_DIE: Duration = Duration::from_secs(2);

pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_child_that_ends_in_time_has_its_status_and_another_one_is_killed() {
        let start = |words: &str| std::process::Command::new("sh").args(["-c", words]).spawn().unwrap();
        let mut quick = start("exit 3");
        let ended = exit_or_kill(&mut quick, Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(ended.and_then(|status| status.code()), Some(3));
        let mut slow = start("exec sleep 60");
        assert_eq!(exit_or_kill(&mut slow, Instant::now() + Duration::from_millis(20)).unwrap(), None);
        assert!(slow.try_wait().unwrap().is_some(), "it was killed and reaped");
    }

    #[test]
    fn a_pipe_is_readable_once_it_was_written_to() {
        let (read, mut write) = std::io::pipe().unwrap();
        assert_eq!(is_readable(read.as_fd(), Instant::now()), Ok(false));
        let start = Instant::now();
        assert_eq!(is_readable(read.as_fd(), start + Duration::from_millis(20)), Ok(false));
        assert!(start.elapsed() >= Duration::from_millis(20));
        write.write_all(b"x").unwrap();
        assert_eq!(is_readable(read.as_fd(), Instant::now()), Ok(true));
    }
}
