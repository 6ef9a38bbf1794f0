//! A volume whose client dies: a native bindfs, its connection held as the keeper holds it, and a second one to take its place.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use shorefast_engine::answer;
use shorefast_engine::replace::{self, Old, Primary, Step};
use shorefast_sys::mount::Identity;
use shorefast_tests::{Host, Root, mountinfo, wait};

/// The tests need a mount table of their own, and no program of ours.
pub(crate) fn host(root: Root) -> Option<Host> {
    Host::with_binary(std::env::current_exe().expect("a running program"), root)
}

/// What is in the directory that the volume covers: nobody may ever see it.
pub(crate) const BELOW: &str = "the-directory-below";

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) source: PathBuf,
    pub(crate) point: PathBuf,
    pub(crate) client: Child,
    pub(crate) connection: OwnedFd,
    options: String,
}

impl Volume {
    pub(crate) fn mount(host: &Host, options: &str) -> Self {
        let (source, point) = (host.directory("source"), host.directory("volume"));
        for directory in ["sub/deep", "other"] {
            fs::create_dir_all(source.join(directory)).expect("a test's own directory");
        }
        fs::write(source.join("file"), "hello\n").expect("a test's own directory");
        fs::write(source.join("sub/file"), "in sub\n").expect("a test's own directory");
        fs::write(point.join(BELOW), "").expect("a test's own directory");
        let client = bindfs(&source, &point, options);
        let connection = connection_of(&client);
        Self { source, point, client, connection, options: options.to_owned() }
    }

    pub(crate) fn device(&self) -> String {
        mountinfo::at(&self.point).pop().expect("the volume is mounted").device
    }

    /// SIGKILL: whoever asks for something waits from now on.
    pub(crate) fn kill(&mut self) {
        self.client.kill().expect("a child of ours");
        self.client.wait().expect("a child of ours");
    }

    /// Another client of the same source, as a detached mount.
    pub(crate) fn successor(&self, host: &Host) -> (Child, OwnedFd) {
        let scratch = host.directory("scratch");
        let client = bindfs(&self.source, &scratch, &self.options);
        let directory = fs::File::open(&scratch).expect("a mount that serves");
        let mount = shorefast_sys::mount::detached_copy(directory.as_fd(), Path::new("")).expect("a mount can be copied");
        // The mount itself may be shared; its copy would be its peer.
        shorefast_sys::mount::set_propagation(mount.as_fd(), shorefast_sys::mount::Propagation::Private).expect("our own copy");
        drop(directory);
        rustix::mount::unmount(&scratch, UnmountFlags::DETACH).expect("a mount of ours");
        (client, mount)
    }

    pub(crate) fn old(&self) -> Old {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.point, flags, rustix::fs::Mode::empty()).expect("a dead root can be opened");
        let identity = shorefast_sys::mount::identify(root.as_fd()).expect("a dead root can be identified");
        let namespace = rustix::fs::stat("/proc/thread-self/ns/mnt").expect("our own namespace").st_ino;
        Old { identity, namespace, before: None }
    }

    /// Kills the client, and does what a healer does.
    pub(crate) fn crash(&mut self, host: &Host) -> Report {
        let old = self.old();
        self.kill();
        let (client, new) = self.successor(host);
        let report = replace(&old, &new, &self.connection, None).expect("nobody kills it");
        drop(new);
        self.client = client;
        self.connection = connection_of(&self.client);
        report
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
        while rustix::mount::unmount(&self.point, UnmountFlags::DETACH).is_ok() {}
    }
}

/// In the foreground, and served when this returns.
pub(crate) fn bindfs(source: &Path, point: &Path, options: &str) -> Child {
    let before = mountinfo::at(point).len();
    let child = Command::new("bindfs").args(["-f", "-o", "nonempty", "-o", options]).args([source, point]).stdin(Stdio::null()).spawn();
    let child = child.expect("bindfs is installed");
    wait::until("bindfs to mount", || (mountinfo::at(point).len() > before).then_some(()));
    fs::metadata(point).expect("a mount that serves");
    child
}

/// The same open file as the client's.
pub(crate) fn connection_of(client: &Child) -> OwnedFd {
    let is_device = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target == Path::new("/dev/fuse"));
    // A client opens and closes other files meanwhile, and then a listing of /proc may leave some out.
    let device = wait::until("the client's device", || {
        fs::read_dir(format!("/proc/{}/fd", client.id())).expect("a running client").flatten().find(is_device)
    });
    let number: i32 = device.file_name().to_str().and_then(|name| name.parse().ok()).expect("descriptors are numbers");
    take(client.id(), number)
}

fn take(pid: u32, number: i32) -> OwnedFd {
    let pidfd = pidfd_open(Pid::from_raw(pid.cast_signed()).expect("a pid"), PidfdFlags::empty()).expect("a running process");
    pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).expect("we may look into our own processes")
}

/// What a replacing process says.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Report {
    pub(crate) primary: Option<(u64, u32, u32)>,
    pub(crate) places: usize,
    pub(crate) stacked: usize,
    /// Namespace, path, reason.
    pub(crate) degraded: Vec<(u64, PathBuf, String)>,
    pub(crate) answered: u64,
    /// Steps that were passed.
    pub(crate) steps: Vec<String>,
    /// How long it took until all places were replaced.
    pub(crate) microseconds: u64,
}

/// The name of the ignored test that is the replacing process.
const PROCESS: &str = "replacing_process";

/// In a process of its own. `None`: it was killed after so many steps.
pub(crate) fn replace(old: &Old, new: &OwnedFd, connection: &OwnedFd, kill_after: Option<usize>) -> Option<Report> {
    let file = Path::new("/run").join(format!("report-{}", rustix::thread::gettid().as_raw_nonzero()));
    let _ = fs::remove_file(&file);
    let Identity { id, unique, major, minor } = old.identity;
    let words = format!("{id} {} {major} {minor} {}", u8::from(unique), old.namespace);
    let mut command = Command::new(std::env::current_exe().expect("a running program"));
    command.args(["--exact", PROCESS, "--ignored", "--test-threads", "1"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("REPLACE_OLD", words).env("REPLACE_REPORT", &file).env("REPLACE_PARENT", std::process::id().to_string());
    command.env("REPLACE_NEW", new.as_raw_fd().to_string()).env("REPLACE_CONNECTION", connection.as_raw_fd().to_string());
    command.env("REPLACE_KILL_AFTER", kill_after.map_or(String::new(), |steps| steps.to_string()));
    let mut child = command.spawn().expect("our own program");
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().expect("a child of ours") {
            Some(status) => break status,
            None if Instant::now() > end => {
                let stack = fs::read_to_string(format!("/proc/{}/stack", child.id())).unwrap_or_default();
                let _ = child.kill();
                panic!("the replacing process hangs: {stack}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    match fs::read(&file) {
        Ok(text) => Some(serde_json::from_slice(&text).expect("our own report")),
        Err(_) => {
            assert!(kill_after.is_some() && !status.success(), "it ended without a report: {status}");
            None
        }
    }
}

/// What the healing process does, with the parent's descriptors.
pub(crate) fn replacing_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let Ok(parent) = variable("REPLACE_PARENT").parse::<u32>() else { return };
    let fd = |name: &str| take(parent, variable(name).parse().expect("a number"));
    let (new, connection) = (fd("REPLACE_NEW"), fd("REPLACE_CONNECTION"));
    let words = variable("REPLACE_OLD");
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [id, unique, major, minor, namespace] = numbers[..] else { panic!("{words}") };
    let identity = Identity { id, unique: unique == 1, major: major as u32, minor: minor as u32 };
    let old = Old { identity, namespace, before: None };
    let kill_after = variable("REPLACE_KILL_AFTER").parse::<usize>().ok();
    let mut steps = Vec::new();
    let pass = |step: Step| {
        steps.push(format!("{step:?}"));
        if kill_after == Some(steps.len()) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    };
    let begun = Instant::now();
    let in_time = begun + Duration::from_secs(20);
    let mut pass = pass;
    let mut replaced = replace::everywhere(&old, new.as_fd(), in_time, Primary::AsOthers, &mut pass).expect("it can begin");
    let microseconds = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    // Without open files the superblock ends with its last user, and so does this: nobody has to be quiet.
    let quiet = Duration::from_secs(3);
    let answered = answer::all_as_stale(connection.as_fd(), quiet, Instant::now() + Duration::from_secs(20)).expect("it can be answered");
    replaced.settle(Instant::now() + Duration::from_secs(5));
    // What has begun meanwhile.
    let more = replace::everywhere(&old, new.as_fd(), Instant::now() + Duration::from_secs(20), Primary::AsOthers, &mut pass)
        .expect("it can begin");
    let known: Vec<_> = replaced.degraded.clone();
    replaced.degraded.extend(more.degraded.into_iter().filter(|one| !known.contains(one)));
    let report = Report {
        primary: replaced.primary.map(|identity| (identity.id, identity.major, identity.minor)),
        places: replaced.places.len(),
        stacked: replaced.stacked,
        degraded: replaced.degraded.into_iter().map(|one| (one.namespace, one.path, one.why)).collect(),
        answered: answered.requests,
        steps,
        microseconds,
    };
    fs::write(variable("REPLACE_REPORT"), serde_json::to_vec(&report).expect("numbers and words")).expect("a directory of the test's");
}

/// A process in namespaces of its own, in which it made mounts. Dropped: killed.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) child: Child,
}

impl Elsewhere {
    /// `unshare` with these words, then a shell that does `setup` and waits.
    pub(crate) fn start(unshare: &[&str], setup: &str) -> Self {
        let ready = Path::new("/run").join(format!("ready-{}-{}", std::process::id(), setup.len() + unshare.len() * 1000));
        let _ = fs::remove_file(&ready);
        let script = format!("set -e; {setup}; : > {}; exec sleep 1000", ready.display());
        let child =
            Command::new("unshare").args(unshare).args(["sh", "-c", &script]).stdin(Stdio::null()).spawn().expect("unshare is installed");
        let mut elsewhere = Self { child };
        wait::until("a namespace to be ready", || {
            assert!(elsewhere.child.try_wait().expect("a child of ours").is_none(), "it ended: {script}");
            ready.exists().then_some(())
        });
        let _ = fs::remove_file(&ready);
        elsewhere
    }

    pub(crate) fn mounts(&self) -> Vec<mountinfo::Mount> {
        mountinfo::read(format!("/proc/{}/mountinfo", self.child.id())).expect("a running process")
    }

    /// What is mounted there, topmost last.
    pub(crate) fn at(&self, point: &Path) -> Vec<mountinfo::Mount> {
        self.mounts().into_iter().filter(|mount| mount.point == point).collect()
    }

    /// As its processes see it.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.child.id())).join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the calling thread's kernel can put a mount beneath another one.
pub(crate) fn can_go_beneath() -> bool {
    shorefast_tests::kernel::version() >= (6, 5)
}
