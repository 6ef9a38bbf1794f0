//! Shapes of hosts: what immutable, hardened, broken and tiny hosts lack or forbid. In each, clients mount, or fail with one sentence that
//! names the cause and another that names the remedy; and `doctor` has found it before.
//!
//! Where a mount namespace can make the shape, the test has one; settings of a whole kernel are made in a guest (`cargo xtask guest`), which
//! runs this same program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use shorefast_tests::kernel::is_guest;
use shorefast_tests::path::text;
use shorefast_tests::servers::{Nfsd, Sshd, nfsd};
use shorefast_tests::skip::skip;
use shorefast_tests::{Host, client, command};

struct Shape {
    name: &'static str,
    /// Shell, run after the servers were started, in a mount namespace of the test's own.
    make: &'static str,
    /// More arguments for every mount.
    with: &'static [&'static str],
    /// The filesystem types that are tried.
    types: &'static [&'static str],
    outcome: Outcome,
    /// What `doctor` says of it before.
    doctor: Option<&'static str>,
}

enum Outcome {
    Works,
    Fails { cause: &'static str, remedy: &'static str },
}

const STORE: &str = "/var/lib/shorefast";

/// A row that works, of which `doctor` need not say anything.
const fn works(name: &'static str, make: &'static str) -> Shape {
    Shape { name, make, with: &[], types: &["bindfs", "sshfs", "nfs4"], outcome: Outcome::Works, doctor: None }
}

const NAMESPACES: &[Shape] = &[
    works("nothing special", "true"),
    works(
        "images, records and programs noexec, nosuid and nodev",
        "mount -o remount,bind,noexec,nosuid,nodev /var/lib/shorefast
         mkdir /run/shorefast && mount -t tmpfs -o noexec,nosuid,nodev,mode=755 t /run/shorefast
         mount -o remount,noexec,nosuid,nodev /srv",
    ),
    Shape {
        with: &["--mode", "chroot"],
        ..works("images noexec, and a client with all rights", "mount -o remount,bind,noexec,nosuid,nodev /var/lib/shorefast")
    },
    works(
        "only /run, the images and the targets can be written to",
        "for at in / /etc /var/log /var/cache; do mount -o remount,bind,ro $at; done; ! touch /new 2>&-",
    ),
    Shape {
        doctor: Some("names no name server"),
        ..works(
            "no users, no name servers, no shell and no other program",
            "mkdir /run/etc && mount -t tmpfs t /run/etc && cp -a /etc/shorefast /run/etc && mount --move /run/etc /etc
             mount -t tmpfs t /usr/sbin && exec mount -t tmpfs t /usr/bin",
        )
    },
    Shape {
        doctor: Some("clients need no /dev/fuse of the host"),
        ..works(
            "no /dev/fuse",
            "mkdir /run/dev && mount -t tmpfs t /run/dev && cp -a /dev/null /dev/zero /dev/random /dev/urandom /run/dev && mount --move /run/dev /dev",
        )
    },
    Shape { doctor: Some("no cgroup hierarchy is mounted"), ..works("no cgroups", "umount -R /sys/fs/cgroup") },
    works("only version 2 of cgroups", "umount -R /sys/fs/cgroup && mount -t cgroup2 c /sys/fs/cgroup"),
    works(
        "only a delegated part of version 2",
        "umount -R /sys/fs/cgroup && mount -t cgroup2 c /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/shapes && mount --bind /sys/fs/cgroup/shapes /sys/fs/cgroup",
    ),
    Shape {
        doctor: Some("no controller for memory, pids, cpu"),
        ..works(
            "only version 1 of cgroups",
            "umount -R /sys/fs/cgroup && mount -t tmpfs c /sys/fs/cgroup && mkdir /sys/fs/cgroup/one && mount -t cgroup -o none,name=shapes c /sys/fs/cgroup/one",
        )
    },
    works("processes hidden from others", "mount -t proc -o hidepid=invisible p /proc"),
    works("only processes in /proc", "mount -t proc -o subset=pid p /proc"),
    works("a run directory of a megabyte", "mkdir /run/shorefast && mount -t tmpfs -o size=1m,mode=755 t /run/shorefast"),
    Shape {
        outcome: Outcome::Fails { cause: "cannot keep a record in \"/run/shorefast", remedy: "--run-dir" },
        doctor: Some("/run/shorefast is full"),
        ..works(
            "a full run directory",
            "mkdir -p /run/tiny /run/shorefast && mount -t tmpfs -o size=1m t /run/tiny && mkdir /run/tiny/records
             mount --bind /run/tiny/records /run/shorefast; head -c 2m /dev/zero > /run/tiny/full 2>&- || true",
        )
    },
];

/// Each in a guest of its own: some of these settings hold until the next boot.
const GUESTS: &[Shape] = &[
    Shape {
        types: &["bindfs", "sshfs"],
        doctor: Some("clients run as dedicated users"),
        ..works("user namespaces forbidden", "sysctl -q user.max_user_namespaces=0")
    },
    Shape {
        types: &["nfs4"],
        outcome: Outcome::Fails { cause: "\"user\" NFS mounts not supported", remedy: "sysctl user.max_user_namespaces" },
        doctor: Some("clients run as dedicated users"),
        ..works("user namespaces forbidden, and a client that wants to be root", "sysctl -q user.max_user_namespaces=0")
    },
    works("ptrace_scope 1", "sysctl -q kernel.yama.ptrace_scope=1"),
    works("ptrace_scope 2", "sysctl -q kernel.yama.ptrace_scope=2"),
    Shape {
        outcome: Outcome::Fails {
            cause: "does not let Shorefast read the arguments of the client's call",
            remedy: "kernel.yama.ptrace_scope=3",
        },
        doctor: Some("kernel.yama.ptrace_scope=3"),
        ..works("ptrace_scope 3", "sysctl -q kernel.yama.ptrace_scope=3")
    },
    Shape {
        types: &["bindfs", "sshfs"],
        with: &["--mode", "chroot"],
        ..works("ptrace_scope 3, and a client with all rights", "sysctl -q kernel.yama.ptrace_scope=3")
    },
    Shape { doctor: Some("the first mount loads it"), ..works("the module of FUSE not loaded", "rmmod fuse; ! test -e /dev/fuse") },
    Shape { types: &["bindfs", "sshfs"], ..works("no more modules", "sysctl -q kernel.modules_disabled=1") },
    Shape {
        types: &["nfs4"],
        outcome: Outcome::Fails { cause: "NFS: Version unavailable", remedy: "kernel.modules_disabled=1" },
        ..works("no more modules, and that of the version of NFS not loaded", "sysctl -q kernel.modules_disabled=1")
    },
    Shape {
        types: &["bindfs", "sshfs"],
        outcome: Outcome::Fails { cause: "this kernel has no filesystem fuse", remedy: "kernel.modules_disabled=1" },
        doctor: Some("kernel.modules_disabled=1 forbids"),
        ..works("no more modules, and FUSE not loaded", "rmmod fuse; sysctl -q kernel.modules_disabled=1")
    },
    Shape { doctor: Some("the clock is wrong"), ..works("a clock in 1970", "date -s 1970-01-02 > /dev/null") },
    Shape {
        outcome: Outcome::Fails { cause: "which is in the future", remedy: "clock" },
        doctor: Some("the clock is wrong"),
        ..works("a clock in 1970, and no image", "date -s 1970-01-02 > /dev/null; umount /var/lib/shorefast")
    },
];

impl Shape {
    fn try_out(&self) {
        let Some(host) = Host::new() else { return };
        println!("shape: {}", self.name);
        let has_nfs = self.types.contains(&"nfs4") && is_guest() && Nfsd::is_possible();
        let nfs = has_nfs.then(|| Nfsd::start(&host));
        let ssh = Sshd::start(&host);
        host.offer_packages();
        let source = host.directory("source");
        for share in [&source, &ssh.share].into_iter().chain(nfs.as_ref().map(|server| &server.share)) {
            fs::write(share.join("file"), "content").expect("the test's own directory");
        }
        let target = host.directory("target");
        fs::create_dir_all(STORE).expect("the test's own directory");
        command::run(&["mount", "--bind", text(&client::store()), STORE]);
        host.leave_servers_behind();
        command::run(&["sh", "-ec", self.make]);
        host.settle();

        let found = host.shorefast(&["doctor"]).stdout;
        let expected = self.doctor.unwrap_or_default();
        assert!(found.contains(expected), "{}: doctor does not say {expected:?} but {found}", self.name);
        let is_bad = found.contains("BAD");
        let is_failure = matches!(self.outcome, Outcome::Fails { .. });
        assert!(is_failure || !is_bad || !self.with.is_empty(), "{}: doctor calls something bad that works: {found}", self.name);

        let (ssh_source, ssh_options) = (ssh.source(), ssh.options());
        let nfs_source = format!("{}:/", nfsd::ADDRESS);
        let mut columns = vec![("bindfs", text(&source), None), ("sshfs", ssh_source.as_str(), Some(ssh_options.as_str()))];
        columns.extend(nfs.is_some().then_some(("nfs4", nfs_source.as_str(), None)));
        columns.retain(|(fstype, ..)| self.types.contains(fstype));
        if columns.is_empty() {
            return skip(&format!("{}: this kernel has no NFS server", self.name));
        }
        for (fstype, source, options) in columns {
            let mut words = vec!["mount", "-t", fstype];
            words.extend(options.into_iter().flat_map(|options| ["-o", options]));
            words.extend(self.with);
            words.extend([source, text(&target)]);
            let ran = host.shorefast(&words);
            match self.outcome {
                Outcome::Works => {
                    assert_eq!(ran.code, Some(0), "{}: {fstype}: {}", self.name, ran.stderr);
                    let read = fs::read_to_string(target.join("file"));
                    assert_eq!(read.ok().as_deref(), Some("content"), "{}: {fstype}", self.name);
                    host.shorefast(&["umount", text(&target)]).succeeds();
                }
                Outcome::Fails { cause, remedy } => {
                    assert_ne!(ran.code, Some(0), "{}: {fstype} works", self.name);
                    let hint = ran.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_default();
                    assert!(ran.stderr.contains(cause) && hint.contains(remedy), "{}: {fstype}: {}", self.name, ran.stderr);
                }
            }
        }
        // Elsewhere no client here needs a cgroup. In a guest, this would say nothing new.
        if !is_guest() && matches!(self.outcome, Outcome::Works) {
            self.mount_with_limits(&host, &source, &target);
        }
        host.assert_nothing_left();
    }

    /// With a limit that only a cgroup can keep: it is in force, or the mount fails, with cause and remedy.
    fn mount_with_limits(&self, host: &Host, source: &Path, target: &Path) {
        const LIMIT: &str = "268435456";
        let definition = format!("limits = {{ memory = \"256M\" }}\n{}", include_str!("../../crates/engine/catalogue/bindfs.toml"));
        let file = host.file("limited.toml", definition);
        let mut words = vec!["mount", "-t", "bindfs", "--client-file", text(&file)];
        words.extend(self.with);
        words.extend([text(source), text(target)]);
        let ran = host.shorefast(&words);
        let second = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        if Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() || second.contains("memory") {
            assert_eq!(ran.code, Some(0), "{}: with a limit: {}", self.name, ran.stderr);
            let shown = host.shorefast(&["inspect", "--json", text(target)]).succeeds().json();
            let directories: Vec<PathBuf> = serde_json::from_value(shown["cgroups"].clone()).expect("paths");
            let files = directories.iter().flat_map(|at| ["memory.max", "memory.limit_in_bytes"].map(|name| at.join(name)));
            let limits: Vec<_> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
            assert!(limits.iter().any(|limit| limit.trim() == LIMIT), "{}: {limits:?} in {directories:?}", self.name);
            host.shorefast(&["umount", text(target)]).succeeds();
        } else {
            assert_eq!(ran.code, Some(32), "{}: a limit that nothing keeps", self.name);
            for part in ["cannot limit the client's resources", "hint: limits need a mounted cgroup hierarchy with that controller"] {
                assert!(ran.stderr.contains(part), "{}: no {part:?} in {}", self.name, ran.stderr);
            }
        }
    }
}

#[test]
fn clients_mount_on_hosts_of_every_shape() {
    NAMESPACES.iter().for_each(Shape::try_out);
}

/// Which of [`GUESTS`] the program is to try in the guest that it runs in.
const ROW: &str = "SHOREFAST_TEST_SHAPE";
const TEST: &str = "clients_mount_under_kernels_with_every_setting";

#[test]
fn clients_mount_under_kernels_with_every_setting() {
    if let Some(row) = std::env::var_os(ROW) {
        let row = row.to_str().and_then(|row| GUESTS.iter().find(|shape| shape.name == row));
        return row.expect("one of the table").try_out();
    }
    if is_guest() {
        println!("a guest starts no guests: this runs where they are started");
        return;
    }
    let (program, xtask) = programs();
    if !xtask.exists() || !client::cache().join("kernels/6.12").exists() {
        return skip("no guests: run `cargo xtask kernels` and build xtask");
    }
    if !fill_store() {
        return;
    }
    // A guest has one processor.
    let rows = Mutex::new(GUESTS.iter());
    let next = || rows.lock().expect("no row panics with it").next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(shape) = next() {
                    let mut guest = Command::new(&xtask);
                    guest.args(["guest", "--kernel", "6.12", "--timeout", "80", "--"]).arg(&program).args(["--exact", TEST, "--nocapture"]);
                    guest.env(ROW, shape.name);
                    let ran = command::finish(guest);
                    assert!(ran.code == Some(0) && ran.stdout.contains("1 passed"), "{}: {}{}", shape.name, ran.stdout, ran.stderr);
                }
            });
        }
    });
}

/// What a guest adds to the store is gone with it, and one whose clock is wrong can make no image: they are made here. False: skipped.
fn fill_store() -> bool {
    let Some(host) = Host::new() else { return false };
    host.offer_packages();
    for packages in ["bindfs", "sshfs", "nfs-common"] {
        let image = format!("packages:debian/trixie?{packages}");
        host.shorefast(&["--root", text(&client::store()), "image", "pull", &image]).succeeds();
    }
    true
}

/// This program, and the one that starts guests.
fn programs() -> (PathBuf, PathBuf) {
    let program = std::env::current_exe().expect("a program knows its own path");
    let xtask = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("xtask");
    (program, xtask)
}
