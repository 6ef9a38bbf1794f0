//! Seccomp filters with user notification: the program, its installation, and the listener.
//!
//! libseccomp would need a C library newer than Debian 12's for `WAIT_KILLABLE_RECV`, and
//! seccompiler has no notifications, so the few instructions are made here.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};
use rustix::io::Errno;

use crate::error::{Error, Result, checked};

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Refuse(Errno),
    /// What is asked for is so already: done, without the kernel.
    Done,
    Notify,
}

/// When a rule applies, judged by the low 32 bits of one argument: every argument that is tested
/// here is an `int` or a flag word that the kernel truncates the same way.
#[derive(Clone, Debug)]
pub enum When {
    Always,
    AnyBit { argument: u8, mask: u32 },
    Equals { argument: u8, value: u32 },
    NotIn { argument: u8, values: &'static [u32] },
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub number: libc::c_long,
    pub when: When,
    pub verdict: Verdict,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

/// Compiles rules; of several for one call, the first that applies wins. Calls that no rule names
/// are allowed up to `newest`; beyond it (which includes x32) and on foreign architectures they do
/// not exist.
///
/// A search tree, not a list: when a filter is installed, the kernel walks it once for every call
/// that exists, to know which ones it may always allow.
pub fn compile(rules: &[Rule], newest: libc::c_long) -> Vec<sock_filter> {
    let missing = ret(Verdict::Refuse(Errno::NOSYS));
    let mut program = vec![load(ARCHITECTURE_OFFSET), jump(BPF_JEQ, ARCHITECTURE, 1, 0), missing, load(NUMBER_OFFSET)];
    program.extend([jump(BPF_JGE, newest as u32 + 1, 0, 1), missing]);
    program.extend(search(&ranges(rules)));
    program
}

/// Neighbouring calls with one fate.
struct Range {
    first: u32,
    last: u32,
    /// Always ends with a verdict.
    body: Vec<sock_filter>,
}

fn ranges(rules: &[Rule]) -> Vec<Range> {
    let mut numbers: Vec<_> = rules.iter().map(|rule| rule.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<Range> = Vec::new();
    for number in numbers {
        let of_call = rules.iter().filter(|rule| rule.number == number);
        let mut body: Vec<_> = of_call.flat_map(body).collect();
        if rules.iter().all(|rule| rule.number != number || !matches!(rule.when, When::Always)) {
            body.push(ret(Verdict::Allow));
        }
        let number = number as u32;
        match ranges.last_mut() {
            Some(range) if range.last + 1 == number && same(&range.body, &body) => range.last = number,
            _ => ranges.push(Range { first: number, last: number, body }),
        }
    }
    ranges
}

fn same(a: &[sock_filter], b: &[sock_filter]) -> bool {
    let plain = |i: &sock_filter| (i.code, i.jt, i.jf, i.k);
    a.iter().map(plain).eq(b.iter().map(plain))
}

/// Finds the loaded number among sorted ranges.
fn search(ranges: &[Range]) -> Vec<sock_filter> {
    let allow = ret(Verdict::Allow);
    match ranges {
        [] => vec![allow],
        [Range { first, last, body }] => {
            let test = if first == last {
                vec![jump(BPF_JEQ, *first, 1, 0), allow]
            } else {
                vec![jump(BPF_JGE, *first, 0, 1), jump(BPF_JGE, *last + 1, 0, 1), allow]
            };
            test.into_iter().chain(body.iter().copied()).collect()
        }
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let below = search(low);
            // Conditional jumps reach 255 instructions, the plain one any distance.
            let over = match u8::try_from(below.len()) {
                Ok(distance) => vec![jump(BPF_JGE, high[0].first, distance, 0)],
                Err(_) => vec![jump(BPF_JGE, high[0].first, 0, 1), statement(BPF_JMP | BPF_JA, below.len() as u32)],
            };
            over.into_iter().chain(below).chain(search(high)).collect()
        }
    }
}

/// One rule of a call: a verdict, or on to what follows.
fn body(rule: &Rule) -> Vec<sock_filter> {
    let verdict = ret(rule.verdict);
    match rule.when {
        When::Always => vec![verdict],
        When::AnyBit { argument, mask } => {
            vec![load_argument(argument), statement(BPF_ALU | BPF_AND | BPF_K, mask), jump(BPF_JEQ, 0, 1, 0), verdict]
        }
        When::Equals { argument, value } => vec![load_argument(argument), jump(BPF_JEQ, value, 0, 1), verdict],
        When::NotIn { argument, values } => {
            let tests = values.iter().enumerate().map(|(at, value)| jump(BPF_JEQ, *value, (values.len() - at) as u8, 0));
            [load_argument(argument)].into_iter().chain(tests).chain([verdict]).collect()
        }
    }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

/// The low half: both architectures are little-endian.
fn load_argument(number: u8) -> sock_filter {
    load(ARGUMENTS_OFFSET + 8 * u32::from(number))
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt, jf, k }
}

fn ret(verdict: Verdict) -> sock_filter {
    let action = match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32,
        Verdict::Done => libc::SECCOMP_RET_ERRNO,
        Verdict::Notify => libc::SECCOMP_RET_USER_NOTIF,
    };
    statement(BPF_RET | BPF_K, action)
}

const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Whether [`install`] can work here. Nothing is installed: the kernel looks at the flags before it looks for a program.
pub fn is_supported() -> bool {
    let nowhere: *const libc::sock_fprog = std::ptr::null();
    // SAFETY: the kernel checks the pointer that it is given; a null pointer is EFAULT.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, nowhere) };
    checked(|| "seccomp(SECCOMP_SET_MODE_FILTER)".into(), result).is_err_and(|error| error.errno() == Errno::FAULT)
}

/// Installs the filter on this thread and all that it starts. Needs no_new_privs.
///
/// `WAIT_KILLABLE_RECV` (5.19): without it a signal interrupts a call that the broker is already
/// performing, and the client would see EINTR for a mount that exists.
pub fn install(program: &[sock_filter]) -> Result<OwnedFd> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` describes a live slice, which the kernel only reads.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, &raw const program) };
    let listener = checked(|| "seccomp(SECCOMP_SET_MODE_FILTER)".into(), result)?;
    // SAFETY: with NEW_LISTENER a success is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// A system call that waits for our answer. Every number in it comes from a hostile process.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub id: u64,
    /// A thread id, in our pid namespace.
    pub tid: i32,
    pub number: libc::c_long,
    pub arguments: [u64; 6],
}

/// Whether the caller was still there to hear the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Yes,
    Gone,
}

/// The next waiting call. `None`: its thread died before we could take it.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Option<Notification>> {
    // SAFETY: plain integers, for which all zeroes is valid; the kernel demands zeroes.
    let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one seccomp_notif to the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
    match checked(|| "ioctl(SECCOMP_IOCTL_NOTIF_RECV)".into(), result.into()) {
        Ok(_) => Ok(Some(Notification { id: raw.id, tid: raw.pid as i32, number: raw.data.nr.into(), arguments: raw.data.args })),
        Err(error) if matches!(error.errno(), Errno::NOENT | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the call still waits: what was read from /proc/TID before this said yes belongs to
/// that very thread, not to a later one with its number.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one u64 from the pointer, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers. There is deliberately no way to let the kernel continue the call: it would read the
/// caller's memory again, after we judged a copy.
pub fn answer(listener: BorrowedFd<'_>, id: u64, result: std::result::Result<(), Errno>) -> Result<Heard> {
    let error = result.err().map_or(0, |errno| -errno.raw_os_error());
    let response = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads one seccomp_notif_resp from the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
    heard("ioctl(SECCOMP_IOCTL_NOTIF_SEND)", result)
}

/// Replaces descriptor `number` of the waiting caller by a duplicate of `fd`.
pub fn replace_fd(listener: BorrowedFd<'_>, id: u64, number: u32, fd: BorrowedFd<'_>) -> Result<Heard> {
    let request = libc::seccomp_notif_addfd {
        id,
        flags: libc::SECCOMP_ADDFD_FLAG_SETFD as u32,
        srcfd: fd.as_raw_fd() as u32,
        newfd: number,
        newfd_flags: libc::O_CLOEXEC as u32,
    };
    // SAFETY: the kernel reads one seccomp_notif_addfd from the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) };
    heard("ioctl(SECCOMP_IOCTL_NOTIF_ADDFD)", result)
}

/// Answers with a new descriptor of the caller's: a duplicate of `fd` (5.14).
pub fn answer_with(listener: BorrowedFd<'_>, id: u64, fd: BorrowedFd<'_>, flags: NewFlags) -> Result<Heard> {
    let newfd_flags = match flags {
        NewFlags::CloseOnExec => libc::O_CLOEXEC as u32,
        NewFlags::None => 0,
    };
    let flags = libc::SECCOMP_ADDFD_FLAG_SEND as u32;
    let request = libc::seccomp_notif_addfd { id, flags, srcfd: fd.as_raw_fd() as u32, newfd: 0, newfd_flags };
    // SAFETY: the kernel reads one seccomp_notif_addfd from the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) };
    heard("ioctl(SECCOMP_IOCTL_NOTIF_ADDFD, SEND)", result)
}

/// Whether the caller's new descriptor outlives its next execve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFlags {
    CloseOnExec,
    None,
}

fn heard(text: &str, result: libc::c_int) -> Result<Heard> {
    match checked(|| text.into(), result.into()) {
        Ok(_) => Ok(Heard::Yes),
        Err(error) if error.errno() == Errno::NOENT => Ok(Heard::Gone),
        Err(error) => Err(Error::new(text, error.errno())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets a filter as the kernel would, for the instructions that we emit.
    fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER_OFFSET => number,
            ARCHITECTURE_OFFSET => architecture,
            other => arguments[((other - ARGUMENTS_OFFSET) / 8) as usize] as u32,
        };
        let (mut at, mut a) = (0, 0u32);
        loop {
            let i = program[at];
            at += 1;
            let offset = |taken: bool| usize::from(if taken { i.jt } else { i.jf });
            match u32::from(i.code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => a = word(i.k),
                code if code == BPF_ALU | BPF_AND | BPF_K => a &= i.k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => at += offset(a == i.k),
                code if code == BPF_JMP | BPF_JGE | BPF_K => at += offset(a >= i.k),
                code if code == BPF_JMP | BPF_JA => at += i.k as usize,
                code if code == BPF_RET | BPF_K => return i.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn rules_apply_as_written() {
        let refuse = |errno: Errno| libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32;
        let rules = [
            Rule { number: 1, when: When::Always, verdict: Verdict::Notify },
            Rule { number: 2, when: When::AnyBit { argument: 1, mask: 0x30 }, verdict: Verdict::Refuse(Errno::PERM) },
            Rule { number: 3, when: When::NotIn { argument: 0, values: &[7, 8] }, verdict: Verdict::Refuse(Errno::ACCESS) },
            Rule { number: 3, when: When::Equals { argument: 2, value: 5 }, verdict: Verdict::Refuse(Errno::BUSY) },
            Rule { number: 5, when: When::Always, verdict: Verdict::Refuse(Errno::IO) },
            Rule { number: 6, when: When::Always, verdict: Verdict::Refuse(Errno::IO) },
            Rule { number: 7, when: When::Always, verdict: Verdict::Refuse(Errno::IO) },
        ];
        let program = compile(&rules, 10);
        let allow = libc::SECCOMP_RET_ALLOW;
        let rows = [
            ("an unnamed call is allowed", 0, [0; 6], allow),
            ("the newest known call is allowed", 10, [0; 6], allow),
            ("a call that is always judged", 1, [0; 6], libc::SECCOMP_RET_USER_NOTIF),
            ("no bit of the mask", 2, [0, 0x40, 0, 0, 0, 0], allow),
            ("one bit of the mask", 2, [0, 0x10, 0, 0, 0, 0], refuse(Errno::PERM)),
            ("a listed value", 3, [8, 0, 0, 0, 0, 0], allow),
            ("an unlisted value", 3, [9, 0, 0, 0, 0, 0], refuse(Errno::ACCESS)),
            ("the second rule of a call", 3, [7, 0, 5, 0, 0, 0], refuse(Errno::BUSY)),
            ("high halves do not hide a value", 3, [9 | 7 << 32, 0, 0, 0, 0, 0], refuse(Errno::ACCESS)),
            ("below a range", 4, [0; 6], allow),
            ("the first of a range", 5, [0; 6], refuse(Errno::IO)),
            ("the middle of a range", 6, [0; 6], refuse(Errno::IO)),
            ("the last of a range", 7, [0; 6], refuse(Errno::IO)),
            ("above a range", 8, [0; 6], allow),
            ("a call newer than the table", 11, [0; 6], refuse(Errno::NOSYS)),
            ("an x32 call", 0x4000_0001, [0; 6], refuse(Errno::NOSYS)),
        ];
        for (name, number, arguments, verdict) in rows {
            assert_eq!(run(&program, ARCHITECTURE, number, arguments), verdict, "{name}");
        }
        assert_eq!(run(&program, 0x4000_0003, 1, [0; 6]), refuse(Errno::NOSYS), "a foreign architecture");
    }
}
