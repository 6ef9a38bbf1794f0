//! A live mount gets another client, and nobody who uses it notices: neither who works by path, nor who has something open.

#[path = "replace/load.rs"]
mod load;
#[path = "upgrade/keeping.rs"]
mod keeping;
#[path = "upgrade/refused.rs"]
mod refused;
#[path = "upgrade/kills.rs"]
mod kills;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use keeping::Keeping;
use load::{Access, Load};
use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::{Request, images};
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Ran, Root, command, mountinfo, wait};

/// A mount by a client whose definition the test can change.
struct Scene {
    host: Host,
    target: PathBuf,
    definition: String,
}

const BELOW: &str = "the-directory-below";

/// A bindfs that serves. The directory below its mount has a file that nobody may ever see.
fn scene_on(host: Host, more_keys: &str) -> Scene {
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    scene_of(host, &format!("{definition}\n{more_keys}\n"))
}

fn scene_of(host: Host, definition: &str) -> Scene {
    let client = Client::defined(&host, "bindfs", definition);
    let (source, target) = (host.directory("source"), host.directory("target"));
    ["sub", "other"].iter().for_each(|name| fs::create_dir_all(source.join(name)).expect("the source can be written to"));
    fs::write(source.join("other/another"), "").expect("the source can be written to");
    fs::write(source.join("file"), "hello").expect("the source can be written to");
    fs::write(source.join("sub/file"), "in sub").expect("the source can be written to");
    // The client may do there what others may.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("the source is the test's own");
    fs::write(target.join(BELOW), "").expect("the target can be written to");
    Request::new(&client, "bindfs", source, &target).sandboxed(&host).succeeds();
    Scene { host, target, definition: definition.to_owned() }
}

fn scene() -> Option<Scene> {
    Host::new().map(|host| scene_on(host, ""))
}

impl Scene {
    /// From now on the definition says something else, as after the administrator's change.
    fn redefine(&self, version: u32) {
        self.host.file("client.toml", format!("{}\nenv = {{ VERSION = \"{version}\" }}\n", self.definition));
    }

    fn upgrade(&self) -> Ran {
        self.host.shorefast(&["upgrade", "--json", text(&self.target)])
    }

    /// What was done, and that it was.
    #[track_caller]
    fn upgraded(&self) -> Value {
        let done = self.upgrade().succeeds().json()[0].clone();
        assert_eq!(done["result"], "upgraded", "{done:#}");
        assert_eq!(done["degraded"], Value::Array(Vec::new()), "{done:#}");
        done
    }

    fn rows(&self, state: &str) -> Vec<Value> {
        self.host.list().into_iter().filter(|row| row["state"] == state).collect()
    }

    fn daemon(&self) -> Process {
        wait::until("a client that serves", || {
            let pid = self.rows("serving").first()?["pid"].as_u64()?;
            Some(Process { pid: u32::try_from(pid).ok()? })
        })
    }

    fn all_old_clients_end(&self) {
        wait::until("the old clients to end", || self.rows("draining").is_empty().then_some(()));
    }

    fn end(&self) {
        self.host.shorefast(&["umount", text(&self.target)]).succeeds();
        self.host.assert_nothing_left();
        assert!(fs::read_dir(&self.target).expect("our own directory").count() <= 1);
    }
}

/// The process that [`Load`] starts.
#[test]
#[ignore = "it is the process that other tests start"]
fn loading_process() {
    load::loading_process();
}

/// More of them in the soak: `SHOREFAST_UPGRADES=100`.
fn upgrades() -> u32 {
    std::env::var("SHOREFAST_UPGRADES").ok().and_then(|count| count.parse().ok()).unwrap_or(4)
}

/// An upgrade loses nothing: what fails with a descriptor fails, too. A rename or link that has one path before the swap and one after is told that
/// these are two filesystems.
#[track_caller]
fn assert_nobody_noticed(where_: &str, mut result: load::Result) {
    if let Some(link) = result.get_mut("link") {
        link.failed.retain(|error, times| !error.contains("CrossesDevices") || *times > u64::from(upgrades()));
    }
    load::assert_nothing_failed(where_, &result);
    for (kind, counted) in &result {
        assert_eq!(counted.on_descriptors, 0, "{where_}: {kind}: {counted:?}");
        assert!(counted.repeated == 0 || kind == "rename", "{where_}: {kind}: {counted:?}");
        assert!(counted.repeated <= u64::from(upgrades()), "{where_}: {kind}: {counted:?}");
    }
}

/// On the host, and in another mount namespace that has a read-only directory of it.
#[test]
fn nobody_notices_who_works_by_path_or_has_something_open() {
    let Some(host) = Host::with_root(Root::Shared) else { return };
    let scene = scene_on(host, "");
    let inside = scene.host.directory("inside");
    let script = format!(
        "mount --make-rprivate / && mount --bind {0}/sub {1} && mount -o remount,bind,ro {1} && echo ready && exec sleep 1000",
        text(&scene.target),
        text(&inside)
    );
    let mut other = Command::new("unshare").args(["-m", "sh", "-c", &script]).spawn().expect("unshare");
    let table = || fs::read_to_string(format!("/proc/{}/mountinfo", other.id())).unwrap_or_default();
    wait::until("the other namespace", || table().lines().any(|line| line.contains("/srv/inside ro,")).then_some(()));
    let enter: Vec<_> = ["nsenter", "-m", "-t", &other.id().to_string()].map(str::to_owned).to_vec();
    let here = Load::start(&[], &scene.target, Access::ReadWrite, "here");
    let there = Load::start(&enter, &inside, Access::ReadOnly, "there");
    for version in 1..=upgrades() {
        here.completes_a_round();
        there.completes_a_round();
        let keeping = Keeping::start(&scene.target);
        let before = scene.daemon();
        scene.redefine(version);
        let done = scene.upgraded();
        assert_eq!(done["definition"], serde_json::json!(["env.VERSION"]));
        assert_eq!(done["draining"].as_u64(), Some(before.pid.into()), "something is open on it: {done:#}");
        assert_ne!(scene.daemon().pid, before.pid);
        assert!(scene.rows("draining").iter().any(|row| row["pid"] == before.pid), "{:#?}", scene.host.list());
        assert_eq!(mountinfo::at(&scene.target).len(), 1, "the number of mounts is as before");
        keeping.finish_unharmed();
    }
    assert_nobody_noticed("here", here.finish());
    assert_nobody_noticed("there", there.finish());
    let table = table();
    let of_it: Vec<_> = table.lines().filter(|line| line.contains(" /srv/inside ")).collect();
    assert!(of_it.len() == 1 && of_it[0].contains("/srv/inside ro,"), "{of_it:?}");
    scene.all_old_clients_end();
    other.kill().expect("a child of ours");
    other.wait().expect("a child of ours");
    scene.end();
}

/// Its key is no longer where it was when it was mounted.
#[test]
fn an_sshfs_is_upgraded_under_load_with_the_secret_that_it_has() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    let definition = fs::read_to_string(&Client::named("sshfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "sshfs", &definition);
    let target = host.directory("target");
    let mut request = Request::new(&client, "sshfs", server.source(), &target);
    request.options = server.options().into();
    request.sandboxed(&host).succeeds();
    fs::remove_file(&server.key).expect("the key is the test's own");
    fs::write(server.share.join("file"), "hello").expect("the server's directory is the test's own");
    let scene = Scene { host, target, definition };
    let load = Load::start(&[], &scene.target, Access::ReadWrite, "sshfs");
    for version in 1..=upgrades() {
        load.completes_a_round();
        let keeping = Keeping::start(&scene.target);
        scene.redefine(version);
        scene.upgraded();
        keeping.finish_unharmed();
    }
    let mut result = load.finish();
    // SFTP has no pipes.
    result.remove("mknod");
    assert_nobody_noticed("sshfs", result);
    scene.all_old_clients_end();
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
}

/// Two images with one name, one after the other.
#[test]
fn each_client_is_listed_with_the_image_that_it_runs() {
    let Some(host) = Host::new() else { return };
    let import = |archive: &Path| {
        let digest = host.shorefast(&["image", "import", &format!("tar:{}", text(archive)), "mine"]).succeeds().stdout;
        digest.trim().to_owned()
    };
    let (archive, extra) = (host.path("client.tar"), host.file("extra", "another version"));
    fs::copy(images().join("bindfs.tar"), &archive).expect("an image of the set-up");
    let first = import(&archive);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "hello").expect("the source can be written to");
    let client = Client::named("bindfs");
    let mount = ["mount", "-t", "bindfs", "--client-file", text(&client.definition), "--image", "mine", text(&source), text(&target)];
    host.shorefast(&mount).succeeds();
    let said = |words: &[&str]| host.shorefast(words).succeeds().stdout;
    assert!(said(&["upgrade", text(&target)]).contains("nothing to do"));
    command::run(&[
        "tar",
        "--append",
        "-f",
        text(&archive),
        "-C",
        "/srv",
        extra.file_name().and_then(|name| name.to_str()).expect("a name"),
    ]);
    let second = import(&archive);
    assert_ne!(first, second);
    let planned = said(&["upgrade", "--dry-run", text(&target)]);
    let short = |digest: &str| digest.trim_start_matches("sha256:")[..12].to_owned();
    assert!(planned.contains(&short(&first)) && planned.contains(&short(&second)), "{planned}");
    assert_eq!(host.list()[0]["digest"], first, "a dry run does nothing");
    let open = fs::File::open(target.join("file")).expect("it is served");
    assert!(said(&["upgrade", "--client", "bindfs"]).contains("serves what is open on it"));
    let digests = |state: &str| -> Vec<_> {
        host.list().into_iter().filter(|row| row["state"] == state).filter_map(|row| row["digest"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!((digests("serving"), digests("draining")), (vec![second.clone()], vec![first.clone()]));
    host.shorefast(&["image", "prune", "--all"]).succeeds();
    assert_eq!(std::io::read_to_string(&open).expect("the old client serves it"), "hello");
    drop(open);
    wait::until("the old client to end", || digests("draining").is_empty().then_some(()));
    assert!(said(&["upgrade", "--all"]).contains("nothing to do"));
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn an_old_client_that_dies_is_not_replaced_and_the_new_one_is() {
    let Some(scene) = scene() else { return };
    let old = scene.daemon();
    let open = fs::File::open(scene.target.join("file")).expect("it is served");
    scene.redefine(1);
    scene.upgraded();
    old.signal(Signal::KILL);
    scene.all_old_clients_end();
    assert!(open.sync_all().is_err(), "nobody serves it any more");
    drop(open);
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served"), b"hello");
    let new = scene.daemon();
    new.signal(Signal::KILL);
    assert_eq!(fs::read(scene.target.join("file")).expect("it is healed"), b"hello");
    wait::until("another client", || (scene.daemon().pid != new.pid).then_some(()));
    scene.end();
}

/// The new client takes a while; the old one dies meanwhile. Whoever waits is served by the new one, and there is no third.
#[test]
fn a_crash_in_the_middle_of_an_upgrade_ends_with_the_new_client() {
    let Some(scene) = scene() else { return };
    let before = scene.daemon();
    scene.host.file("client.toml", SLOW);
    let upgrade = scene.host.start(&["upgrade", "--json", text(&scene.target)]);
    scene.host.wait_for_client("sleep");
    before.signal(Signal::KILL);
    assert_eq!(fs::read(scene.target.join("file")).expect("it waits"), b"hello");
    let done = upgrade.finish().succeeds().json()[0].clone();
    assert_eq!(done["result"], "upgraded");
    wait::until("one client", || (scene.host.list().len() == 1 && scene.rows("serving").len() == 1).then_some(()));
    assert_eq!(scene.host.list()[0]["id"], done["id"]);
    assert_eq!(mountinfo::at(&scene.target).len(), 1);
    scene.end();
}

/// A bindfs that needs a while to begin.
const SLOW: &str = "types = [\"bindfs\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\nnamespaces = { user = \"host\" }\ncommand = [\"sh\", \"-c\", 'sleep 2; exec bindfs \"$@\"', \"sh\", \"{source}\", \"{target}\"]\n";

#[test]
fn what_is_unmounted_in_the_middle_of_an_upgrade_is_gone() {
    let Some(scene) = scene() else { return };
    scene.host.file("client.toml", SLOW);
    let upgrade = scene.host.start(&["upgrade", text(&scene.target)]);
    scene.host.wait_for_client("sleep");
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
    upgrade.finish().exits(32).says("not mounted any more");
    scene.host.assert_nothing_left();
    assert!(scene.target.join(BELOW).exists());
}

/// It is what a user of the mount means who has nothing to do with upgrades.
#[test]
fn an_unmount_does_not_wait_for_files_that_are_open_on_an_old_client() {
    let Some(scene) = scene() else { return };
    let open = fs::File::open(scene.target.join("file")).expect("it is served");
    scene.redefine(1);
    scene.upgraded();
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
    assert!(scene.target.join(BELOW).exists());
    assert_eq!(std::io::read_to_string(&open).expect("the old client serves it"), "hello");
    assert_eq!(scene.rows("draining").len(), 1);
    drop(open);
    scene.host.assert_nothing_left();
    // With force, all of it ends.
    let client = Client::from_file(scene.host.path("client.toml"), "bindfs");
    Request::new(&client, "bindfs", scene.host.path("source"), &scene.target).sandboxed(&scene.host).succeeds();
    let open = fs::File::open(scene.target.join("file")).expect("it is served");
    scene.redefine(2);
    scene.upgraded();
    scene.host.shorefast(&["umount", "--force", text(&scene.target)]).succeeds();
    assert!(scene.host.list().is_empty());
    drop(open);
    scene.host.assert_nothing_left();
}
