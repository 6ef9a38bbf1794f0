//! Seccomp filters with user notification: [`Rule`]s in, a BPF program, its installation and its listener out.
//!
//! libseccomp would need a C library newer than Debian 12's for `WAIT_KILLABLE_RECV`, and seccompiler has no
//! notifications, so the few instructions are generated here.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};
use rustix::io::Errno;

use crate::error::{Error, Result, checked};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Refuse(Errno),
    /// Success without running the call: what it asks for is already so.
    Done,
    Notify,
}

/// When a rule applies, decided by the low 32 bits of one argument: every argument that is tested is an `int` or a flag
/// word, which the kernel truncates the same way.
#[derive(Clone, Debug)]
pub enum When {
    Always,
    AnyBit {
        argument: u8,
        mask: u32,
    },
    NoBit {
        argument: u8,
        mask: u32,
    },
    Equals {
        argument: u8,
        value: u32,
    },
    NotIn {
        argument: u8,
        values: &'static [u32],
    },
    /// Compares only the bits of `mask`; the others are flags.
    MaskedNotIn {
        argument: u8,
        mask: u32,
        values: &'static [u32],
    },
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

/// Compiles rules. Of several for one call, the first that applies wins. Calls that no rule names are allowed up to
/// `newest`; above it (which includes x32) and on foreign architectures they give ENOSYS.
///
/// The program is a binary search, not a list: when a filter is installed, the kernel evaluates it once for every
/// system call number, to find those that are always allowed. It is also short, because the kernel JIT-compiles it
/// then: each argument test appears once, after the search, however many calls use it, and each verdict once, at the
/// end. So all jumps go forward and stay within their 255 instructions.
pub fn compile(rules: &[Rule], newest: libc::c_long) -> Vec<sock_filter> {
    let missing = To::Verdict(Verdict::Refuse(Errno::NOSYS));
    let mut steps = vec![
        load(ARCHITECTURE_OFFSET),
        Step::Test { test: BPF_JEQ, k: ARCHITECTURE, yes: To::Next, no: missing },
        load(NUMBER_OFFSET),
        Step::Test { test: BPF_JGE, k: newest as u32 + 1, yes: missing, no: To::Next },
    ];
    let ranges = ranges(rules);
    let mut tests = Vec::new();
    search(&ranges, &mut steps, &mut tests);
    assemble(&steps, &tests)
}

/// An instruction before the positions of the verdicts are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Do { code: u32, k: u32 },
    Test { test: u32, k: u32, yes: To, no: To },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Next,
    /// Skips that many steps.
    Over(usize),
    /// To the first step of this block in `tests`.
    Tests(usize),
    Verdict(Verdict),
}

/// `tests`: blocks that follow the steps.
fn assemble(steps: &[Step], tests: &[&[Step]]) -> Vec<sock_filter> {
    let mut verdicts = Vec::new();
    let starts: Vec<_> = tests.iter().scan(steps.len(), |end, tests| Some(std::mem::replace(end, *end + tests.len()))).collect();
    let steps: Vec<_> = steps.iter().chain(tests.iter().copied().flatten()).collect();
    let mut program = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let mut distance = |to: To| {
            let over = match to {
                To::Next => 0,
                To::Over(steps) => steps,
                To::Tests(number) => starts[number] - at - 1,
                To::Verdict(verdict) => {
                    let place = verdicts.iter().position(|known| *known == verdict).unwrap_or_else(|| {
                        verdicts.push(verdict);
                        verdicts.len() - 1
                    });
                    steps.len() + place - at - 1
                }
            };
            u8::try_from(over).expect("our filters are shorter than a jump")
        };
        program.push(match **step {
            Step::Do { code, k } => sock_filter { code: code as u16, jt: 0, jf: 0, k },
            Step::Test { test, k, yes, no } => {
                sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt: distance(yes), jf: distance(no), k }
            }
        });
    }
    program.extend(verdicts.into_iter().map(ret));
    program
}

/// Adjacent system calls with the same outcome.
struct Range {
    first: u32,
    last: u32,
    fate: Fate,
}

#[derive(PartialEq, Eq)]
enum Fate {
    Always(Verdict),
    /// Steps that always end with a verdict.
    ByArguments(Vec<Step>),
}

fn ranges(rules: &[Rule]) -> Vec<Range> {
    let mut rules: Vec<_> = rules.iter().collect();
    // A stable sort: the rules of one call keep their order.
    rules.sort_by_key(|rule| rule.number);
    let mut ranges: Vec<Range> = Vec::new();
    for of_call in rules.chunk_by(|one, next| one.number == next.number) {
        let (number, fate) = (of_call[0].number as u32, fate(of_call));
        match ranges.last_mut() {
            Some(range) if range.last + 1 == number && range.fate == fate => range.last = number,
            _ => ranges.push(Range { first: number, last: number, fate }),
        }
    }
    ranges
}

/// The combined outcome of the rules of one call.
fn fate(rules: &[&Rule]) -> Fate {
    rules.iter().rev().fold(Fate::Always(Verdict::Allow), |otherwise, rule| match rule.when {
        When::Always => Fate::Always(rule.verdict),
        ref when => {
            let (otherwise, rest) = match otherwise {
                Fate::Always(verdict) => (To::Verdict(verdict), Vec::new()),
                Fate::ByArguments(steps) => (To::Next, steps),
            };
            let mut steps = test(when, To::Verdict(rule.verdict), otherwise);
            steps.extend(rest);
            Fate::ByArguments(steps)
        }
    })
}

/// `otherwise` must be a verdict, or the step right after these.
fn test(when: &When, applies: To, otherwise: To) -> Vec<Step> {
    match *when {
        When::Always => unreachable!("nothing to be tested"),
        When::AnyBit { argument, mask } => vec![
            load_argument(argument),
            Step::Do { code: BPF_ALU | BPF_AND | BPF_K, k: mask },
            Step::Test { test: BPF_JEQ, k: 0, yes: otherwise, no: applies },
        ],
        When::NoBit { argument, mask } => test(&When::AnyBit { argument, mask }, otherwise, applies),
        When::Equals { argument, value } => {
            vec![load_argument(argument), Step::Test { test: BPF_JEQ, k: value, yes: applies, no: otherwise }]
        }
        When::NotIn { argument, values } => test(&When::MaskedNotIn { argument, mask: u32::MAX, values }, applies, otherwise),
        When::MaskedNotIn { argument, mask, values } => {
            let tests = values.iter().rev().enumerate().map(|(left, value)| Step::Test {
                test: BPF_JEQ,
                k: *value,
                yes: if otherwise == To::Next { To::Over(left) } else { otherwise },
                no: if left == 0 { applies } else { To::Next },
            });
            let tests: Vec<_> = tests.collect();
            let masked = (mask != u32::MAX).then_some(Step::Do { code: BPF_ALU | BPF_AND | BPF_K, k: mask });
            [load_argument(argument)].into_iter().chain(masked).chain(tests.into_iter().rev()).collect()
        }
    }
}

/// Searches the loaded number in sorted ranges. `tests`: collects the argument tests that are needed, each once.
fn search<'a>(ranges: &'a [Range], steps: &mut Vec<Step>, tests: &mut Vec<&'a [Step]>) {
    let allow = To::Verdict(Verdict::Allow);
    match ranges {
        [] => steps.push(Step::Test { test: BPF_JGE, k: 0, yes: allow, no: allow }),
        [Range { first, last, fate }] => {
            let found = match fate {
                Fate::Always(verdict) => To::Verdict(*verdict),
                Fate::ByArguments(needed) => To::Tests(tests.iter().position(|known| *known == needed).unwrap_or_else(|| {
                    tests.push(needed);
                    tests.len() - 1
                })),
            };
            if first == last {
                steps.push(Step::Test { test: BPF_JEQ, k: *first, yes: found, no: allow });
            } else {
                steps.push(Step::Test { test: BPF_JGE, k: *first, yes: To::Next, no: allow });
                steps.push(Step::Test { test: BPF_JGE, k: *last + 1, yes: allow, no: found });
            }
        }
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let here = steps.len();
            let fork = |below| Step::Test { test: BPF_JGE, k: high[0].first, yes: To::Over(below), no: To::Next };
            steps.push(fork(0));
            search(low, steps, tests);
            steps[here] = fork(steps.len() - here - 1);
            search(high, steps, tests);
        }
    }
}

fn load(offset: u32) -> Step {
    Step::Do { code: BPF_LD | BPF_W | BPF_ABS, k: offset }
}

/// The low half: both architectures are little-endian.
fn load_argument(number: u8) -> Step {
    load(ARGUMENTS_OFFSET + 8 * u32::from(number))
}

fn ret(verdict: Verdict) -> sock_filter {
    let action = match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32,
        Verdict::Done => libc::SECCOMP_RET_ERRNO,
        Verdict::Notify => libc::SECCOMP_RET_USER_NOTIF,
    };
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action }
}

const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Whether [`install`] can work here. Installs nothing: the kernel checks the flags before it reads the program.
pub fn is_supported() -> bool {
    let nowhere: *const libc::sock_fprog = std::ptr::null();
    // SAFETY: the kernel checks the pointer; a null pointer gives EFAULT.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, nowhere) };
    checked(|| "seccomp(SECCOMP_SET_MODE_FILTER)".into(), result).is_err_and(|error| error.errno() == Errno::FAULT)
}

/// Installs the filter on this thread and everything it starts. Needs no_new_privs.
///
/// `WAIT_KILLABLE_RECV` (5.19): without it a signal interrupts a call that the broker is already performing, and the
/// client would see EINTR for a mount that exists.
pub fn install(program: &[sock_filter]) -> Result<OwnedFd> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` describes a live slice, which the kernel only reads.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, &raw const program) };
    let listener = checked(|| "seccomp(SECCOMP_SET_MODE_FILTER)".into(), result)?;
    // SAFETY: with NEW_LISTENER a success is a new descriptor that nothing else owns.
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

/// Whether the caller was still waiting when the answer was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Yes,
    Gone,
}

/// The next waiting call. `None`: its thread died before we received it.
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

/// Whether the call still waits. If so, what was read from /proc/TID before belongs to that very thread, not to a later
/// one with the same tid.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one u64 from the pointer, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers a call. There is deliberately no way to let the kernel continue it (TOCTOU): it would read the caller's
/// memory again, after we checked a copy.
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

/// Answers with a new descriptor in the caller's table, a duplicate of `fd` (5.14).
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

/// Whether the caller's new descriptor survives execve.
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
            Rule { number: 9, when: When::NoBit { argument: 0, mask: 0x40 }, verdict: Verdict::Allow },
            Rule { number: 9, when: When::AnyBit { argument: 1, mask: 0x30 }, verdict: Verdict::Refuse(Errno::PERM) },
            Rule {
                number: 10,
                when: When::MaskedNotIn { argument: 1, mask: 0xf, values: &[1, 5] },
                verdict: Verdict::Refuse(Errno::ACCESS),
            },
        ];
        let program = compile(&rules, 10);
        let allow = libc::SECCOMP_RET_ALLOW;
        let rows = [
            ("an unnamed call is allowed", 0, [0; 6], allow),
            ("the newest known call is judged", 10, [0; 6], refuse(Errno::ACCESS)),
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
            ("a bit that the first rule lets pass", 9, [0x80, 0x30, 0, 0, 0, 0], allow),
            ("a bit that the first rule leaves to the second", 9, [0x40, 0x10, 0, 0, 0, 0], refuse(Errno::PERM)),
            ("no bit for the second rule", 9, [0x40, 0x40, 0, 0, 0, 0], allow),
            ("a listed value with flags", 10, [0, 0x80805, 0, 0, 0, 0], allow),
            ("an unlisted value with flags", 10, [0, 0x80802, 0, 0, 0, 0], refuse(Errno::ACCESS)),
            ("a call newer than the table", 11, [0; 6], refuse(Errno::NOSYS)),
            ("an x32 call", 0x4000_0001, [0; 6], refuse(Errno::NOSYS)),
        ];
        for (name, number, arguments, verdict) in rows {
            assert_eq!(run(&program, ARCHITECTURE, number, arguments), verdict, "{name}");
        }
        assert_eq!(run(&program, 0x4000_0003, 1, [0; 6]), refuse(Errno::NOSYS), "a foreign architecture");
    }
}
