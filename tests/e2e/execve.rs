//! Processes that hang in execve(2), because a file that it closes is on a filesystem whose server does not answer: who looks at them
//! waits, root included. None of ours does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use shorefast_sys::bounded_call::{self, Bounded};
use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, Ran, hostile, mountinfo, wait};

/// On an idle machine it takes a second at most; here others run tests and compilers.
const BOUND: Duration = Duration::from_secs(20);

/// What we look for among the processes of a host by their names.
const NAMES: [&str; 4] = ["kubelet", "rpc.gssd", "shorefast-init", "anybody"];

struct Hanging {
    server: Child,
    pids: Vec<i32>,
}

impl Hanging {
    fn start(directory: &Path) -> Self {
        let mut command = Command::new(hostile::client());
        command.args(["hangs-in-execve", text(directory)]).args(NAMES).stdout(Stdio::piped());
        let mut server = command.spawn().expect("the hostile program can be started");
        let said = std::io::BufReader::new(server.stdout.take().expect("stdout is a pipe"));
        let lines = std::io::BufRead::lines(said).take(NAMES.len());
        let pids: Vec<i32> = lines.map(|line| line.expect("a line").parse().expect("a pid")).collect();
        let hanging = Self { server, pids };
        wait::until("all of them to hang", || hanging.pids.iter().all(|pid| hangs(*pid)).then_some(()));
        hanging
    }
}

/// Its death ends the connection, and everybody goes on.
impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A file that every kernel locks.
fn hangs(pid: i32) -> bool {
    let read = bounded_call::read(Path::new(&format!("/proc/{pid}/environ")), 1 << 20, Instant::now() + Duration::from_millis(200));
    matches!(read, Bounded::TimedOut)
}

#[track_caller]
fn in_time(ran: Ran) -> Ran {
    assert!(ran.took < BOUND, "it took {:?}: {}", ran.took, ran.stderr);
    ran
}

#[test]
fn no_command_waits_for_a_process_that_hangs() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let (source, targets) = (host.directory("source"), ["one", "two", "three"].map(|name| host.directory(name)));
    let mount = |target: &PathBuf| Request::new(&client, "fuse.bindfs", &source, target).sandboxed(&host).succeeds();
    let [one, two, three] = &targets;
    mount(one);
    let hanging = Hanging::start(&host.directory("hanging"));
    for target in [two, three] {
        in_time(mount(target));
    }
    let command = |words: &[&str]| in_time(host.shorefast(words));
    let row = command(&["inspect", "--json", text(one)]).succeeds().json();
    assert_eq!((row["state"].as_str(), row["pid"].is_i64()), (Some("serving"), true), "{row}");
    assert_eq!(command(&["list", "--json"]).succeeds().json().as_array().map(Vec::len), Some(3));
    command(&["reconcile"]).succeeds();
    // What it finds here is its own affair.
    command(&["doctor"]);
    command(&["umount", text(one)]).succeeds();
    command(&["umount", "--force", text(two)]).succeeds();

    // Its keeper was killed, and the keeper's pid is now that of a process that hangs. As a build without unique ids recorded it, too.
    for keeps_unique in [true, false] {
        let mounted = if keeps_unique {
            three
        } else {
            mount(one);
            one
        };
        let id = id_of(&host, mounted);
        let file = host.run_directory().join(format!("{id}.json"));
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("a record")).expect("JSON");
        let keeper = record["keeper"].as_object_mut().expect("it has a keeper");
        let pid = keeper.insert("pid".to_owned(), json!(hanging.pids[3])).and_then(|pid| pid.as_i64()).expect("a pid");
        if !keeps_unique {
            keeper.remove("unique");
        }
        shorefast_tests::processes::Process { pid: u32::try_from(pid).expect("a pid") }.signal(rustix::process::Signal::KILL);
        fs::write(&file, record.to_string()).expect("the record can be written");
        assert_eq!(command(&["list", "--json"]).succeeds().json().as_array().map(Vec::len), Some(1));
        command(&["reconcile"]).succeeds();
        command(&["umount", text(mounted)]).succeeds();
        assert_eq!(mountinfo::at(mounted), []);
    }
    assert!(hanging.pids.iter().all(|pid| hangs(*pid)), "they hang to the end");
    drop(hanging);
    rustix::mount::unmount(host.path("hanging"), rustix::mount::UnmountFlags::DETACH).expect("it is mounted");
    host.assert_nothing_left();
}

fn id_of(host: &Host, target: &Path) -> String {
    let row = host.shorefast(&["inspect", "--json", text(target)]).succeeds().json();
    row["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_client_that_hangs_is_mounted_shown_and_ended_by_force() {
    for keys in ["", "namespaces = { pid = \"host\" }"] {
        let Some(host) = Host::new() else { return };
        let client = client(&host, keys);
        let target = host.directory("target");
        in_time(Request::new(&client, "hanging", "none", &target).sandboxed(&host).succeeds());
        let _freed = Freed::at(&target);
        let hanging = wait::until("the client's process to hang", || sandboxed().into_iter().find(|pid| hangs(*pid)));
        let row = in_time(host.shorefast(&["inspect", "--json", text(&target)])).succeeds().json();
        assert_eq!(row["state"].as_str(), Some("hung"), "{row}");
        assert!(row["pid"].as_i64().is_some_and(|pid| pid != i64::from(hanging)), "{row}");
        in_time(host.shorefast(&["doctor"]));
        in_time(host.shorefast(&["umount", "--force", text(&target)])).succeeds();
        in_time(host.shorefast(&["reconcile"])).succeeds();
        host.assert_nothing_left();
    }
}

/// A failed test must not leave behind what nobody may look at.
struct Freed(u32);

impl Freed {
    fn at(target: &Path) -> Self {
        let [mount] = &mountinfo::at(target)[..] else { panic!("not one mount") };
        let minor = mount.device.split_once(':').and_then(|(_, minor)| minor.parse().ok());
        Self(minor.expect("a device number"))
    }
}

impl Drop for Freed {
    fn drop(&mut self) {
        if sandboxed().into_iter().any(hangs) {
            let _ = shorefast_sys::unmount::abort_connection(self.0);
        }
    }
}

/// Without a look at what hangs: only their status.
fn sandboxed() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| shorefast_tests::processes::Process { pid: *pid }.is_sandboxed()).map(u32::cast_signed).collect()
}

fn client(host: &Host, keys: &str) -> Client {
    const IMAGE: &str = "/srv/image";
    hostile::make_image(Path::new(IMAGE));
    let command = "[\"/usr/bin/hostile\", \"hangs\", \"{target}\"]";
    Client::defined(host, IMAGE, &format!("types = [\"hanging\"]\nkernel_types = [\"fuse\"]\n{keys}\ncommand = {command}\n"))
}
