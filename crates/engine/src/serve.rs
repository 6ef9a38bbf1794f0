//! In: a launched client. Out: a mount that the client serves, or the reason why not.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use shorefast_broker::Mounted;
use shorefast_sandbox::handshake::Event;
use shorefast_sandbox::{Client, Error as SandboxError};
use shorefast_sys as sys;
use sys::bounded_call::Pending;

use crate::definition::{Daemon, Services};
use crate::error::{Awaited, Diagnostics, Error};
use crate::kill_point::{self, Point};
use crate::last_words;
use crate::mount_source::MountSource;
use crate::wait_status::WaitStatus;

/// How far the client has come.
#[derive(Debug, Default)]
struct Progress {
    helper: Option<WaitStatus>,
    probe: Option<Probe>,
    serves: bool,
    /// The mount is no longer served. The helper may still report why.
    died: Option<Died>,
}

#[derive(Debug)]
struct Died {
    why: std::io::Error,
    patience: Instant,
}

/// How long a helper whose mount died may take to report it and exit.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The usual time to the next event from a client that waits for nothing.
const SOON: Duration = Duration::from_millis(1);
const NOW: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };

/// Poll interval for a client that mounts by itself, without calls to us.
const LOOK: Duration = Duration::from_millis(10);

/// Answers the client's calls until its mount is complete: mounted, served, and its helper has exited with success. Anything else is an
/// error, by the deadline at the latest. `on_mount` is called for each mount, while the client goes on.
pub fn until_complete(
    client: &Client,
    maker: &mut MountSource<'_>,
    context: &ServeContext<'_>,
    mut on_mount: impl FnMut(&Mounted) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut progress = Progress::default();
    while !progress.is_complete(maker, context.daemon) {
        let advanced = progress.advance(client, maker, context).and_then(|()| progress.follow(maker, &mut on_mount));
        advanced.and_then(|()| progress.check(maker, context.daemon)).map_err(|failure| failure.explain(maker, context))?;
    }
    Ok(())
}

/// A client that ended between its last event and its release.
pub fn ended_early(context: &ServeContext<'_>) -> Error {
    Error::ClientEnded { said: Diagnostics { helper: context.last_words(), refused: Vec::new() } }
}

/// What counts as complete, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct ServeContext<'a> {
    pub daemon: Daemon,
    pub deadline: Instant,
    pub allowed: Duration,
    /// The client's output, for errors.
    pub log: &'a Path,
    /// The path that the client should have mounted at.
    pub target: &'a Path,
    /// Services beside its mounts.
    pub services: &'a [Services],
}

impl ServeContext<'_> {
    fn last_words(&self) -> Vec<String> {
        last_words::of(&sys::ring::Log::read(self.log).unwrap_or_default(), self.target)
    }
}

/// What went wrong, without the helper's output and the broker's refusals.
enum Failure {
    Helper(Option<i32>, String),
    NothingMounted,
    NotServing(std::io::Error),
    Ended,
    Deadline { allowed: Duration, waiting_for: Awaited },
    Other(Error),
}

impl Failure {
    fn explain(self, maker: &MountSource<'_>, context: &ServeContext<'_>) -> Error {
        let said = || Diagnostics { helper: context.last_words(), refused: maker.refused() };
        match self {
            Self::Helper(code, status) => Error::Helper { status, code, said: said() },
            Self::NothingMounted => Error::NothingMounted { said: said() },
            Self::NotServing(source) => Error::NotServing { source, said: said() },
            Self::Ended => Error::ClientEnded { said: said() },
            Self::Deadline { allowed, waiting_for } => Error::Deadline { seconds: allowed.as_secs(), waiting_for, said: said() },
            Self::Other(error) => error,
        }
    }
}

impl Progress {
    fn is_complete(&self, maker: &MountSource<'_>, daemon: Daemon) -> bool {
        let helper_done = match daemon {
            Daemon::Forks => self.helper.is_some(),
            Daemon::Foreground => true,
        };
        maker.mounted().is_some() && self.serves && helper_done
    }

    /// Waits for the next event and handles it.
    fn advance(&mut self, client: &Client, maker: &mut MountSource<'_>, context: &ServeContext<'_>) -> Result<(), Failure> {
        let until = self.died.as_ref().map_or(context.deadline, |died| died.patience.min(context.deadline));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(match self.died.take() {
                Some(died) => Failure::NotServing(died.why),
                None => Failure::Deadline { allowed: context.allowed, waiting_for: self.waiting_for(maker) },
            });
        }
        let left = if self.is_looked_for(maker, context.daemon) { left.min(LOOK) } else { left };
        let timeout = sys::deadline::timespec(left);
        // Once it has mounted, two of its processes may be at work until one of them is done: do not spin, leave the CPUs to them.
        let is_alone = maker.mounted().is_none() || self.helper.is_some() || self.serves;
        let (calls, word, probed) = {
            let (listener, control) = (maker.listener(), client.control());
            let readable = |fd| PollFd::new(fd, PollFlags::IN);
            let mut fds: Vec<_> = std::iter::once(readable(&control)).collect();
            fds.extend(listener.as_ref().map(readable));
            fds.extend(self.probe.as_ref().map(|probe| PollFd::from_borrowed_fd(probe.0.pidfd(), PollFlags::IN)));
            if is_alone {
                sys::scheduling::stay_awake_for(SOON, || rustix::event::poll(&mut fds, Some(&NOW)) != Ok(0));
            }
            let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timeout)));
            ready.map_err(|errno| Failure::Other(Error::Wait(sys::Error::new("poll()", errno))))?;
            let is = |n: usize, flags: PollFlags| fds.get(n).is_some_and(|fd| fd.revents().intersects(flags));
            let heard = usize::from(listener.is_some());
            (heard > 0 && is(1, PollFlags::IN), is(0, PollFlags::IN | PollFlags::HUP), is(1 + heard, PollFlags::IN))
        };
        if calls {
            maker.advance().map_err(Failure::Other)?;
            kill_point::pass(Point::CallAnswered);
            if let Some(failed) = maker.services_failed() {
                let is_one = |services: &&Services| services.run.iter().any(|service| failed.names.contains(&service.name));
                let otherwise = context.services.iter().find(is_one).and_then(|services| services.otherwise.clone());
                return Err(Failure::Other(Error::NoServices { problem: failed.problem.clone(), otherwise }));
            }
        } else if word {
            // Only when no call is pending: a helper's last call comes before its exit.
            self.helper = Some(helper_status(client)?);
        }
        if self.is_looked_for(maker, context.daemon) {
            maker.advance().map_err(Failure::Other)?;
            kill_point::pass(Point::CallAnswered);
        }
        if probed && let Some(probe) = self.probe.take() {
            match probe.finish() {
                Ok(()) => self.serves = true,
                Err(why) => self.died = Some(Died { why, patience: Instant::now() + LAST_WORDS }),
            }
        }
        Ok(())
    }

    /// Whether the client mounts by itself and may have done so by now: one that forks exits when it is done.
    fn is_looked_for(&self, maker: &MountSource<'_>, daemon: Daemon) -> bool {
        let may_have = daemon == Daemon::Foreground || self.helper.is_some();
        matches!(maker, MountSource::Client(_)) && maker.mounted().is_none() && may_have
    }

    /// Checks whether a new mount is served; a kernel filesystem always is.
    fn follow(&mut self, maker: &MountSource<'_>, on_mount: &mut impl FnMut(&Mounted) -> Result<(), Error>) -> Result<(), Failure> {
        match maker.mounted() {
            None => {
                self.serves = false;
                self.probe = None;
                self.died = None;
            }
            Some(_) if self.serves || self.probe.is_some() || self.died.is_some() => {}
            Some(mounted) => {
                if mounted.is_fuse {
                    self.probe = Some(Probe::start(mounted).map_err(Failure::Other)?);
                } else {
                    self.serves = true;
                }
                on_mount(mounted).map_err(Failure::Other)?;
            }
        }
        Ok(())
    }

    fn check(&self, maker: &MountSource<'_>, daemon: Daemon) -> Result<(), Failure> {
        match &self.helper {
            None => Ok(()),
            Some(status) if status.code() != Some(0) => Err(Failure::Helper(status.code(), status.to_string())),
            Some(_) if maker.mounted().is_none() => Err(Failure::NothingMounted),
            Some(_) if daemon == Daemon::Foreground => Err(Failure::Ended),
            Some(_) => Ok(()),
        }
    }

    fn waiting_for(&self, maker: &MountSource<'_>) -> Awaited {
        if maker.met_silence() {
            Awaited::Server
        } else if maker.mounted().is_none() {
            Awaited::Mount
        } else if self.serves {
            Awaited::HelperEnd
        } else {
            Awaited::Service
        }
    }
}

fn helper_status(client: &Client) -> Result<WaitStatus, Failure> {
    match client.receive() {
        Ok(Event::HelperEnded(status)) => Ok(WaitStatus(status)),
        Ok(Event::NotExecuted(text)) => Err(Failure::Other(Error::Sandbox(SandboxError::Execute(text)))),
        Ok(Event::Failed(text)) => Err(Failure::Other(Error::Sandbox(SandboxError::Inside(text)))),
        Ok(Event::Standing | Event::Ready | Event::Filtered(_)) | Err(_) => Err(Failure::Ended),
    }
}

/// Asks a FUSE mount for its root's attributes. The reply comes when the client serves, or at once if it died. Until then the process that
/// asks is blocked, uninterruptibly if the client has read the request and does not reply; this process is not, and can be killed.
#[derive(Debug)]
struct Probe(Pending<()>);

impl Probe {
    fn start(mounted: &Mounted) -> Result<Self, Error> {
        sys::bounded_call::look_at(mounted.mount.as_fd()).map(Self).map_err(Error::Wait)
    }

    fn finish(self) -> std::io::Result<()> {
        match self.0.answer() {
            // Any reply counts, an error from the server included; these come from the kernel: no server holds the connection, or it does
            // not speak FUSE.
            Some(Err(errno @ (Errno::NOTCONN | Errno::CONNABORTED | Errno::CONNREFUSED))) => Err(errno.into()),
            Some(_) => Ok(()),
            None => Err(Errno::INTR.into()),
        }
    }
}
