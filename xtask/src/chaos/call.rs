//! One call of a program, with a deadline: what hangs is a finding, not the end of the storm.

use std::fs::File;
use std::io::{PipeWriter, Read as _, Seek as _};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

/// The longest that any call of the storm allows itself is 2 s, and umount has 10 s; the rest is for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Answer {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) words: String,
    pub(crate) took: Duration,
    pub(crate) hung: bool,
    pub(crate) what: String,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        self.code == Some(0)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, words, took, hung, what } = self;
        write!(out, "`{what}` gave {code:?}{} after {took:?}: {}", if *hung { " (hung)" } else { "" }, words.trim())
    }
}

pub(crate) struct Called {
    child: Child,
    /// The other end is the standard input of the program and of the programs that it starts; our keeper and clients do not have it.
    input: PipeWriter,
    output: File,
    started: Instant,
    what: String,
}

impl Called {
    pub(crate) fn start(mut command: Command) -> std::io::Result<Self> {
        // A file, not a pipe: long-lived processes may hold it.
        let output = tempfile::tempfile()?;
        let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy()).collect();
        let what = words.join(" ");
        let (reader, input) = std::io::pipe()?;
        command.stdin(reader).stdout(output.try_clone()?).stderr(output.try_clone()?);
        Ok(Self { child: command.spawn()?, input, output, started: Instant::now(), what })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for the helpers that the program started, too: mount(8) can be killed while its helper goes on.
    pub(crate) fn finish_with_helpers(self) -> std::io::Result<Answer> {
        let input = self.input.try_clone()?;
        let answer = self.finish();
        // A pipe without readers is an error for its writer.
        let timeout = rustix::time::Timespec::try_from(DEADLINE).map_err(std::io::Error::other)?;
        rustix::event::poll(&mut [PollFd::new(&input, PollFlags::empty())], Some(&timeout))?;
        Ok(answer)
    }

    pub(crate) fn finish(mut self) -> Answer {
        let mut hung = false;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if self.started.elapsed() > DEADLINE + Duration::from_secs(5) => break None,
                Ok(None) if self.started.elapsed() > DEADLINE && !hung => {
                    hung = true;
                    let _ = self.child.kill();
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => break None,
            }
        };
        let mut words = Vec::new();
        let _ = self.output.rewind().and_then(|()| self.output.read_to_end(&mut words));
        let words = String::from_utf8_lossy(&words).into_owned();
        Answer {
            code: status.and_then(|status| status.code()),
            words,
            took: self.started.elapsed(),
            hung: hung || status.is_none(),
            what: self.what,
        }
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: Command) -> Answer {
    let what = format!("{command:?}");
    match Called::start(command) {
        Ok(called) => called.finish(),
        Err(error) => Answer { code: None, words: error.to_string(), took: Duration::ZERO, hung: false, what },
    }
}
