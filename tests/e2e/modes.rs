//! Where a client runs: the plan says which mode was chosen and why, and each does what it says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use shorefast_tests::client::{Request, Way};
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, command, mountinfo, wait};

/// What a dry run says of the mode.
fn chosen(host: &Host, arguments: &[&str]) -> (String, String) {
    let plan = host.shorefast(&[&["mount", "--dry-run"], arguments].concat()).succeeds().json();
    let field = |name: &str| plan[name].as_str().unwrap_or_else(|| panic!("no {name} in {plan}")).to_owned();
    (field("mode"), field("why"))
}

#[test]
fn the_plan_says_which_mode_was_chosen_and_why() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("a writable /etc");
    let define = |name: &str, text: &str| fs::write(format!("/etc/shorefast/clients.d/{name}.toml"), text).expect("a writable /etc");
    define("plain", "types = [\"plain\"]\nimage = \"dir:/\"\nmode = \"host\"\n");
    define("either", "types = [\"either\", \"fuse.bindfs\"]\nimage = \"dir:/\"\nmode = \"auto\"\n");
    let rows: [(&[&str], &str, &str); 9] = [
        (&["-t", "sshfs"], "container", "the default"),
        (&["-t", "sshfs", "--mode", "host"], "host", "this call says so"),
        (&["-t", "sshfs", "--mode", "chroot"], "chroot", "this call says so"),
        (&["-t", "plain"], "host", "the client's definition says so"),
        (&["-t", "plain", "--mode", "container"], "container", "this call says so"),
        (&["-t", "either"], "container", "auto: this host has no mount.either"),
        (&["-t", "fuse.bindfs"], "host", "auto: this host has /usr/bin/bindfs"),
        (&["-t", "tmpfs"], "host", "no client definition lists the type \"tmpfs\""),
        (&["--mode", "host"], "host", "this call says so"),
    ];
    for (arguments, mode, why) in rows {
        let (said, because) = chosen(&host, &[arguments, &["source", "/srv/target"]].concat());
        assert_eq!(said, mode, "{arguments:?}: {because}");
        assert!(because.contains(why), "{arguments:?}: {because}");
    }
    // A client that was asked for is not replaced by something else.
    for arguments in [&["-t", "tmpfs", "--mode", "container"][..], &["-t", "tmpfs", "--image", "dir:/"], &["--client", "nobody"]] {
        let ran = host.shorefast(&[&["mount", "--dry-run"], arguments, &["source", "/srv/target"]].concat());
        assert!(ran.code != Some(0) && ran.stderr.contains("client"), "{ran:?}");
    }
    host.shorefast(&["mount", "--mode", "nowhere", "-t", "tmpfs", "a", "/srv"]).exits(1).says("container, ");
}

#[test]
fn a_type_without_a_client_goes_to_plain_mount() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    host.shorefast(&["mount", "-t", "tmpfs", "-o", "size=1M,noexec,x-mine", "scratch", text(&target)]).succeeds();
    let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
    assert!(mount.has("noexec") && mount.superblock_options.contains("size=1024k"), "{mount:?}");
    assert_eq!(mount.source, "scratch");
    assert!(host.list().is_empty(), "it is none of ours");
    command::run(&["umount", text(&target)]);
    host.assert_nothing_left();

    let failed = host.shorefast(&["mount", "-t", "nosuch", "a", text(&target)]);
    failed.exits(32).says("nosuch").says("hint: this was plain mount(8)");
    host.shorefast(&["mount", "-t", "tmpfs", "a", "/srv/missing"]).exits(32).says("/srv/missing");
    host.assert_nothing_left();
}

#[test]
fn auto_takes_the_hosts_helper_if_there_is_one() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &format!("mode = \"auto\"\n{definition}"));
    for (fstype, records) in [("fuse.bindfs", 0), ("bindfs", 1)] {
        Request::new(&client, fstype, &source, &target).mount(&host, Way::Directory).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content");
        assert_eq!(host.list().len(), records, "{fstype}");
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

/// Called by mount(8) as its own helper, it must not call mount(8) for ever.
#[test]
fn shorefast_as_a_helper_of_the_host_is_no_reason_to_leave_it_to_the_host() {
    let Some(host) = Host::new() else { return };
    let (changes, work) = (host.directory("sbin"), host.directory("work"));
    let options = format!("lowerdir=/usr/sbin,upperdir={},workdir={}", text(&changes), text(&work));
    command::run(&["mount", "-t", "overlay", "-o", &options, "overlay", "/usr/sbin"]);
    symlink(host.binary(), "/usr/sbin/mount.either").expect("a writable /usr/sbin");
    host.settle();
    fs::create_dir_all("/etc/shorefast/clients.d").expect("a writable /etc");
    fs::write("/etc/shorefast/clients.d/either.toml", "types = [\"either\"]\nimage = \"dir:/\"\nmode = \"auto\"\n")
        .expect("a writable /etc");
    let (mode, why) = chosen(&host, &["-t", "either", "a", "/srv"]);
    assert_eq!(mode, "container");
    assert!(why.contains("is Shorefast itself"), "{why}");
    let plan = host.shorefast(&["mount", "--dry-run", "--mode", "host", "-t", "either", "a", "/srv"]).succeeds().json();
    assert_eq!(plan["command"][1], "-i", "{plan}");
    host.shorefast(&["mount", "--mode", "host", "-t", "either", "a", text(&host.directory("target"))]).exits(32).says("either");
    host.assert_nothing_left();
}

/// bindfs from its image, in mode chroot.
struct Chroot {
    client: Client,
    source: PathBuf,
    target: PathBuf,
}

impl Chroot {
    fn new(host: &Host) -> Self {
        let source = host.directory("source");
        fs::write(source.join("file"), "content").expect("the source can be written to");
        Self { client: Client::named("bindfs"), source, target: host.directory("target") }
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.client, "bindfs", &self.source, &self.target)
    }

    fn read(&self) -> Vec<u8> {
        fs::read(self.target.join("file")).expect("the mount can be read")
    }
}

#[test]
fn a_client_in_a_chroot_is_the_hosts_root_and_sees_the_images_files() {
    let Some(host) = Host::new() else { return };
    let chroot = Chroot::new(&host);
    chroot.request().options("ro,noexec,nosymfollow").mount(&host, Way::Chroot).succeeds();
    assert_eq!(chroot.read(), b"content");
    let [mount] = &mountinfo::at(&chroot.target)[..] else { panic!("not one mount") };
    assert!(["ro", "noexec", "nosuid", "nodev"].iter().all(|flag| mount.has(flag)), "{mount:?}");

    let row = &host.list()[0];
    assert_eq!((&row["mode"], &row["state"]), (&"chroot".into(), &"serving".into()), "{row}");
    let daemon = Process { pid: u32::try_from(row["pid"].as_u64().expect("a served mount has a daemon")).expect("a pid") };
    assert_eq!(daemon.status("Uid").as_deref(), Some("0\t0\t0\t0"));
    assert_eq!(daemon.status("CapEff"), Process { pid: std::process::id() }.status("CapEff"));
    assert_eq!(daemon.status("Seccomp").as_deref(), Some("0"));
    for kind in ["pid", "net", "ipc", "uts", "user", "cgroup"] {
        let of = |path: &str| fs::read_link(path).expect("a running process");
        assert_eq!(of(&format!("/proc/{}/ns/{kind}", daemon.pid)), of(&format!("/proc/thread-self/ns/{kind}")), "{kind}");
    }
    let inside = fs::read(daemon.file("root/usr/bin/bindfs")).expect("the image's files");
    assert_eq!(inside, fs::read(chroot.client.image_directory().join("usr/bin/bindfs")).expect("the image"));
    assert!(!daemon.file("root/srv/source").exists(), "it sees the host's files");

    // Another one takes over when it dies, as everywhere.
    daemon.signal(Signal::KILL);
    wait::until("a new client", || {
        host.list().first().is_some_and(|row| row["state"] == "serving" && row["pid"] != daemon.pid).then_some(())
    });
    assert_eq!(chroot.read(), b"content");
    let mounts = mountinfo::at(&chroot.target);
    assert!(mounts.iter().all(|mount| ["ro", "noexec", "nosuid", "nodev"].iter().all(|flag| mount.has(flag))), "{mounts:?}");
    host.shorefast(&["umount", text(&chroot.target)]).succeeds();
    host.assert_nothing_left();
}

/// Whatever such a client leaves running, it does not outlive a failed mount, nor a kernel filesystem that needs no client.
#[test]
fn what_a_client_in_a_chroot_started_ends_with_it() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let orphan = "setsid sleep 1000 </dev/null >/dev/null 2>&1 &";
    let rows = [("mount -t tmpfs scratch $1", Some(0)), ("exit 3", Some(32)), ("mount -t proc proc $1", Some(32)), ("true", Some(32))];
    for (script, code) in rows {
        let client = Client::script(&host, &format!("{orphan} {script}"), "");
        let ran = Request::new(&client, "script", "none", &target).mount(&host, Way::Chroot);
        assert_eq!(ran.code, code, "{script}: {}", ran.stderr);
        assert_eq!(mountinfo::at(&target).len(), usize::from(code == Some(0)), "{script}");
        if code == Some(0) {
            command::run(&["umount", text(&target)]);
        }
        host.assert_nothing_left();
    }
}

/// Everything that came after Linux 5.10 is refused as that kernel would: its calls, and listeners that wait until they are
/// answered.
const LINUX_5_10: &str = r"
import ctypes, os, struct, sys
def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)
LOAD, JGE, JEQ, JSET, RET, ALLOW = 0x20, 0x35, 0x15, 0x45, 0x06, 0x7fff0000
ENOSYS, EINVAL = 0x50000 | 38, 0x50000 | 22
seccomp = 277 if os.uname().machine == 'aarch64' else 317
program = b''.join([
    op(LOAD, 0, 0, 0), op(JGE, 0, 1, 441), op(RET, 0, 0, ENOSYS),
    op(JEQ, 0, 3, seccomp), op(LOAD, 0, 0, 24), op(JSET, 0, 1, 0x20), op(RET, 0, 0, EINVAL), op(RET, 0, 0, ALLOW)])
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_char_p)]
if ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0):
    raise OSError(ctypes.get_errno(), 'prctl')
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn a_chroot_needs_no_kernel_that_can_broker() {
    let Some(host) = Host::new() else { return };
    let chroot = Chroot::new(&host);
    let run = |way: Way| {
        let mut python = std::process::Command::new("python3");
        python.args(["-c", LINUX_5_10]).arg(host.binary()).args(chroot.request().arguments(way, &[]));
        command::finish(python)
    };
    run(Way::Directory).exits(32).says("hint: this kernel is too old").says("--mode chroot");
    host.assert_nothing_left();
    run(Way::Chroot).succeeds();
    assert_eq!(chroot.read(), b"content");
    assert_eq!(host.list()[0]["state"], "serving");
    command::run(&["umount", text(&chroot.target)]);
    host.assert_nothing_left();
}
