//! The program that lives as long as a mount: a few kilobytes, no libc, no heap.
//!
//! It has three roles, selected by the first character of argv[0]. Two of them get their descriptors at fixed numbers
//! from the process that executes them.
//!
//! * `init HELPER_PID [follow]` is pid 1 of a sandbox (or its subreaper, if the client shares the host's pid
//!   namespace). It reaps children, copies the client's output into a bounded ring file, reports to the broker how the
//!   helper exited, and writes into the ring's header how the process ended that served the mount. It exits with its last
//!   child; if the serving process failed, at once, and if that ended well, after a few seconds at most: nobody answers
//!   the mount's users any more, and in a pid namespace the others end with pid 1. 3 = control socket, 4 = read end of
//!   the client's output, 5 = ring file, 6 = with `follow`, a pidfd: it exits when that process does. 7 = the mount's
//!   recipe, only held: for a new keeper, should the first one be killed. 8 = the socket /dev/log of the sandbox: what
//!   the client says with syslog(3) goes into the same ring.
//! * `keeper RUN_DIR ID ORIGIN` runs on the host. It waits until the mounting process releases it or dies, then for the
//!   end of the sandbox, and then executes the full shorefast binary, which cleans up. 3 = control socket, 4 = pidfd of
//!   the sandbox's first process, 5 = the shorefast binary, 6 = the mount's log, for that binary. If the mounting
//!   process is in a mount namespace of its own, the keeper must not keep that alive: 7 = a permanent mount namespace
//!   to switch to, 8 = the run directory, which has no path there. ORIGIN tells the binary how to get back to the
//!   original namespace. 9 = the mount's recipe (a sealed memfd), held for the binary. The word that releases it can
//!   bring a descriptor, which becomes 10 = the client's /dev/fuse: as long as it is open, the mount's users wait when the
//!   client dies, and the binary can start another one before they get an error.
//! * `/PATH`: it replaces a program of the image by which a client requests services that it needs. It asks the broker
//!   (`sys::shim::ASK` says how), and exits with 0 if they run.
//!
//! The control socket ties the first two roles to the mounting process: the byte `k` releases them, to live as long as
//! the sandbox. For `init` the pid of the process that serves the mount follows, as four bytes. End of file before that means that the mounting process died, and that the mount has to end, too.
//!
//! build.rs compiles these files separately and embeds it in the binary. It cannot use any crate, so it makes system
//! calls in assembly; that is why it lives in `sys`.

#![no_std]
#![no_main]

mod kernel;
mod log;

use core::arch::naked_asm;

use kernel::{EINTR, POLLIN, PollFd, close, exit, nr, poll, poll_for, read, syscall};
use log::{Log, copy_last_words, copy_messages, copy_output};

const CONTROL: i32 = 3;
const SANDBOX: i32 = 4;
const OUTPUT: i32 = 4;
const RING: i32 = 5;
const BINARY: i32 = 5;
const FOLLOWED: i32 = 6;
const HOME: i32 = 7;
const SYSLOG: i32 = 8;
const CONNECTION: i32 = 10;

const SIGCHLD: u64 = 17;
const MSG_NOSIGNAL: usize = 0x4000;

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {main}", "ud2", main = sym main)
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov x0, sp", "bl {main}", "brk #1", main = sym main)
}

/// Not used here, and the program that a keeper executes opens its own.
fn close_standard() {
    (0..3).for_each(close);
}

/// `stack`: the stack at entry, with argc and then argv.
unsafe extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the kernel puts argc and argc pointers to C strings here; `init` and `keeper` are started by our own code
    // with the arguments that they read, and `ask` reads none.
    let arg = |n: usize| unsafe { *stack.add(1 + n) as *const u8 };
    // SAFETY: as above.
    let arguments = unsafe { *stack };
    // SAFETY: argv[0] is at least one byte, see above.
    match unsafe { *arg(0) } {
        b'i' => init(parse(arg(1)), if arguments > 2 { FOLLOWED } else { -1 }),
        b'k' => keeper(&Keeper { run_dir: arg(1), id: arg(2), origin: arg(3) }),
        b'/' => ask(),
        _ => exit(2),
    }
}

fn parse(digits: *const u8) -> i32 {
    let mut value = 0;
    let mut at = digits;
    // SAFETY: a NUL-terminated string, and the loop stops at the first byte that is not a digit.
    while let digit @ b'0'..=b'9' = unsafe { *at } {
        value = value * 10 + (digit - b'0') as i32;
        // SAFETY: the byte just read was not the terminator.
        at = unsafe { at.add(1) };
    }
    value
}

/// The name in `ps`. By default it would be that of the memfd that we were executed from.
fn set_name(name: &core::ffi::CStr) {
    const PR_SET_NAME: usize = 15;
    syscall(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]);
}

/// `followed`: a pidfd, or -1, which poll ignores.
fn init(helper: i32, followed: i32) -> ! {
    set_name(c"shorefast-init");
    close_standard();
    let mask: u64 = 1 << (SIGCHLD - 1);
    syscall(nr::RT_SIGPROCMASK, [0, &raw const mask as usize, 0, 8, 0, 0]);
    let children = syscall(nr::SIGNALFD4, [usize::MAX, &raw const mask as usize, 8, 0o2004000, 0, 0]) as i32;
    let mut log = Log::empty();
    let mut server = Server { pid: NOBODY, has_ended: false };
    let mut fds = [
        PollFd { fd: children, events: POLLIN, revents: 0 },
        PollFd { fd: OUTPUT, events: POLLIN, revents: 0 },
        PollFd { fd: CONTROL, events: POLLIN, revents: 0 },
        PollFd { fd: followed, events: POLLIN, revents: 0 },
        PollFd { fd: SYSLOG, events: POLLIN, revents: 0 },
    ];
    // A child may have exited before SIGCHLD was blocked.
    reap(helper, &mut server, &mut log);
    loop {
        if !server.has_ended {
            poll(&mut fds);
        } else if !poll_for(&mut fds, LINGER) {
            exit(0);
        }
        if fds[1].revents != 0 && copy_output(&mut log) {
            fds[1].fd = -1;
        }
        if fds[4].revents != 0 && !copy_messages(&mut log) {
            fds[4].fd = -1;
        }
        if fds[0].revents != 0 {
            let mut info = [0u8; 128];
            read(children, &mut info);
            // Its release may have come at the same time, and says whose end counts.
            if fds[2].revents != 0 {
                server.pid = released_or_exit();
                fds[2].fd = -1;
                fds[2].revents = 0;
            }
            reap(helper, &mut server, &mut log);
        }
        if fds[2].revents != 0 {
            server.pid = released_or_exit();
            fds[2].fd = -1;
        }
        if fds[3].revents != 0 {
            exit(1);
        }
    }
}

/// The process that serves the mount.
struct Server {
    pid: i32,
    has_ended: bool,
}

/// No child has this pid.
const NOBODY: i32 = 0;

/// How many seconds the others may be silent after the serving process has ended well.
const LINGER: u64 = 5;

fn reap(helper: i32, server: &mut Server, log: &mut Log) {
    loop {
        let mut status = 0i32;
        let pid = syscall(nr::WAIT4, [usize::MAX, &raw mut status as usize, 1, 0, 0, 0]);
        if pid == 0 {
            return;
        }
        if pid == server.pid as isize {
            log.ended(status);
            server.has_ended = true;
            if status != 0 {
                copy_last_words(log);
                exit(0);
            }
        }
        if pid == helper as isize {
            // The helper's last output belongs in the log before its exit is reported.
            copy_last_words(log);
            // Errors are ignored: the broker may be gone, or may have released us already.
            syscall(nr::SENDTO, [CONTROL as usize, &raw const status as usize, 4, MSG_NOSIGNAL, 0, 0]);
        } else if pid < 0 && pid != EINTR {
            copy_last_words(log);
            exit(0);
        }
    }
}

/// Returns the pid of the process that serves the mount, as far as it is known.
fn released_or_exit() -> i32 {
    let mut word = [0u8; 5];
    let n = read(CONTROL, &mut word);
    if n < 1 || word[0] != b'k' {
        exit(1);
    }
    close(CONTROL);
    if n == 5 { i32::from_ne_bytes([word[1], word[2], word[3], word[4]]) } else { NOBODY }
}

struct Keeper {
    run_dir: *const u8,
    id: *const u8,
    origin: *const u8,
}

/// mount(2) with a reserved filesystem type: mount calls are what reaches the broker. Must agree with `sys::shim::ASK`.
fn ask() -> ! {
    let (place, fstype) = (c"/".as_ptr() as usize, c"shorefast.services".as_ptr() as usize);
    let answer = syscall(nr::MOUNT, [0, place, fstype, 0, 0, 0]);
    exit(if answer == 0 { 0 } else { 1 })
}

fn keeper(keeper: &Keeper) -> ! {
    set_name(c"shorefast-keep");
    close_standard();
    reset_signals();
    // Fails if there is no such descriptor; then the mount namespace stays the same.
    const CLONE_NEWNS: usize = 0x0002_0000;
    syscall(nr::SETNS, [HOME as usize, CLONE_NEWNS, 0, 0, 0, 0]);
    close(HOME);
    // Until the mounting process releases us, it is responsible for the sandbox, so the sandbox's end is not watched.
    match receive_word() {
        b'k' => {}
        // The mount failed, and the mounting process has cleaned up.
        b'q' => exit(0),
        _ => keeper.become_cleaner(),
    }
    close(CONTROL);
    poll(&mut [PollFd { fd: SANDBOX, events: POLLIN, revents: 0 }]);
    keeper.become_cleaner()
}

/// As in recvmsg(2).
#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    parts: *const [usize; 2],
    part_count: usize,
    control: *mut Descriptor,
    control_length: usize,
    flags: usize,
}

/// As in cmsg(3), with one descriptor.
#[repr(C)]
struct Descriptor {
    length: usize,
    level: i32,
    kind: i32,
    fd: i32,
    _padding: i32,
}

/// The word, or 0 at end of file. A descriptor that comes with it gets its number.
fn receive_word() -> u8 {
    let mut byte = 0u8;
    let mut came = Descriptor { length: 0, level: 0, kind: 0, fd: -1, _padding: 0 };
    let part = [&raw mut byte as usize, 1];
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: &raw const part,
        part_count: 1,
        control: &raw mut came,
        control_length: size_of::<Descriptor>(),
        flags: 0,
    };
    let n = loop {
        let n = syscall(nr::RECVMSG, [CONTROL as usize, &raw mut message as usize, 0, 0, 0, 0]);
        if n != EINTR {
            break n;
        }
    };
    // SAFETY: a live local; volatile, because the compiler does not know that the kernel wrote to it through `message`.
    let came = unsafe { core::ptr::read_volatile(&raw const came) };
    if n == 1 && message.control_length >= 20 && came.fd >= 0 && came.fd != CONNECTION {
        syscall(nr::DUP3, [came.fd as usize, CONNECTION as usize, 0, 0, 0, 0]);
        close(came.fd);
    }
    // SAFETY: as above.
    if n == 1 { unsafe { core::ptr::read_volatile(&raw const byte) } } else { 0 }
}

/// Undoes what the mounting process or its caller ignored or blocked, for the program that is executed next.
fn reset_signals() {
    // An all-zero struct sigaction: SIG_DFL.
    let default = [0usize; 4];
    for signal in 1..32 {
        syscall(nr::RT_SIGACTION, [signal, default.as_ptr() as usize, 0, 8, 0, 0]);
    }
    const SIG_SETMASK: usize = 2;
    let none = 0u64;
    syscall(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const none as usize, 0, 8, 0, 0]);
}

impl Keeper {
    fn become_cleaner(&self) -> ! {
        let argv = [
            c"shorefast".as_ptr().cast(),
            c"--run-dir".as_ptr().cast(),
            self.run_dir,
            c"__ended".as_ptr().cast(),
            self.id,
            self.origin,
            core::ptr::null(),
        ];
        let envp = [core::ptr::null::<u8>()];
        const AT_EMPTY_PATH: usize = 0x1000;
        let path = c"".as_ptr() as usize;
        syscall(nr::EXECVEAT, [BINARY as usize, path, argv.as_ptr() as usize, envp.as_ptr() as usize, AT_EMPTY_PATH, 0]);
        exit(1)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(3)
}
