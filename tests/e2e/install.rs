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

use shorefast_tests::path::text;
use shorefast_tests::skip::skip;
use shorefast_tests::{Client, Host, Ran, command};

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
    let wanted = ["install", "--kubelet", "--helpers", "bindfs,s3fs", "--systemd", "--csi", "--docker"];
    let said = host.shorefast(&wanted).succeeds().stdout;
    assert!(said.contains("--experimental-mounter-path=/usr/local/lib/shorefast/mounter"), "{said}");
    run("/usr/local/bin/shorefast", &["--version"]).succeeds();
    run("/usr/local/lib/shorefast/mounter", &["--help"]).succeeds();
    assert!(Path::new("/usr/local/lib/shorefast/rootfs/etc").is_dir(), "kubelet's place for the cluster's name servers");
    assert_eq!(fs::read_link("/sbin/umount.s3fs").expect("a helper"), Path::new("/usr/local/lib/shorefast/shorefast"));
    for file in ["man/man1/shorefast-mount.1", "man/man5/shorefast-clients.5", "bash-completion/completions/shorefast"] {
        assert!(Path::new("/usr/local/share").join(file).is_file(), "{file}");
    }
    assert!(said.contains("systemctl start shorefast-docker.socket"), "{said}");
    let socket = Path::new("/etc/systemd/system/sockets.target.wants/shorefast-docker.socket");
    assert!(fs::read_to_string(socket).expect("it is enabled").contains("FileDescriptorName=docker"));
    let installed = files();
    assert_eq!(host.shorefast(&wanted).succeeds().stdout.lines().next(), Some("installed: /usr/local/lib/shorefast/shorefast"));
    assert_eq!(files(), installed, "a second time changes nothing");
    assert!(host.shorefast(&["uninstall", "--dry-run"]).succeeds().stdout.contains("remove   /sbin/mount.s3fs"));
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
    assert!(said.ends_with("nothing was done: this was a dry run\n") && !said.contains("installed"), "{said}");
    assert_eq!(files(), before);
    host.shorefast(&["install", "--kubelet"]).succeeds();
    run("/var/lib/shorefast/bin/mounter", &["--help"]).succeeds();
    host.shorefast(&["install", "--helpers", "bindfs"]).exits(2).says("three ways");
    host.shorefast(&["install", "--to", "/opt/here"]).exits(2).says("noexec");
    host.shorefast(&["uninstall"]).succeeds();
    assert_eq!(files(), before);
}

#[test]
fn foreign_and_changed_files_are_refused_and_stay() {
    let Some(host) = host() else { return };
    fs::write("/usr/sbin/umount.s3fs", "somebody's").expect("/usr is the test's own");
    let before = files();
    host.shorefast(&["install", "--helpers", "s3fs"]).exits(2).says("exists and was not installed by Shorefast").says("hint: move it away");
    assert_eq!(files(), before, "one refusal, and nothing happens");
    host.shorefast(&["install", "--systemd"]).succeeds();
    fs::write("/etc/systemd/system/shorefast.service", "[Unit]\n").expect("/etc is the test's own");
    host.shorefast(&["install", "--systemd"]).exits(2).says("was changed since it was installed");
    let said = host.shorefast(&["uninstall"]).exits(2).says("/etc/systemd/system/shorefast.service: changed since the installation").stdout;
    assert!(
        said.contains("leave    /etc/systemd/system/shorefast.service")
            && !said.contains("remove   /etc/systemd/system/shorefast.service\n"),
        "{said}"
    );
    assert_eq!(fs::read_to_string("/etc/systemd/system/shorefast.service").expect("it stayed"), "[Unit]\n");
    host.shorefast(&["install", "--helpers", "../evil"]).exits(1).says("no client definition lists the type");
    host.shorefast(&["install", "--helpers", "nsf"]).exits(1).says("did you mean nfs?");
}

/// What stays is said, and --purge leaves nothing but the configuration; not while anything is mounted.
#[test]
fn a_purge_removes_images_and_state_but_nothing_that_is_in_use() {
    let Some(host) = host() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("/etc is the test's own");
    let before = files();
    let (client, target) = (Client::named("tmpfs"), host.directory("target"));
    host.shorefast(&["install"]).succeeds();
    command::run(&["tar", "-C", text(&client.image_directory()), "-cf", "/srv/client.tar", "."]);
    host.shorefast(&["image", "import", "tar:/srv/client.tar", "mine"]).succeeds();
    let mount = ["mount", "-t", "tmpfs", "--client-file", text(&client.definition), "--image", "mine", "none", text(&target)];
    host.shorefast(&mount).succeeds();
    let installed = files();
    host.shorefast(&["uninstall", "--purge"]).exits(32).says("in use: /srv/target").says("hint: unmount first");
    assert_eq!(files(), installed, "one refusal, and nothing happens");
    let said = host.shorefast(&["uninstall"]).succeeds().stdout;
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("stays: 1 live mounts; images (") && last.contains("--purge") && last.ends_with("/etc/shorefast"), "{said}");
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.shorefast(&["install"]).succeeds();
    let said = host.shorefast(&["image", "prune", "--all"]).succeeds().stdout;
    assert!(said.starts_with("1 images removed"), "{said}");
    let said = host.shorefast(&["uninstall", "--purge"]).succeeds().stdout;
    assert_eq!(said.lines().last(), Some("stays: the configuration in /etc/shorefast"));
    assert_eq!(files(), before);
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
