//! The kernel, with nothing in between. In: a system call number and six words, however absurd. Out: the kernel's answer.
//!
//! A hostile program has to say things that no typed wrapper lets it say (unmapped pointers, numbers that do not exist,
//! calls through the 32-bit entry), so `call` is the one door that all rows go through.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{c_int, c_long, pid_t};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    fn last() -> Errno {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            libc::E2BIG => "E2BIG",
            libc::EACCES => "EACCES",
            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
            libc::EAGAIN => "EAGAIN",
            libc::EBADF => "EBADF",
            libc::EBUSY => "EBUSY",
            libc::ECONNREFUSED => "ECONNREFUSED",
            libc::EEXIST => "EEXIST",
            libc::EFAULT => "EFAULT",
            libc::EINTR => "EINTR",
            libc::EINVAL => "EINVAL",
            libc::EIO => "EIO",
            libc::ELOOP => "ELOOP",
            libc::EMFILE => "EMFILE",
            libc::ENAMETOOLONG => "ENAMETOOLONG",
            libc::ENODEV => "ENODEV",
            libc::ENOENT => "ENOENT",
            libc::ENOEXEC => "ENOEXEC",
            libc::ENOMEM => "ENOMEM",
            libc::ENOSPC => "ENOSPC",
            libc::ENOSYS => "ENOSYS",
            libc::ENOTBLK => "ENOTBLK",
            libc::ENOTCONN => "ENOTCONN",
            libc::ENOTDIR => "ENOTDIR",
            libc::ENOTTY => "ENOTTY",
            libc::ENXIO => "ENXIO",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EPERM => "EPERM",
            libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
            libc::EROFS => "EROFS",
            libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
            libc::ESRCH => "ESRCH",
            libc::EXDEV => "EXDEV",
            other => return write!(f, "errno {other}"),
        };
        f.write_str(name)
    }
}

pub(crate) type Answer<T = usize> = Result<T, Errno>;

/// One system call, exactly as asked.
pub(crate) fn call<const N: usize>(number: c_long, words: [usize; N]) -> Answer {
    let mut all = [0usize; 6];
    all[..N].copy_from_slice(&words);
    let [a, b, c, d, e, f] = all;
    // SAFETY: wrong words make the kernel answer with an error, that is what the rows are for. Where a call writes to
    // memory, the row that makes it passes a buffer that it owns until the call returns, and its true size.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer == -1 { Err(Errno::last()) } else { Ok(answer as usize) }
}

/// The address of something the kernel shall read or write, as the word that goes into a register.
pub(crate) fn at<T: ?Sized>(thing: &T) -> usize {
    std::ptr::from_ref(thing).cast::<u8>() as usize
}

pub(crate) fn at_mut<T: ?Sized>(thing: &mut T) -> usize {
    std::ptr::from_mut(thing).cast::<u8>() as usize
}

/// A small negative number (AT_FDCWD, pid -1) as a register holds it.
pub(crate) const fn negative(number: i32) -> usize {
    number as isize as usize
}

/// A call that answers with a descriptor; it is closed with the value.
pub(crate) fn fd_call<const N: usize>(number: c_long, words: [usize; N]) -> Answer<OwnedFd> {
    let fd = call(number, words)?;
    // SAFETY: the kernel just made this descriptor for us, no other code in this program knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// A descriptor that the kernel just wrote into memory of ours.
pub(crate) fn own(fd: c_int) -> OwnedFd {
    // SAFETY: the caller has it from a call that makes new descriptors, and from nowhere else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(crate) fn open(path: &CStr, flags: c_int) -> Answer<OwnedFd> {
    fd_call(libc::SYS_openat, [negative(libc::AT_FDCWD), at(path), (flags | libc::O_CLOEXEC) as usize, 0o600])
}

/// `None` in the child.
pub(crate) fn fork() -> Answer<Option<pid_t>> {
    // SAFETY: rows and the runner fork only while they have a single thread, so no lock is held by a thread that the
    // child does not have.
    match unsafe { libc::fork() } {
        -1 => Err(Errno::last()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

pub(crate) fn exit(status: c_int) -> ! {
    // SAFETY: ends the process without running anything of it again.
    unsafe { libc::_exit(status) }
}

/// Wait status of a child, `None` when it still runs (with WNOHANG) or is not ours.
pub(crate) fn wait(child: pid_t, flags: c_int) -> Option<c_int> {
    let mut status: c_int = 0;
    loop {
        let words = [child as usize, at_mut(&mut status), flags as usize, 0];
        match call(libc::SYS_wait4, words) {
            Ok(0) => return None,
            Ok(_) => return Some(status),
            Err(Errno(libc::EINTR)) => {}
            Err(_) => return None,
        }
    }
}

pub(crate) fn kill(pid: pid_t, signal: c_int) -> Answer {
    call(libc::SYS_kill, [pid as isize as usize, signal as usize])
}

pub(crate) fn pid() -> pid_t {
    std::process::id() as pid_t
}

pub(crate) fn uid() -> u32 {
    // SAFETY: reads this process's own user id, cannot fail.
    unsafe { libc::geteuid() }
}

pub(crate) fn gid() -> u32 {
    // SAFETY: reads this process's own group id, cannot fail.
    unsafe { libc::getegid() }
}

pub(crate) fn ignore(signal: c_int) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// From here on `signal` interrupts system calls of this process and does nothing else.
pub(crate) fn interrupt_on(signal: c_int) {
    extern "C" fn nothing(_: c_int) {}
    let handler: extern "C" fn(c_int) = nothing;
    // SAFETY: all-zero is a valid sigaction: no flags (so no SA_RESTART), empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    // SAFETY: the handler does nothing, so it is safe at any point of the program.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

pub(crate) fn default_action(signal: c_int) {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Pages of our own that end where unmapped memory begins.
#[derive(Debug)]
pub(crate) struct Pages {
    start: usize,
    length: usize,
}

pub(crate) const PAGE: usize = 4096;

impl Pages {
    /// `extra` may be MAP_32BIT, for arguments of 32-bit calls.
    pub(crate) fn map(pages: usize, extra: c_int) -> Answer<Pages> {
        let length = pages * PAGE;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra) as usize;
        let start = call(libc::SYS_mmap, [0, length + PAGE, protection, flags, usize::MAX, 0])?;
        call(libc::SYS_munmap, [start + length, PAGE])?;
        Ok(Pages { start, length })
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.length
    }

    /// Copies `bytes` to `offset` and says at which address they are.
    pub(crate) fn put(&self, offset: usize, bytes: &[u8]) -> usize {
        assert!(offset + bytes.len() <= self.length, "the row asks for more pages than it uses");
        let to = (self.start + offset) as *mut u8;
        // SAFETY: the assertion keeps the copy inside the mapping, which lives as long as `self` and is no Rust object.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.start + offset
    }

    /// The last bytes before unmapped memory.
    pub(crate) fn put_at_end(&self, bytes: &[u8]) -> usize {
        self.put(self.length - bytes.len(), bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = call(libc::SYS_munmap, [self.start, self.length]);
    }
}

/// A call through the 32-bit entry of an x86 kernel. `None`: this architecture has none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80(number: u32, words: [u32; 5]) -> Option<i32> {
    let [b, c, d, si, di] = words.map(u64::from);
    let answer: u64;
    // SAFETY: pointers among the words are below 4 GiB and the row's own. The entry clobbers r8 to r11 on old kernels,
    // and rbx, which LLVM keeps for itself, is swapped in and out.
    unsafe {
        std::arch::asm!(
            "xchg {b:r}, rbx", "int 0x80", "xchg {b:r}, rbx",
            b = inout(reg) b => _,
            inlateout("rax") u64::from(number) => answer,
            in("rcx") c, in("rdx") d, in("rsi") si, in("rdi") di,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    Some(answer as i32)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn int80(_number: u32, _words: [u32; 5]) -> Option<i32> {
    None
}
