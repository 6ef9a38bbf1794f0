//! The asking side: may be called by any thread of a process that lives for months. A finished operation leaves nothing behind here: no
//! process, no descriptor, no thread.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use shorefast_engine::Installation;
use shorefast_engine::error::{Failure, Kind, Step};
use shorefast_sys::deadline;

use crate::job::{Cgroups, Job, Operation, Outcome};
use crate::wire;

/// The internal command that runs a worker.
pub const COMMAND: &str = "__worker";

/// Starts workers.
#[derive(Debug)]
pub struct Workers {
    /// Held open: the file that this process was started from may be replaced by a newer version, or have no name at all.
    program: File,
    installation: Installation,
    cgroups: Cgroups,
    /// Killed, but not gone yet: the kernel may take its time.
    lingering: Mutex<Vec<Lingering>>,
    /// Started, and still without a job: so the next operation does not wait for a process to start.
    spares: Mutex<Vec<Idle>>,
    /// Held by the thread that starts spares.
    refilling: Mutex<()>,
}

/// Operations come in pairs: a volume is staged and published.
const SPARES: usize = 2;

/// A process that was killed, or that has answered, is gone in milliseconds.
const TO_END: Duration = Duration::from_secs(2);
/// A new process reads its job at once.
const TO_TAKE: Duration = Duration::from_secs(10);

impl Workers {
    /// From the binary that is running, which must be Shorefast's.
    pub fn of_this_binary(installation: Installation) -> io::Result<Self> {
        File::open("/proc/self/exe").map(|program| Self::of(program, installation))
    }

    pub fn of(program: File, installation: Installation) -> Self {
        Self {
            program,
            installation,
            cgroups: Cgroups::default(),
            lingering: Mutex::default(),
            spares: Mutex::default(),
            refilling: Mutex::default(),
        }
    }

    pub fn in_cgroups(self, cgroups: Cgroups) -> Self {
        Self { cgroups, ..self }
    }

    /// Does one operation, by the deadline or not at all.
    pub fn ask(&self, operation: Operation, secrets: &[BorrowedFd<'_>], deadline: Instant) -> Outcome {
        match self.start(operation, secrets) {
            Ok(running) => running.wait(deadline),
            Err(error) => failure(Kind::Internal, format!("cannot start a worker: {error}")).into(),
        }
    }

    /// Starts one operation. `secrets`: files or pipes, passed on as they are.
    pub fn start(&self, operation: Operation, secrets: &[BorrowedFd<'_>]) -> io::Result<Running<'_>> {
        self.reap_lingering();
        let job = Job { installation: self.installation.clone(), cgroups: self.cgroups, operation };
        // A spare process that was killed from outside takes no job.
        match self.take_spare().map(|spare| self.give(spare, &job, secrets)) {
            Some(Ok(running)) => Ok(running),
            Some(Err(_)) | None => self.give(self.start_idle()?, &job, secrets),
        }
    }

    fn give(&self, Idle { child, pidfd, socket }: Idle, job: &Job, secrets: &[BorrowedFd<'_>]) -> io::Result<Running<'_>> {
        let running = Running { workers: self, child: Some(child), pidfd, socket, has_answered: false, held: Box::new(()) };
        wire::send(&running.socket, job, secrets).map(|()| running)
    }

    /// Starts the processes for the next operations now. They end when this process does.
    pub fn keep_spares(&self) {
        // Another thread is just doing it.
        let Ok(_only) = self.refilling.try_lock() else { return };
        while self.spares.lock().is_ok_and(|spares| spares.len() < SPARES) {
            // On failure, the next operation starts its own process, and reports why that fails.
            let Ok(idle) = self.start_idle() else { return };
            let Ok(mut spares) = self.spares.lock() else { return };
            spares.push(idle);
        }
    }

    /// The oldest one, which is most likely ready. `None`: there is none.
    fn take_spare(&self) -> Option<Idle> {
        let mut spares = self.spares.lock().ok()?;
        (!spares.is_empty()).then(|| spares.remove(0))
    }

    fn start_idle(&self) -> io::Result<Idle> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_write_timeout(Some(TO_TAKE))?;
        let mut command = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        // A caller in a container entered the host before it asked, so its workers are already there.
        command.arg0("shorefast").arg(COMMAND).env_remove("HOSTPROCPATH").stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let mut child = command.spawn()?;
        // From here on, only the worker has the other end.
        drop(command);
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill().and_then(|()| child.wait());
        })?;
        Ok(Idle { child, pidfd, socket })
    }

    /// Lets go of what was held for workers that are gone by now.
    pub fn reap_lingering(&self) {
        if let Ok(mut lingering) = self.lingering.lock() {
            lingering.retain_mut(|one| !matches!(one.child.try_wait(), Ok(Some(_))));
        }
    }

    /// How many workers were killed and cannot end: they wait for a server in the kernel.
    pub fn lingering(&self) -> usize {
        self.reap_lingering();
        self.lingering.lock().map_or(0, |lingering| lingering.len())
    }
}

/// A worker that waits for its job, and ends without one when its socket is closed.
#[derive(Debug)]
struct Idle {
    child: Child,
    pidfd: OwnedFd,
    socket: UnixStream,
}

#[derive(Debug)]
struct Lingering {
    child: Child,
    /// Released when it is gone.
    _held: Box<dyn Any + Send>,
}

/// An operation in progress. Dropped: cancelled, and nothing of it is left.
#[derive(Debug)]
pub struct Running<'a> {
    workers: &'a Workers,
    /// Until it is reaped.
    child: Option<Child>,
    pidfd: OwnedFd,
    socket: UnixStream,
    has_answered: bool,
    held: Box<dyn Any + Send>,
}

/// Ends an operation that another thread waits for.
#[derive(Debug)]
pub struct Canceller(OwnedFd);

impl Canceller {
    pub fn cancel(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.0, Signal::KILL);
    }
}

impl Running<'_> {
    /// `held` is released when the process is gone.
    #[must_use]
    pub fn holding(self, held: Box<dyn Any + Send>) -> Self {
        let mut running = self;
        running.held = held;
        running
    }

    pub fn canceller(&self) -> io::Result<Canceller> {
        self.pidfd.try_clone().map(Canceller)
    }

    /// Waits for its outcome. At the deadline it is cancelled.
    pub fn wait(mut self, deadline: Instant) -> Outcome {
        self.answer(deadline)
    }

    /// The same, but returns as soon as the answer is there: the process may still be ending, which takes a millisecond that the caller need not
    /// wait for. Once this is dropped, the process is gone.
    pub fn answer(&mut self, deadline: Instant) -> Outcome {
        if !is_ready(self.socket.as_fd(), deadline) {
            self.end(Signal::KILL);
            return failure(Kind::Deadline, "not done within the caller's deadline".to_owned()).into();
        }
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let answer = self.socket.set_read_timeout(Some(left)).and_then(|()| wire::receive(&self.socket));
        match answer {
            Ok((outcome, _)) => {
                self.has_answered = true;
                outcome
            }
            Err(error) => {
                let status = self.end(Signal::CONT);
                failure(kind_of(status), describe(status, &error)).into()
            }
        }
    }

    /// Sends a signal, and waits briefly for the end. `None`: it did not end.
    fn end(&mut self, signal: Signal) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
        if !is_ready(self.pidfd.as_fd(), Instant::now() + TO_END) {
            let _ = child.kill();
        }
        match child.try_wait() {
            Ok(Some(status)) => Some(status),
            _ => {
                if let Ok(mut lingering) = self.workers.lingering.lock() {
                    lingering.push(Lingering { child, _held: std::mem::replace(&mut self.held, Box::new(())) });
                }
                None
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.end(if self.has_answered { Signal::CONT } else { Signal::KILL });
    }
}

fn is_ready(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    deadline::is_readable(fd, deadline).unwrap_or(false)
}

/// Killed from outside: that is how an operation is cancelled.
fn kind_of(status: Option<ExitStatus>) -> Kind {
    if status.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw())) { Kind::Cancelled } else { Kind::Internal }
}

fn describe(status: Option<ExitStatus>, error: &io::Error) -> String {
    match status {
        Some(status) => format!("the worker ended without an answer ({status})"),
        None => format!("the worker's answer cannot be read: {error}"),
    }
}

fn failure(kind: Kind, message: String) -> Failure {
    Failure::new(Step::Start, kind, message)
}
