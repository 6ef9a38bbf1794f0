//! Waiting until a deadline, however often a signal interrupts it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
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

pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

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
