//! Runs a program with a deadline, and collects its output.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// No program in these tests may take longer; calls that should fail sooner have their own `--timeout`.
const DEADLINE: Duration = Duration::from_secs(90);

/// A caller like kubelet waits for the end of our output, not of our process: processes that live on must have closed it.
const OUTPUT_ENDS_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Ran {
    /// None: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
    what: String,
}

impl Ran {
    /// Panics with the program's whole output, unless it exited with 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\nstdout: {}\nstderr: {}", self.what, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{}\nshould say `{words}`, but says: {}", self.what, self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{}: {error} in {}", self.what, self.stdout))
    }
}

/// Runs a program of the machine; its success is part of the test's set-up.
#[track_caller]
pub fn run(words: &[&str]) -> Ran {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    finish(command).succeeds()
}

#[track_caller]
pub fn finish(command: Command) -> Ran {
    Running::start(command).finish()
}

/// A program that was started and that the test will finish or kill.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    started: Instant,
    what: String,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let what = describe(&command);
        let started = Instant::now();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let stdout = read_in_background(child.stdout.take().expect("stdout is a pipe"));
        let stderr = read_in_background(child.stderr.take().expect("stderr is a pipe"));
        Self { child, stdout, stderr, started, what }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Like Ctrl-C in a terminal: for a program that was started in its own process group.
    pub fn interrupt(&self) {
        // It may have ended already, which is fine.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), rustix::process::Signal::INT);
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("cannot kill a child that was not waited for");
    }

    #[track_caller]
    pub fn finish(mut self) -> Ran {
        if !self.ends_within(DEADLINE) {
            self.kill();
            let said = [&self.stdout, &self.stderr].map(|output| text(output.recv_timeout(OUTPUT_ENDS_WITHIN).ok()));
            panic!("{} did not end within {DEADLINE:?}; it said {said:?}", self.what);
        }
        let took = self.started.elapsed();
        let status = self.child.wait().expect("a child can be waited for");
        let end_of = |output: &Receiver<Vec<u8>>, name| {
            let bytes = output.recv_timeout(OUTPUT_ENDS_WITHIN).ok();
            assert!(bytes.is_some(), "{} has ended, but another process holds its {name} open", self.what);
            text(bytes)
        };
        let (stdout, stderr) = (end_of(&self.stdout, "stdout"), end_of(&self.stderr, "stderr"));
        Ran { code: status.code(), stdout, stderr, took, what: self.what.clone() }
    }

    fn ends_within(&self, time: Duration) -> bool {
        let pid = Pid::from_child(&self.child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("a child has a pidfd until it is waited for");
        let time = Timespec::try_from(time).expect("a deadline of seconds");
        let ready = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)).expect("cannot poll a pidfd");
        ready > 0
    }
}

fn read_in_background(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if pipe.read_to_end(&mut bytes).is_ok() {
            drop(sender.send(bytes)); // the receiver is gone: the test has failed for another reason
        }
    });
    receiver
}

fn text(bytes: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
