//! Mode exec against those who could gain by it: a container that attacks what is started in it, and a client that attacks its broker. With
//! real Docker and Podman containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use shorefast_tests::command::Running;
use shorefast_tests::hostile::{self, files_below};
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::runtimes::{self, Kind, Runtime};
use shorefast_tests::{Host, Ran, command, mountinfo, wait};

const DATA: &str = "/var/data";

/// What the container shall not see.
const SECRET: &str = "secret-of-the-host";

/// As much as a runtime lets somebody add without calling it privileged, but for what this machine lacks itself.
fn everything() -> Vec<&'static str> {
    const SYS_RESOURCE: u64 = 1 << 24;
    let bounding = Process { pid: std::process::id() }.status("CapBnd").unwrap_or_default();
    let has_all = u64::from_str_radix(&bounding, 16).is_ok_and(|set| set & SYS_RESOURCE != 0);
    let lacks: &[&str] = if has_all { &[] } else { &["--cap-drop=SYS_RESOURCE"] };
    [&["--cap-add=ALL", "--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"], lacks].concat()
}

/// Mounts a directory of the container.
fn define_bindfs(host: &Host) {
    host.define(
        "inside",
        "types = [\"inside\"]\nkernel_types = [\"fuse\"]\ncommand = [\"bindfs\", \"-o\", \"{options}\", \"{source}\", \"{target}\"]\n",
    );
}

fn mount(host: &Host, kind: Kind, name: &str, target: &Path) -> Ran {
    host.shorefast(&["mount", "-t", "inside", "--container", &selector(kind, name), DATA, text(target)])
}

fn selector(kind: Kind, name: &str) -> String {
    format!("{}:{name}", format!("{kind:?}").to_lowercase())
}

/// A file of a container, as the host sees it.
fn inside(runtime: &Runtime, name: &str, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{path}", runtime.pid(name)))
}

fn give_data(runtime: &Runtime, name: &str) {
    let data = inside(runtime, name, DATA);
    fs::create_dir_all(&data).and_then(|()| fs::write(data.join("file"), "in the container")).expect("a running container");
}

/// A container whose first process attacks all that it can see, over and over.
struct Spy<'a> {
    runtime: &'a Runtime,
    name: &'a str,
}

impl<'a> Spy<'a> {
    fn start(host: &Host, runtime: &'a Runtime, name: &'a str, options: &[&str], prey: &str) -> Self {
        let program = format!("--volume={}:/spy:ro", text(&hostile::client()));
        let secret = host.file(SECRET, "for the host alone");
        let findings = format!("/tmp/{name}.findings");
        let words = ["/spy", "spy", text(&secret), &findings, prey];
        runtime.run_with(host, name, &[options, &[&program]].concat(), &words);
        give_data(runtime, name);
        let spy = Self { runtime, name };
        wait::until("the spy to look", || (spy.rounds() > 0).then_some(()));
        spy
    }

    fn rounds(&self) -> u64 {
        fs::read_to_string(inside(self.runtime, self.name, &format!("/tmp/{}.rounds", self.name)))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    fn findings(&self) -> String {
        fs::read_to_string(inside(self.runtime, self.name, &format!("/tmp/{}.findings", self.name))).expect("a running container")
    }
}

/// Makes and ends mounts in a container, while that attacks.
fn mount_often(host: &Host, spy: &Spy<'_>, times: u32) {
    let target = host.directory("target");
    let before = spy.rounds();
    let started = Instant::now();
    for _ in 0..times {
        mount(host, spy.runtime.kind, spy.name, &target).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"in the container");
        command::run(&["umount", text(&target)]);
    }
    println!("{times} mounts in {:?}, the spy went round {} times", started.elapsed(), spy.rounds() - before);
    assert!(spy.rounds() > before + u64::from(times), "the spy has hardly looked");
}

fn is_never_seen_in(kind: Kind) {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, kind);
    define_bindfs(&host);
    for (name, options) in [("tracer", vec!["--cap-add=SYS_PTRACE"]), ("mighty", everything())] {
        let spy = Spy::start(&host, &runtime, name, &options, "everybody");
        mount_often(&host, &spy, 100);
        assert_eq!(spy.findings(), "", "{name} found something");
        // Were there something to see, it would be seen and taken: what the runtime itself starts there is.
        let exec = if kind == Kind::Docker { "docker" } else { "podman" };
        command::run(&[exec, "exec", name, "sleep", "0.5"]);
        let found = spy.findings();
        assert!(["sees ", "read the memory of ", "took a descriptor of ", "traced "].iter().all(|words| found.contains(words)), "{found}");
        runtime.remove(name);
    }
    host.settle();
    host.assert_nothing_left();
}

/// Two hundred mounts each: minutes on a guest kernel.
mod thorough {
    use super::{Kind, is_never_seen_in};

    #[test]
    fn a_container_of_docker_that_may_trace_never_sees_what_is_started_in_it() {
        is_never_seen_in(Kind::Docker);
    }

    #[test]
    fn a_container_of_podman_that_may_trace_never_sees_what_is_started_in_it() {
        is_never_seen_in(Kind::Podman);
    }
}

/// Such a container sees every process of the host, and with the right to trace it would be the host. Without it, being the same user must
/// not be enough.
#[test]
fn a_container_with_the_hosts_processes_cannot_take_over_what_is_started_in_it() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Podman);
    define_bindfs(&host);
    let spy = Spy::start(&host, &runtime, "watcher", &["--pid=host"], "shorefast");
    // On one processor, as guests have, the attacker takes half of it from us: each mount takes seconds there.
    let times = if thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) { 60 } else { 15 };
    mount_often(&host, &spy, times);
    assert_eq!(spy.findings(), "", "the container found something");
}

/// Everything of it belongs to a user namespace of its own, its pid namespace among it.
#[test]
fn a_client_runs_in_a_container_with_users_of_its_own() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Podman);
    define_bindfs(&host);
    let target = host.directory("target");
    // Its files are its root's.
    command::run(&["chown", "--recursive", "200000:200000", "/srv/rootfs"]);
    let maps = ["--uidmap=0:200000:65536", "--gidmap=0:200000:65536"];
    let few = ["--uidmap=0:200000:1000", "--gidmap=0:200000:1000"];
    for (name, options) in [("many", &maps), ("few", &few)] {
        runtime.run_with(&host, name, options, &["/bin/sleep", "1000"]);
        give_data(&runtime, name);
        mount(&host, Kind::Podman, name, &target).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"in the container");
        let pid = host.list()[0]["pid"].as_u64().expect("a served mount has a daemon");
        let (daemon, container) = (Process { pid: u32::try_from(pid).expect("a pid") }, Process { pid: runtime.pid(name) });
        assert_eq!(daemon.status("Uid").as_deref(), Some("200000\t200000\t200000\t200000"));
        let namespace = |process: &Process, kind: &str| fs::read_link(process.file(&format!("ns/{kind}"))).expect("a running process");
        assert_eq!(namespace(&daemon, "user"), namespace(&container, "user"));
        for place in ["/etc/fuse.conf", "/etc/new/file"] {
            let held = host.directory("held");
            mount_with_secret(&host, &runtime, name, place, &held).succeeds();
            command::run(&["umount", text(&held)]);
        }
        runtime.stop(name);
        runtimes::assert_dies_with_its_container(&host, &target);
        runtime.remove(name);
    }
    host.settle();
    host.assert_nothing_left();
}

fn ends_with(kind: Kind, stop: &[&str]) {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, kind);
    define_bindfs(&host);
    let target = host.directory("target");
    let groups = |process: Process| fs::read_to_string(process.file("cgroup")).expect("a running process");
    runtime.run(&host, "clients", "role=mounter");
    give_data(&runtime, "clients");
    mount(&host, kind, "clients", &target).succeeds();
    let of_container = groups(Process { pid: runtime.pid("clients") });
    let sandboxed = host.sandboxed();
    assert!(!sandboxed.is_empty(), "nothing serves the mount");
    sandboxed.iter().for_each(|process| assert_eq!(groups(*process), of_container, "{}", process.describe()));
    let started = Instant::now();
    command::run(stop);
    runtimes::assert_dies_with_its_container(&host, &target);
    wait::until("the client to end", || host.sandboxed().is_empty().then_some(()));
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
}

#[test]
fn docker_stop_leaves_a_dead_mount() {
    ends_with(Kind::Docker, &["docker", "stop", "--time=1", "clients"]);
}

#[test]
fn podman_stop_leaves_a_dead_mount() {
    ends_with(Kind::Podman, &["podman", "stop", "--time=1", "clients"]);
}

/// Without a user namespace the container's root is the host's, the owner of what root owns.
#[test]
fn a_client_without_a_user_namespace_cannot_replace_the_way_to_its_target() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Podman);
    let program = format!("--volume={}:/hostile:ro", text(&hostile::client()));
    runtime.run_with(&host, "clients", &[&program], &["/bin/sleep", "1000"]);
    let target = host.directory("target");
    for row in ["races-root", "races-rename"] {
        let definition = format!(
            "types = [\"hostile\"]\nkernel_types = [\"tmpfs\"]\nmounts = 1000000\ncommand = [\"/hostile\", \"row\", \"{row}\", \"{{target}}\"]\n"
        );
        host.define("hostile", &definition);
        let ran = host.shorefast(&["mount", "-t", "hostile", "--container", "podman:clients", "hostile", text(&target)]).succeeds();
        let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
        assert!(mount.fstype == "tmpfs" && mount.source == "hostile" && mount.has("nosuid") && mount.has("nodev"), "{row}: {mount:?}");
        let results = fs::read_to_string(target.join("results")).unwrap_or_default();
        assert!(results.contains("\trefused\t"), "{row}: {results}{}", ran.stderr);
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

/// A client that mounts only if it can read its secret, alone, and what else is in the container's /etc.
const READS: &str = "test $(stat -L -c %a $0) = 400 && grep -q hunter2 $0 && grep -q own /etc/hosts.own && mount -t tmpfs tmpfs $1";

fn mount_with_secret(host: &Host, runtime: &Runtime, name: &str, place: &str, target: &Path) -> Ran {
    fs::write(inside(runtime, name, "/etc/hosts.own"), "own").expect("a running container");
    define_holder(host, place);
    let (container, secret) = (selector(runtime.kind, name), host.file("password", "hunter2"));
    host.shorefast(&["mount", "-t", "holder", "--container", &container, "--secret-file", text(&secret), "none", text(target)])
}

fn define_holder(host: &Host, place: &str) {
    let script = toml::Value::String(READS.to_owned());
    host.define(
        "holder",
        &format!(
            "types = [\"holder\"]\nkernel_types = [\"tmpfs\"]\nsecret = {{ to_file = \"{place}\" }}\n\
             command = [\"sh\", \"-c\", {script}, \"{place}\", \"{{target}}\"]\n"
        ),
    );
}

#[test]
fn a_secret_is_never_written_to_the_containers_files() {
    for kind in [Kind::Docker, Kind::Podman] {
        let Some(host) = Host::new() else { return };
        let runtime = Runtime::start(&host, kind);
        runtime.run(&host, "clients", "role=mounter");
        let root = inside(&runtime, "clients", "");
        let etc = root.join("etc");
        for (name, content) in [("x/existing", "nothing yet"), ("hosts.own", "own"), ("elsewhere", "nothing yet")] {
            fs::create_dir_all(etc.join("x")).and_then(|()| fs::write(etc.join(name), content)).expect("a running container");
        }
        std::os::unix::fs::symlink("/etc/elsewhere", etc.join("x/link")).expect("a running container");
        std::os::unix::fs::symlink("/etc/nowhere", etc.join("x/dangling")).expect("a running container");
        let target = host.directory("target");
        let before = files_of(&root);
        let places =
            ["/etc/x/existing", "/etc/x/link", "/etc/x/dangling", "/etc/x/new", "/etc/new", "/etc/new/er/est", "/run/new", "/root/new"];
        for place in places {
            let ran = mount_with_secret(&host, &runtime, "clients", place, &target);
            assert!(!holds(&root, "hunter2"), "{place}: the secret is in the container");
            assert_eq!(files_of(&root), before, "{place}: the container was changed");
            assert_eq!(ran.code, Some(0), "{place}: {}", ran.stderr);
            command::run(&["umount", text(&target)]);
        }
        host.assert_nothing_left();
        assert_eq!(files_of(&root), before, "the container was changed");
        assert!(!holds(&root, "hunter2"));
    }
}

/// Where a container's clients could have left something.
fn places_of(root: &Path) -> Vec<PathBuf> {
    ["etc", "run", "root", "tmp", "var", "shorefast"].iter().flat_map(|name| files_below(&root.join(name))).collect()
}

fn files_of(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut files: Vec<_> =
        places_of(root).into_iter().filter_map(|path| fs::symlink_metadata(&path).ok().map(|meta| (path, meta.len()))).collect();
    files.sort();
    files
}

fn holds(root: &Path, text: &str) -> bool {
    let has = |path: &PathBuf| fs::read(path).is_ok_and(|content| content.windows(text.len()).any(|part| part == text.as_bytes()));
    places_of(root).iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())).any(has)
}

/// A container that may mount, and has a filesystem of its own over one of its directories: it serves that as long as it pleases.
fn is_not_waited_for(covered: &str) {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Podman);
    define_holder(&host, "/etc/below/secret");
    let secret = host.file("password", "hunter2");
    let program = format!("--volume={}:/spy:ro", text(&hostile::client()));
    let options = [&everything()[..], &["--device=/dev/fuse", &program]].concat();
    runtime.run_with(&host, "staller", &options, &["/spy", "serve-foreign", covered]);
    let table = format!("/proc/{}/mountinfo", runtime.pid("staller"));
    wait::until("the container to cover it", || {
        fs::read_to_string(&table).is_ok_and(|table| table.contains(" - fuse foreign ")).then_some(())
    });
    let target = host.directory("target");
    let start = |timeout: &str| {
        let mut command = Command::new(host.binary());
        command.args(["mount", "-t", "holder", "--container", "podman:staller", "--timeout", timeout, "--secret-file", text(&secret)]);
        command.args(["none", text(&target)]);
        Running::start(command)
    };
    let ran = start("2s").finish().exits(32).says("timed out");
    assert!(ran.took < TIMEOUT + Duration::from_secs(4), "it took {:?}, with a timeout of {TIMEOUT:?}", ran.took);
    let mut mount = start("60s");
    thread::sleep(Duration::from_secs(1));
    mount.kill();
    let killed = mount.finish();
    assert!(killed.took < Duration::from_secs(5), "SIGKILL took {:?}", killed.took);
    // Whoever was left behind waits until the container is gone.
    runtime.remove("staller");
    host.shorefast(&["reconcile"]).succeeds();
    host.settle();
    host.assert_nothing_left();
}

#[test]
fn a_container_that_does_not_list_its_files_is_not_waited_for() {
    is_not_waited_for("/");
}

#[test]
fn a_container_that_does_not_find_its_files_is_not_waited_for() {
    is_not_waited_for("/etc");
}
