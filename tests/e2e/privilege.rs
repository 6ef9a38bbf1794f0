//! No privilege: what the client and everything it starts may do, looked up in /proc while it is mounted.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use shorefast_tests::client::{Request, Way};
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, cgroups, command, mountinfo, wait};

/// The only devices that a client gets.
const DEVICES: [&str; 7] = ["full", "fuse", "null", "random", "tty", "urandom", "zero"];

/// A client with a helper process of its own (ssh), and one without a user namespace.
fn with_clients(look: impl Fn(&Host, &Process)) {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    let (sshfs, bindfs) = (Client::named("sshfs"), Client::named("bindfs"));
    let requests = [
        Request::new(&sshfs, "sshfs", server.source(), host.directory("in-a-user-namespace")).options(server.options()),
        Request::new(&bindfs, "bindfs", host.directory("source"), host.directory("with-a-dedicated-user")),
    ];
    for request in requests {
        request.sandboxed(&host).succeeds();
        let processes = host.sandboxed();
        assert!(processes.len() >= 2, "at least the sandbox's first process and the client: {processes:?}");
        processes.iter().for_each(|process| look(&host, process));
        command::run(&["umount", request.target.to_str().expect("our own paths are text")]);
        host.assert_nothing_left();
    }
}

#[test]
fn no_process_has_a_capability_or_can_get_one() {
    with_clients(|_, process| {
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(process.status(set).as_deref(), Some("0000000000000000"), "{set} of {}", process.describe());
        }
        assert_eq!(process.status("NoNewPrivs").as_deref(), Some("1"), "{}", process.describe());
        assert_eq!(process.status("Seccomp").as_deref(), Some("2"), "{}", process.describe());
    });
}

/// A service manager may leave its services capabilities that survive execve(2), where nobody takes them away.
#[test]
fn what_a_caller_left_inheritable_reaches_nobody() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    for keys in ["", "namespaces = { user = \"host\" }"] {
        let client = Client::script(&host, "exec sleep 60", keys);
        let request = Request::new(&client, "script", "none", &target);
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps", "+sys_admin,+dac_override", "--ambient-caps", "+sys_admin,+dac_override"]);
        command.arg(host.binary()).args(request.arguments(Way::Directory, &[]));
        let mut mount = Running::start(command);
        host.wait_for_client("sleep");
        // Process 1 drops what it has when the client runs already.
        let is_init = |process: &Process| process.status("Name").as_deref() == Some("shorefast-init");
        wait::until("process 1 to be executed", || host.sandboxed().iter().any(is_init).then_some(()));
        let processes = host.sandboxed();
        let sets = |process: &Process| ["CapInh", "CapPrm", "CapEff", "CapAmb"].map(|set| process.status(set).unwrap_or_default());
        let held: Vec<_> = processes.iter().map(|process| (process.describe(), sets(process))).collect();
        mount.kill();
        mount.finish();
        host.shorefast(&["reconcile"]).succeeds();
        host.assert_nothing_left();
        assert!(held.len() >= 2, "{held:?}");
        for (process, sets) in held {
            assert!(sets.iter().all(|set| set == "0000000000000000"), "{keys}: {process} has {sets:?}");
        }
    }
}

#[test]
fn no_process_is_a_user_or_a_member_of_a_group_of_the_host() {
    with_clients(|_, process| {
        let uids = process.status("Uid").expect("it lives");
        let gids = process.status("Gid").expect("it lives");
        let groups = process.status("Groups").expect("it lives");
        for id in uids.split_whitespace().chain(gids.split_whitespace()).chain(groups.split_whitespace()) {
            assert!(id.parse().is_ok_and(|id: u32| id >= 2_000_000_000), "{id} of {}", process.describe());
        }
    });
}

/// Asks the kernel (Linux 6.16) how a core of this process would be dumped: 2 is not at all, which is also what keeps others from looking at it.
const ASK_FOR_DUMPS: &str = r#"
import fcntl, os, struct, sys
PIDFD_GET_INFO, PIDFD_INFO_COREDUMP = 0xC048FF0B, 1 << 4
info = bytearray(struct.pack("QQ12I2I", PIDFD_INFO_COREDUMP, *[0] * 15))
try:
    fcntl.ioctl(os.pidfd_open(int(sys.argv[1])), PIDFD_GET_INFO, info)
except OSError:
    sys.exit(print("unknown"))
answer = struct.unpack("QQ12I2I", info)
print(answer[14] if answer[0] & PIDFD_INFO_COREDUMP else "unknown")
"#;

/// The sandbox's first process shares the memory of the mounting one, secrets included, while it already is the client's user.
#[test]
fn nobody_may_look_into_the_memory_of_the_mounting_process() {
    let Some(host) = Host::new() else { return };
    let client = Client::script(&host, "sleep 60", "");
    let request = Request::new(&client, "script", "none", host.directory("target"));
    let mut mount = host.start(&request.arguments(Way::Directory, &[]));
    host.wait_for_client("sleep");
    let asked = command::run(&["python3", "-c", ASK_FOR_DUMPS, &mount.pid().to_string()]);
    mount.kill();
    mount.finish();
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
    match asked.stdout.trim() {
        "unknown" => println!("left out: this kernel does not tell"),
        answer => assert_eq!(answer, "2", "the mounting process is dumpable, and so can be looked at"),
    }
}

/// Records name targets and sources, logs hold what clients print: whatever the caller's umask is, only root reads them.
#[test]
fn what_is_kept_about_mounts_is_for_root_only() {
    let Some(host) = Host::new() else { return };
    let clients = [("bindfs", "/usr"), ("tmpfs", "none")].map(|(name, source)| (Client::named(name), name, source));
    for (client, name, source) in &clients {
        let request = Request::new(client, name, source, host.directory(name));
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(host.binary()).args(request.arguments(Way::Directory, &[]));
        command::finish(shell).succeeds();
    }
    let kept = everything_below(host.run_directory());
    assert!(kept.iter().filter(|path| path.is_file()).count() >= 2, "{kept:?}");
    for path in kept {
        let status = fs::symlink_metadata(&path).expect("it was just listed");
        let open_to_others = status.mode() & 0o077;
        assert_eq!((status.uid(), open_to_others), (0, 0), "{} has mode {:o}", path.display(), status.mode());
    }
    for (_, name, _) in &clients {
        command::run(&["umount", host.path(name).to_str().expect("our own paths are text")]);
    }
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

fn everything_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = entries.flat_map(|path| if path.is_dir() && !path.is_symlink() { everything_below(&path) } else { vec![path] });
    std::iter::once(directory.to_owned()).chain(below).collect()
}

#[test]
fn a_client_sees_only_its_image_and_what_the_plan_names() {
    with_clients(|host, process| {
        let root = process.file("root");
        // On the same path the host has it, and the image has not.
        host.file("host-secret", "");
        for path in ["srv/host-secret", "srv/ssh", "work", "root/.cargo", "boot", "etc/shadow", "sys/fs/cgroup"] {
            assert!(fs::symlink_metadata(root.join(path)).is_err(), "{} sees /{path}", process.describe());
        }
        let beyond_image: Vec<_> =
            mountinfo::read(process.file("mountinfo")).expect("it lives").into_iter().filter(is_of_the_host).collect();
        assert!(beyond_image.len() <= 1, "at most the source of a local client: {beyond_image:?}");
        assert!(beyond_image.iter().all(|mount| mount.fstype == "tmpfs" && mount.point.starts_with("/shorefast")), "{beyond_image:?}");
    });
}

/// /srv is the only host directory that a plan of these tests names a path in; the image is on the disk.
fn is_of_the_host(mount: &mountinfo::Mount) -> bool {
    mountinfo::here().iter().any(|own| own.device == mount.device && own.point == Path::new("/srv"))
}

#[test]
fn a_client_has_no_device_but_the_harmless_ones() {
    with_clients(|_, process| {
        let mut names = Vec::new();
        for entry in fs::read_dir(process.file("root/dev")).expect("there is a /dev").map(|entry| entry.expect("an entry")) {
            let kind = entry.file_type().expect("a kind");
            assert!(!kind.is_block_device(), "{:?}", entry.path());
            if kind.is_char_device() {
                names.push(entry.file_name().into_string().expect("device names are text"));
            }
        }
        names.sort();
        assert_eq!(names, DEVICES, "{}", process.describe());
        no_other_device_below(&process.file("root"), &process.file("root/dev"));
    });
}

/// Walks the client's own file system, not /proc, which shows no device nodes, and not its source or mount.
fn no_other_device_below(directory: &Path, known: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
        let is_device = metadata.file_type().is_block_device() || metadata.file_type().is_char_device();
        // An overlay or an image may have 0:0 "devices" for deleted files: they cannot be opened.
        assert!(!is_device || metadata.rdev() == 0, "device {}", path.display());
        let skipped = path == known || ["proc", "shorefast"].iter().any(|name| path.ends_with(Path::new("root").join(name)));
        if metadata.is_dir() && !skipped {
            no_other_device_below(&path, known);
        }
    }
}

#[test]
fn the_image_is_read_only() {
    with_clients(|_, process| {
        for mount in mountinfo::read(process.file("mountinfo")).expect("it lives") {
            let writable = !mount.has("ro");
            // Its scratch space, and below /shorefast its own mount and what the plan lets it see.
            let ours = matches!(mount.fstype.as_str(), "tmpfs" | "proc") || mount.point.starts_with("/shorefast");
            assert!(!writable || ours, "{} can write to {mount:?}", process.describe());
        }
    });
}

#[test]
fn limits_of_the_definition_are_in_force() {
    let Some(host) = Host::new() else { return };
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let limited = format!("{definition}\nlimits = {{ memory = \"64M\", pids = 40, cpu = 0.5 }}\n");
    let client = Client::defined(&host, "bindfs", &limited);
    let request = Request::new(&client, "bindfs", host.directory("source"), host.directory("target"));
    request.sandboxed(&host).succeeds();
    for process in host.sandboxed() {
        let limit = |controller, v1, v2| cgroups::limit(&process, controller, v1, v2);
        assert_eq!(limit("memory", "memory.limit_in_bytes", "memory.max").as_deref(), Some("67108864"));
        assert_eq!(limit("pids", "pids.max", "pids.max").as_deref(), Some("40"));
        let cpu = limit("cpu", "cpu.cfs_quota_us", "cpu.max");
        assert!(matches!(cpu.as_deref(), Some("50000" | "50000 100000")), "{cpu:?}");
    }
    command::run(&["umount", "/srv/target"]);
    host.assert_nothing_left();
}

/// Callers of every standing: kubelet is protected from the kernel's choice when memory runs out (to be tried, it takes the right to be),
/// a backup runs at the end of the queue, a controller at its head.
const CALLERS: [&[&str]; 3] = [
    &["chrt", "--fifo", "10", "ionice", "--class", "1", "--classdata", "2"],
    &["nice", "-n", "-5", "ionice", "--class", "2", "--classdata", "0"],
    &["nice", "-n", "7", "chrt", "--batch", "0", "ionice", "--class", "3"],
];

#[test]
fn nothing_of_a_mount_has_its_callers_standing() {
    for caller in CALLERS {
        let Some(host) = Host::new() else { return };
        let client = Client::named("bindfs");
        let target = host.directory("target");
        let request = Request::new(&client, "bindfs", host.directory("source"), &target);
        let script = "echo -999 2>/dev/null >/proc/self/oom_score_adj || echo 500 >/proc/self/oom_score_adj; exec \"$@\"";
        let mut command = Command::new("prlimit");
        command.args(["--fsize=1048576:", "sh", "-c", script, "sh"]).args(caller).arg(host.binary());
        command.args(request.arguments(Way::Directory, &[]));
        command::finish(command).succeeds();
        let shown = host.shorefast(&["inspect", "--json", text(&target)]).succeeds().json();
        for role in ["pid", "init", "keeper"] {
            let pid = shown[role].as_u64().unwrap_or_else(|| panic!("no {role} in {shown}")).to_string();
            let said = |words: &[&str]| command::run(&[words, &[pid.as_str()]].concat()).stdout;
            assert_eq!(fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it lives"), "0\n", "{role}, {caller:?}");
            let policy = said(&["chrt", "--pid"]);
            assert!(policy.contains("SCHED_OTHER"), "{role}, {caller:?}: {policy}");
            assert_eq!(said(&["ps", "-o", "ni=", "-p"]).trim(), "0", "{role}, {caller:?}");
            assert_eq!(said(&["ionice", "-p"]).trim(), "none: prio 0", "{role}, {caller:?}");
        }
        let limits = limits_of(&shown);
        assert_eq!(limits("Max file size"), "unlimited", "{caller:?}");
        for none in ["Max nice priority", "Max realtime priority"] {
            assert_eq!(limits(none), "0", "{caller:?}");
        }
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

/// What the kernel says of the daemon's limits, by their names in /proc/PID/limits.
fn limits_of(shown: &serde_json::Value) -> impl Fn(&str) -> String {
    let table = fs::read_to_string(format!("/proc/{}/limits", shown["pid"])).expect("it lives");
    move |name| {
        let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {table}"));
        line.split_whitespace().next().expect("a limit").to_owned()
    }
}

#[test]
fn every_client_has_limits_that_inspect_shows_and_its_definition_changes() {
    let rows = [
        ("", "8589934592", "4096", serde_json::json!(8_u64 << 30), "process"),
        ("limits = { memory = \"64M\", pids = 40 }", "unlimited", "unlimited", serde_json::json!(64 << 20), "client"),
        ("limits = { memory = \"unlimited\" }", "unlimited", "4096", serde_json::Value::Null, ""),
    ];
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    for (keys, data, processes, memory, memory_for) in rows {
        let Some(host) = Host::new() else { return };
        let client = Client::defined(&host, "bindfs", &format!("{definition}\n{keys}\n"));
        let target = host.directory("target");
        Request::new(&client, "bindfs", host.directory("source"), &target).sandboxed(&host).succeeds();
        let shown = host.shorefast(&["inspect", "--json", text(&target)]).succeeds().json();
        let limits = limits_of(&shown);
        assert_eq!(limits("Max data size"), data, "{keys}");
        if processes != "unlimited" {
            assert_eq!(limits("Max processes"), processes, "{keys}");
            assert_eq!(shown["limits"]["processes"], 4096, "{keys}");
        }
        assert_eq!(shown["limits"]["memory_bytes"], memory, "{keys}");
        assert_eq!(shown["limits"]["memory_for"].as_str().unwrap_or_default(), memory_for, "{keys}");
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

#[test]
fn a_client_that_forks_too_much_is_stopped() {
    let Some(host) = Host::new() else { return };
    let bomb = "i=0; while [ $i -lt 500 ]; do sleep 60 & i=$((i+1)); done; echo no limit >&2";
    let client = Client::script(&host, bomb, "limits = { pids = 50 }");
    let ran = Request::new(&client, "script", "none", host.directory("target")).sandboxed(&host).exits(32);
    assert!(ran.stderr.contains("fork") && !ran.stderr.contains("no limit"), "{}", ran.stderr);
    host.assert_nothing_left();
}

#[test]
fn a_client_that_takes_too_much_memory_is_stopped() {
    let Some(host) = Host::new() else { return };
    let glutton = "dd if=/dev/zero of=/dev/null bs=512M count=1 && echo no limit >&2; exit 1";
    let client = Client::script(&host, glutton, "limits = { memory = \"48M\" }");
    let ran = Request::new(&client, "script", "none", host.directory("target")).sandboxed(&host).exits(32);
    assert!(!ran.stderr.contains("no limit"), "{}", ran.stderr);
    host.assert_nothing_left();
}
