//! A program, one instruction at a time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The places within `text` that the program executes, and what it forks, each until it executes another program or ends. In the
/// order in which they are reached.
pub(super) fn of(command: &mut Command, text: Range<u64>) -> Result<Vec<u64>> {
    // It stops itself before it begins, so that we can come.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"kill -STOP $$; exec "$@""#, "sh"]).arg(command.get_program()).args(command.get_args());
    let first = pid(shell.spawn().context("cannot start a shell")?.id())?;
    let events = Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK | Options::PTRACE_O_TRACECLONE;
    ptrace::seize(first, events).context("cannot trace")?;
    let (alive, met) = (BTreeSet::from([first]), BTreeSet::from([first]));
    let mut traced = Traced { stage: Stage::Shell, alive, met, seen: BTreeSet::new(), order: Vec::new() };
    while !traced.alive.is_empty() {
        let happened = waitpid(None, Some(WaitPidFlag::__WALL)).context("cannot wait for what is traced")?;
        traced.follow(happened, &text)?;
    }
    ensure!(traced.stage == Stage::Program, "it did not begin");
    Ok(traced.order)
}

struct Traced {
    stage: Stage,
    /// Others may end beside them: what an earlier mount left to us.
    alive: BTreeSet<Pid>,
    /// Also those that have gone: of a new one we hear twice, and once may be after its end.
    met: BTreeSet<Pid>,
    seen: BTreeSet<u64>,
    order: Vec<u64>,
}

/// What the first one is.
#[derive(PartialEq)]
enum Stage {
    Shell,
    /// Its next program is ours.
    ShellThatStopped,
    Program,
}

impl Traced {
    fn meet(&mut self, pid: Pid) {
        if self.met.insert(pid) {
            self.alive.insert(pid);
        }
    }

    fn follow(&mut self, happened: WaitStatus, text: &Range<u64>) -> Result<()> {
        let begun = self.stage == Stage::Program;
        match happened {
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => drop(self.alive.remove(&pid)),
            WaitStatus::PtraceEvent(pid, Signal::SIGSTOP, libc::PTRACE_EVENT_STOP) if !begun => {
                self.stage = Stage::ShellThatStopped;
                signal::kill(pid, Signal::SIGCONT)?;
                ptrace::cont(pid, None)?;
            }
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) if self.stage == Stage::ShellThatStopped => {
                self.stage = Stage::Program;
                ptrace::step(pid, None)?;
            }
            WaitStatus::PtraceEvent(pid, ..) if !begun => ptrace::cont(pid, None)?,
            WaitStatus::Stopped(pid, signal) if !begun => ptrace::cont(pid, signal)?,
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) => {
                self.alive.remove(&pid);
                ptrace::detach(pid, None)?;
            }
            // A new one begins with this.
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_STOP) => {
                self.meet(pid);
                ptrace::step(pid, None)?;
            }
            WaitStatus::PtraceEvent(pid, ..) => {
                self.meet(Pid::from_raw(ptrace::getevent(pid)?.try_into().context("no process has that number")?));
                ptrace::step(pid, None)?;
            }
            WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                let at = ptrace::getregs(pid)?.rip;
                if text.contains(&at) && self.seen.insert(at) {
                    self.order.push(at);
                }
                ptrace::step(pid, None)?;
            }
            WaitStatus::Stopped(pid, signal) => ptrace::step(pid, signal)?,
            _ => {}
        }
        Ok(())
    }
}

fn pid(number: u32) -> Result<Pid> {
    Ok(Pid::from_raw(number.try_into().context("no process has that number")?))
}
