//! Control groups, version 1 and 2: where a process is, which limits are in force there, and which groups were left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::processes::Process;

const ROOT: &str = "/sys/fs/cgroup";

/// A limit that the kernel enforces, from the file of the version that has the controller.
pub fn limit(process: &Process, controller: &str, v1_file: &str, v2_file: &str) -> Option<String> {
    let membership = fs::read_to_string(process.file("cgroup")).ok()?;
    let path_in = |wanted: &dyn Fn(&str) -> bool| {
        let fields = |line: &str| -> Option<(String, String)> {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':').map(|(controllers, path)| (controllers.to_owned(), path.trim_start_matches('/').to_owned()))
        };
        membership.lines().filter_map(fields).find(|(controllers, _)| wanted(controllers)).map(|(_, path)| path)
    };
    let first = path_in(&|controllers| controllers.split(',').any(|one| one == controller))
        .map(|path| Path::new(ROOT).join(controller).join(path).join(v1_file));
    let second = || path_in(&str::is_empty).map(|path| Path::new(ROOT).join(path).join(v2_file));
    let text = fs::read_to_string(first.or_else(second)?).ok()?;
    Some(text.trim().to_owned())
}

/// Processes in a frozen group. Dropped: thawed.
#[derive(Debug)]
pub struct Frozen {
    group: PathBuf,
}

impl Frozen {
    pub fn with(processes: &[Process]) -> Self {
        let (parent, file, word) = freezer();
        let group = parent.join(format!("frozen-{}", rustix::thread::gettid().as_raw_nonzero()));
        fs::create_dir(&group).unwrap_or_else(|error| panic!("cannot make {}: {error}", group.display()));
        for process in processes {
            fs::write(group.join("cgroup.procs"), process.pid.to_string()).expect("root may move processes");
        }
        fs::write(group.join(file), word).expect("a group of our own can be frozen");
        let is_frozen = || fs::read_to_string(group.join("freezer.state")).map_or(true, |state| state.trim() == "FROZEN");
        crate::wait::until("the group to be frozen", || is_frozen().then_some(()));
        Self { group }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let (_, file, word) = freezer();
        let _ = fs::write(self.group.join(file), if word == "1" { "0" } else { "THAWED" });
        let gone = || fs::remove_dir(&self.group).ok();
        crate::wait::within(std::time::Duration::from_secs(5), gone);
    }
}

/// The hierarchy with the freezer, and how to freeze with it.
fn freezer() -> (PathBuf, &'static str, &'static str) {
    let first = Path::new(ROOT).join("freezer");
    if first.is_dir() { (first, "freezer.state", "FROZEN") } else { (PathBuf::from(ROOT), "cgroup.freeze", "1") }
}

/// A group of the test's own in every hierarchy of the machine, as a service's processes are in one. Dropped: ended and gone.
#[derive(Debug)]
pub struct Group {
    name: String,
    directories: Vec<PathBuf>,
}

impl Group {
    pub fn make() -> Self {
        // Each test has a thread of its own.
        let name = format!("test-{}", rustix::thread::gettid().as_raw_nonzero());
        let mut directories = Vec::new();
        for hierarchy in hierarchies() {
            let directory = hierarchy.join(&name);
            fs::create_dir(&directory).unwrap_or_else(|error| panic!("cannot make {}: {error}", directory.display()));
            // A cpuset of version 1 admits no process before its CPUs and memory nodes are set.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let above = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
                if !above.trim().is_empty() && directory.join("cgroup.clone_children").exists() {
                    fs::write(directory.join(file), above).expect("a group of our own can be set");
                }
            }
            directories.push(directory);
        }
        Self { name, directories }
    }

    /// The command prefix that runs a program in the group.
    pub fn run(&self) -> Vec<String> {
        let enter = |directory: &PathBuf| format!("echo $$ > {}/cgroup.procs", directory.display());
        let script = self.directories.iter().map(enter).chain(["exec \"$@\"".to_owned()]).collect::<Vec<_>>().join(" && ");
        ["sh", "-c", &script, "sh"].map(str::to_owned).into()
    }

    /// In this mount namespace, the group is the root of every hierarchy of version 1: new groups are created below it, and those of other
    /// programs on this machine are invisible. Not for version 2, where a group that enables controllers for its children can hold no process.
    pub fn as_root(&self) -> AsRoot {
        let first_version = self.directories.iter().filter(|directory| directory.join("cgroup.clone_children").exists());
        let pairs = first_version.filter_map(|directory| Some((directory, directory.parent()?.to_owned())));
        let cover = |(directory, hierarchy): (&PathBuf, PathBuf)| {
            rustix::mount::mount_bind(directory, &hierarchy).unwrap_or_else(|error| panic!("cannot bind {}: {error}", directory.display()));
            hierarchy
        };
        AsRoot { hierarchies: pairs.map(cover).collect() }
    }

    pub fn holds(&self, process: &Process) -> bool {
        let membership = fs::read_to_string(process.file("cgroup")).unwrap_or_default();
        membership.lines().any(|line| line.ends_with(&format!("/{}", self.name)))
    }

    /// As systemd ends a service: every process in the group is killed.
    pub fn kill_all(&self) {
        for directory in &self.directories {
            for pid in fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default().lines() {
                Process { pid: pid.parse().expect("a number") }.signal(rustix::process::Signal::KILL);
            }
        }
    }
}

/// Dropped: each whole hierarchy is visible again.
#[derive(Debug)]
pub struct AsRoot {
    hierarchies: Vec<PathBuf>,
}

impl Drop for AsRoot {
    fn drop(&mut self) {
        for hierarchy in &self.hierarchies {
            let _ = rustix::mount::unmount(hierarchy, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_all();
        let is_gone = |directory: &PathBuf| !directory.exists() || fs::remove_dir(directory).is_ok();
        // A panic here would hide why a test failed.
        let _ = crate::wait::within(crate::wait::PATIENCE, || self.directories.iter().all(is_gone).then_some(()));
    }
}

fn hierarchies() -> Vec<PathBuf> {
    let mounts = crate::mountinfo::here().into_iter();
    mounts.filter(|mount| mount.fstype == "cgroup" || mount.fstype == "cgroup2").map(|mount| mount.point).collect()
}

/// Groups that are Shorefast's and have no process. One that stays is a leak, whichever test made it; those of other tests'
/// living mounts have processes, and so are not here.
pub fn abandoned() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect_abandoned(Path::new(ROOT), false, &mut found);
    found
}

fn collect_abandoned(directory: &Path, below_ours: bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let children: Vec<_> = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).collect();
    if below_ours && children.is_empty() && fs::read_to_string(directory.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty()) {
        found.push(directory.to_owned());
    }
    for child in children {
        let ours = child.file_name().to_string_lossy().starts_with("shorefast");
        collect_abandoned(&child.path(), below_ours || ours, found);
    }
}
