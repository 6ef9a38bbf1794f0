//! One test's host: the machine's files, but its own mount table, its own network, and its own /run, /etc and /var.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::Signal;

use crate::command::{self, Ran, Running};
use crate::isolation::{Isolation, leave_mount_namespace, mount_overlay, mount_tmpfs};
use crate::leftovers::Before;
use crate::processes::{self, Process};
use crate::skip::skip;
use crate::wait;

/// Where a test's own files are: a tmpfs that goes away with the test.
const HOME: &str = "/srv";
const RUN: &str = "/run/shorefast";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// Mounts stay where they are made.
    Private,
    /// As systemd sets it up: mounts propagate to all peers and slaves.
    Shared,
}

#[derive(Debug)]
pub struct Host {
    before: RefCell<Before>,
    binary: PathBuf,
    _isolation: Isolation,
}

impl Host {
    /// None: the reason for skipping the test was printed.
    pub fn new() -> Option<Self> {
        Self::with_root(Root::Private)
    }

    pub fn with_root(root: Root) -> Option<Self> {
        Self::with_binary(binary(), root)
    }

    pub fn with_binary(binary: PathBuf, root: Root) -> Option<Self> {
        if let Some(reason) = obstacle(&binary) {
            skip(&reason);
            return None;
        }
        let isolation = Isolation::enter();
        if root == Root::Shared {
            let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
            mount_change("/", shared).expect("cannot make / shared");
        }
        for directory in ["/run", HOME, "/var/lib"] {
            mount_tmpfs(directory);
        }
        // Not /var/lib: overlays can be stacked only twice, a guest's root is one, and images there are below another.
        for directory in ["/etc", "/var/log", "/var/cache"] {
            mount_overlay(directory, &Path::new("/run/.changes").join(directory.trim_start_matches('/')));
        }
        command::run(&["ip", "link", "set", "lo", "up"]);
        Some(Self { before: RefCell::new(Before::now()), binary, _isolation: isolation })
    }

    /// From now on, the servers that the test has started do not see its mounts and unmounts.
    pub fn leave_servers_behind(&self) {
        leave_mount_namespace();
        self.settle();
    }

    /// From now on, all that exists counts as set-up: servers, and mounts that the test itself made.
    pub fn settle(&self) {
        self.before.replace(Before::now());
    }

    /// A filesystem that the kernel served leaves a record, which the next call of shorefast removes. Any call does, so this one only looks.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.list();
        self.before.borrow().assert_nothing_left(Path::new(RUN));
    }

    /// The same without a panic: returns what is left, after there was time to clean up.
    pub fn what_is_left(&self) -> Option<String> {
        self.before.borrow().what_is_left(Path::new(RUN))
    }

    /// The same; `step` runs before each check, as long as something is left.
    pub fn what_is_left_after(&self, step: impl FnMut()) -> Option<String> {
        self.before.borrow().what_is_left_after(Path::new(RUN), step)
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new(HOME).join(name)
    }

    /// An empty directory, e.g. to mount on.
    pub fn directory(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
        path
    }

    /// Unused mounts, each with a filesystem of its own, as on a host with many containers.
    pub fn gather_crowd(&self, below: impl AsRef<Path>, mounts: usize) {
        for number in 0..mounts {
            let point = below.as_ref().join(number.to_string());
            fs::create_dir_all(&point).unwrap_or_else(|error| panic!("cannot create {}: {error}", point.display()));
            mount_tmpfs(&point);
        }
    }

    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Configures the local package archive as the source of images: a test cannot reach the public one.
    pub fn offer_packages(&self) {
        self.offer_packages_of(&crate::client::current_packages());
    }

    pub fn offer_packages_of(&self, packages: &Path) {
        let configuration = format!(
            "suite = \"trixie\"\nmirrors = [\"file:{}\"]\nkeyring = \"{}\"\n",
            packages.display(),
            packages.join("key.gpg").display()
        );
        fs::create_dir_all("/etc/shorefast").expect("a writable /etc");
        fs::write("/etc/shorefast/packages.toml", configuration).expect("a writable /etc");
    }

    /// A client definition of the administrator's.
    pub fn define(&self, name: &str, definition: &str) -> PathBuf {
        let file = Path::new("/etc/shorefast/clients.d").join(name).with_extension("toml");
        fs::create_dir_all(file.parent().expect("a directory")).expect("/etc is the test's own");
        fs::write(&file, definition).expect("/etc is the test's own");
        file
    }

    /// Overlays a directory of the machine: from now on, changes are visible to this test only.
    pub fn make_writable(&self, directory: &str) {
        mount_overlay(directory, &Path::new("/run/.changes").join(directory.trim_start_matches('/')));
        self.settle();
    }

    /// The binary under another name, which is another front: a symbolic link at `path`.
    pub fn install(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a test's own directory");
        std::os::unix::fs::symlink(&self.binary, &path).unwrap_or_else(|error| panic!("cannot link {}: {error}", path.display()));
        path
    }

    /// The binary as helpers of mount(8), in the place of those that are installed on this machine.
    pub fn install_helpers(&self, names: &[&str]) {
        const HELPERS: &str = "/usr/sbin";
        mount_overlay(HELPERS, &Path::new("/run/.changes").join(names[0]));
        for name in names {
            let path = Path::new(HELPERS).join(name);
            let _ = fs::remove_file(&path); // none is installed
            std::os::unix::fs::symlink(&self.binary, &path).unwrap_or_else(|error| panic!("cannot link {}: {error}", path.display()));
        }
        self.settle();
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }

    pub fn run_directory(&self) -> &Path {
        Path::new(RUN)
    }

    #[track_caller]
    pub fn shorefast<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        self.start(arguments).finish()
    }

    pub fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Running {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        Running::start(command)
    }

    #[track_caller]
    pub fn list(&self) -> Vec<serde_json::Value> {
        let list = self.shorefast(&["list", "--json"]).succeeds().json();
        list.as_array().unwrap_or_else(|| panic!("not an array: {list}")).clone()
    }

    /// Processes in sandboxes that this test started.
    pub fn sandboxed(&self) -> Vec<Process> {
        processes::on_this_network().into_iter().filter(Process::is_sandboxed).collect()
    }

    /// Waits until the client has begun to run.
    pub fn wait_for_client(&self, name: &str) -> Process {
        wait::until(&format!("the client {name} to run"), || {
            self.sandboxed().into_iter().find(|process| process.status("Name").as_deref() == Some(name))
        })
    }
}

impl Drop for Host {
    /// A failed test leaves servers and clients behind; only processes on this test's own network are ended.
    fn drop(&mut self) {
        processes::on_this_network().iter().for_each(|process| process.signal(Signal::KILL));
    }
}

fn binary() -> PathBuf {
    let beside_us = || {
        let program = std::env::current_exe().expect("a program knows its own path");
        // target/PROFILE/deps/TEST-HASH, or target/PROFILE/xtask
        let place = program.parent().expect("a program is in a directory");
        let profile = if place.ends_with("deps") { place.parent().unwrap_or(place) } else { place };
        profile.join("shorefast")
    };
    std::env::var_os("SHOREFAST_BIN").map_or_else(beside_us, PathBuf::from)
}

fn obstacle(binary: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if !binary.exists() {
        return Some(format!("{} is not built", binary.display()));
    }
    if !crate::client::images().is_dir() {
        return Some("the client images are not built: run `cargo xtask setup`".to_owned());
    }
    None
}
