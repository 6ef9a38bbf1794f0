//! The mount on the host: where the caller said, with the caller's flags, and nothing else changed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use shorefast_tests::client::{Request, Way};
use shorefast_tests::command::Running;
use shorefast_tests::{Client, Host, Root, command, mountinfo, wait};

fn unmount(target: &Path) {
    rustix::mount::unmount(target, rustix::mount::UnmountFlags::NOFOLLOW).expect("cannot unmount");
}

#[test]
fn has_the_flags_of_the_caller_and_always_nosuid_and_nodev() {
    let rows: [(&str, &[&str]); 7] = [
        ("", &["rw", "nosuid", "nodev", "relatime"]),
        ("ro", &["ro", "nosuid", "nodev"]),
        ("noexec,noatime", &["rw", "nosuid", "nodev", "noexec", "noatime"]),
        ("nodiratime", &["rw", "nosuid", "nodev", "nodiratime"]),
        ("suid,dev", &["rw", "nosuid", "nodev"]),
        ("ro,rw", &["rw", "nosuid", "nodev"]),
        ("defaults,_netdev,nofail,x-systemd.automount", &["rw", "nosuid", "nodev"]),
    ];
    let Some(host) = Host::new() else { return };
    let source = host.directory("source");
    for (client, fstype, source) in [("tmpfs", "tmpfs", OsStr::new("none")), ("bindfs", "bindfs", source.as_os_str())] {
        let client = Client::named(client);
        for (options, flags) in rows {
            let request = Request::new(&client, fstype, source, host.directory("target")).options(options);
            request.sandboxed(&host).succeeds();
            let [mount] = &mountinfo::at(&request.target)[..] else { panic!("not one mount") };
            for flag in flags {
                assert!(mount.has(flag), "{fstype} with {options:?} is not {flag}: {mount:?}");
            }
            unmount(&request.target);
        }
    }
    host.assert_nothing_left();
}

#[test]
fn a_read_only_mount_cannot_be_written_to() {
    let Some(host) = Host::new() else { return };
    let source = host.directory("source");
    fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("cannot chmod");
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", &source, host.directory("target")).options("ro");
    request.sandboxed(&host).succeeds();
    let error = fs::write(request.target.join("file"), "").expect_err("written");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    unmount(&request.target);
    host.assert_nothing_left();
}

/// Each looks whether something is there before its client runs, which takes long enough for the other to look, too.
#[test]
fn of_two_that_mount_at_one_place_at_the_same_time_one_waits_and_is_told() {
    let Some(host) = Host::new() else { return };
    let client = Client::script(&host, "sleep 1; exec mount -t tmpfs none \"$1\"", "");
    let request = Request::new(&client, "script", "none", host.directory("target"));
    let both = [0, 1].map(|_| host.start(&request.arguments(Way::Directory, &[])));
    let [first, second] = both.map(Running::finish);
    let (made, refused) = if first.code == Some(0) { (first, second) } else { (second, first) };
    made.succeeds();
    refused.exits(32).says("has this mount already");
    assert_eq!(mountinfo::at(&request.target).len(), 1);
    unmount(&request.target);
    host.assert_nothing_left();
}

#[test]
fn a_crowd_of_mounts_changes_nothing() {
    let Some(host) = Host::new() else { return };
    host.gather_crowd("/run/crowd", 1000);
    host.settle();
    let source = host.directory("source");
    fs::write(source.join("file"), "here").expect("the test's own");
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", &source, host.directory("target"));
    request.mount(&host, Way::Catalogue).succeeds();
    assert_eq!(fs::read_to_string(request.target.join("file")).expect("it is served"), "here");
    unmount(&request.target);
    host.assert_nothing_left();
}

#[test]
fn a_symlink_swapped_while_the_client_runs_changes_nothing() {
    let Some(host) = Host::new() else { return };
    let (asked, other) = (host.directory("asked"), host.directory("other"));
    for place in [&asked, &other] {
        fs::create_dir(place.join("target")).expect("cannot create a directory");
    }
    let link = host.path("link");
    symlink(&asked, &link).expect("cannot create a symlink");
    let client = Client::script(&host, "sleep 2; exec mount -t tmpfs none \"$1\"", "");
    let request = Request::new(&client, "script", "none", link.join("target"));
    let running = host.start(&request.arguments(Way::Directory, &[]));

    host.wait_for_client("sleep");
    fs::remove_file(&link).expect("cannot remove the symlink");
    symlink(&other, &link).expect("cannot create a symlink");
    running.finish().succeeds();

    assert_eq!(mountinfo::at(asked.join("target")).len(), 1);
    assert_eq!(mountinfo::at(other.join("target")), []);
    unmount(&asked.join("target"));
    host.assert_nothing_left();
}

#[test]
fn paths_may_have_any_byte_that_a_name_may_have() {
    let names: [&[u8]; 7] = [b"a space", b"a\nnewline", b"not \xff utf-8", b"back\\slash", b"com,ma", b"quote\"s'", b"-o"];
    let Some(host) = Host::new() else { return };
    for name in names {
        let name = OsStr::from_bytes(name);
        let source = host.directory(Path::new("sources").join(name));
        let target = host.directory(Path::new("targets").join(name));
        fs::write(source.join("file"), "content").expect("the source can be written to");
        let client = Client::named("bindfs");
        let request = Request::new(&client, "bindfs", &source, &target);
        request.sandboxed(&host).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content");
        let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount at {target:?}") };
        assert_eq!(mount.source, source.as_os_str());
        host.shorefast(&[OsStr::new("umount"), OsStr::new("--"), target.as_os_str()]).succeeds();
        host.assert_nothing_left();
    }
}

#[test]
fn a_relative_target_is_the_callers() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("here/target");
    let client = Client::named("tmpfs");
    let mut command = std::process::Command::new(host.binary());
    let request = Request::new(&client, "tmpfs", "none", "target");
    command.args(request.arguments(Way::Directory, &[])).current_dir(host.path("here"));
    command::finish(command).succeeds();
    assert_eq!(mountinfo::at(&target).len(), 1);
    unmount(&target);
    host.assert_nothing_left();
}

#[test]
fn a_quoted_option_keeps_its_comma() {
    let Some(host) = Host::new() else { return };
    let script = "case \"$2\" in *'label=\"a,b\"'*) exec mount -t tmpfs none \"$1\";; esac; echo \"got $2\" >&2; exit 1";
    let definition = format!(
        "types = [\"script\"]\nkernel_types = [\"tmpfs\"]\ncommand = [\"sh\", \"-c\", {}, \"sh\", \"{{target}}\", \"{{options}}\"]\n",
        toml_string(script)
    );
    let client = Client::defined(&host, "tmpfs", &definition);
    let target = host.directory("target");
    Request::new(&client, "script", "none", &target).options("x=1,label=\"a,b\",noexec").sandboxed(&host).succeeds();
    assert!(mountinfo::at(&target)[0].has("noexec"));
    unmount(&target);
    host.assert_nothing_left();
}

fn toml_string(text: &str) -> String {
    format!("'''{text}'''")
}

#[test]
fn a_source_longer_than_the_kernels_new_interface_takes_still_works() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory(vec!["x".repeat(150); 3].join("/")), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    for (client, fstype) in [("tmpfs", "tmpfs"), ("bindfs", "bindfs")] {
        let client = Client::named(client);
        Request::new(&client, fstype, &source, &target).sandboxed(&host).succeeds();
        let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
        assert_eq!(mount.source, source);
        assert!(mount.has("nosuid") && mount.has("nodev"), "{mount:?}");
        if fstype == "bindfs" {
            assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content");
        }
        unmount(&target);
    }
    host.assert_nothing_left();
}

fn grows_the_table_by_exactly_one(root: Root) {
    let Some(host) = Host::with_root(root) else { return };
    let before = mountinfo::here().len();
    for (client, fstype, target) in [("tmpfs", "tmpfs", "one"), ("bindfs", "bindfs", "two")] {
        let client = Client::named(client);
        Request::new(&client, fstype, host.directory("source"), host.directory(target)).sandboxed(&host).succeeds();
    }
    assert_eq!(mountinfo::here().len(), before + 2);
    unmount(&host.path("one"));
    unmount(&host.path("two"));
    host.assert_nothing_left();
}

#[test]
fn grows_a_private_table_by_exactly_one() {
    grows_the_table_by_exactly_one(Root::Private);
}

#[test]
fn grows_a_shared_table_by_exactly_one() {
    grows_the_table_by_exactly_one(Root::Shared);
}

#[test]
fn reaches_whoever_listens_to_a_shared_root() {
    let Some(host) = Host::with_root(Root::Shared) else { return };
    let target = host.directory("target");
    // A container with a slave of our tree, started before the mount.
    let mut listener = std::process::Command::new("unshare");
    listener.args(["--mount", "--propagation", "slave", "sleep", "300"]);
    let mut listener = Running::start(listener);
    let process = shorefast_tests::processes::Process { pid: listener.pid() };
    wait::until("the container to run", || (process.status("Name").as_deref() == Some("sleep")).then_some(()));
    host.settle();
    let sees = || {
        let table = mountinfo::read(process.file("mountinfo")).expect("the container runs");
        table.into_iter().filter(|mount| mount.point == target).count()
    };

    let client = Client::named("bindfs");
    Request::new(&client, "bindfs", host.directory("source"), &target).sandboxed(&host).succeeds();
    assert_eq!(sees(), 1);
    unmount(&target);
    assert_eq!(sees(), 0);
    host.assert_nothing_left();
    listener.kill();
}

#[test]
fn covers_a_mount_that_is_already_there() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    command::run(&["mount", "-t", "tmpfs", "below", "/srv/target"]);
    host.settle();
    for (client, fstype) in [("tmpfs", "tmpfs"), ("bindfs", "bindfs")] {
        let client = Client::named(client);
        Request::new(&client, fstype, host.directory("source"), &target).sandboxed(&host).succeeds();
        assert_eq!(mountinfo::at(&target).len(), 2);
        host.shorefast(&[OsStr::new("umount"), target.as_os_str()]).succeeds();
        let [mount] = &mountinfo::at(&target)[..] else { panic!("the mount below is gone or covered") };
        assert_eq!(mount.source, "below");
    }
    host.assert_nothing_left();
}
