//! Errors that read like the call that failed: the call's text and an errno in, a message such as `mkdir("/x"): EEXIST
//! (File exists)` out.

use rustix::io::Errno;

pub type Result<T> = std::result::Result<T, Error>;

/// A system call with its operands, and the errno that it returned.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {}", name(*errno))]
pub struct Error {
    call: String,
    errno: Errno,
}

impl Error {
    pub fn new(call: impl Into<String>, errno: Errno) -> Self {
        Self { call: call.into(), errno }
    }

    pub fn errno(&self) -> Errno {
        self.errno
    }
}

/// Names the call in the error of `result`: `call(|| format!("mkdir({dir:?})"), mkdir(...))?`.
pub fn call<T, E: Into<std::io::Error>>(text: impl FnOnce() -> String, result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| {
        let error: std::io::Error = error.into();
        Error::new(text(), Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })
}

/// The result of a raw system call.
pub(crate) fn checked(text: impl FnOnce() -> String, result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(Error::new(text(), Errno::from_raw_os_error(errno)))
}

/// `EBUSY (Device or resource busy)`: the name for searching, the words for reading.
pub fn name(errno: Errno) -> String {
    let words = std::io::Error::from(errno).to_string();
    let words = words.split(" (os error").next().unwrap_or_default();
    match NAMES.iter().find(|(code, _)| *code == errno.raw_os_error()) {
        Some((_, name)) => format!("{name} ({words})"),
        None => format!("errno {} ({words})", errno.raw_os_error()),
    }
}

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

/// The errors that this project's calls are known to return.
const NAMES: &[(i32, &str)] = names! {
    E2BIG EACCES EADDRINUSE EAFNOSUPPORT EAGAIN EBADF EBUSY ECHILD ECONNABORTED ECONNREFUSED ECONNRESET EDQUOT EEXIST
    EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EINTR EINVAL EIO EISDIR ELOOP EMFILE EMLINK ENAMETOOLONG ENETUNREACH ENFILE
    ENODEV ENOENT ENOEXEC ENOMEM ENOSPC ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTSUP ENOTTY ENXIO EOVERFLOW EPERM
    EPIPE EPROTONOSUPPORT ERANGE EROFS ESRCH ESTALE ETIMEDOUT ETXTBSY EUSERS EXDEV
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_like_the_call() {
        let error = Error::new("move_mount(fd 7, \"/srv/data\")", Errno::BUSY);
        assert_eq!(error.to_string(), "move_mount(fd 7, \"/srv/data\"): EBUSY (Device or resource busy)");
    }

    #[test]
    fn an_unnamed_errno_still_has_its_number() {
        assert!(name(Errno::from_raw_os_error(131)).starts_with("errno 131 ("));
    }
}
