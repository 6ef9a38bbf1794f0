//! Clients in containers that already run: found by name or label in the real Docker, Podman and containerd, and their mounts
//! brokered to the host. The containers have no privilege, no /dev/fuse and no shared mount. And the other way round: mounts of ours as
//! volumes of containers.

#[path = "containers/docker.rs"]
mod docker;
#[path = "containers/heals.rs"]
mod heals;
#[path = "replace/load.rs"]
mod load;
#[path = "containers/plugin.rs"]
mod plugin;
#[path = "containers/volume_calls.rs"]
mod volume_calls;
#[path = "containers/volumes_compose.rs"]
mod volumes_compose;
#[path = "containers/volumes_docker.rs"]
mod volumes_docker;
#[path = "containers/volumes_life.rs"]
mod volumes_life;
#[path = "containers/volumes_managed.rs"]
mod volumes_managed;
#[path = "containers/volumes_many.rs"]
mod volumes_many;
#[path = "containers/volumes_moved.rs"]
mod volumes_moved;
#[path = "containers/volumes_podman.rs"]
mod volumes_podman;
#[path = "containers/volumes_systemd.rs"]
mod volumes_systemd;
#[path = "containers/work.rs"]
mod work;

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::runtimes::{self, Kind, Runtime};
use shorefast_tests::{Host, Ran, command, mountinfo, wait};

/// Mounts a directory of the container.
const DEFINITION: &str =
    "types = [\"inside\"]\nkernel_types = [\"fuse\"]\ncommand = [\"bindfs\", \"-o\", \"{options}\", \"{source}\", \"{target}\"]\n";

const DATA: &str = "/var/data";

fn define(more: &str) {
    fs::create_dir_all("/etc/shorefast/clients.d").expect("a writable /etc");
    fs::write("/etc/shorefast/clients.d/inside.toml", format!("{DEFINITION}{more}")).expect("a writable /etc");
}

fn mount(host: &Host, container: &str, target: &Path) -> Ran {
    host.shorefast(&["mount", "-t", "inside", "--container", container, DATA, text(target)])
}

/// The container's own mounts and files, as seen from outside.
fn look_inside(pid: u32) -> (Vec<mountinfo::Mount>, Vec<PathBuf>) {
    let names = |directory: &str| {
        let mut names: Vec<_> = fs::read_dir(format!("/proc/{pid}/root{directory}"))
            .expect("a running container")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        names.sort();
        names
    };
    (mountinfo::read(format!("/proc/{pid}/mountinfo")).expect("a running container"), ["/", "/dev", "/etc", "/var"].map(names).concat())
}

fn daemon(host: &Host) -> Process {
    let pid = host.list()[0]["pid"].as_u64().expect("a served mount has a daemon");
    Process { pid: u32::try_from(pid).expect("a pid") }
}

/// Found by label and by name; lives in the container; leaves it as it was; ends with the mount, and with the container.
fn works_in(kind: Kind) {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, kind);
    runtime.run(&host, "clients", "role=mounter");
    let pid = runtime.pid("clients");
    let data = PathBuf::from(format!("/proc/{pid}/root{DATA}"));
    fs::create_dir_all(&data).and_then(|()| fs::write(data.join("file"), "in the container")).expect("a running container");
    define("mode = \"exec\"\ncontainer = \"role=mounter\"\n");
    let target = host.directory("target");
    let before = look_inside(pid);

    // As the definition says: by the label, whichever runtime has it.
    host.shorefast(&["mount", "-t", "inside", DATA, text(&target)]).succeeds();
    assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"in the container");
    assert_eq!(look_inside(pid), before, "the container was changed");
    let row = &host.list()[0];
    assert_eq!((&row["mode"], &row["state"]), (&"exec".into(), &"serving".into()), "{row}");
    assert!(row["image"].as_str().is_some_and(|name| name.ends_with(":clients")), "{row}");
    let first = daemon(&host);
    lives_in(&first, &Process { pid });

    // When it dies, another one takes over, in the same container.
    first.signal(Signal::KILL);
    assert_eq!(fs::read(target.join("file")).expect("users wait, and do not fail"), b"in the container");
    heals::another_serves(&host, &first);
    let daemon = daemon(&host);
    lives_in(&daemon, &Process { pid });
    assert_eq!((mountinfo::at(&target).len(), look_inside(pid) == before), (1, true), "the container was changed");
    command::run(&["umount", text(&target)]);
    host.assert_nothing_left();
    assert_eq!(daemon.status("Name"), None);
    assert_eq!(look_inside(pid), before, "something was left in the container");

    // By its name, in this runtime; and without the container nobody serves the mount.
    let name = format!("{}:clients", format!("{kind:?}").to_lowercase());
    mount(&host, &name, &target).succeeds();
    runtime.stop("clients");
    runtimes::assert_dies_with_its_container(&host, &target);
    mount(&host, &name, &target).exits(32).says("does not run").says("hint: start the container");
    drop(runtime);
}

fn lives_in(daemon: &Process, container: &Process) {
    assert_eq!(daemon.status("Name").as_deref(), Some("bindfs"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(daemon.status(set).as_deref(), Some("0000000000000000"), "{set}");
    }
    assert_eq!((daemon.status("NoNewPrivs").as_deref(), daemon.status("Seccomp").as_deref()), (Some("1"), Some("2")));
    let namespace = |process: &Process, kind: &str| fs::read_link(process.file(&format!("ns/{kind}"))).expect("a running process");
    for kind in ["net", "ipc", "uts", "user", "cgroup"] {
        assert_eq!(namespace(daemon, kind), namespace(container, kind), "{kind}");
    }
    // One number for each pid namespace from the host's inwards: the client's is not below the container's, so the container does not see it.
    let depth = |process: &Process| process.status("NSpid").expect("a running process").split_whitespace().count();
    assert_eq!(depth(daemon), depth(&Process { pid: std::process::id() }) + 1);
    assert_ne!(namespace(daemon, "pid"), namespace(container, "pid"));
    let groups = |process: &Process| fs::read_to_string(process.file("cgroup")).expect("a running process");
    assert_eq!(groups(daemon), groups(container));
    // The sandbox's own root has devices in it; nothing of the container brings any.
    for mount in mountinfo::read(daemon.file("mountinfo")).expect("a running process") {
        let is_root = mount.source == "shorefast" && mount.point == Path::new("/");
        assert!(mount.has("nosuid") && (mount.has("nodev") || is_root), "{mount:?}");
        assert!(mount.has("ro") || mount.fstype != "proc", "{mount:?}");
    }
}

#[test]
fn a_client_runs_in_a_container_of_docker() {
    works_in(Kind::Docker);
}

#[test]
fn a_client_runs_in_a_container_of_podman() {
    works_in(Kind::Podman);
}

#[test]
fn a_client_runs_in_a_container_of_containerd() {
    works_in(Kind::Containerd);
}

#[test]
fn a_container_that_cannot_be_used_gets_a_clear_error_and_nothing_changes() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    define("");
    let refuses = |container: &str, code: i32, words: &[&str]| {
        let ran = mount(&host, container, &target).exits(code).says("hint:");
        words.iter().for_each(|words| assert!(ran.stderr.contains(words), "{container}: no {words:?} in {}", ran.stderr));
        host.assert_nothing_left();
    };
    refuses("docker:clients", 32, &["docker was not found", "/run/docker.sock"]);
    refuses("containerd:clients", 32, &["containerd was not found", "/run/containerd/containerd.sock"]);
    refuses("a b", 1, &["names no container"]);
    host.shorefast(&["mount", "-t", "inside", "--mode", "exec", "/srv", text(&target)]).exits(1).says("--container");

    let mut runtime = Runtime::start(&host, Kind::Containerd);
    runtime.run(&host, "one", "role=mounter");
    runtime.run(&host, "two", "role=mounter");
    refuses("role=mounter", 32, &["2 running containers", "containerd:one", "containerd:two"]);
    refuses("role=nobody", 32, &["no container role=nobody"]);
    refuses("nobody", 32, &["no container nobody"]);
    define("");
    let no_helper = DEFINITION.replace("\"bindfs\"", "\"mount.nothing\"").replace("inside", "nothing");
    fs::write("/etc/shorefast/clients.d/nothing.toml", no_helper).expect("a writable /etc");
    let ran = host.shorefast(&["mount", "-t", "nothing", "--container", "one", "/srv", text(&target)]);
    ran.exits(32).says("mount.nothing").says("hint: is the helper in the image or container?");
    host.assert_nothing_left();

    // Killed at its work, it leaves nothing in the container either.
    let slow = DEFINITION.replace("\"bindfs\", ", "\"sh\", \"-c\", \"sleep 60\", \"sh\", ").replace("inside", "slow");
    fs::write("/etc/shorefast/clients.d/slow.toml", slow).expect("a writable /etc");
    let mut running = host.start(&["mount", "-t", "slow", "--container", "one", "/srv", text(&target)]);
    wait::until("the client to run", || process_named("sleep", "60"));
    running.kill();
    wait::until("the client to end", || process_named("sleep", "60").is_none().then_some(()));
    // The kill may have come before there was a keeper.
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();

    let pid = runtime.pid("one");
    runtime.end();
    refuses("containerd:one", 32, &["containerd does not answer at /run/containerd/containerd.sock"]);
    Process { pid }.signal(Signal::KILL);
}

fn process_named(name: &str, argument: &str) -> Option<Process> {
    shorefast_tests::processes::on_this_network().into_iter().find(|process| {
        let words = fs::read(process.file("cmdline")).unwrap_or_default();
        words == format!("{name}\0{argument}\0").as_bytes()
    })
}

/// A host of its own in the test: a first process, and the mount table and processes that it sees.
struct OtherHost {
    first: command::Running,
}

impl OtherHost {
    fn start() -> Self {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--pid", "--mount", "--propagation=private", "--fork", "--kill-child", "--mount-proc", "/bin/sleep", "1000"]);
        Self { first: command::Running::start(unshare) }
    }

    /// Its first process, as this machine numbers it.
    fn pid(&self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.first.pid());
        wait::until("the host's first process", || {
            let pid = fs::read_to_string(&children).ok()?.trim().parse().ok()?;
            // Its /proc is mounted when it has become what it is for.
            (fs::read_to_string(format!("/proc/{pid}/comm")).ok()? == "sleep\n").then_some(pid)
        })
    }

    fn run(&self, words: &[&str]) -> Ran {
        let pid = self.pid().to_string();
        let mut enter = std::process::Command::new("nsenter");
        enter.args(["--target", &pid, "--pid", "--mount", "--"]).args(words);
        command::finish(enter)
    }

    fn mounts_at(&self, target: &Path) -> usize {
        let table = mountinfo::read(format!("/proc/{}/mountinfo", self.pid())).expect("a running host");
        table.iter().filter(|mount| mount.point == target).count()
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        self.first.kill();
    }
}

#[test]
fn a_caller_in_a_container_mounts_on_the_host_and_may_end() {
    let Some(host) = Host::new() else { return };
    let _runtime = Runtime::start(&host, Kind::Podman);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let other = OtherHost::start();
    let binary = format!("{}:/shorefast:ro", text(host.binary()));
    let start = |more: &[&str]| {
        let words = ["podman", "run", "--detach", "--privileged", "--network=host", "--name=agent", "--volume=/proc:/host/proc"];
        let limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--volume", &binary];
        other.run(&[&words[..], more, &limits, &["--rootfs", "/srv/rootfs", "/bin/sleep", "1000"]].concat()).succeeds();
    };
    let client = shorefast_tests::Client::named("bindfs");
    let image = format!("dir:{}", client.image_directory().display());
    let definition = text(&client.definition).to_owned();
    let mount = |more: &[&str]| {
        let words = ["podman", "exec", "agent", "/shorefast"];
        let mount = ["mount", "-t", "bindfs", "--client-file", &definition, "--image", &image, text(&source), text(&target)];
        other.run(&[&words[..], more, &mount].concat())
    };

    // What it starts would end with the container: better not at all.
    start(&[]);
    mount(&["--host-proc", "/host/proc"]).exits(2).says("pid namespace").says("hint:");
    mount(&["--host-proc", "/nowhere"]).exits(2).says("/nowhere").says("hint:");
    other.run(&["podman", "rm", "--force", "--time=0", "agent"]).succeeds();

    start(&["--pid=host", "--env=HOSTPROCPATH=/host/proc"]);
    host.settle();
    mount(&[]).succeeds();
    assert_eq!(other.mounts_at(&target), 1, "not on the host");
    let read = || fs::read(format!("/proc/{}/root/srv/target/file", other.pid()));
    assert_eq!(read().expect("the mount can be read"), b"content");
    let list = other.run(&["podman", "exec", "agent", "/shorefast", "list", "--json"]).succeeds().json();
    assert_eq!(list[0]["state"], "serving", "{list}");

    // Neither its daemon nor its keeper is in the container's groups.
    let daemons: Vec<_> = host.sandboxed();
    assert!(!daemons.is_empty());
    for process in &daemons {
        let groups = fs::read_to_string(process.file("cgroup")).expect("a running process");
        assert!(!groups.contains("libpod"), "{} is in {groups}", process.describe());
    }
    other.run(&["podman", "rm", "--force", "--time=0", "agent"]).succeeds();
    assert_eq!(read().expect("the mount outlives its caller"), b"content");

    // So does what starts another client when this one dies.
    let bindfs = || host.sandboxed().into_iter().find(|process| process.status("Name").as_deref() == Some("bindfs"));
    let first = bindfs().expect("it serves");
    first.signal(Signal::KILL);
    assert_eq!(read().expect("users wait, and do not fail"), b"content");
    wait::until("another client", || bindfs().filter(|process| process.pid != first.pid));
    assert_eq!(other.mounts_at(&target), 1);
    other.run(&["umount", text(&target)]).succeeds();
    wait::until("all of it to end", || host.sandboxed().is_empty().then_some(()));
    assert_eq!(other.mounts_at(&target), 0);
}

/// The process that [`load::Load`] starts.
#[test]
#[ignore = "it is the process that other tests start"]
fn loading_process() {
    load::loading_process();
}

/// As the DaemonSet of deploy/kubernetes/csi has it.
#[test]
fn a_server_in_a_container_serves_on_the_host_and_ends_with_its_container() {
    let Some(host) = Host::new() else { return };
    let _runtime = Runtime::start(&host, Kind::Podman);
    let kubelet = host.directory("kubelet");
    let other = OtherHost::start();
    let binary = format!("{}:/shorefast:ro", text(host.binary()));
    let podman = ["podman", "run", "--detach", "--privileged", "--name=driver", "--pid=host", "--env=HOSTPROCPATH=/proc", "--volume"];
    let limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--network=host", "--rootfs", "/srv/rootfs"];
    let serve = ["/shorefast", "serve", "--csi", "--node-id=node", "--kubelet-root", text(&kubelet)];
    other.run(&[&podman[..], &[&binary], &limits, &serve].concat()).succeeds();
    let socket = || fs::exists(format!("/proc/{}/root/srv/kubelet/plugins_registry/csi.shorefast.dev-reg.sock", other.pid()));
    wait::until("the driver's socket on the host", || socket().is_ok_and(|exists| exists).then_some(()));

    // The container's own process, in its control groups, and in the host's namespaces.
    let pid = other.run(&["podman", "inspect", "--format", "{{.State.Pid}}", "driver"]).succeeds().stdout;
    let inside = |script: &str| other.run(&["sh", "-c", &script.replace("PID", pid.trim())]).succeeds().stdout;
    assert_eq!(inside("readlink /proc/PID/ns/mnt"), inside("readlink /proc/1/ns/mnt"));
    assert!(inside("tr '\\0' ' ' < /proc/PID/cmdline").contains("serve --csi"));
    assert!(inside("cat /proc/PID/cgroup").contains("libpod"), "{}", inside("cat /proc/PID/cgroup"));

    let asked = std::time::Instant::now();
    other.run(&["podman", "stop", "--time=30", "driver"]).succeeds();
    assert!(asked.elapsed() < std::time::Duration::from_secs(15), "it did not end by itself: {:?}", asked.elapsed());
    assert!(!socket().expect("the host runs"));
    other.run(&["podman", "rm", "--force", "--time=0", "driver"]).succeeds();
}
