//! Runs one row in a process of its own. In: a row. Out: a verdict, whatever the row does to itself.

use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use crate::outcome::{Group, Outcome, Row};
use crate::sandbox::Sandbox;
use crate::sys;

/// Longer than any row takes by itself; a row that is still there was stalled by something.
const DEADLINE: Duration = Duration::from_secs(25);

#[derive(Debug)]
pub(crate) enum Verdict {
    Refused(String),
    Succeeded(String),
    /// The row's process died before it could say anything.
    Crashed(String),
    Hung,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, detail) = match self {
            Verdict::Refused(how) => ("refused", how.clone()),
            Verdict::Succeeded(what) => ("succeeded", what.clone()),
            Verdict::Crashed(how) => ("crashed", how.clone()),
            Verdict::Hung => ("hung", format!("no end within {} s", DEADLINE.as_secs())),
        };
        // One row is one line of tab-separated fields, also when a path in the detail holds a newline.
        write!(f, "{word}\t{}", detail.replace(['\t', '\n'], " "))
    }
}

pub(crate) fn row(sandbox: &Sandbox, row: &Row) -> Verdict {
    let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
    let child = match sys::fork() {
        Ok(None) => attempt(sandbox, row, writer),
        Ok(Some(child)) => child,
        Err(errno) => return Verdict::Crashed(format!("fork: {errno}")),
    };
    drop(writer);
    // Both sides do it, so that it is done no matter which is first.
    let _ = sys::call(libc::SYS_setpgid, [child as usize, child as usize]);
    let verdict = listen(&mut reader, child, row.group);
    let _ = sys::kill(-child, libc::SIGKILL);
    while sys::wait(-1, libc::WNOHANG).is_some() {}
    verdict
}

fn attempt(sandbox: &Sandbox, row: &Row, mut writer: std::io::PipeWriter) -> ! {
    let _ = sys::call(libc::SYS_setpgid, [0, 0]);
    // When memory runs out, the kernel shall take the row and not the runner.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let message = match (row.attempt)(sandbox) {
        Outcome::Refused(how) => format!("r{how}"),
        Outcome::Succeeded(what) => format!("s{what}"),
    };
    // One write of less than PIPE_BUF: it arrives whole or not at all.
    let end = message.len().min(2000);
    let _ = writer.write_all(&message.as_bytes()[..end]);
    sys::exit(0)
}

/// The pipe's end of file says nothing: processes that the row left behind hold it open too.
fn listen(reader: &mut std::io::PipeReader, child: pid_t, group: Group) -> Verdict {
    let started = Instant::now();
    while started.elapsed() < DEADLINE {
        let ended = sys::wait(child, libc::WNOHANG);
        if readable(reader.as_raw_fd(), if ended.is_some() { 0 } else { 20 }) {
            let mut message = vec![0; 4096];
            let length = reader.read(&mut message).unwrap_or(0);
            if let Some(verdict) = decode(&message[..length]) {
                settle(child);
                return verdict;
            }
        }
        if let Some(status) = ended {
            return describe_death(status, group);
        }
    }
    Verdict::Hung
}

fn decode(message: &[u8]) -> Option<Verdict> {
    let (first, text) = message.split_first()?;
    let text = String::from_utf8_lossy(text).into_owned();
    Some(if *first == b's' { Verdict::Succeeded(text) } else { Verdict::Refused(text) })
}

fn describe_death(status: c_int, group: Group) -> Verdict {
    if !libc::WIFSIGNALED(status) {
        return Verdict::Crashed(format!("exit status {}", libc::WEXITSTATUS(status)));
    }
    match libc::WTERMSIG(status) {
        libc::SIGSYS => Verdict::Refused("killed by the seccomp filter".into()),
        // Of what it holds in files the kernel cannot tell whose it is, so it may kill the row instead of the row's child.
        libc::SIGKILL if group == Group::Deadly => Verdict::Refused("killed, most likely for want of memory".into()),
        signal => Verdict::Crashed(format!("signal {signal}")),
    }
}

/// The row has spoken and is about to exit; the kill that follows must not make its exit look like something else.
fn settle(child: pid_t) {
    for _ in 0..50 {
        if sys::wait(child, libc::WNOHANG).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn readable(fd: c_int, milliseconds: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, of which the count says one, on the stack until the call returns.
    let ready = unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
    ready > 0 && poll.revents & libc::POLLIN != 0
}
