//! What a libc would be: system calls by their numbers, and the two functions that the compiler calls by itself.

use core::arch::asm;

#[cfg(target_arch = "x86_64")]
pub(crate) mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PWRITE64: usize = 18;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const WAIT4: usize = 61;
    pub const MOUNT: usize = 165;
    pub const PRCTL: usize = 157;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const PPOLL: usize = 271;
    pub const SETNS: usize = 308;
    pub const SIGNALFD4: usize = 289;
    pub const DUP3: usize = 292;
    pub const EXECVEAT: usize = 322;
}

#[cfg(target_arch = "aarch64")]
pub(crate) mod nr {
    pub const DUP3: usize = 24;
    pub const MOUNT: usize = 40;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const PWRITE64: usize = 68;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD4: usize = 74;
    pub const EXIT_GROUP: usize = 94;
    pub const CLOCK_GETTIME: usize = 113;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const PRCTL: usize = 167;
    pub const SENDTO: usize = 206;
    pub const RECVMSG: usize = 212;
    pub const WAIT4: usize = 260;
    pub const SETNS: usize = 268;
    pub const EXECVEAT: usize = 281;
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn syscall(number: usize, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: the callers below only pass pointers to live local buffers with their true lengths; the instruction
    // clobbers rcx, r11 and memory, as declared (no `nomem`).
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
             in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn syscall(number: usize, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: as above; svc preserves every register but x0.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result,
             in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: i32,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

pub(crate) const POLLIN: i16 = 1;
pub(crate) const EINTR: isize = -4;
pub(crate) const EAGAIN: isize = -11;

pub(crate) fn poll(fds: &mut [PollFd]) {
    while syscall(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), 0, 0, 0, 0]) == EINTR {}
}

/// False: nothing has happened for so long.
pub(crate) fn poll_for(fds: &mut [PollFd], seconds: u64) -> bool {
    let time = [seconds, 0];
    syscall(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), time.as_ptr() as usize, 0, 0, 0]) != 0
}

pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> isize {
    loop {
        let n = syscall(nr::READ, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]);
        if n != EINTR {
            return n;
        }
    }
}

pub(crate) fn close(fd: i32) {
    syscall(nr::CLOSE, [fd as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn exit(code: usize) -> ! {
    loop {
        syscall(nr::EXIT_GROUP, [code, 0, 0, 0, 0, 0]);
    }
}

/// The compiler may call these for array initialisation and copies, and there is no libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    for i in 0..n {
        // SAFETY: the caller promises n writable bytes. Volatile, or the compiler turns this loop into a call of
        // itself.
        unsafe { to.add(i).write_volatile(byte as u8) }
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    for i in 0..n {
        // SAFETY: the caller promises n readable and n writable bytes that do not overlap.
        unsafe { to.add(i).write_volatile(from.add(i).read()) }
    }
    to
}
