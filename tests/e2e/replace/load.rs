//! Operations by path without a pause, one kind per thread, in a process of its own: what fails is counted by errno.
//!
//! What a descriptor of the old mount answers is another matter, and so is what the client had done before it died and nobody knew: a
//! directory that exists already, a file that is gone already.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use shorefast_sys::namespace::Home;
use shorefast_tests::wait;

/// Of one kind.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counted {
    pub(crate) done: u64,
    /// By errno: how often.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Of descriptors on the old mount.
    pub(crate) on_descriptors: u64,
    /// Had been carried out by the client that died.
    pub(crate) repeated: u64,
    /// Other bytes than were written.
    pub(crate) wrong: u64,
}

pub(crate) type Result = BTreeMap<String, Counted>;

/// The name of the ignored test that is the process.
const PROCESS: &str = "loading_process";

#[derive(Debug)]
pub(crate) struct Load {
    child: Child,
    report: PathBuf,
    stop: PathBuf,
    round: PathBuf,
    reached: PathBuf,
    rounds: std::cell::Cell<u64>,
}

/// Set in its environment: only the kinds of operations that this client has.
pub(crate) const ANY_CLIENT: &str = "LOAD_ANY_CLIENT";

/// Set in its environment: all of it happens in this mount namespace, a file of /proc. No program runs there: it may lack what ours needs.
pub(crate) const NAMESPACE: &str = "LOAD_NAMESPACE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}

impl Load {
    /// `enter`: words before the program, such as nsenter's.
    pub(crate) fn start(enter: &[String], directory: &Path, access: Access, name: &str) -> Self {
        let at = |kind: &str| PathBuf::from(format!("/run/load-{kind}-{name}"));
        let (report, stop, ready, round, reached) = (at("report"), at("stop"), at("ready"), at("round"), at("reached"));
        for file in [&report, &stop, &ready, &round, &reached] {
            let _ = fs::remove_file(file);
        }
        let program = std::env::current_exe().expect("a running program");
        let mut words: Vec<_> = enter.to_vec();
        words.extend([
            program.to_str().expect("a path in UTF-8").to_owned(),
            "--exact".to_owned(),
            PROCESS.to_owned(),
            "--ignored".to_owned(),
        ]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--test-threads", "1"]).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("LOAD_DIRECTORY", directory).env("LOAD_NAME", name).env("LOAD_REPORT", &report).env("LOAD_STOP", &stop);
        command.env("LOAD_ROUND", &round).env("LOAD_REACHED", &reached);
        command.env("LOAD_READY", &ready).env("LOAD_ACCESS", if access == Access::ReadOnly { "ro" } else { "rw" });
        let child = command.spawn().expect("our own program");
        wait::until("the load to begin", || ready.exists().then_some(()));
        Self { child, report, stop, round, reached, rounds: std::cell::Cell::new(0) }
    }

    /// Waits until everybody has begun an operation after this call, and completed it. One that meets two crashes may fail: the kernel
    /// walks a path twice, and not three times.
    pub(crate) fn completes_a_round(&self) {
        self.rounds.set(self.rounds.get() + 1);
        let wanted = self.rounds.get();
        let next = self.round.with_extension("next");
        fs::write(&next, wanted.to_string()).and_then(|()| fs::rename(&next, &self.round)).expect("/run is the test's own");
        wait::until("everybody to do something", || {
            let reached: u64 = fs::read_to_string(&self.reached).ok()?.parse().ok()?;
            (reached >= wanted).then_some(())
        });
    }

    pub(crate) fn finish(mut self) -> Result {
        fs::write(&self.stop, "").expect("/run is the test's own");
        let end = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().expect("a child of ours").is_none() {
            if Instant::now() > end {
                let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
                let stacks: Vec<_> = tasks.filter_map(|task| fs::read_to_string(task.path().join("stack")).ok()).collect();
                panic!("somebody hangs: {}", stacks.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        serde_json::from_slice(&fs::read(&self.report).expect("the load's report")).expect("our own report")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// 0 failed, 0 wrong bytes, and something was done. Before Linux 6.9, what the dead client had read is lost, and fails.
#[track_caller]
pub(crate) fn assert_nothing_failed(where_: &str, result: &Result) {
    for (kind, counted) in result {
        assert!(counted.done > 0, "{where_}: {kind} did nothing");
        let may_fail = shorefast_tests::kernel::version() < (6, 9);
        assert!((counted.failed.is_empty() || may_fail) && counted.wrong == 0, "{where_}: {kind}: {counted:?}");
    }
}

enum Failure {
    ByPath(Errno),
    OnDescriptor,
    Repeated,
    Wrong,
}

type Done = std::result::Result<(), Failure>;

fn path<T>(result: rustix::io::Result<T>) -> std::result::Result<T, Failure> {
    result.map_err(Failure::ByPath)
}

fn descriptor<T>(result: rustix::io::Result<T>) -> std::result::Result<T, Failure> {
    result.map_err(|_| Failure::OnDescriptor)
}

/// After a crash, `errno` can mean that it had been done.
fn once<T>(result: rustix::io::Result<T>, errno: Errno) -> std::result::Result<(), Failure> {
    match result {
        Ok(_) => Ok(()),
        Err(found) if found == errno => Err(Failure::Repeated),
        Err(found) => Err(Failure::ByPath(found)),
    }
}

fn os<T>(result: io::Result<T>) -> rustix::io::Result<T> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

type Kind = (&'static str, fn(&Path, u64) -> Done);

static READING: [Kind; 7] = [
    ("stat", |at, _| path(os(fs::metadata(at.join("file")))).and_then(|found| if found.size() > 0 { Ok(()) } else { Err(Failure::Wrong) })),
    ("read", |at, _| {
        let file = path(rustix::fs::open(at.join("file"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))?;
        let mut bytes = [0; 16];
        let length = descriptor(rustix::io::read(&file, &mut bytes))?;
        if bytes[..length].starts_with(b"hello") || bytes[..length].starts_with(b"in sub") { Ok(()) } else { Err(Failure::Wrong) }
    }),
    ("list", |at, _| {
        let directory = path(rustix::fs::open(at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))?;
        descriptor(rustix::fs::Dir::new(directory).and_then(|mut entries| entries.try_for_each(|entry| entry.map(drop))))
    }),
    ("statfs", |at, _| path(rustix::fs::statfs(at)).map(drop)),
    ("access", |at, _| path(rustix::fs::access(at.join("file"), rustix::fs::Access::READ_OK))),
    ("root", |at, _| path(os(fs::metadata(at))).map(drop)),
    ("missing", |at, _| match rustix::fs::stat(at.join("never-there")) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Failure::ByPath(errno)),
        Ok(_) => Err(Failure::Wrong),
    }),
];

static WRITING: [Kind; 12] = [
    ("create", |at, n| {
        let file = at.join(format!("created-{n}"));
        path(rustix::fs::open(&file, OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR))?;
        once(rustix::fs::unlink(&file), Errno::NOENT)
    }),
    ("append", |at, _| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        let file = path(rustix::fs::open(at.join("appended"), flags, Mode::RUSR | Mode::WUSR))?;
        descriptor(rustix::io::write(&file, b"x")).map(drop)
    }),
    ("mkdir", |at, n| {
        let directory = at.join(format!("made-{n}"));
        once(rustix::fs::mkdir(&directory, Mode::RWXU), Errno::EXIST)?;
        once(rustix::fs::rmdir(&directory), Errno::NOENT)
    }),
    ("mkdir in sub", |at, n| {
        let directory = at.join(format!("deep/made-{n}"));
        once(rustix::fs::mkdir(&directory, Mode::RWXU), Errno::EXIST)?;
        once(rustix::fs::rmdir(&directory), Errno::NOENT)
    }),
    ("symlink", |at, n| {
        let link = at.join(format!("link-{n}"));
        once(rustix::fs::symlink("somewhere", &link), Errno::EXIST)?;
        let found = path(rustix::fs::readlink(&link, Vec::new()))?;
        if found.as_bytes() != b"somewhere" {
            return Err(Failure::Wrong);
        }
        once(rustix::fs::unlink(&link), Errno::NOENT)
    }),
    ("link", |at, n| {
        let link = at.join(format!("hard-{n}"));
        // As for a rename, below.
        match rustix::fs::link(at.join("linked"), &link) {
            Err(Errno::XDEV) => Err(Failure::Repeated),
            result => once(result, Errno::EXIST),
        }?;
        once(rustix::fs::unlink(&link), Errno::NOENT)
    }),
    ("mknod", |at, n| {
        let pipe = at.join(format!("pipe-{n}"));
        once(rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0), Errno::EXIST)?;
        once(rustix::fs::unlink(&pipe), Errno::NOENT)
    }),
    ("rename", |at, n| {
        let (from, to) = (at.join(format!("from-{n}")), at.join(format!("to-{n}")));
        once(rustix::fs::mkdir(&from, Mode::RWXU), Errno::EXIST)?;
        // Two paths, one before and one after the swap, are on two filesystems: EXDEV. It is rare, and counted apart.
        match rustix::fs::rename(&from, &to) {
            Err(Errno::NOENT | Errno::XDEV) => Err(Failure::Repeated),
            result => path(result),
        }?;
        once(rustix::fs::rmdir(&to), Errno::NOENT)
    }),
    ("chmod", |at, n| path(os(fs::set_permissions(at.join("changed"), fs::Permissions::from_mode(0o600 + (n as u32 % 8)))))),
    ("utimes", |at, n| {
        let time = rustix::fs::Timespec { tv_sec: 1_000_000 + n as i64, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        path(rustix::fs::utimensat(CWD, at.join("changed"), &times, AtFlags::empty()))
    }),
    ("truncate", |at, _| {
        let file = path(rustix::fs::open(at.join("cut"), OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty()));
        file.map(drop)
    }),
    ("execute", |at, _| path(rustix::fs::access(at.join("deep"), rustix::fs::Access::EXEC_OK))),
];

/// Works until it is told to stop.
pub(crate) fn loading_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let at = PathBuf::from(variable("LOAD_DIRECTORY"));
    if at.as_os_str().is_empty() {
        return;
    }
    let name = variable("LOAD_NAME");
    let kinds = std::thread::scope(|scope| scope.spawn(|| inside(|| prepare(&at))).join()).expect("it does not panic");
    let (stop, round) = (AtomicBool::new(false), AtomicU64::new(0));
    let reached: Vec<_> = kinds.iter().map(|_| AtomicU64::new(0)).collect();
    let stop_file = PathBuf::from(variable("LOAD_STOP"));
    let result = std::thread::scope(|scope| {
        let begin = |index: usize, kind: &'static Kind| {
            let (at, stop, round, reached) = (&at, &stop, &round, &reached[index]);
            // Nobody uses the same names.
            let first = u64::from(std::process::id()) * 100_000_000_000 + index as u64 * 10_000_000 + name.len() as u64;
            (kind.0, scope.spawn(move || inside(|| work(kind.1, at, first, stop, round, reached))))
        };
        let workers: Vec<_> = kinds.iter().enumerate().map(|(index, kind)| begin(index, kind)).collect();
        fs::write(variable("LOAD_READY"), "").expect("a directory of the test's");
        while !stop_file.exists() {
            let wanted = fs::read_to_string(variable("LOAD_ROUND")).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            round.store(wanted, Ordering::Relaxed);
            let slowest = reached.iter().map(|one| one.load(Ordering::Relaxed)).min().unwrap_or(0);
            fs::write(variable("LOAD_REACHED"), slowest.to_string()).expect("a directory of the test's");
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|(kind, worker)| (kind.to_owned(), worker.join().expect("it does not panic"))).collect::<Result>()
    });
    fs::write(variable("LOAD_REPORT"), serde_json::to_vec(&result).expect("numbers and words")).expect("a directory of the test's");
}

/// For a thread of its own.
fn inside<T>(act: impl FnOnce() -> T) -> T {
    let Some(namespace) = std::env::var_os(NAMESPACE) else { return act() };
    let namespace = fs::File::open(namespace).expect("a process that runs");
    let home = Home::here().expect("our own namespace");
    let _visit = home.visit(namespace.as_fd()).expect("a namespace that can be entered");
    act()
}

/// The kinds of operations that can be done there.
fn prepare(at: &Path) -> Vec<&'static Kind> {
    let mut kinds: Vec<&'static Kind> = READING.iter().collect();
    if std::env::var("LOAD_ACCESS").is_ok_and(|access| access == "rw") {
        kinds.extend(&WRITING);
        for file in ["linked", "changed", "cut"] {
            fs::write(at.join(file), "hello").expect("a mount that can be written to");
        }
        fs::create_dir_all(at.join("deep")).expect("a mount that can be written to");
    }
    if std::env::var_os(ANY_CLIENT).is_some() {
        let number = |index: usize| u64::from(std::process::id()) * 1_000_000 + index as u64;
        let can = |(index, kind): (usize, &'static Kind)| match kind.1(at, number(index)) {
            Err(Failure::ByPath(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::IO)) => None,
            _ => Some(kind),
        };
        kinds = kinds.into_iter().enumerate().filter_map(can).collect();
    }
    kinds
}

fn work(kind: fn(&Path, u64) -> Done, at: &Path, first: u64, stop: &AtomicBool, round: &AtomicU64, reached: &AtomicU64) -> Counted {
    let mut counted = Counted::default();
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let begun_in = round.load(Ordering::Relaxed);
        match kind(at, number) {
            Ok(()) => counted.done += 1,
            Err(Failure::ByPath(errno)) => *counted.failed.entry(format!("{errno:?}")).or_default() += 1,
            Err(Failure::OnDescriptor) => counted.on_descriptors += 1,
            Err(Failure::Repeated) => counted.repeated += 1,
            Err(Failure::Wrong) => counted.wrong += 1,
        }
        reached.store(begun_in, Ordering::Relaxed);
        // Two processors, and the clients need them, too.
        std::thread::sleep(Duration::from_micros(500));
    }
    counted
}
