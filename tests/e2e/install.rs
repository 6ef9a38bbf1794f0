//! Getting onto a host, being looked at there, being replaced under running I/O, and being gone again.

#[path = "install/doctor.rs"]
mod doctor;
#[path = "install/follow.rs"]
mod follow;
#[path = "install/upgrade.rs"]
mod upgrade;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use shorefast_tests::skip::skip;
use shorefast_tests::{Host, Ran, command};

/// A host whose /usr and /opt are this test's own: the machine's stays as it is.
fn host() -> Option<Host> {
    let host = Host::new()?;
    fs::create_dir_all("/run/.changes/usr/upper").expect("/run is the test's own");
    fs::create_dir_all("/run/.changes/usr/work").expect("/run is the test's own");
    let options = "lowerdir=/usr,upperdir=/run/.changes/usr/upper,workdir=/run/.changes/usr/work";
    command::run(&["mount", "-t", "overlay", "-o", options, "overlay", "/usr"]);
    command::run(&["mount", "-t", "tmpfs", "tmpfs", "/opt"]);
    host.settle();
    Some(host)
}

fn make_read_only(path: &str) {
    command::run(&["mount", "-o", "remount,ro", path]);
}

/// Everything that an installation could leave something in.
fn files() -> Vec<PathBuf> {
    let places = ["/usr/local", "/usr/sbin", "/etc/shorefast", "/etc/systemd", "/opt", "/var/lib"];
    let mut found = Vec::new();
    let mut open: Vec<_> = places.map(PathBuf::from).into();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Ran {
    let mut command = Command::new(program.as_ref());
    command.args(arguments);
    command::finish(command)
}

#[test]
fn an_installation_is_complete_and_its_removal_leaves_no_trace() {
    let Some(host) = host() else { return };
    let before = files();
    let wanted = ["install", "--kubelet", "--helpers", "shorefasttest,other", "--systemd", "--csi"];
    let said = host.shorefast(&wanted).succeeds().stdout;
    assert!(said.contains("--experimental-mounter-path=/usr/local/lib/shorefast/mounter"), "{said}");
    run("/usr/local/bin/shorefast", &["--version"]).succeeds();
    run("/usr/local/lib/shorefast/mounter", &["--help"]).succeeds();
    assert!(Path::new("/usr/local/lib/shorefast/rootfs/etc").is_dir(), "kubelet's place for the cluster's name servers");
    assert_eq!(fs::read_link("/sbin/umount.other").expect("a helper"), Path::new("/usr/local/lib/shorefast/shorefast"));
    let installed = files();
    assert_eq!(host.shorefast(&wanted).succeeds().stdout.lines().next(), Some("installed: /usr/local/lib/shorefast/shorefast"));
    assert_eq!(files(), installed, "a second time changes nothing");
    assert!(host.shorefast(&["uninstall", "--dry-run"]).succeeds().stdout.contains("remove   /sbin/mount.other"));
    assert_eq!(files(), installed, "a rehearsal changes nothing");
    // It removes itself, too.
    run("/usr/local/bin/shorefast", &["uninstall"]).succeeds();
    assert_eq!(files(), before);
    host.shorefast(&["uninstall"]).exits(1).says("nothing is installed");
}

#[test]
fn a_read_only_system_has_a_place_where_programs_may_run() {
    let Some(host) = host() else { return };
    make_read_only("/usr");
    command::run(&["mount", "-o", "remount,noexec", "/opt"]);
    let before = files();
    let said = host.shorefast(&["install", "--kubelet", "--dry-run"]).succeeds().stdout;
    assert!(said.contains("write    /var/lib/shorefast/bin/shorefast\n"), "{said}");
    assert_eq!(files(), before);
    host.shorefast(&["install", "--kubelet"]).succeeds();
    run("/var/lib/shorefast/bin/mounter", &["--help"]).succeeds();
    host.shorefast(&["install", "--helpers", "nosuch"]).exits(2).says("three ways");
    host.shorefast(&["install", "--to", "/opt/here"]).exits(2).says("noexec");
    host.shorefast(&["uninstall"]).succeeds();
    assert_eq!(files(), before);
}

#[test]
fn foreign_and_changed_files_are_refused_and_stay() {
    let Some(host) = host() else { return };
    fs::write("/usr/sbin/umount.other", "somebody's").expect("/usr is the test's own");
    let before = files();
    host.shorefast(&["install", "--helpers", "other"]).exits(2).says("is there and not ours").says("hint: move it away");
    assert_eq!(files(), before, "one refusal, and nothing happens");
    host.shorefast(&["install", "--systemd"]).succeeds();
    fs::write("/etc/systemd/system/shorefast.service", "[Unit]\n").expect("/etc is the test's own");
    host.shorefast(&["install", "--systemd"]).exits(2).says("was changed since it was installed");
    host.shorefast(&["uninstall"]).exits(2).says("not removed: /etc/systemd/system/shorefast.service");
    assert_eq!(fs::read_to_string("/etc/systemd/system/shorefast.service").expect("it stayed"), "[Unit]\n");
    host.shorefast(&["install", "--helpers", "../evil"]).exits(1).says("is no name of a filesystem type");
}

/// Generated units, judged by systemd itself; the name of each is what systemd would call it.
#[test]
fn systemd_accepts_generated_mount_units() {
    let Some(host) = host() else { return };
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return skip("systemd-analyze is not installed; run `cargo xtask setup`");
    }
    let rows = [
        ("nfs", "server.example:/export/100%", "/srv/data", "vers=4.2,ro"),
        ("glusterfs", "server:/v0", "/srv/with-dash/and space", "backup-volfile-servers=a:b,log-level=WARNING"),
        ("fuse.sshfs", "me@host:/home", "/mnt/.hidden", ""),
        ("bindfs", "/srv/source", "/mnt/\u{fc}ber", "noexec"),
    ];
    for (fstype, source, target, options) in rows {
        let made = host.shorefast(&["mount", "--unit", "-t", fstype, "-o", options, source, target]).succeeds();
        let name = run("/usr/bin/systemd-escape", &["--path", "--suffix=mount", target]).succeeds().stdout;
        assert!(made.stdout.starts_with(&format!("# {name}")), "{name} is not in {}", made.stdout);
        let file = Path::new("/etc/systemd/system").join(name.trim());
        fs::create_dir_all("/etc/systemd/system").expect("/etc is the test's own");
        fs::write(&file, made.stdout).expect("/etc is the test's own");
        let verified = run("/usr/bin/systemd-analyze", &["verify", file.to_str().expect("text")]).succeeds();
        assert_eq!(verified.stderr, "", "not a single complaint about {target}");
    }
    host.shorefast(&["mount", "--unit", "-t", "nfs", "a\nb", "/srv"]).exits(1).says("hint:");
    host.shorefast(&["mount", "--unit", "a:/b", "/srv"]).exits(1).says("-t TYPE");
}

#[test]
fn systemd_accepts_the_units() {
    let Some(host) = host() else { return };
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return skip("systemd-analyze is not installed; run `cargo xtask setup`");
    }
    host.shorefast(&["install", "--systemd"]).succeeds();
    for unit in ["shorefast.service", "var-lib-shorefast.mount"] {
        let verified = run("/usr/bin/systemd-analyze", &["verify", &format!("/etc/systemd/system/{unit}")]).succeeds();
        assert_eq!(verified.stderr, "", "{unit}: not a single complaint");
    }
    // What the service runs can be run.
    run("/usr/local/lib/shorefast/shorefast", &["reconcile"]).succeeds();
}
