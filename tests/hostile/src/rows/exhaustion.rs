//! Using up what others need. The launch has limits of 64 MiB and 64 processes; four times as much is harm.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use libc::c_int;

use crate::outcome::{Outcome, any_of, refused, succeeded};
use crate::sandbox::{Sandbox, scratch_dir};
use crate::sys::{self, Answer, Errno, at, at_mut};

const MEBIBYTE: usize = 1 << 20;
const TOO_MUCH: usize = 256;
const TOO_MANY: usize = 256;

/// Does `take` once for each mebibyte, in a child that the kernel may kill for it.
fn take_memory(what: &str, mut take: impl FnMut(usize) -> Answer<()>) -> Outcome {
    let child = match sys::fork() {
        Ok(None) => {
            let _ = fs::write("/proc/self/oom_score_adj", "1000");
            for step in 0..TOO_MUCH {
                if let Err(errno) = take(step) {
                    sys::exit(errno.0 & 0x7f);
                }
            }
            sys::exit(0);
        }
        Ok(Some(child)) => child,
        Err(errno) => return refused(errno.to_string()),
    };
    let status = sys::wait(child, 0).unwrap_or(0);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => succeeded(format!("{TOO_MUCH} MiB of {what}")),
        (true, errno) => refused(Errno(errno).to_string()),
        (false, _) => refused(format!("killed with signal {}", libc::WTERMSIG(status))),
    }
}

pub(super) fn fills_memory() -> Outcome {
    let mut held = Vec::new();
    take_memory("memory", |step| {
        held.push(vec![step as u8 | 1; MEBIBYTE]);
        Ok(())
    })
}

/// Unlinked files, so that what was taken is given back when the row ends.
fn take_file(file: Answer<File>, what: &str) -> Outcome {
    let mut file = match file {
        Ok(file) => file,
        Err(errno) => return refused(errno.to_string()),
    };
    let block = vec![1u8; MEBIBYTE];
    take_memory(what, |_| file.write_all(&block).map_err(Errno::from))
}

pub(super) fn fills_scratch() -> Outcome {
    let places = ["/tmp", "/run", "/var/log", "/var/lib", "/var/cache", "/var/tmp", "/root", "/dev/shm", "/dev"];
    any_of(places, |place| {
        let path = format!("{place}/hostile-fill");
        let file = File::create(&path).map_err(Errno::from);
        let _ = fs::remove_file(&path);
        take_file(file, place)
    })
}

pub(super) fn fills_memory_files() -> Outcome {
    let file = sys::fd_call(libc::SYS_memfd_create, [at(c"hostile"), 0]).map(File::from);
    take_file(file, "anonymous files")
}

pub(super) fn fills_shared_segments() -> Outcome {
    take_memory("shared memory segments", |_| {
        let id = sys::call(libc::SYS_shmget, [libc::IPC_PRIVATE as usize, MEBIBYTE, 0o600])?;
        let memory = sys::call(libc::SYS_shmat, [id, 0, 0])?;
        // Gone with its last user.
        let _ = sys::call(libc::SYS_shmctl, [id, libc::IPC_RMID as usize, 0]);
        let zero = File::open("/dev/urandom").map_err(Errno::from)?;
        sys::call(libc::SYS_read, [zero.as_raw_fd() as usize, memory, MEBIBYTE]).map(drop)
    })
}

/// Empty files: no byte of content, but an inode each.
pub(super) fn fills_inodes() -> Outcome {
    let dir = scratch_dir("inodes");
    let many = 400_000;
    let mut outcome = succeeded(format!("{many} files"));
    for number in 0..many {
        if let Err(error) = File::create(dir.join(number.to_string())) {
            outcome = refused(format!("{} after {number} files", Errno::from(error)));
            break;
        }
    }
    let _ = fs::remove_dir_all(&dir);
    outcome
}

/// As many processes as there can be, which wait for our end.
pub(super) fn fills_processes() -> Outcome {
    let (_reader, writer) = std::io::pipe().expect("a pipe can be made");
    let mut children = Vec::new();
    let mut stopped_by = None;
    while children.len() < TOO_MANY && stopped_by.is_none() {
        match sys::fork() {
            Ok(None) => {
                let _ = sys::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0]);
                thread::sleep(Duration::from_secs(20));
                sys::exit(0);
            }
            Ok(Some(child)) => children.push(child),
            Err(errno) => stopped_by = Some(errno),
        }
    }
    drop(writer);
    for child in &children {
        let _ = sys::kill(*child, libc::SIGKILL);
        let _ = sys::wait(*child, 0);
    }
    match stopped_by {
        None => succeeded(format!("{} processes at once", children.len())),
        Some(errno) => refused(format!("{errno} after {} processes", children.len())),
    }
}

/// The same with threads, which count as much.
pub(super) fn fills_threads() -> Outcome {
    let mut started = 0;
    loop {
        if started == TOO_MANY {
            break succeeded(format!("{started} threads at once"));
        }
        match thread::Builder::new().stack_size(64 << 10).spawn(|| thread::sleep(Duration::from_secs(20))) {
            Ok(_) => started += 1,
            Err(error) => break refused(format!("{} after {started} threads", Errno::from(error))),
        }
    }
}

/// 50 MB to both streams. What is kept of it on the host is the driver's to look at.
pub(super) fn fills_log(_: &Sandbox) -> Outcome {
    let line = [b"hostile ".repeat(127).as_slice(), b"hostile\n"].concat();
    let mut written = 0;
    for turn in 0..50_000 {
        let stream: c_int = if turn % 2 == 0 { 1 } else { 2 };
        match sys::call(libc::SYS_write, [stream as usize, at(line.as_slice()), line.len()]) {
            Ok(length) => written += length,
            Err(errno) => return refused(format!("{errno} after {written} bytes")),
        }
    }
    refused(format!("{written} bytes written, the driver looks at what was kept"))
}

/// One line that never ends.
pub(super) fn fills_log_with_one_line(_: &Sandbox) -> Outcome {
    let block = vec![b'x'; 65536];
    for _ in 0..320 {
        if let Err(errno) = sys::call(libc::SYS_write, [2, at(block.as_slice()), block.len()]) {
            return refused(errno.to_string());
        }
    }
    let _ = sys::call(libc::SYS_write, [2, at(c"\n"), 1]);
    refused("20 MB in one line, the driver looks at what was kept")
}

/// Whoever reads them is a process of Shorefast's.
pub(super) fn fills_syslog() -> Outcome {
    let socket = match UnixDatagram::unbound().and_then(|socket| socket.connect("/dev/log").map(|()| socket)) {
        Ok(socket) => socket,
        Err(error) => return refused(Errno::from(error).to_string()),
    };
    let long = vec![b'<'; 16384];
    let messages: [&[u8]; 6] = [b"<13>hostile", b"", b"<", b"<99999999>hostile\n\0", b"\x1b[2J\xff\0\n", &long];
    let (mut sent, mut with_descriptor) = (0, 0);
    for turn in 0..30_000 {
        match socket.send(messages[turn % messages.len()]) {
            Ok(_) => sent += 1,
            Err(error) => return refused(format!("{} after {sent} messages", Errno::from(error))),
        }
        with_descriptor += usize::from(turn % 100 == 0 && send_descriptor(&socket).is_ok());
    }
    refused(format!("{sent} messages, {with_descriptor} more with a descriptor; the driver looks at what was kept"))
}

fn send_descriptor(socket: &UnixDatagram) -> Answer {
    let file = File::open("/dev/null").map_err(Errno::from)?;
    let header = [size_of::<[usize; 3]>() - 4, (libc::SCM_RIGHTS as usize) << 32 | libc::SOL_SOCKET as usize, file.as_raw_fd() as usize];
    let part = [at(b"descriptor".as_slice()), 10];
    let message = [0, 0, at(&part), 1, at(&header), size_of_val(&header), 0];
    sys::call(libc::SYS_sendmsg, [socket.as_raw_fd() as usize, at(&message), libc::MSG_NOSIGNAL as usize])
}

/// The client fails, and its last words are orders to the reader's terminal.
pub(super) fn speaks_to_the_terminal(_: &Sandbox) -> Outcome {
    let orders = b"\x1b]0;hostile\x07\x1b[2J\x1b[31mroot password:\x1b[0m \x9b31m\xff\xfe \rshorefast: mounted\x08\x08\n";
    let _ = sys::call(libc::SYS_write, [2, at(orders), orders.len()]);
    refused("the driver looks at what was printed")
}

/// Instances are counted per user; in a user namespace they count for its creator, too. Root of the host must
/// still get one while we hold all that we get; the driver tries.
pub(super) fn starves_inotify() -> Outcome {
    let mut held = Vec::new();
    let stopped_by = loop {
        match sys::fd_call(libc::SYS_inotify_init1, [0]) {
            Ok(fd) => held.push(fd),
            Err(errno) => break errno,
        }
    };
    thread::sleep(Duration::from_secs(2));
    refused(format!("{} instances until {stopped_by}, the driver tries to get one too", held.len()))
}

/// Pending signals are counted the same way.
pub(super) fn starves_signals() -> Outcome {
    let mask = u64::MAX;
    let _ = sys::call(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as usize, at(&mask), 0, 8]);
    let mut information = [0u32; 32];
    information[0] = libc::SIGRTMIN() as u32;
    information[2] = libc::SI_QUEUE as u32;
    let mut queued = 0;
    let stopped_by = loop {
        match sys::call(libc::SYS_rt_sigqueueinfo, [sys::pid() as usize, libc::SIGRTMIN() as usize, at(&information)]) {
            Ok(_) if queued < 2_000_000 => queued += 1,
            Ok(_) => break Errno(0),
            Err(errno) => break errno,
        }
    };
    thread::sleep(Duration::from_secs(2));
    refused(format!("{queued} signals until {stopped_by}, the driver tries to queue one too"))
}

/// Keys, message queues and timers have their own counters; queues are memory that no process owns.
pub(super) fn fills_message_queues() -> Outcome {
    let mut attributes = [0u64; 8];
    attributes[1] = 10;
    attributes[2] = 8192;
    let mut queues: Vec<OwnedFd> = Vec::new();
    for number in 0..2000 {
        let name = CString::new(format!("hostile-{number}")).expect("it holds no NUL");
        let flags = (libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK) as usize;
        match sys::call(libc::SYS_mq_open, [at(&*name), flags, 0o600, at(&attributes)]) {
            // SAFETY: the kernel just made this descriptor for us.
            Ok(fd) => queues.push(unsafe { OwnedFd::from_raw_fd(fd as c_int) }),
            Err(errno) => return refused(format!("{errno} after {} queues", queues.len())),
        }
        let _ = sys::call(libc::SYS_mq_unlink, [at(&*name)]);
    }
    succeeded(format!("{} message queues", queues.len()))
}

/// A crash makes the kernel start the host's core dump handler, as root, on what we were.
pub(super) fn dumps_core() -> Outcome {
    let mut limit = [0u64; 2];
    let _ = sys::call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE as usize, 0, at_mut(&mut limit)]);
    let raised = [limit[1], limit[1]];
    let _ = std::env::set_current_dir(scratch_dir("core"));
    let child = match sys::fork() {
        Ok(None) => {
            let _ = sys::call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE as usize, at(&raised), 0]);
            let _ = sys::call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0]);
            sys::default_action(libc::SIGSEGV);
            let _ = sys::kill(sys::pid(), libc::SIGSEGV);
            sys::exit(0);
        }
        Ok(Some(child)) => child,
        Err(errno) => return refused(errno.to_string()),
    };
    let status = sys::wait(child, 0).unwrap_or(0);
    if libc::WIFSIGNALED(status) && libc::WCOREDUMP(status) {
        return succeeded("the kernel dumped core");
    }
    // For a pattern that starts a program the kernel ignores a limit of 0; what it does obey is 1 (do_coredump).
    match limit[1] {
        1 => refused("no core, and under a limit of 1 no handler is started either"),
        hard => succeeded(format!("no core here, but under a limit of {hard} a core pattern with a pipe would start its handler")),
    }
}
