//! The units that `shorefast install --docker` writes, under a real systemd: the first process of a process table of its own.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::skip::skip;
use shorefast_tests::{Host, Ran, command, wait};

use crate::plugin::{SOCKET, answer, begin, bindfs, mountpoint};

const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// Its own view of control groups, and everything private that it cleans at boot: /run, /var/lib and /etc are the test's own already.
const BOOT: &str = "set -e
for place in /tmp /var/tmp /home /dev/shm; do mount -t tmpfs tmpfs $place; done
mount -t tmpfs tmpfs /sys/fs/cgroup; mkdir /sys/fs/cgroup/systemd; mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
exec env container=test \"$0\" --system --unit=test.target --log-target=console";

/// What a container's systemd has nothing to do with: the machine's devices, modules and settings.
const MASKED: [&str; 9] = [
    "systemd-journal-flush.service",
    "systemd-modules-load.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tmpfiles-setup.service",
    "systemd-udev-trigger.service",
    "systemd-udevd.service",
];

/// Dropped: it ends, and all that it started with it.
struct Systemd {
    unshare: Running,
    group: PathBuf,
}

impl Systemd {
    /// None: control groups are not as this needs them.
    fn boot(host: &Host) -> Option<Self> {
        let hierarchy = Path::new("/sys/fs/cgroup/systemd");
        if !Path::new(SYSTEMD).exists() || !hierarchy.exists() {
            skip("no systemd here, or no control group hierarchy of its own for it");
            return None;
        }
        let units = Path::new("/etc/systemd/system");
        for unit in MASKED {
            std::os::unix::fs::symlink("/dev/null", units.join(unit)).expect("/etc is the test's own");
        }
        let target = "[Unit]\nRequires=shorefast-docker.socket\nAfter=shorefast-docker.socket\n";
        fs::write(units.join("test.target"), target).expect("/etc is the test's own");
        let group = hierarchy.join(format!("shorefast-test-{}", std::process::id()));
        fs::create_dir(&group).expect("control groups can be made");
        let log = host.path("systemd.log");
        let script = "echo $$ > $0/cgroup.procs; log=$1; shift; exec unshare --cgroup --uts --pid --fork --kill-child --mount --propagation=private --mount-proc sh -c \"$@\" < /dev/null > $log 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script, text(&group), text(&log), BOOT, SYSTEMD]);
        let systemd = Self { unshare: Running::start(command), group };
        wait::until("systemd to listen for us", || Path::new(SOCKET).exists().then_some(()));
        Some(systemd)
    }

    /// Its first process, as this machine numbers it.
    fn pid(&self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.unshare.pid());
        wait::until("systemd", || fs::read_to_string(&children).ok()?.trim().parse().ok())
    }

    fn ctl(&self, words: &[&str]) -> Ran {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.pid().to_string(), "--mount", "--pid", "--cgroup", "--", "systemctl", "--no-pager"]).args(words);
        command::finish(enter)
    }

    /// The plugin's process in systemd's eyes; 0: it does not run.
    fn main_pid(&self) -> u32 {
        let shown = self.ctl(&["show", "--property=MainPID", "--value", "shorefast-docker.service"]).succeeds().stdout;
        shown.trim().parse().expect("a number")
    }

    /// A file as the processes of this systemd see it.
    fn inside(&self, path: &Path) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.pid())).join(path.strip_prefix("/").expect("a full path"))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.unshare.kill();
        let empty = |path: &Path| fs::read_to_string(path.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty());
        wait::within(wait::PATIENCE, || remove_groups(&self.group, &empty).then_some(()));
    }
}

/// From the innermost outwards. `false`: somebody is still in there.
fn remove_groups(group: &Path, empty: &impl Fn(&Path) -> bool) -> bool {
    let inner = fs::read_dir(group).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    let left = inner.filter(|entry| !remove_groups(&entry.path(), empty)).count();
    left == 0 && empty(group) && fs::remove_dir(group).is_ok()
}

fn call(name: &str, body: &Value) -> Value {
    let (status, said) = answer(begin(&format!("/VolumeDriver.{name}"), &body.to_string()));
    assert_eq!(status, 200, "{name}: {said}");
    said
}

#[test]
fn systemd_starts_the_plugin_with_the_first_call_and_restarts_it_under_io() {
    let Some(host) = Host::new() else { return };
    host.make_writable("/usr/local");
    let source = host.directory("source");
    let options = bindfs(&source);
    host.shorefast(&["install", "--docker"]).succeeds();
    let Some(systemd) = Systemd::boot(&host) else { return };
    assert_eq!(systemd.main_pid(), 0, "nobody has called it");
    let socket = fs::metadata(SOCKET).expect("systemd listens").permissions().mode();
    assert_eq!(socket & 0o777, 0o600);

    call("Create", &json!({ "Name": "vol", "Opts": options }));
    let first = systemd.main_pid();
    assert_ne!(first, 0);
    call("Mount", &json!({ "Name": "vol", "ID": "container" }));
    let place = systemd.inside(&mountpoint("vol"));
    fs::write(place.join("file"), "content").expect("it serves");

    // Restarted, stopped and killed while the volume is used and asked for.
    let (done, killed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (rounds, failed) = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut counts = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let name = place.join(format!("n{}", counts.0 % 7));
                let good =
                    fs::write(&name, "x").is_ok() && fs::read(&name).is_ok_and(|bytes| bytes == b"x") && fs::remove_file(&name).is_ok();
                counts = (counts.0 + 1, counts.1 + u64::from(!good));
            }
            counts
        });
        let calls = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut connection = begin("/VolumeDriver.Get", "{\"Name\":\"vol\"}");
                let mut said = String::new();
                let read = connection.read_to_string(&mut said);
                // Who is killed cuts its caller off, and Docker asks again. Who ends or is replaced does not.
                let is_answered = said.starts_with("HTTP/1.1 200");
                assert!(is_answered || killed.load(Ordering::Relaxed), "{read:?} {said:?}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let unit = "shorefast-docker.service";
        for words in [&["restart", unit][..], &["stop", unit], &["kill", "--signal=KILL", unit], &["restart", unit]] {
            killed.store(words[0] == "kill", Ordering::Relaxed);
            systemd.ctl(words).succeeds();
            let status = call("Get", &json!({ "Name": "vol" }))["Volume"]["Status"].clone();
            assert_eq!((&status["state"], &status["users"]), (&"serving".into(), &1.into()), "{words:?}: {status}");
        }
        done.store(true, Ordering::Relaxed);
        calls.join().expect("every call was answered");
        work.join().expect("it counts")
    });
    assert!(rounds > 10 && failed == 0, "{failed} of {rounds} failed");
    assert_ne!(systemd.main_pid(), first);
    call("Unmount", &json!({ "Name": "vol", "ID": "container" }));
    call("Remove", &json!({ "Name": "vol" }));
    assert_eq!(fs::read(source.join("file")).expect("the data stay"), b"content");
}
