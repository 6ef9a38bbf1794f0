//! One way to mount: a command line, timed from its start until the mount can be used, and how it is undone.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use shorefast_tests::Host;

use super::filesystem::Filesystem;
use super::numbers::{FILTERED, NATIVE, NATIVE_AGAIN, SHOREFAST};

/// No mount takes longer, in no way.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    words: Vec<OsString>,
    life: Life,
    target: PathBuf,
    /// What the command says is seen only if it fails; a file costs it no time, a pipe would.
    said: PathBuf,
}

#[derive(Debug)]
enum Life {
    /// It mounts and returns.
    Returns,
    /// It mounts and stays, until this ends it.
    Stays { end: Vec<OsString> },
}

/// A mount that is there; [`Live::end`] unmounts it.
#[derive(Debug)]
#[must_use]
pub(super) struct Live<'a> {
    pub(super) took: Duration,
    way: &'a Way,
    stays: Option<Child>,
}

impl Way {
    pub(super) fn native(filesystem: &Filesystem, target: &Path) -> Self {
        Self::new(NATIVE, filesystem.native(target), Life::Returns, target)
    }

    /// The same once more: by how much one way seems to be slower than itself.
    pub(super) fn native_again(filesystem: &Filesystem, target: &Path) -> Self {
        Self::new(NATIVE_AGAIN, filesystem.native(target), Life::Returns, target)
    }

    /// The host's own client, with a seccomp filter, which does nothing: what any sandbox costs.
    pub(super) fn filtered(filesystem: &Filesystem, target: &Path) -> Result<Self> {
        let ourselves = env::current_exe().context("cannot find ourselves")?;
        let words = [ourselves.into(), "filtered".into()].into_iter().chain(filesystem.native(target)).collect();
        Ok(Self::new(FILTERED, words, Life::Returns, target))
    }

    pub(super) fn shorefast(host: &Host, filesystem: &Filesystem, target: &Path) -> Self {
        Self::new(SHOREFAST, filesystem.sandboxed(host, target), Life::Returns, target)
    }

    pub(super) fn container(name: &'static str, words: Vec<OsString>, end: Vec<OsString>, target: &Path) -> Self {
        Self::new(name, words, Life::Stays { end }, target)
    }

    fn new(name: &'static str, words: Vec<OsString>, life: Life, target: &Path) -> Self {
        Self { name, words, life, target: target.to_owned(), said: target.with_added_extension("stderr") }
    }

    pub(super) fn mount(&self) -> Result<Live<'_>> {
        let mounted = match self.life {
            Life::Returns => self.until_it_returns(),
            Life::Stays { .. } => self.until_it_appears(),
        };
        mounted.with_context(|| {
            let line: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
            format!("{}: {}\n{}", self.name, line.join(" "), self.said())
        })
    }

    /// What the command said on stderr when it ran last.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default().trim_end().to_owned()
    }

    pub(super) fn is_served(&self) -> bool {
        let below = self.target.parent().map(device);
        below.is_some_and(|below| below.is_ok_and(|below| device(&self.target).is_ok_and(|root| root != below)))
    }

    fn until_it_returns(&self) -> Result<Live<'_>> {
        let below = device(self.target.parent().expect("a target is in a directory"))?;
        let mut command = self.command()?;
        let start = Instant::now();
        let status = command.spawn().and_then(|mut child| child.wait());
        let root = device(&self.target);
        let took = start.elapsed();
        let status = status.context("cannot start it")?;
        ensure!(status.success(), "{status}");
        ensure!(root? != below, "it succeeded, and nothing is mounted");
        Ok(Live { took, way: self, stays: None })
    }

    /// The kernel wakes us with each change of the mount table: no time is lost, and none taken from what is measured.
    fn until_it_appears(&self) -> Result<Live<'_>> {
        let below = device(self.target.parent().expect("a target is in a directory"))?;
        let table = File::open("/proc/thread-self/mountinfo").context("cannot open the mount table")?;
        let patience = Timespec::try_from(PATIENCE).expect("a deadline of seconds");
        let mut command = self.command()?;
        let start = Instant::now();
        let child = command.spawn().context("cannot start it")?;
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("cannot watch it")?;
        while device(&self.target)? == below {
            let mut events = [PollFd::new(&table, PollFlags::PRI), PollFd::new(&process, PollFlags::IN)];
            let changes = poll(&mut events, Some(&patience)).context("cannot wait for changes")?;
            ensure!(changes > 0, "nothing is mounted after {PATIENCE:?}");
            ensure!(events[1].revents().is_empty(), "it ended, and nothing is mounted");
        }
        Ok(Live { took: start.elapsed(), way: self, stays: Some(child) })
    }

    /// To start it by oneself, and not to wait.
    pub(super) fn command(&self) -> Result<Command> {
        let said = File::create(&self.said).with_context(|| format!("cannot create {}", self.said.display()))?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Ok(command)
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    pub(super) fn unmount(&self) -> Result<()> {
        unmount(&self.target, UnmountFlags::empty()).with_context(|| format!("cannot unmount {}", self.target.display()))
    }
}

impl Live<'_> {
    /// Does not wait for daemons to end: [`super::calm::Calm`] does.
    pub(super) fn end(self) -> Result<()> {
        self.way.unmount()?;
        if let (Life::Stays { end }, Some(mut child)) = (&self.way.life, self.stays) {
            // It fails when the unmount has already ended the container.
            let _ = Command::new(&end[0]).args(&end[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            child.wait().context("cannot wait for a container")?;
        }
        Ok(())
    }
}

fn device(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok(metadata.dev())
}
