//! Images made straight from packages of Debian: every client, against the archive that `cargo xtask setup` made.

#[path = "packages/mounts.rs"]
mod mounts;
#[path = "packages/reasons.rs"]
mod reasons;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use shorefast_tests::{Host, Ran, client, command};

const SUITE: &str = "bookworm";

/// Each client as users name it, and a call that shows that its main program starts.
const CLIENTS: [(&str, &[&str]); 10] = [
    ("sshfs", &["sshfs", "--version"]),
    ("nfs-common", &["mount.nfs", "-V"]),
    ("cifs-utils", &["mount.cifs", "-V"]),
    ("glusterfs-client", &["glusterfs", "--version"]),
    ("ceph-fuse", &["ceph-fuse", "--version"]),
    ("s3fs", &["s3fs", "--version"]),
    ("rclone", &["rclone", "version"]),
    ("davfs2", &["mount.davfs", "-V"]),
    ("bindfs", &["bindfs", "--version"]),
    ("openssh-server", &["sshd", "-t", "-f", "/dev/null", "-h", "/usr/share/no-such-key"]),
];

fn archive() -> PathBuf {
    client::cache().join("debian")
}

fn build(host: &Host, packages: &str, more: &[&str]) -> Ran {
    let (mirror, keyring) = (format!("file:{}", archive().display()), archive().join("key.gpg"));
    let keyring = keyring.to_str().expect("a path in UTF-8");
    let mut arguments = vec!["image", "build", "--packages", packages, "--suite", SUITE, "--mirror", &mirror, "--keyring", keyring];
    arguments.extend(more);
    host.shorefast(&arguments)
}

fn rootfs(built: &Ran) -> PathBuf {
    Path::new("/var/lib/shorefast/rootfs").join(built.stdout.trim().trim_start_matches("sha256:"))
}

#[test]
fn every_client_is_built_and_starts() {
    let Some(host) = Host::new() else { return };
    for (package, call) in CLIENTS {
        let root = rootfs(&build(&host, package, &[package]).succeeds());
        // rclone wants to see /proc and /dev/null before it says its version.
        for place in ["proc", "dev"] {
            fs::create_dir(root.join(place)).expect("a new directory");
            command::run(&["mount", "--bind", &format!("/{place}"), &root.join(place).display().to_string()]);
        }
        let ran = command::finish({
            let mut command = std::process::Command::new("chroot");
            command.arg(&root).args(call).env("PATH", "/usr/sbin:/usr/bin");
            command
        });
        // sshd has no version that it would tell: it starts and misses its key.
        let starts = ran.code == Some(0) || ran.stderr.contains("no hostkeys available");
        assert!(starts, "{package}: {ran:?}");
        // Helpers that are scripts find their tools, and awk is somebody.
        let tools = ["sh", "awk", "sed", "grep", "cut", "mount", "umount", "stat"];
        for tool in tools {
            assert!(["usr/bin", "usr/sbin"].iter().any(|place| root.join(place).join(tool).exists()), "{package} has no {tool}");
        }
    }
}

#[test]
fn no_program_has_more_rights_than_its_caller() {
    let Some(host) = Host::new() else { return };
    let root = rootfs(&build(&host, "cifs-utils,fuse3", &[]).succeeds());
    for program in ["sbin/mount.cifs", "bin/fusermount3", "bin/mount", "bin/umount"] {
        let mode = fs::metadata(root.join(program)).expect(program).mode();
        assert_eq!(mode & 0o6111, 0o111, "{program}: {mode:o}");
    }
}

#[test]
fn the_same_packages_give_the_same_digest_and_a_lock_replays_them() {
    let Some(host) = Host::new() else { return };
    let lock = host.path("sshfs.lock");
    let lock = lock.to_str().expect("a path in UTF-8");
    let first = build(&host, "sshfs,ca-certificates", &["--write-lock", lock, "one"]).succeeds();
    let files = listed(&rootfs(&first));
    host.shorefast(&["image", "remove", "one"]).succeeds();
    assert!(!rootfs(&first).exists());
    let second = build(&host, "ca-certificates,sshfs", &["two"]).succeeds();
    assert_eq!(second.stdout, first.stdout);
    host.shorefast(&["image", "remove", "two"]).succeeds();
    let replayed = host.shorefast(&["image", "build", "--lock", lock, "--offline", "three"]).succeeds();
    assert_eq!(replayed.stdout, first.stdout);
    assert_eq!(listed(&rootfs(&replayed)), files);
    assert!(files["etc/ssl/certs/ca-certificates.crt"].size > 100_000, "the bundle of certificates is whole");
}

#[test]
fn yields_what_mmdebstrap_does() {
    let Some(host) = Host::new() else { return };
    let all: Vec<_> = CLIENTS.iter().map(|(package, _)| *package).chain(["fuse3", "ca-certificates"]).collect();
    let ours = listed(&rootfs(&build(&host, &all.join(","), &[]).succeeds()));
    let theirs = host.path("mmdebstrap");
    let (keyring, mirror) = (archive().join("key.gpg"), archive());
    command::run(&[
        "mmdebstrap",
        "--quiet",
        // Others than root cannot see this archive.
        "--aptopt=APT::Sandbox::User \"root\"",
        "--variant=extract",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        &format!("--include=dash,coreutils,sed,grep,mawk,mount,{}", all.join(",")),
        SUITE,
        theirs.to_str().expect("a path in UTF-8"),
        &format!("deb [signed-by={}] copy:{} {SUITE} main", keyring.display(), mirror.display()),
    ]);
    let theirs = listed(&theirs);
    let missing: Vec<_> = theirs.keys().filter(|path| !ours.contains_key(*path) && !is_left_out(path)).collect();
    assert!(missing.is_empty(), "we lack {missing:?}");
    let more: Vec<_> = ours.keys().filter(|path| !theirs.contains_key(*path) && !is_generated(path)).collect();
    assert!(more.is_empty(), "we have besides {more:?}");
    let other: Vec<_> =
        ours.iter().filter(|(path, file)| theirs.get(*path).is_some_and(|theirs| theirs != *file) && !is_generated(path)).collect();
    assert!(other.is_empty(), "these differ: {other:?}");
    assert!(ours.len() > 3000, "or nothing was compared");
}

/// docs/PACKAGES.md: what a mount client never reads, and what apt and dpkg keep for themselves.
fn is_left_out(path: &str) -> bool {
    let below_share = ["bash-completion", "bug", "doc", "doc-base", "fish", "gtk-doc", "info", "lintian", "locale", "man", "zsh"];
    let dropped = path.strip_prefix("usr/share/").and_then(|rest| rest.split('/').next()).is_some_and(|first| below_share.contains(&first));
    let of_apt = ["var/lib/dpkg", "var/lib/apt", "var/cache/apt", "var/log/apt", "etc/apt"].iter().any(|place| path.starts_with(place));
    // mmdebstrap makes these for a system that boots.
    let of_a_system = ["dev", "tmp", "lib32", "libx32", "usr/lib32", "usr/libx32", "etc/fstab", "etc/hostname", "etc/resolv.conf"]
        .contains(&path)
        || path.starts_with("dev/");
    dropped || of_apt || of_a_system
}

fn is_generated(path: &str) -> bool {
    let files = ["etc/passwd", "etc/group", "etc/shadow", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt", "etc/ld.so.cache"];
    let links = ["usr/bin/awk", "usr/bin/which", "etc/cifs-utils/idmap-plugin", "usr/bin/nc", "bin", "sbin", "lib", "lib64"];
    let directories = ["var/cache", "var/lib", "var/log", "etc/cifs-utils"];
    files.contains(&path) || links.contains(&path) || directories.contains(&path)
}

#[derive(Debug, PartialEq, Eq)]
struct Listed {
    /// Type and permissions, without what lends rights.
    mode: u32,
    size: u64,
    owner: (u32, u32),
    mtime: i64,
    link: Option<PathBuf>,
}

/// Everything below a directory but directories' own sizes and times.
fn listed(root: &Path) -> BTreeMap<String, Listed> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            let metadata = fs::symlink_metadata(&path).expect("a file that is there");
            let name = path.strip_prefix(root).expect("below the root").to_str().expect("a name in UTF-8").to_owned();
            let (size, mtime) = if metadata.is_dir() { (0, 0) } else { (metadata.size(), metadata.mtime()) };
            let owner = (metadata.uid(), metadata.gid());
            let link = fs::read_link(&path).ok();
            found.insert(name, Listed { mode: metadata.mode() & !0o6000, size, owner, mtime, link });
            if metadata.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

#[test]
fn the_loader_finds_every_library_at_once() {
    let Some(host) = Host::new() else { return };
    let root = rootfs(&build(&host, "glusterfs-client,sshfs,ceph-fuse", &[]).succeeds());
    let place = root.to_str().expect("a path in UTF-8");
    // ldconfig lists a library by what it calls itself, we by every name that it has.
    fs::write(root.join("etc/theirs.conf"), "include /etc/ld.so.conf.d/*.conf\n").expect("a writable image");
    command::run(&["ldconfig", "-X", "-r", place, "-f", "/etc/theirs.conf", "-C", "/etc/theirs.cache"]);
    let (ours, theirs) = (libraries(&root.join("etc/ld.so.cache")), libraries(&root.join("etc/theirs.cache")));
    let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
    assert!(missing.is_empty(), "we lack {missing:?}");
    assert!(theirs.len() > 60, "or nothing was compared");
    for line in ours.iter().filter(|line| !theirs.contains(line)) {
        let (name, path) = line.split_once(" (libc6,").and_then(|(name, rest)| Some((name, rest.split_once(" => /")?.1))).expect(line);
        assert!(path.ends_with(name) && root.join(path).is_file(), "{line}");
    }
    let tries = |program: &str| {
        let mut command = std::process::Command::new("chroot");
        command.args([place, program, "--version"]).env_clear().env("PATH", "/usr/sbin:/usr/bin").env("LD_DEBUG", "libs");
        let said = command::finish(command).succeeds().stderr;
        let count = |words: &str| said.lines().filter(|line| line.contains(words)).count();
        (count("trying file="), count("find library="))
    };
    // ceph-fuse names a directory of its own, which comes before the list.
    let programs = ["sshfs", "glusterfs"];
    let with = programs.map(tries);
    fs::remove_file(root.join("etc/ld.so.cache")).expect("a writable image");
    for ((program, (tried, found)), (tried_without, found_without)) in programs.iter().zip(with).zip(programs.map(tries)) {
        println!("{program}: {found} libraries, {tried} tries; without the list {tried_without}");
        assert_eq!((tried, found), (found_without, found_without), "{program}: one try each");
        assert!(tried_without > tried, "{program}: or the list is not used");
    }
}

/// As ldconfig reads the list, which it does by the loader's rules.
fn libraries(cache: &Path) -> Vec<String> {
    let printed = command::run(&["ldconfig", "-p", "-C", cache.to_str().expect("a path in UTF-8")]).stdout;
    printed.lines().filter_map(|line| line.strip_prefix('\t')).map(str::to_owned).collect()
}

#[test]
fn a_mount_makes_its_image_of_packages_by_itself() {
    let Some(host) = Host::new() else { return };
    let configuration =
        format!("suite = {SUITE:?}\nmirrors = [\"file:{}\"]\nkeyring = {:?}\n", archive().display(), archive().join("key.gpg"));
    fs::create_dir_all("/etc/shorefast").expect("a writable /etc");
    fs::write("/etc/shorefast/packages.toml", configuration).expect("a writable /etc");
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("a writable directory");
    let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/bindfs.toml");
    let (from, to) = (source.display().to_string(), target.display().to_string());
    host.shorefast(&["mount", "-t", "bindfs", "--client-file", definition, "--image", "packages:debian?bindfs", &from, &to]).succeeds();
    assert_eq!(fs::read_to_string(target.join("file")).expect("a mounted file"), "content");
    host.shorefast(&["umount", &to]).succeeds();
    // It is here now, and nothing else is asked for.
    fs::remove_file("/etc/shorefast/packages.toml").expect("a writable /etc");
    host.shorefast(&["mount", "-t", "bindfs", "--client-file", definition, "--image", "packages:debian?bindfs", "--offline", &from, &to])
        .succeeds();
    host.shorefast(&["umount", &to]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn mistakes_have_a_hint_and_leave_the_store_as_it_was() {
    let Some(host) = Host::new() else { return };
    build(&host, "shsfs", &[]).exits(32).says("is it sshfs").says("hint:");
    build(&host, "sshfs", &["--mirror", "ftp://x"]).exits(32).says("not the address of an archive");
    host.shorefast(&["image", "build", "--packages", "sshfs", "--mirror", "http://127.0.0.1:9/debian", "--suite", SUITE]).says("hint:");
    let nowhere = format!("file:{}/nowhere", archive().display());
    host.shorefast(&["image", "build", "--packages", "sshfs", "--mirror", &nowhere, "--suite", SUITE]).exits(32).says("there is no file:");
    assert_eq!(host.shorefast(&["image", "list", "--json"]).succeeds().json(), serde_json::json!([]));
}
