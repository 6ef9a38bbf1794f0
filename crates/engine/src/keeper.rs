//! In: a sandbox's pidfd. Out: a small process on the host that outlives us and cleans up when the sandbox ends. It is the same few
//! kilobytes as the sandbox's pid 1 (`sys/shim/shim.rs`). It waits for [`Keeper::release`] or for EOF on its control socket, which means
//! that the launching process died. When the sandbox ends, it executes `shorefast __ended ID`, which is [`crate::reconcile::ended`]. A
//! filesystem that the kernel serves has no sandbox, and so no keeper.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use shorefast_sandbox::handshake;
use shorefast_sys as sys;
use sys::process::Child;
use sys::shim::Program;
use sys::{Result, call};

use crate::process::Process;
use crate::record::Record;
use crate::records::Records;
use crate::{origin, recipe, server};

/// The internal command that a keeper executes at the end.
pub const ENDED: &str = "__ended";

/// A keeper that is not released yet. Dropping it tells the keeper that there is nothing to clean up.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    control: OwnedFd,
    released: bool,
}

/// Descriptors that a keeper holds as long as it lives.
#[derive(Debug)]
pub struct Holdings<'a> {
    /// The sandbox's pid 1, as a pidfd.
    pub sandbox: BorrowedFd<'a>,
    /// The mount's log, which contains a copy of the record: if the run directory is lost, the keeper still knows what to clean up.
    pub log: BorrowedFd<'a>,
    /// The mount's recipe; a service has none.
    pub recipe: Option<BorrowedFd<'a>>,
}

/// For a client that may hang in execve(2).
const PATIENCE: Duration = Duration::from_secs(3);

pub fn start(run_dir: &Path, id: &str, holdings: &Holdings<'_>, program: &Program) -> Result<Keeper> {
    let binary = call(|| "open(\"/proc/self/exe\")".into(), File::open("/proc/self/exe"))?;
    let station = origin::station(run_dir)?;
    let arguments = [sys::c_string("keeper")?, sys::c_string(run_dir)?, sys::c_string(id)?, sys::c_string(&station.origin)?];
    let (control, theirs) = handshake::pair()?;
    let mut places = vec![
        (theirs.as_fd(), sys::shim::CONTROL),
        (holdings.sandbox, sys::shim::SANDBOX),
        (binary.as_fd(), sys::shim::BINARY),
        (holdings.log, sys::shim::LOG),
    ];
    places.extend(holdings.recipe.map(|recipe| (recipe, sys::shim::RECIPE)));
    if let Some(away) = &station.away {
        places.extend([(away.namespace.as_fd(), sys::shim::HOME), (away.run_dir.as_fd(), sys::shim::RUN_DIR)]);
    }
    let process = sys::spawn::start(program.get()?.as_fd(), &arguments, &places)?;
    Ok(Keeper { process, control, released: false })
}

/// In place of one that was killed: with the recipe that the sandbox's first process holds, and the client's own FUSE connection.
pub fn start_again(records: &Records, record: &Record, init: Process) -> Option<Process> {
    let pid = rustix::process::Pid::from_raw(init.pid)?;
    let sandbox = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()?;
    // Looked at after it was opened: the pid may have been reused.
    if !init.is_alive() {
        return None;
    }
    let log = File::open(records.log(&record.id)).ok()?;
    let recipe = recipe::held_by(&init, sys::shim::RECIPE_OF_INIT);
    let holdings = Holdings { sandbox: sandbox.as_fd(), log: log.as_fd(), recipe: recipe.as_ref().map(|recipe| recipe.as_fd()) };
    let keeper = start(records.directory(), &record.id, &holdings, &Program::default()).ok()?;
    let process = keeper.process()?;
    let connection = record.heal.and_then(|_| server::connection_of(server::serving(init.pid)?, Instant::now() + PATIENCE));
    keeper.release(connection.as_ref().map(|connection| connection.as_fd())).ok()?;
    Some(process)
}

/// Called by a process that a keeper became: the same once more, with what a keeper holds but the connection. Returns only with an error.
pub fn become_again(arguments: &[OsString]) -> Result<Infallible> {
    let binary = call(|| "open(\"/proc/self/exe\")".into(), File::open("/proc/self/exe"))?;
    let arguments: Vec<_> = arguments.iter().map(sys::c_string).collect::<Result<_>>()?;
    let held: Vec<_> = HELD.iter().filter_map(|number| Some((sys::descriptors::copy_of(*number)?, *number))).collect();
    let mut places: Vec<_> = held.iter().map(|(fd, number)| (fd.as_fd(), *number)).collect();
    places.push((binary.as_fd(), sys::shim::BINARY));
    let words: Vec<_> = arguments.iter().map(CString::as_c_str).collect();
    sys::shim::become_it(binary.as_fd(), &words, &places)
}

const HELD: [i32; 3] = [sys::shim::LOG, sys::shim::RUN_DIR, sys::shim::RECIPE];

impl Keeper {
    pub fn process(&self) -> Option<Process> {
        Process::of_ours(self.process.pid.as_raw_nonzero().get())
    }

    /// From here on the keeper starts the client again or cleans up after the mount when its sandbox ends. `connection`: the client's
    /// /dev/fuse. While the keeper holds that, the users of a mount whose client died wait instead of failing.
    pub fn release(mut self, connection: Option<BorrowedFd<'_>>) -> Result<()> {
        sys::descriptors::send(self.control.as_fd(), sys::shim::KEEP, connection.as_slice())?;
        self.released = true;
        Ok(())
    }

    /// There is nothing to clean up. Does not wait for the keeper's exit.
    pub fn dismiss(mut self) {
        self.released = true;
        let _ = rustix::process::pidfd_send_signal(&self.process.pidfd, rustix::process::Signal::KILL);
    }

    fn say(&self, word: &[u8]) -> Result<()> {
        let sent = rustix::net::send(&self.control, word, rustix::net::SendFlags::NOSIGNAL);
        call(|| "send(keeper)".into(), sent).map(drop)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.released && self.say(sys::shim::QUIT).is_ok() {
            self.process.kill_and_reap();
        }
    }
}
