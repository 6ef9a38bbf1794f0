//! `shorefast mount` can always be ended: by its deadline, by SIGTERM, SIGINT and SIGKILL, by `umount --force`, wherever its client
//! stopped to answer. What it had started goes with it, at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use shorefast_tests::client::{Request, Way};
use shorefast_tests::command::Running;
use shorefast_tests::{Client, Host, hostile, mountinfo, wait};

/// What ends a mount whose client is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Deadline,
    Signal(Signal),
}

/// On an idle machine it takes milliseconds; here others run tests and compilers.
const AT_ONCE: Duration = Duration::from_secs(5);

#[test]
fn ends_by_the_deadline_wherever_its_client_stalls() {
    stalled_at_every_request(End::Deadline, "");
}

#[test]
fn ends_when_it_is_terminated_wherever_its_client_stalls() {
    stalled_at_every_request(End::Signal(Signal::TERM), "");
}

#[test]
fn ends_when_it_is_interrupted_wherever_its_client_stalls() {
    stalled_at_every_request(End::Signal(Signal::INT), "");
}

#[test]
fn ends_when_it_is_killed_wherever_its_client_stalls() {
    stalled_at_every_request(End::Signal(Signal::KILL), "");
}

#[test]
fn ends_when_it_is_killed_wherever_a_client_among_the_hosts_processes_stalls() {
    stalled_at_every_request(End::Signal(Signal::KILL), "namespaces = { pid = \"host\" }");
}

/// A client that answers everything is mounted: so it is the silence that the others are ended for.
#[test]
fn a_client_that_answers_all_requests_is_mounted() {
    let Some(host) = Host::new() else { return };
    let client = client(&host, "");
    for who in WHO {
        let target = host.directory(who);
        Request::new(&client, "stalling", format!("1000-{who}"), &target).sandboxed(&host).succeeds();
        host.shorefast(&["umount".as_ref(), target.as_os_str()]).succeeds();
        host.assert_nothing_left();
    }
}

#[test]
fn what_is_being_mounted_is_listed_and_ends_by_force() {
    let Some(host) = Host::new() else { return };
    let client = client(&host, "");
    let (mount, target) = start(&host, &client, "3-process", "80s");
    wait::until("the client to stall", || is_silent(&host, "3-process").then_some(()));
    let [row] = &host.list()[..] else { panic!("not one row: {:?}", host.list()) };
    assert_eq!((row["target"].as_str(), row["state"].as_str()), (target.to_str(), Some("mounting")));
    assert_eq!(row["pid"].as_u64(), Some(mount.running.pid().into()));
    host.shorefast(&["umount".as_ref(), target.as_os_str()]).exits(32).says("still being mounted").says("--force");
    let ran = host.shorefast(&["umount".as_ref(), "--force".as_ref(), target.as_os_str()]).succeeds();
    assert!(ran.took < AT_ONCE, "{:?}", ran.took);
    assert_eq!(mount.running.finish().code, None, "it was killed");
    assert_eq!(host.list(), [] as [serde_json::Value; 0]);
    host.assert_nothing_left();
}

/// A record is written before its mount can be seen, and whoever lists or mounts meanwhile must not take it for one that is over.
#[test]
fn nobody_forgets_a_mount_of_the_kernels_that_is_being_made() {
    let Some(host) = Host::new() else { return };
    let script = Client::script(&host, "mount -t tmpfs none \"$1\"; sleep 1", "");
    let request = Request::new(&script, "script", "none", host.directory("target"));
    let running = host.start(&request.arguments(Way::Directory, &[]));
    let memory = Client::named("tmpfs");
    wait::until("the client to run", || {
        host.sandboxed().iter().any(|process| process.status("Name").as_deref() == Some("sleep")).then_some(())
    });
    for number in 0..3 {
        Request::new(&memory, "tmpfs", "none", host.directory(format!("{number}"))).sandboxed(&host).succeeds();
        host.list();
    }
    assert_eq!(running.finish().code, Some(0));
    assert_eq!(host.list().len(), 4, "{:?}", host.list());
    for name in ["target", "0", "1", "2"] {
        host.shorefast(&["umount".as_ref(), host.path(name).as_os_str()]).succeeds();
    }
    host.assert_nothing_left();
}

const WHO: [&str; 2] = ["process", "thread"];
const REQUESTS: u32 = 10;

fn stalled_at_every_request(end: End, keys: &str) {
    let Some(host) = Host::new() else { return };
    let client = client(&host, keys);
    let stalls = std::iter::once("none".to_owned()).chain((0..REQUESTS).map(|answered| answered.to_string()));
    let ways: Vec<String> = stalls.flat_map(|stall| WHO.map(|who| format!("{stall}-{who}"))).collect();
    let timeout = if end == End::Deadline { "3s" } else { "80s" };
    let started: Vec<_> = ways.iter().map(|way| start(&host, &client, way, timeout)).collect();
    for (way, (mount, target)) in ways.iter().zip(started) {
        let asked = match end {
            End::Deadline => mount.started,
            End::Signal(signal) => {
                wait::until("the client to stall", || is_silent(&host, way).then_some(()));
                let pid = Pid::from_raw(mount.running.pid().cast_signed()).expect("a pid");
                kill_process(pid, signal).expect("it runs");
                Instant::now()
            }
        };
        let ran = mount.running.finish();
        let allowed = if end == End::Deadline { AT_ONCE + Duration::from_secs(3) } else { AT_ONCE };
        assert!(asked.elapsed() < allowed, "{end:?} {way}: took {:?}", asked.elapsed());
        assert_eq!(ran.code, if end == End::Deadline { Some(32) } else { None }, "{end:?} {way}: {}", ran.stderr);
        assert_eq!(mountinfo::at(&target), [], "{end:?} {way}");
    }
    let ended = Instant::now();
    host.assert_nothing_left();
    assert!(ended.elapsed() < AT_ONCE, "it took {:?} until nothing was left", ended.elapsed());
}

struct Mount {
    running: Running,
    started: Instant,
}

fn start(host: &Host, client: &Client, way: &str, timeout: &str) -> (Mount, PathBuf) {
    let target = host.directory(way);
    let request = Request::new(client, "stalling", way, &target);
    let running = host.start(&request.arguments(Way::Directory, &["--timeout", timeout]));
    (Mount { running, started: Instant::now() }, target)
}

/// The client says so in its log.
fn is_silent(host: &Host, way: &str) -> bool {
    let said = format!("stalled {way}\n");
    let has_said = |log: Vec<u8>| log.windows(said.len()).any(|words| words == said.as_bytes());
    let live = |file: &&PathBuf| !file.starts_with(host.run_directory().join("past"));
    hostile::files_below(host.run_directory()).iter().filter(live).any(|file| fs::read(file).is_ok_and(has_said))
}

fn client(host: &Host, keys: &str) -> Client {
    const IMAGE: &str = "/srv/image";
    hostile::make_image(Path::new(IMAGE));
    let command = "[\"/usr/bin/hostile\", \"stall\", \"{source}\", \"{target}\"]";
    Client::defined(host, IMAGE, &format!("types = [\"stalling\"]\nkernel_types = [\"fuse\"]\n{keys}\ncommand = {command}\n"))
}
