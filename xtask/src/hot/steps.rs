//! A program, one instruction at a time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The places within `text` that the program executes, and what it forks, each until it executes another program or ends.
pub(super) fn of(command: &mut Command, text: Range<u64>) -> Result<BTreeSet<u64>> {
    // It stops itself before it begins, so that we can come.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"kill -STOP $$; exec "$@""#, "sh"]).arg(command.get_program()).args(command.get_args());
    let first = pid(shell.spawn().context("cannot start a shell")?.id())?;
    ptrace::attach(first).context("cannot trace")?;
    let mut traced = Traced { first, begun: false, alive: 1, seen: BTreeSet::new() };
    while traced.alive > 0 {
        let happened = waitpid(None, Some(WaitPidFlag::__WALL)).context("cannot wait for what is traced")?;
        traced.follow(happened, &text)?;
    }
    ensure!(traced.begun, "it did not begin");
    Ok(traced.seen)
}

struct Traced {
    first: Pid,
    /// The shell has become the program.
    begun: bool,
    alive: usize,
    seen: BTreeSet<u64>,
}

impl Traced {
    fn follow(&mut self, happened: WaitStatus, text: &Range<u64>) -> Result<()> {
        match happened {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => self.alive -= 1,
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) if pid == self.first && !self.begun => {
                self.begun = true;
                ptrace::step(pid, None)?;
            }
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) => {
                self.alive -= 1;
                ptrace::detach(pid, None)?;
            }
            WaitStatus::PtraceEvent(pid, ..) => {
                self.alive += 1;
                ptrace::step(pid, None)?;
            }
            WaitStatus::Stopped(pid, signal) if !self.begun => {
                let options =
                    Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK | Options::PTRACE_O_TRACECLONE;
                ptrace::setoptions(pid, options)?;
                let passed_on = if signal == Signal::SIGSTOP { Signal::SIGCONT } else { signal };
                ptrace::cont(pid, passed_on)?;
            }
            WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                let at = ptrace::getregs(pid)?.rip;
                if text.contains(&at) {
                    self.seen.insert(at);
                }
                ptrace::step(pid, None)?;
            }
            // A new one begins with this.
            WaitStatus::Stopped(pid, Signal::SIGSTOP) => ptrace::step(pid, None)?,
            WaitStatus::Stopped(pid, signal) => ptrace::step(pid, signal)?,
            _ => {}
        }
        Ok(())
    }
}

fn pid(number: u32) -> Result<Pid> {
    Ok(Pid::from_raw(number.try_into().context("no process has that number")?))
}
