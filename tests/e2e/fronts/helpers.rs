//! mount(8)'s helpers. The oracle is the client that is installed on this machine: the same commands are run with it and with us
//! in its place, and what can be seen of them must be the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use shorefast_tests::client::store;
use shorefast_tests::command::Running;
use shorefast_tests::mountinfo::Mount;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::{Gluster, Sshd, Webdav};
use shorefast_tests::{Client, Host, Ran, command, mountinfo, wait};

use crate::{script, text, with_image};

/// What a user sees of a command.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    command: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The mounts at the target afterwards, without what no two mounts share.
    table: Vec<[String; 4]>,
}

/// The same, except that ours may say more about what went wrong; where nothing did, both say the same.
fn assert_alike_with_more_reasons(native: &[Seen], ours: &[Seen]) {
    for (native, ours) in native.iter().zip(ours) {
        assert_eq!((ours.code, &ours.stdout, &ours.table), (native.code, &native.stdout, &native.table), "{ours:#?}\n{native:#?}");
        if native.code == Some(0) {
            assert_eq!(ours.stderr, native.stderr, "{}", ours.command);
        }
        for line in native.stderr.lines() {
            assert!(ours.stderr.contains(line.trim_end_matches('.')), "{line:?} is missing: {ours:#?}");
        }
    }
}

fn run(words: &[&str]) -> Ran {
    let mut command = Command::new(words[0]);
    // Images that tests share; the installed clients do not look at it.
    command.args(&words[1..]).env("SHOREFAST_ROOT", store());
    command::finish(command)
}

fn see(words: &[&str], target: &Path) -> Seen {
    seen(words, run(words), target)
}

/// An installed client whose mount fails may still be taking it back when its helper has ended. Ours may not.
fn see_native(words: &[&str], target: &Path) -> Seen {
    let ran = run(words);
    if ran.code != Some(0) {
        wait::until("the installed client to take its mount back", || mountinfo::at(target).is_empty().then_some(()));
    }
    seen(words, ran, target)
}

fn seen(words: &[&str], ran: Ran, target: &Path) -> Seen {
    let row = |mount: Mount| {
        let options = mount.flags.join(",");
        [mount.fstype, mount.source.to_string_lossy().into_owned(), options, mount.superblock_options]
    };
    let table = mountinfo::at(target).into_iter().map(row).collect();
    Seen { command: words.join(" "), code: ran.code, stdout: ran.stdout, stderr: ran.stderr, table }
}

/// Runs all with the installed client, then with ours in its place.
fn both(host: &Host, helpers: &[&str], target: &Path, commands: &[&[&str]]) -> (Vec<Seen>, Vec<Seen>) {
    let mut native: Vec<_> = commands.iter().map(|words| see_native(words, target)).collect();
    // Some installed ones let programs run with their owner's rights, and devices be devices. Ours never does.
    for row in native.iter_mut().flat_map(|seen| &mut seen.table).filter(|row| !row[2].contains("nosuid,nodev")) {
        row[2] = format!("{},nosuid,nodev{}", &row[2][..2], &row[2][2..]);
    }
    host.install_helpers(helpers);
    let ours = commands.iter().map(|words| see(words, target)).collect();
    (native, ours)
}

#[test]
fn sshfs_looks_like_the_installed_one() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    fs::write(server.share.join("file"), "content").expect("the share can be written to");
    host.define("sshfs", &with_image("sshfs"));
    let target = host.directory("target");
    let (source, options) = (server.source(), server.options());
    let more = format!("{options},_netdev,x-systemd.automount,comment=x,ro,noexec");
    let wrong = options.replace("port=2222", "port=2");
    let at = text(&target);
    let fstab = format!("{source} {at} fuse.sshfs noauto,_netdev,x-mine.y=z,{options} 0 0\n");
    fs::write("/etc/fstab", fstab).expect("/etc is the test's own");
    let hash = format!("sshfs#{source}");
    let (native, ours) = both(
        &host,
        &["mount.fuse.sshfs", "mount.sshfs", "mount.fuse"],
        &target,
        &[
            &["mount", "-t", "fuse.sshfs", "-o", &options, &source, at],
            &["umount", at],
            &["mount", "-t", "sshfs", &source, at, "-o", &more],
            &["umount", at],
            &["mount", "-t", "fuse", "-o", &options, &hash, at],
            &["umount", at],
            &["mount", at],
            &["umount", "-a", "-t", "fuse.sshfs"],
            &["mount", "-t", "sshfs", "-o", &wrong, &source, at],
        ],
    );
    // Ours adds why ssh failed, which the installed one says only when asked for it.
    assert_alike_with_more_reasons(&native, &ours);
    assert!(ours[0].table.len() == 1 && ours[1].table.is_empty() && ours[8].code != Some(0), "{ours:#?}");
    host.assert_nothing_left();
}

#[test]
fn glusterfs_looks_like_the_installed_one() {
    let Some(host) = Host::new() else { return };
    let server = Gluster::start(&host);
    host.offer_packages();
    let target = host.directory("target");
    let source = server.source();
    let at = text(&target);
    fs::write("/etc/fstab", format!("{source} {at} glusterfs defaults,_netdev,log-level=WARNING 0 0\n")).expect("/etc is the test's own");
    let wrong = source.replace("v0", "no-such-volume");
    let (native, ours) = both(
        &host,
        &["mount.glusterfs"],
        &target,
        &[
            &["mount", "-t", "glusterfs", &source, at],
            &["umount", at],
            &["mount", "-t", "glusterfs", "-o", "ro,noatime,_netdev,log-level=ERROR,direct-io-mode=disable", &source, at],
            &["umount", at],
            &["mount", "-a"],
            &["umount", "-a", "-t", "fuse.glusterfs"],
            &["mount", "-t", "glusterfs", &wrong, at],
        ],
    );
    // Ours adds what the installed one writes into a log.
    assert_alike_with_more_reasons(&native, &ours);
    assert!(ours[0].table.len() == 1 && ours[1].table.is_empty() && ours[6].code != Some(0), "{ours:#?}");
    host.assert_nothing_left();
}

#[test]
fn bindfs_looks_like_the_installed_one() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let (from, at) = (text(&source), text(&target));
    fs::write("/etc/fstab", format!("{from} {at} fuse.bindfs defaults,noexec 0 0\n")).expect("/etc is the test's own");
    let (native, ours) = both(
        &host,
        &["mount.fuse"],
        &target,
        &[
            &["mount", "-t", "fuse.bindfs", from, at],
            &["umount", at],
            &["mount", "-a"],
            &["umount", "-a", "-t", "fuse"],
            &["mount", "-t", "fuse.bindfs", "-o", "no-such-option", from, at],
        ],
    );
    for (native, ours) in native.iter().zip(&ours) {
        assert_eq!((ours.code, &ours.stdout, &ours.table), (native.code, &native.stdout, &native.table), "{ours:#?}\n{native:#?}");
        assert_eq!(ours.stderr.is_empty(), native.stderr.is_empty(), "{ours:#?}\n{native:#?}");
    }
    assert!(ours[0].table.len() == 1 && ours[1].table.is_empty() && ours[4].code != Some(0), "{ours:#?}");
    host.assert_nothing_left();
}

#[test]
fn davfs_looks_like_the_installed_one() {
    let Some(host) = Host::new() else { return };
    let server = Webdav::start(&host);
    fs::write(server.share.join("file"), "content").expect("the share can be written to");
    // What the definition provides, the installed one finds in the same places.
    let definition: toml::Table = with_image("davfs2").parse().expect("a definition of the tests");
    for (path, content) in definition["provide"].as_table().expect("files") {
        fs::write(path, content.as_str().expect("text")).expect("/etc is the test's own");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("/etc is the test's own");
    }
    host.define("davfs", &with_image("davfs2"));
    let target = host.directory("target");
    let (url, at) = (server.url(), text(&target));
    fs::write("/etc/fstab", format!("{url} {at} davfs noauto,_netdev 0 0\n")).expect("/etc is the test's own");
    host.settle();
    let (native, ours) = both(
        &host,
        &["mount.davfs", "umount.davfs"],
        &target,
        &[
            &["mount", "-t", "davfs", &url, at],
            &["umount", at],
            &["mount", "-t", "davfs", "-o", "ro,noexec", &url, at],
            &["umount", at],
            &["mount", at],
            &["umount", "-a", "-t", "fuse"],
            &["mount", "-t", "davfs", "ftp://127.0.0.1/", at],
        ],
    );
    for (native, ours) in native.iter().zip(&ours) {
        assert_eq!((ours.code, &ours.table), (native.code, &native.table), "{ours:#?}\n{native:#?}");
        assert_eq!(ours.stderr.is_empty(), native.stderr.is_empty(), "{ours:#?}\n{native:#?}");
    }
    assert!(ours[0].table.len() == 1 && ours[1].table.is_empty() && ours[6].code != Some(0), "{ours:#?}");
    host.assert_nothing_left();
}

/// What a helper gets to hear from mount(8), as long as it is not about options.
#[test]
fn a_client_hears_what_an_installed_helper_hears() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let at = text(&target);
    let says = "echo \"heard: $*\" >&2; exit 9";
    host.install_helpers(&["mount.ours"]);
    fs::write("/usr/sbin/mount.installed", format!("#!/bin/sh\n{says}\n")).expect("/usr/sbin is the test's own");
    fs::set_permissions("/usr/sbin/mount.installed", fs::Permissions::from_mode(0o755)).expect("/usr/sbin is the test's own");
    let image = Client::named("tmpfs").image_directory();
    let says = toml::Value::String(says.to_owned());
    let command = format!("[\"sh\", \"-c\", {says}, \"sh\", \"{{source}}\", \"{{target}}\", \"{{flags}}\", \"-o\", \"{{options}}\"]");
    let definition = format!("types = [\"ours\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\ncommand = {command}\n", image.display());
    host.define("ours", &definition);
    for flags in [&[][..], &["-s"], &["-v"], &["-v", "-s"]] {
        let [native, ours] = ["installed", "ours"].map(|fstype| {
            let ran = run(&[&["mount", "-t", fstype, "-o", "ro,mine=1"], flags, &["none", at]].concat()).exits(9);
            let heard = ran.stderr.lines().find_map(|line| line.strip_prefix("heard: ")).map(str::to_owned);
            heard.unwrap_or_else(|| panic!("it heard nothing: {}", ran.stderr))
        });
        // The flags of the mount itself are ours to keep.
        let native = native.replace("-o ro,mine=1", "-o mine=1,ro");
        let ours = ours.replace("-o ro,mine=1", "-o mine=1,ro");
        assert_eq!(ours, native, "{flags:?}");
    }
    host.assert_nothing_left();
}

/// One table row: what mount(8) passes on, in whatever order, and what comes of it.
#[test]
fn the_words_of_mount_mean_what_they_mean() {
    let Some(host) = Host::new() else { return };
    host.define("script", &script("echo \"options: $2\"; exec mount -t tmpfs none \"$1\""));
    let helper = host.install("sbin/mount.script");
    let target = host.directory("target");
    let (helper, at) = (text(&helper), text(&target));
    host.settle();
    let rows: [(&str, &[&str], usize); 7] = [
        ("as mount(8) says it", &[helper, "none", at, "-o", "rw,noexec"], 1),
        ("options first", &[helper, "-o", "rw,noexec", "none", at], 1),
        ("all at once", &[helper, "none", at, "-snv", "-orw,noexec"], 1),
        ("the type in full", &[helper, "none", at, "-o", "noexec", "-t", "script"], 1),
        (
            "options of mount(8), fstab and systemd",
            &[helper, "none", at, "-o", "noexec,user,users,_netdev,nofail,x-a.b=c,X-d,uhelper=x,helper=y"],
            1,
        ),
        ("a mount that is not one", &[helper, "none", at, "-f", "-v"], 0),
        ("read-only by flag", &[helper, "none", at, "-r", "-o", "noexec"], 1),
    ];
    for (name, words, mounts) in rows {
        let ran = run(words);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        let table = mountinfo::at(&target);
        assert_eq!(table.len(), mounts, "{name}");
        assert!(table.iter().all(|mount| mount.has("noexec")), "{name}: {table:?}");
        if mounts > 0 {
            command::run(&["umount", at]);
        }
        host.assert_nothing_left();
    }
    let says = run(&[helper, "none", at, "-v"]).stdout;
    assert!(says.contains(at), "{says}");
    command::run(&["umount", at]);

    let bad: [(&str, &[&str], i32, &str); 6] = [
        ("a target that is not there", &[helper, "none", "/srv/missing"], 32, "/srv/missing"),
        ("no target", &[helper, "none"], 1, "TARGET"),
        ("nothing", &[helper], 1, "SOURCE"),
        ("too much", &[helper, "none", at, "more"], 1, "more"),
        ("an unknown flag", &[helper, "none", at, "-x"], 1, "-x"),
        ("a namespace that is none", &[helper, "none", at, "-N", "/srv/missing"], 32, "/srv/missing"),
    ];
    for (name, words, code, part) in bad {
        let ran = run(words);
        assert_eq!(ran.code, Some(code), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{name}: {}", ran.stderr);
        assert_eq!(mountinfo::at(&target), [], "{name}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_failing_client_speaks_for_itself() {
    let Some(host) = Host::new() else { return };
    host.define("script", &script("echo \"mount.script: no route to $1\" >&2; exit 17"));
    host.install_helpers(&["mount.script"]);
    let target = host.directory("target");
    let ran = run(&["mount", "-t", "script", "none", text(&target)]).exits(17);
    assert_eq!(ran.stderr, format!("mount.script: no route to {}\n", text(&target)));
    host.assert_nothing_left();
}

/// Another mount namespace with a directory that only it has.
fn elsewhere(directory: &str) -> (Running, Process) {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs elsewhere /mnt && mkdir {directory} && exec sleep 300");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let running = Running::start(command);
    let process = Process { pid: running.pid() };
    wait::until("the namespace to be ready", || (process.status("Name").as_deref() == Some("sleep")).then_some(()));
    (running, process)
}

#[test]
fn a_target_in_another_namespace_is_mounted_there_and_unmounted_there() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    host.install_helpers(&["mount.bindfs", "umount.fuse"]);
    let source = host.directory("source");
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let (mut other, process) = elsewhere("/mnt/target");
    host.settle();
    let namespace = process.pid.to_string();
    run(&["mount", "-N", &namespace, "-t", "bindfs", text(&source), "/mnt/target"]).succeeds();
    let there =
        || mountinfo::read(process.file("mountinfo")).expect("it runs").into_iter().filter(|mount| mount.point == Path::new("/mnt/target"));
    assert_eq!((there().count(), mountinfo::at("/mnt/target").len()), (1, 0));
    assert_eq!(fs::read(process.file("root/mnt/target/file")).expect("it is served there"), b"content");
    assert_eq!(host.list().len(), 1, "it is ours, also seen from here");
    host.shorefast(&["reconcile"]).succeeds();
    assert_eq!(there().count(), 1, "and no reason to clean up");
    run(&["umount", "-N", &namespace, "/mnt/target"]).succeeds();
    assert_eq!(there().count(), 0);
    host.assert_nothing_left();

    // Its end is the end of what is mounted in it.
    run(&["mount", "-N", &namespace, "-t", "bindfs", text(&source), "/mnt/target"]).succeeds();
    other.kill();
    host.assert_nothing_left();
}

#[test]
fn umount_helpers_unmount_ours_and_leave_others_to_umount() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    let helper = host.install("sbin/umount.fuse.bindfs");
    let helper = text(&helper);
    host.install_helpers(&["mount.bindfs"]);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("a directory of the test's own");
    let at = text(&target);
    host.settle();
    for words in
        [&[helper, at][..], &[helper, at, "-n", "-v"], &[helper, "-l", at], &[helper, "-f", at, "-t", "fuse.bindfs"], &[helper, at, "-r"]]
    {
        run(&["mount", "-t", "bindfs", text(&source), at]).succeeds();
        run(words).succeeds();
        assert_eq!(mountinfo::at(&target), [], "{words:?}");
        host.assert_nothing_left();
    }

    run(&["mount", "-t", "bindfs", text(&source), at]).succeeds();
    let busy = fs::File::create(target.join("busy")).expect("the mount can be written to");
    let native = run(&["umount", "-i", at]).exits(32);
    let ours = run(&[helper, at]).exits(32);
    assert_eq!(ours.stderr, native.stderr);
    assert_eq!(mountinfo::at(&target).len(), 1);
    drop(busy);
    run(&[helper, at]).succeeds();
    host.assert_nothing_left();

    command::run(&["mount", "-t", "tmpfs", "none", at]);
    run(&[helper, at]).succeeds();
    assert_eq!(mountinfo::at(&target), []);
    let ran = run(&[helper, at]);
    assert_eq!((ran.code, ran.stderr.contains("not mounted")), (Some(32), true), "{ran:?}");
    assert_eq!(run(&[helper]).code, Some(1));
}
