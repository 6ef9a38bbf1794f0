//! A client dies while containers of a real runtime use its mount: nobody in there notices who works by path, and none of them is started
//! again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::{Client, Host, Root, mountinfo, wait};

use super::daemon;
use super::load::{self, Access, Load};

/// The name of a container, what of the mount it has, how, and what its users do there. All of them share one mount.
type Row = (&'static str, &'static str, &'static str, Access);

const CONTAINERS: [Row; 4] = [
    ("private", "", "rprivate", Access::ReadWrite),
    ("slave", "", "rslave", Access::ReadOnly),
    ("readonly", "", "ro", Access::ReadOnly),
    ("part", "/sub", "rprivate", Access::ReadOnly),
];

const VOLUME: &str = "/data";
const CRASHES: u32 = 4;

/// The words by which a container gets a directory of the host.
fn volume(kind: Kind, source: &str, how: &str) -> Vec<String> {
    match kind {
        Kind::Docker | Kind::Podman => vec![format!("--volume={source}:{VOLUME}:{how}")],
        Kind::Containerd => vec!["--mount".to_owned(), format!("type=bind,src={source},dst={VOLUME},options=rbind:{how}")],
    }
}

fn run(host: &Host, runtime: &Runtime, name: &str, source: &str, how: &str) {
    let words = volume(runtime.kind, source, how);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    runtime.run_with(host, name, &words, &["/bin/sleep", "1000"]);
}

fn crash(host: &Host) {
    let before = daemon(host);
    before.signal(Signal::KILL);
    another_serves(host, &before);
}

pub(crate) fn another_serves(host: &Host, before: &Process) {
    wait::until("a new client", || {
        let row = host.list().into_iter().next()?;
        (row["state"] == "serving" && row["pid"].as_u64().is_some_and(|pid| pid != u64::from(before.pid))).then_some(())
    });
}

fn volumes_in(pid: u32) -> Vec<mountinfo::Mount> {
    let table = mountinfo::read(format!("/proc/{pid}/mountinfo")).expect("a running container");
    table.into_iter().filter(|mount| mount.point == Path::new(VOLUME)).collect()
}

fn heals_in(kind: Kind) {
    let Some(host) = Host::with_root(Root::Shared) else { return };
    let runtime = Runtime::start(&host, kind);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::create_dir_all(source.join("sub")).expect("the source can be written to");
    for (file, content) in [("file", "hello"), ("sub/file", "in sub")] {
        fs::write(source.join(file), content).expect("the source can be written to");
    }
    // The client may do there what others may.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("the source is the test's own");
    let client = Client::named("bindfs");
    let mut request = Request::new(&client, "bindfs", &source, &target);
    request.options = "shorefast-crashes=1000".into();
    request.sandboxed(&host).succeeds();

    let loads: Vec<_> = CONTAINERS
        .iter()
        .map(|(name, part, how, access)| {
            run(&host, &runtime, name, &format!("{}{part}", text(&target)), how);
            let pid = runtime.pid(name);
            let before = volumes_in(pid);
            assert_eq!(before.len(), 1, "{name}: {before:?}");
            let enter = ["env".to_owned(), format!("{}=/proc/{pid}/ns/mnt", load::NAMESPACE)];
            (name, pid, before, Load::start(&enter, Path::new(VOLUME), *access, name))
        })
        .collect();
    for _ in 0..CRASHES {
        loads.iter().for_each(|(_, _, _, load)| load.completes_a_round());
        crash(&host);
    }
    loads.iter().for_each(|(_, _, _, load)| load.completes_a_round());
    for (name, pid, before, load) in loads {
        load::assert_nothing_failed(name, &load.finish());
        assert_eq!(runtime.pid(name), pid, "{name} was started again");
        let after = volumes_in(pid);
        let facts = |mounts: &[mountinfo::Mount]| mounts.iter().map(|mount| (mount.fstype.clone(), mount.has("ro"))).collect::<Vec<_>>();
        assert_eq!(facts(&after), facts(&before), "{name}: {after:?}");
    }
    starts_while_it_heals(&host, &runtime, &target);
    for name in CONTAINERS.iter().map(|(name, ..)| *name).chain(["late"]) {
        runtime.remove(name);
    }
    host.shorefast(&["umount", text(&target)]).succeeds();
    wait::until("the mount to be gone", || host.list().is_empty().then_some(()));
}

/// Its runtime looks at the volume, and waits as everybody does.
fn starts_while_it_heals(host: &Host, runtime: &Runtime, target: &Path) {
    let before = daemon(host);
    before.signal(Signal::KILL);
    run(host, runtime, "late", text(target), "rprivate");
    let file = PathBuf::from(format!("/proc/{}/root{VOLUME}/file", runtime.pid("late")));
    another_serves(host, &before);
    wait::until("the volume of a container that came late", || fs::read(&file).is_ok_and(|content| content == b"hello").then_some(()));
    crash(host);
    assert_eq!(fs::read(&file).expect("it is served"), b"hello");
}

#[test]
fn a_client_that_dies_is_replaced_in_containers_of_docker() {
    heals_in(Kind::Docker);
}

#[test]
fn a_client_that_dies_is_replaced_in_containers_of_podman() {
    heals_in(Kind::Podman);
}

#[test]
fn a_client_that_dies_is_replaced_in_containers_of_containerd() {
    heals_in(Kind::Containerd);
}
