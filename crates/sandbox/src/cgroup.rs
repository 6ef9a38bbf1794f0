//! Resource limits: one cgroup per client, in whichever hierarchies (v1, v2 or both) the host has. Takes [`Limits`] or
//! a pid, and changes files of the cgroup filesystems. Runs in the launching process, and in the process that cleans
//! up.

mod unused;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::process::Fork;

use crate::error::Error;
use crate::pid_namespace;

/// What a client may use. If no limit is set, no cgroup is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    /// CPUs, such as 0.5.
    pub processors: Option<f64>,
}

/// A client's cgroups: one directory with cgroup v2, one per controller with v1. [`Cgroup::remove`] removes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cgroup {
    directories: Vec<PathBuf>,
    /// Needed only until the client is in it.
    #[serde(skip)]
    limits: Limits,
}

/// The kernel killed a client for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// The client's own limit. `None`: it has none, and the host had no more.
    pub limit_bytes: Option<u64>,
}

/// All cgroups are below a directory of this name, which is removed with the last of them.
const PARENT: &str = "shorefast";
/// In microseconds: the kernel's default.
const CPU_PERIOD: u64 = 100_000;

struct Setting {
    controller: &'static str,
    v1: &'static str,
    v2: &'static str,
    value_v1: String,
    value_v2: String,
}

impl Limits {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn settings(&self) -> Vec<Setting> {
        let plain =
            |controller, v1, v2, value: u64| Setting { controller, v1, v2, value_v1: value.to_string(), value_v2: value.to_string() };
        let memory = self.memory_bytes.map(|bytes| plain("memory", "memory.limit_in_bytes", "memory.max", bytes));
        let processes = self.processes.map(|count| plain("pids", "pids.max", "pids.max", count));
        let processors = self.processors.map(|count| {
            let quota = (count * CPU_PERIOD as f64) as u64;
            Setting {
                controller: "cpu",
                v1: "cpu.cfs_quota_us",
                v2: "cpu.max",
                value_v1: quota.to_string(),
                value_v2: format!("{quota} {CPU_PERIOD}"),
            }
        });
        [memory, processes, processors].into_iter().flatten().collect()
    }
}

impl Cgroup {
    /// Creates the cgroups of the client `id`.
    pub fn create(id: &str, limits: &Limits) -> Result<Self, Error> {
        let mut cgroup = Self { limits: *limits, ..Self::default() };
        if limits.is_none() {
            return Ok(cgroup);
        }
        let made = repeated(|| cgroup.fill(id, limits, &hierarchies()));
        if made.is_err() {
            cgroup.remove();
        }
        made.map(|()| cgroup)
    }

    /// The cgroups that a client of this id may have, for clean-up when its record is lost.
    pub fn find(id: &str) -> Self {
        // Including those that do not exist: their parent may, if its creator was killed right after creating it.
        let directories = hierarchies().into_iter().map(|hierarchy| hierarchy.mount_point.join(PARENT).join(id));
        Self { directories: directories.collect(), limits: Limits::default() }
    }

    fn fill(&mut self, id: &str, limits: &Limits, hierarchies: &[Hierarchy]) -> Result<(), Error> {
        for setting in limits.settings() {
            let limit = |path: &Path| {
                let path = path.to_owned();
                move |source| Error::Limit { path, source }
            };
            let hierarchy = hierarchies.iter().find(|hierarchy| hierarchy.has(setting.controller)).ok_or_else(|| {
                let source =
                    std::io::Error::new(ErrorKind::NotFound, format!("no cgroup hierarchy has the {} controller", setting.controller));
                Error::Limit { path: "/sys/fs/cgroup".into(), source }
            })?;
            let parent = hierarchy.mount_point.join(PARENT);
            let directory = parent.join(id);
            make_directory(&parent).map_err(limit(&parent))?;
            if hierarchy.is_v2 {
                enable(&hierarchy.mount_point, setting.controller).map_err(limit(&hierarchy.mount_point))?;
                enable(&parent, setting.controller).map_err(limit(&parent))?;
            }
            // Alone: a parent that was removed just now has to be made with its controllers, by the next try.
            match fs::create_dir(&directory) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(limit(&directory)(error)),
                _ => {}
            }
            if !self.directories.contains(&directory) {
                self.directories.push(directory.clone());
            }
            let (name, value) = if hierarchy.is_v2 { (setting.v2, setting.value_v2) } else { (setting.v1, setting.value_v1) };
            let file = directory.join(name);
            write(&file, &value).map_err(limit(&file))?;
        }
        Ok(())
    }

    /// Moves a process into the cgroups. Everything it starts from now on is in them, too. Cgroups that are gone are created again: another process's
    /// clean-up may have removed them, because they were empty.
    pub fn admit(&self, pid: Pid) -> Result<(), Error> {
        repeated(|| match self.put_in(pid) {
            Err(error) if is_missing(&error) => {
                let id = self.directories.first().and_then(|directory| directory.file_name()?.to_str()).unwrap_or_default();
                Self::create(id, &self.limits)?;
                Err(error)
            }
            result => result,
        })
    }

    /// Whether the kernel has killed one of its processes for want of memory. Known until the cgroup is removed.
    pub fn ran_out_of_memory(&self) -> Option<OutOfMemory> {
        // v2, and v1.
        const FILES: [(&str, &str); 2] = [("memory.events", "memory.max"), ("memory.oom_control", "memory.limit_in_bytes")];
        let places =
            self.directories.iter().flat_map(|directory| FILES.map(|(events, limit)| (directory.join(events), directory.join(limit))));
        let (_, limit) = places.into_iter().find(|(events, _)| fs::read_to_string(events).is_ok_and(|events| has_killed(&events)))?;
        Some(OutOfMemory { limit_bytes: fs::read_to_string(limit).ok().and_then(|limit| limit.trim().parse().ok()) })
    }

    fn put_in(&self, pid: Pid) -> Result<(), Error> {
        let admit = |directory: &PathBuf| {
            let path = directory.join("cgroup.procs");
            write(&path, &pid.as_raw_nonzero().to_string()).map_err(|source| Error::Limit { path, source })
        };
        self.directories.iter().try_for_each(admit)
    }

    /// Removes the cgroups; true when none is left. Uses rmdir only: a cgroup that contains processes stays.
    pub fn remove(&self) -> bool {
        let gone = |path: &PathBuf| match fs::remove_dir(path) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        let all_gone = self.directories.iter().filter(|directory| !gone(directory)).count() == 0;
        for parent in self.directories.iter().filter_map(|directory| directory.parent()) {
            // Fails while it contains cgroups of other clients.
            let _ = fs::remove_dir(parent);
        }
        all_gone
    }
}

/// Clean-up of other clients removes empty directories at any time, so steps that lose a race against it are repeated.
fn repeated(mut step: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    const TRIES: u32 = 20;
    for _ in 1..TRIES {
        match step() {
            Err(error) if is_missing(&error) => {}
            result => return result,
        }
    }
    step()
}

/// ENODEV: removed after it was opened.
fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Limit { source, .. } if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)))
}

/// Runs `work`, and everything it starts, outside the cgroups of this program's caller: when systemd stops a service,
/// it kills the service's cgroup, and a mount that the service asked for must survive that. Best effort: hierarchies
/// that are not writable here are left alone. Returns the exit code of `work`. The process must have one thread.
///
/// Moving another process makes the kernel wait for an RCU grace period, some ten milliseconds. A thread that moves
/// itself does not wait; v1 uses that. With v2, a child is created directly in the target cgroup (CLONE_INTO_CGROUP)
/// and runs `work`; it is killed when this process dies.
pub fn run_outside_callers(work: impl FnOnce() -> u8) -> u8 {
    sys::process::assert_single_threaded();
    let membership = fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
    let (mut known, mut unified) = (None, None);
    for (controllers, _) in membership.lines().filter_map(self::membership).filter(|(_, path)| *path != "/") {
        let hierarchies = known.get_or_insert_with(hierarchies);
        // The root of a hierarchy has no limits and, also with v2, may contain processes next to child cgroups.
        match hierarchies.iter().find(|hierarchy| hierarchy.is_of(controllers)) {
            Some(Hierarchy { is_v2: true, mount_point, .. }) => unified = Some(mount_point.clone()),
            Some(Hierarchy { is_v2: false, mount_point, .. }) => enter(mount_point, "tasks"),
            None => {}
        }
    }
    let Some(unified) = unified else { return work() };
    match fork_in(&unified) {
        Ok(Fork::Child) => {
            let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
            let code = work();
            let _ = std::io::Write::flush(&mut std::io::stdout());
            sys::process::exit_now(code.into())
        }
        // Killed by a signal: reported to our caller as a system failure.
        Ok(Fork::Parent(child)) => child.wait().ok().flatten().unwrap_or(2),
        Err(_) => {
            enter(&unified, "cgroup.procs");
            work()
        }
    }
}

fn enter(group: &Path, members: &str) {
    let _ = fs::write(group.join(members), "0");
}

fn fork_in(group: &Path) -> sys::Result<Fork> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let group = sys::call(|| format!("open({group:?})"), rustix::fs::open(group, directory, Mode::empty()))?;
    sys::process::fork_into(group.as_fd())
}

/// Moves a process out of a cgroup that may be frozen. Only v1 needs this: there a frozen process cannot be killed;
/// with v2 it can.
pub fn thaw(process: Pid) {
    let lines = fs::read_to_string(format!("/proc/{}/cgroup", process.as_raw_nonzero())).unwrap_or_default();
    let is_freezer = |controllers: &str| controllers.split(',').any(|name| name == "freezer");
    if lines.lines().filter_map(membership).any(|(controllers, path)| is_freezer(controllers) && path != "/")
        && let Some(freezer) = hierarchies().into_iter().find(|hierarchy| !hierarchy.is_v2 && hierarchy.has("freezer"))
    {
        // The cgroup itself is not thawed: it may belong to another program and contain unrelated processes.
        let _ = put(&freezer.mount_point, process.as_raw_nonzero().get());
    }
}

/// The cgroups that another process is in, in every hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    directories: Vec<PathBuf>,
}

impl Groups {
    pub fn of(process: Pid) -> std::io::Result<Self> {
        let lines = fs::read_to_string(format!("/proc/{}/cgroup", process.as_raw_nonzero()))?;
        let directory = |line| {
            let (controllers, path) = membership(line)?;
            let hierarchy = hierarchies().into_iter().find(|hierarchy| hierarchy.is_of(controllers))?;
            Some(hierarchy.mount_point.join(path.trim_start_matches('/')))
        };
        Ok(Self { directories: lines.lines().filter_map(directory).collect() })
    }

    /// Moves every process of the pid namespace whose pid 1 is `first` into these cgroups.
    pub fn take_in_all_of(&self, first: Pid) -> Result<(), Error> {
        let mut known = Vec::new();
        // Children of processes in the cgroups start there. So when a scan finds no new process, all of them are in.
        loop {
            let new: Vec<_> = pid_namespace::processes_of(first).into_iter().filter(|pid| !known.contains(pid)).collect();
            if new.is_empty() {
                return Ok(());
            }
            for pid in new {
                self.directories.iter().try_for_each(|directory| put(directory, pid.as_raw_nonzero().get()))?;
                known.push(pid);
            }
        }
    }
}

/// The controllers and the path of `4:cpu,cpuacct:/path`, or of `0::/path` with v2.
fn membership(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

fn put(directory: &Path, pid: i32) -> Result<(), Error> {
    let path = directory.join("cgroup.procs");
    match fs::write(&path, pid.to_string()) {
        // The process has exited meanwhile.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result.map_err(|source| Error::Limit { path, source }),
    }
}

struct Hierarchy {
    mount_point: PathBuf,
    is_v2: bool,
    controllers: Vec<String>,
}

impl Hierarchy {
    /// Whether /proc/PID/cgroup means this hierarchy: it names v1 hierarchies by their controllers or by `name=…`, and
    /// v2 by an empty string.
    fn is_of(&self, controllers: &str) -> bool {
        if controllers.is_empty() { self.is_v2 } else { !self.is_v2 && controllers.split(',').all(|name| self.has(name)) }
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// Every cgroup hierarchy that is mounted here, v1 and v2: many hosts have both.
fn hierarchies() -> Vec<Hierarchy> {
    let table = sys::mountinfo::read().unwrap_or_default();
    let hierarchy = |entry: sys::mountinfo::Entry| match entry.fstype.as_str() {
        "cgroup" => {
            let controllers = entry.super_options.to_string_lossy().split(',').map(str::to_owned).collect();
            Some(Hierarchy { mount_point: entry.mount_point, is_v2: false, controllers })
        }
        "cgroup2" => {
            let controllers = fs::read_to_string(entry.mount_point.join("cgroup.controllers")).unwrap_or_default();
            let controllers = controllers.split_ascii_whitespace().map(str::to_owned).collect();
            Some(Hierarchy { mount_point: entry.mount_point, is_v2: true, controllers })
        }
        _ => None,
    };
    table.into_iter().filter_map(hierarchy).collect()
}

/// Also creates the parent. Clean-up of another client removes an empty parent at any time, so this races with it and
/// retries.
fn make_directory(path: &Path) -> std::io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match fs::create_dir_all(path) {
            // Not there to be created in, or there when it was to be created and gone when std looked at it.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {}
            result => return result,
        }
    }
    fs::create_dir_all(path)
}

/// Makes a controller available to the children of a v2 directory.
fn enable(directory: &Path, controller: &str) -> std::io::Result<()> {
    let file = directory.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    if enabled.split_ascii_whitespace().any(|name| name == controller) { Ok(()) } else { write(&file, &format!("+{controller}")) }
}

/// Without O_CREAT: cgroupfs answers that with EACCES where there is no such file, and a missing one could not be told from a forbidden one.
fn write(file: &Path, value: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

/// By the counters of a memory cgroup.
fn has_killed(events: &str) -> bool {
    events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_for_want_of_memory_is_counted_in_both_versions() {
        let rows = [
            ("low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\noom_group_kill 0\n", true),
            ("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", true),
            ("low 0\nhigh 0\nmax 31\noom 0\noom_kill 0\noom_group_kill 0\n", false),
            // Before Linux 4.13.
            ("oom_kill_disable 0\nunder_oom 0\n", false),
        ];
        for (events, expected) in rows {
            assert_eq!(has_killed(events), expected, "{events}");
        }
    }

    #[test]
    fn a_directory_is_made_while_another_process_removes_it() {
        let base = tempfile::tempdir().unwrap();
        let parent = base.path().join(PARENT);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                    let _ = fs::remove_dir(&parent);
                }
            });
            let failed: Vec<_> = (0..20_000).filter_map(|_| make_directory(&parent).err()).collect();
            is_over.store(true, std::sync::atomic::Ordering::Release);
            assert!(failed.is_empty(), "{} times: {:?}", failed.len(), failed.first());
        });
        // Not for ever: something that is no directory stays in the way.
        let _ = fs::remove_dir(&parent);
        fs::write(&parent, "").unwrap();
        assert_eq!(make_directory(&parent).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_line_of_proc_names_a_hierarchy_and_a_group() {
        let rows = [
            ("0::/", Some(("", "/"))),
            ("0::/system.slice/kubelet.service", Some(("", "/system.slice/kubelet.service"))),
            ("4:memory:/a:b", Some(("memory", "/a:b"))),
            ("9:name=systemd:/user.slice", Some(("name=systemd", "/user.slice"))),
            ("nonsense", None),
        ];
        for (line, expected) in rows {
            assert_eq!(membership(line), expected, "{line}");
        }
    }

    #[test]
    fn a_hierarchy_is_known_by_its_controllers() {
        let hierarchy = |is_v2, names: &[&str]| Hierarchy {
            mount_point: PathBuf::new(),
            is_v2,
            controllers: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(hierarchy(false, &["rw", "cpu", "cpuacct"]).is_of("cpu,cpuacct"));
        assert!(!hierarchy(false, &["rw", "cpu"]).is_of("cpu,cpuacct"));
        assert!(hierarchy(true, &["memory"]).is_of("") && !hierarchy(true, &["memory"]).is_of("memory"));
        assert!(!hierarchy(false, &["memory"]).is_of(""));
    }
}
