//! The container runtimes of Debian, each started for one test, with containers that have no privilege, no /dev/fuse and no
//! shared mount. The test has its own /run, /etc and /var, so each runtime is at its usual place.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::processes::{self, Process};
use crate::servers::Server;
use crate::{Client, Host, command, mountinfo, wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
    Containerd,
}

/// A runtime that runs. Dropped: it and its containers are gone.
#[derive(Debug)]
pub struct Runtime {
    pub kind: Kind,
    names: std::cell::RefCell<Vec<String>>,
    server: Option<Server>,
    /// Where the files of Podman's containers come from.
    files: [&'static str; 2],
}

/// A directory of the host, which needs no storage of Podman's. With these, Podman 4.3 never unmounts a volume.
const DIRECTORY: [&str; 2] = ["--rootfs", "/srv/rootfs"];
const IMAGE: [&str; 2] = ["--pull=never", "clients"];

/// Every container does nothing until it is stopped, and does not reap orphans.
const IDLE: [&str; 2] = ["/bin/sleep", "1000"];

impl Runtime {
    pub fn start(host: &Host, kind: Kind) -> Self {
        let (words, socket): (&[&str], _) = match kind {
            Kind::Docker => (
                &[
                    "dockerd",
                    "--iptables=false",
                    "--bridge=none",
                    "--data-root=/srv/docker",
                    "--exec-root=/run/docker",
                    "--pidfile=/run/docker.pid",
                ],
                Some("/run/docker.sock"),
            ),
            Kind::Containerd => {
                // The Kubernetes plug-in takes seconds to start, and is not used.
                fs::create_dir_all("/etc/containerd").expect("a writable /etc");
                fs::write("/etc/containerd/config.toml", "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n")
                    .expect("a writable /etc");
                (&["containerd"], Some("/run/containerd/containerd.sock"))
            }
            Kind::Podman => (&[], None),
        };
        if kind == Kind::Podman {
            configure_podman();
        }
        let server = socket.map(|_| Server::start(host, "runtime", words));
        if let Some(socket) = socket {
            wait::until(socket, || std::os::unix::net::UnixStream::connect(socket).ok());
        }
        let runtime = Self { kind, names: Vec::new().into(), server, files: DIRECTORY };
        runtime.load(host);
        host.settle();
        runtime
    }

    /// Podman, whose containers are of an image in its own storage, as users have them.
    pub fn podman_with_image(host: &Host) -> Self {
        let mut runtime = Self::start(host, Kind::Podman);
        command::run(&["podman", "import", &archive(), "clients"]);
        host.settle();
        runtime.files = IMAGE;
        runtime
    }

    fn load(&self, host: &Host) {
        let archive = archive();
        match self.kind {
            Kind::Docker => wait::until("Docker to take an image", || {
                let mut import = Command::new("docker");
                import.args(["import", &archive, "clients"]);
                (command::finish(import).code == Some(0)).then_some(())
            }),
            Kind::Podman | Kind::Containerd => {
                // These need no image of their own. Each container has its own files; the directory is shared by all tests.
                let (root, changes, work) = (host.directory("rootfs"), host.directory("changes"), host.directory("work"));
                let image = Client::named("bindfs").image_directory();
                let options = format!("lowerdir={},upperdir={},workdir={}", image.display(), changes.display(), work.display());
                command::run(&["mount", "-t", "overlay", "-o", &options, "overlay", root.to_str().expect("text")]);
            }
        }
    }

    /// Starts a container with a label.
    pub fn run(&self, host: &Host, name: &str, label: &str) {
        self.run_with(host, name, &["--label", label], &IDLE);
    }

    /// Starts a container with further options of the runtime, and another first process.
    pub fn run_with(&self, host: &Host, name: &str, options: &[&str], program: &[&str]) {
        let limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"];
        let words = match self.kind {
            Kind::Docker => [&["docker", "run", "--detach", "--network=host", "--name", name], options, &["clients"]].concat(),
            Kind::Podman => {
                let run = ["podman", "run", "--detach", "--network=host", "--name", name];
                [&run, options, &limits, &self.files].concat()
            }
            Kind::Containerd => [&["ctr", "run", "--detach", "--net-host", "--rootfs"], options, &["/srv/rootfs", name]].concat(),
        };
        command::run(&[&words[..], program].concat());
        self.names.borrow_mut().push(name.to_owned());
        host.settle();
    }

    /// The number of a container's first process.
    pub fn pid(&self, name: &str) -> u32 {
        let text = match self.kind {
            Kind::Docker => command::run(&["docker", "inspect", "--format={{.State.Pid}}", name]).stdout,
            Kind::Podman => command::run(&["podman", "inspect", "--format={{.State.Pid}}", name]).stdout,
            Kind::Containerd => {
                let list = command::run(&["ctr", "tasks", "list"]).stdout;
                let line = list.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next().map(str::to_owned));
                line.unwrap_or_else(|| panic!("no task {name} in {list}"))
            }
        };
        text.trim().parse().unwrap_or_else(|_| panic!("no pid: {text}"))
    }

    /// Stops a container at once; it is still known.
    pub fn stop(&self, name: &str) {
        match self.kind {
            Kind::Docker => drop(command::run(&["docker", "kill", name])),
            Kind::Podman => drop(command::run(&["podman", "kill", name])),
            Kind::Containerd => {
                command::run(&["ctr", "tasks", "kill", "--signal", "KILL", name]);
                // It only sends the signal.
                wait::until("a task to stop", || command::run(&["ctr", "tasks", "list"]).stdout.contains("STOPPED").then_some(()));
            }
        }
    }

    /// Stops a container as its administrator would, and removes it.
    pub fn remove(&self, name: &str) {
        match self.kind {
            Kind::Docker => drop(command::run(&["docker", "rm", "--force", name])),
            Kind::Podman => {
                let id = command::run(&["podman", "inspect", "--format={{.Id}}", name]).stdout;
                command::run(&["podman", "rm", "--force", "--time=0", name]);
                // The end of a container starts another podman, which mounts its storage while it cleans up, concurrently with the next
                // steps. That process and the container's parent have its id on their command lines; other containers continue.
                let is_its = |process: &Process| {
                    let is_podmans = matches!(process.status("Name").as_deref(), Some("podman" | "conmon"));
                    is_podmans && String::from_utf8_lossy(&fs::read(process.file("cmdline")).unwrap_or_default()).contains(id.trim())
                };
                wait::until("podman to clean up", || (!processes::on_this_network().iter().any(is_its)).then_some(()));
            }
            Kind::Containerd => drop(command::run(&["ctr", "tasks", "delete", "--force", name])),
        }
    }

    /// Ends the runtime itself; its containers continue.
    pub fn end(&mut self) {
        self.server = None;
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for name in self.names.borrow().iter() {
            // A failed test may have left it in any state; missing parts need not be ended.
            let words: &[&str] = match self.kind {
                Kind::Docker => &["docker", "rm", "--force", name],
                Kind::Podman => &["podman", "rm", "--force", "--time=0", name],
                Kind::Containerd => &["ctr", "tasks", "delete", "--force", name],
            };
            let mut remove = Command::new(words[0]);
            remove.args(&words[1..]);
            drop(command::finish(remove));
        }
    }
}

/// The files of every container.
fn archive() -> String {
    let archive = Client::named("bindfs").image_directory().with_extension("tar");
    archive.to_str().expect("our own paths are text").to_owned()
}

/// In its usual places, which are the test's own. crun, its default, refuses hosts that have both versions of control groups.
fn configure_podman() {
    let storage = "[storage]\ndriver = \"overlay\"\ngraphroot = \"/srv/podman\"\nrunroot = \"/run/podman-run\"\n";
    let engine = "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\ntmp_dir = \"/run/podman-tmp\"\n";
    let directory = Path::new("/etc/containers");
    fs::create_dir_all(directory).expect("a writable /etc");
    fs::write(directory.join("storage.conf"), storage).expect("a writable /etc");
    fs::write(directory.join("containers.conf"), engine).expect("a writable /etc");
}

/// The container was stopped: the mount stays, and its users get errors, until it is unmounted.
#[track_caller]
pub fn assert_dies_with_its_container(host: &Host, target: &Path) {
    let is_dead = || fs::read_dir(target).is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()));
    wait::until("the mount to die with its container", || is_dead().then_some(()));
    assert_eq!(mountinfo::at(target).len(), 1, "the directory below was uncovered");
    host.shorefast(&["umount".as_ref(), target.as_os_str()]).succeeds();
    wait::until("the record to go", || host.list().is_empty().then_some(()));
}
