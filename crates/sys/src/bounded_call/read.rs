//! Reads from where a read may block: files and pipes of the caller, and the memory of a client, which may be a mapped
//! file. A path or an address in, bytes out.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::bounded_call::run::{Bounded, Descriptors, run, run_with};
use crate::process::close_all_but;

/// Reads a file or pipe until its end, or until `limit` + 1 bytes, so that the caller can detect a file that is too
/// long.
pub fn read(path: &Path, limit: usize, deadline: Instant) -> Bounded<Vec<u8>> {
    let c_path = match crate::c_string(path) {
        Ok(path) => path,
        Err(error) => return Bounded::Failed(error),
    };
    // All memory is allocated before, because the child must not allocate. Most of it is never touched.
    let mut buffer = Vec::with_capacity(limit + 1);
    let ask = move || {
        let file = rustix::fs::open(c_path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        close_all_but(&[file.as_raw_fd()]);
        while buffer.len() <= limit {
            match rustix::io::read(&file, spare_capacity(&mut buffer)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(buffer)
    };
    run_with(|| format!("read({path:?})"), Descriptors::Named, deadline, ask)
}

/// Copies strings out of the memory of thread `tid`, each of less than `limit` bytes, without the terminator. Its
/// memory may be a mapped file, so a read can page-fault into a filesystem that does not respond.
///
/// Each string has its own error: `EFAULT` or `ENAMETOOLONG`.
pub fn strings_of<const N: usize>(
    tid: i32,
    addresses: [u64; N],
    limit: usize,
    deadline: Instant,
) -> Bounded<[rustix::io::Result<Vec<u8>>; N]> {
    let mut strings: [_; N] = std::array::from_fn(|_| (Vec::with_capacity(limit), Ok(())));
    let path = memory_of(tid);
    let ask = move || {
        let memory = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        for (address, (bytes, result)) in addresses.into_iter().zip(&mut strings) {
            *result = read_string(memory.as_fd(), address, limit, bytes);
        }
        Ok(strings)
    };
    let read = run(|| format!("read(memory of {tid})"), &[], deadline, ask);
    read.map(|strings| Bounded::Done(strings.map(|(bytes, result)| result.map(|()| bytes))))
}

/// The same for a fixed number of bytes.
pub fn bytes_of(tid: i32, address: u64, length: usize, deadline: Instant) -> Bounded<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    let path = memory_of(tid);
    let ask = move || {
        let memory = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read_part(memory.as_fd(), address, length, &mut bytes)?;
        Ok(bytes)
    };
    run(|| format!("read(memory of {tid})"), &[], deadline, ask)
}

fn memory_of(tid: i32) -> CString {
    CString::new(format!("/proc/{tid}/mem")).expect("no NUL in a number")
}

/// `to` is empty, with capacity for `limit` bytes.
fn read_string(memory: BorrowedFd<'_>, address: u64, limit: usize, to: &mut Vec<u8>) -> rustix::io::Result<()> {
    const PAGE: u64 = 4096;
    while to.len() < limit {
        let at = address.checked_add(to.len() as u64).ok_or(Errno::FAULT)?;
        let start = to.len();
        // Page by page: the next page may be unmapped, and may not be needed.
        read_part(memory, at, (PAGE - at % PAGE).min((limit - start) as u64) as usize, to)?;
        if let Some(end) = to[start..].iter().position(|byte| *byte == 0) {
            to.truncate(start + end);
            return Ok(());
        }
    }
    Err(Errno::NAMETOOLONG)
}

/// Reads exactly `length` bytes, or fails.
fn read_part(memory: BorrowedFd<'_>, address: u64, length: usize, to: &mut Vec<u8>) -> rustix::io::Result<()> {
    let wanted = to.len() + length;
    while to.len() < wanted {
        let missing = wanted - to.len();
        // Nothing here may panic: unwinding would happen in a process that shares our memory.
        let at = address.checked_add((length - missing) as u64).ok_or(Errno::FAULT)?;
        let (read, _) = rustix::io::pread(memory, &mut to.spare_capacity_mut()[..missing], at).map_err(|_| Errno::FAULT)?;
        let count = read.len();
        if count == 0 {
            return Err(Errno::FAULT);
        }
        // SAFETY: the kernel has initialised this many bytes after the existing ones.
        unsafe { to.set_len(to.len() + count) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_call::open::open;
    use std::ffi::CStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::time::Duration;

    /// Longer than any test takes, however busy the machine is.
    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_answer_arrives() {
        let file = open(Path::new("/proc/self/status"), OFlags::RDONLY, in_time());
        assert!(matches!(file, Bounded::Done(_)), "{file:?}");
        let text = read(Path::new("/proc/self/comm"), 100, in_time());
        assert!(matches!(&text, Bounded::Done(bytes) if !bytes.is_empty()), "{text:?}");
    }

    #[test]
    fn what_never_ends_is_late() {
        let directory = std::env::temp_dir().join(format!("bounded-call-{}", std::process::id()));
        let fifo = CString::new(directory.as_os_str().as_bytes()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, fifo.as_c_str(), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let late = read(&directory, 100, Instant::now() + Duration::from_millis(50));
        assert!(matches!(late, Bounded::TimedOut), "{late:?}");
        std::fs::remove_file(directory).unwrap();
    }

    #[test]
    fn too_much_is_seen_as_too_much() {
        let zero = read(Path::new("/dev/zero"), 10, in_time());
        assert!(matches!(&zero, Bounded::Done(bytes) if bytes.len() == 11), "{zero:?}");
    }

    #[test]
    fn memory_is_copied() {
        let own = std::process::id() as i32;
        let at = |text: &CStr| text.as_ptr() as u64;
        let long = CString::new(vec![b'x'; 3 * 4096]).unwrap();
        let strings = strings_of(own, [at(c"one"), at(&long), at(c"0123456789"), 8, u64::MAX - 2], 4 * 4096, in_time());
        let Bounded::Done([one, two, three, nowhere, end]) = strings else { panic!("{strings:?}") };
        assert_eq!((one, two, three), (Ok(b"one".to_vec()), Ok(long.as_bytes().to_vec()), Ok(b"0123456789".to_vec())));
        assert_eq!((nowhere, end), (Err(Errno::FAULT), Err(Errno::FAULT)));
        let Bounded::Done([short]) = strings_of(own, [at(c"0123456789")], 10, in_time()) else { panic!("late") };
        assert_eq!(short, Err(Errno::NAMETOOLONG));
        assert!(matches!(bytes_of(own, at(c"01234"), 3, in_time()), Bounded::Done(bytes) if bytes == b"012"));
        assert!(matches!(bytes_of(own, 8, 3, in_time()), Bounded::Failed(error) if error.errno() == Errno::FAULT));
    }
}
