//! A client that is up to no good: no row of tests/hostile succeeds, and the host does not notice.
//!
//! Rows that cannot end in a mount run in one launch. Each other row is a test of its own, because its launch may end with the
//! one mount that a client is allowed, with a dead sandbox, or with processes that Shorefast has to get rid of. All of it runs in
//! both kinds of sandbox. That rows can succeed where nothing stops them is shown by running some of them without a sandbox.

#[path = "hostile/image.rs"]
mod image;
#[path = "hostile/surroundings.rs"]
mod surroundings;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use shorefast_tests::client::Request;
use shorefast_tests::command::Running;
use shorefast_tests::hostile::{self, files_below};
use shorefast_tests::kernel::{is_guest, owners_can_be_mapped};
use shorefast_tests::{Client, Host, Ran, Way, command, mountinfo, wait};

use crate::image::{IMAGE, OPEN, make_image, make_source};
use crate::surroundings::{Services, Starvation, State, WITNESS};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sandbox {
    /// What every client gets unless its definition asks for something else.
    UserNamespace,
    /// The weakest that a definition can ask for: a user of its own, and the host's processes in sight.
    DedicatedUser,
    /// With rights over everything below its source.
    KeepsOwners,
}

impl Sandbox {
    /// The directories that must be afterwards as they were.
    fn untouchable(self, image: &Path) -> Vec<&Path> {
        match self {
            Self::UserNamespace | Self::DedicatedUser => vec![image, Path::new(SOURCE)],
            Self::KeepsOwners => vec![image],
        }
    }
}

/// Each name is a row of tests/hostile/src/rows.rs that is not in the batch, with `_` for `-`.
macro_rules! rows {
    ($($name:ident)*) => {
        const ROWS: &[&str] = &[$(stringify!($name)),*];

        mod in_a_user_namespace {
            use super::{Sandbox, batch, row};

            #[test]
            fn the_batch() {
                batch(Sandbox::UserNamespace);
            }

            $(#[test]
            fn $name() {
                row(Sandbox::UserNamespace, stringify!($name));
            })*
        }

        mod with_a_dedicated_user {
            use super::{Sandbox, batch, row};

            #[test]
            fn the_batch() {
                batch(Sandbox::DedicatedUser);
            }

            $(#[test]
            fn $name() {
                row(Sandbox::DedicatedUser, stringify!($name));
            })*
        }
    };
}

mod with_rights_over_its_source {
    use super::{Sandbox, batch, row};

    #[test]
    fn the_batch() {
        batch(Sandbox::KeepsOwners);
    }

    #[test]
    fn signals_everybody() {
        row(Sandbox::KeepsOwners, "signals_everybody");
    }

    #[test]
    fn fills_processes() {
        row(Sandbox::KeepsOwners, "fills_processes");
    }
}

rows! {
    strings_forged_source options_suid fuse_another_user fuse_used_fd mounts_twice mounts_again unmounts_its_own
    races_type races_type_elsewhere races_target races_target_type races_options races_unmapping races_cwd races_symlink
    races_rename races_root races_fd races_threads races_flood races_killed races_exec races_signals
    stalls_init stalls_garbage stalls_after_init stalls_arguments stalls_target
    stalls_foreign_memory stalls_foreign_target stalls_foreign_cwd stalls_foreign_descriptor
    lasts_asking lasts_serving lasts_holding lasts_forking
    signals_everybody
    fills_memory fills_memory_files fills_shared_segments fills_scratch fills_inodes fills_processes fills_threads
    fills_message_queues fills_log fills_log_line fills_syslog speaks_to_terminal starves_inotify starves_signals
}

#[test]
fn every_row_of_the_table_is_tried() {
    let listed: BTreeSet<String> = list().into_iter().filter(|row| row.group != "batch").map(|row| row.name.replace('-', "_")).collect();
    let tried: BTreeSet<String> = ROWS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed, tried);
    assert!(list().len() >= 100);
}

/// Of the batch, what a client may do that keeps the owners of its source. All of it is about its own user namespace, whose ids nobody else has, and
/// about its source.
const GRANTED: &[&str] = &[
    "has-capabilities",
    "becomes-user",
    "becomes-group",
    "becomes-file-user",
    "raises-capabilities",
    "raises-ambient",
    // They run with what the client has anyway.
    "executes-setuid",
    "executes-filecaps",
    "source-reads-foreign",
    "source-changes-foreign",
    "source-gives-away",
    // As one of the namespace's users, who outside is above 2,000,000,000.
    "forges-credentials",
];

fn batch(sandbox: Sandbox) {
    let Some(scene) = Scene::set(sandbox) else { return };
    let ran = scene.mount(&["rows"], "60s").succeeds();
    let verdicts = scene.verdicts(&ran);
    verdicts.iter().for_each(|verdict| println!("{}\t{}\t{}", verdict.name, verdict.word, verdict.detail));
    let expected: Vec<String> = list().into_iter().filter(|row| row.group == "batch").map(|row| row.name).collect();
    let heard: Vec<&String> = verdicts.iter().map(|verdict| &verdict.name).collect();
    assert_eq!(heard, expected.iter().collect::<Vec<_>>(), "rows without a verdict");
    // Where owners cannot be mapped, the client is a dedicated user without any right.
    let granted = if sandbox == Sandbox::KeepsOwners && owners_can_be_mapped() { GRANTED } else { &[] };
    let harm = verdicts.iter().filter(|verdict| verdict.word != "refused" && !granted.contains(&verdict.name.as_str()));
    let harm: Vec<String> = harm.map(|verdict| format!("{verdict:?}")).collect();
    assert!(harm.is_empty(), "{} rows were not refused:\n{}", harm.len(), harm.join("\n"));
    let word = |name: &&&str| verdicts.iter().any(|verdict| verdict.name == **name && verdict.word == "succeeded");
    let unused: Vec<_> = granted.iter().filter(|name| !word(name)).collect();
    assert!(unused.is_empty(), "refused, though listed as granted: {unused:?}");
    scene.check_and_unmount(&ran);
}

fn row(sandbox: Sandbox, name: &str) {
    let name = name.replace('_', "-");
    if is_guest() && ["lasts-forking", "fills-processes"].contains(&name.as_str()) {
        // user-mode-linux falls over by itself (6.12: exit_mmap of a child that never ran).
        return println!("left out: this kernel does not survive a fork that fails half-way");
    }
    let Some(mut scene) = Scene::set(sandbox) else { return };
    if name.starts_with("stalls-foreign-") {
        return foreign(scene, &name);
    }
    if MANY_MOUNTS.contains(&name.as_str()) {
        scene.allow_many_mounts();
    }
    let ran = scene.mount(&["row", &name], "15s");
    println!("exit {:?} after {:?}\n{}", ran.code, ran.took, ran.stderr);
    assert!(ran.took < Duration::from_secs(40), "it took {:?}, with a timeout of 15 s", ran.took);
    let verdicts = scene.verdicts(&ran);
    let group = list().into_iter().find(|row| row.name == name).expect("the table has the row").group;

    if name.starts_with("lasts-") {
        assert_eq!(ran.code, Some(0), "there is nothing to outlast: {}", ran.stderr);
    }
    match (name.as_str(), ran.code) {
        ("stalls-init" | "stalls-garbage", code) => assert_eq!(code, Some(32), "nobody serves, but the mount is there"),
        ("lasts-serving", Some(0)) => {
            wait::until("the server's last attempt", || scene.target.join("over").exists().then_some(()));
            assert!(!scene.target.join("harm").exists(), "what serves the mount could mount or climb out");
        }
        // Where it may have such a socket at all: before Linux 6.12 it may not.
        ("fills-syslog", Some(0)) if verdicts.iter().any(|verdict| verdict.detail.contains("30000 messages")) => {
            let said = scene.host.shorefast(&["logs".as_ref(), scene.target.as_os_str()]).succeeds().stdout;
            assert!(said.contains("the rest is left out"), "{}", said.len());
        }
        ("lasts-asking", Some(0)) => {
            thread::sleep(Duration::from_millis(2500));
            let late = fs::read_to_string(scene.target.join("late")).unwrap_or_default();
            assert_eq!(late, "", "a mount call succeeded after the client had ended");
        }
        _ => {}
    }
    match group.as_str() {
        "failing" => {
            assert_eq!(ran.code, Some(32));
            let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
            assert!(!ran.stderr.contains(odd), "control characters of the client reach the terminal: {:?}", ran.stderr);
        }
        "deadly" if verdicts.is_empty() => assert_eq!(ran.code, Some(32), "{}", ran.stderr),
        _ => {
            let [verdict] = verdicts.as_slice() else { panic!("not one verdict: {verdicts:?}\n{}", ran.stderr) };
            assert_eq!((verdict.name.as_str(), verdict.word.as_str()), (name.as_str(), "refused"), "{}", verdict.detail);
            println!("{}", verdict.detail);
        }
    }
    if name.starts_with("starves-") {
        scene.starvation.assert_none();
    }
    scene.check_and_unmount(&ran);
}

/// The client is shown a filesystem that stalls, which is none of its own. Whatever of it leads the broker there, the deadline holds,
/// SIGKILL ends it at once, and nothing is left but what the kernel cannot end, until that filesystem does.
fn foreign(mut scene: Scene, name: &str) {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let mut server = scene.show_foreign();
    let mut ran = scene.mount(&["row", name], "2s");
    println!("exit {:?} after {:?}\n{}", ran.code, ran.took, ran.stderr);
    assert!(ran.took < TIMEOUT + Duration::from_secs(4), "it took {:?}, with a timeout of {TIMEOUT:?}", ran.took);
    let verdicts = scene.verdicts(&ran);
    assert!(verdicts.iter().all(|verdict| verdict.word == "refused"), "{verdicts:?}");
    assert!(!ran.stderr.contains("no such source"), "the row had nothing to try: {}", ran.stderr);
    match name {
        // What waits for the source waits until the deadline; nothing else has to.
        "stalls-foreign-memory" | "stalls-foreign-cwd" => assert_eq!(ran.code, Some(32)),
        _ => assert_eq!((ran.code, verdicts.len()), (Some(0), 1), "{}", ran.stderr),
    }
    if ran.code == Some(0) {
        scene.host.shorefast(&["umount".as_ref(), scene.target.as_os_str()]).succeeds();
    } else {
        let mut mount = scene.start(&["row", name], "60s");
        thread::sleep(Duration::from_secs(1));
        mount.kill();
        let killed = mount.finish();
        assert!(killed.took < Duration::from_secs(5), "SIGKILL took {:?}", killed.took);
    }
    server.kill().and_then(|()| server.wait()).expect("it is our child");
    wait::until("the sandbox to end", || scene.host.sandboxed().is_empty().then_some(()));
    scene.host.shorefast(&["reconcile"]).succeeds();
    command::run(&["umount", "--lazy", FOREIGN]);
    ran.code = Some(32);
    scene.check_and_unmount(&ran);
}

const FOREIGN: &str = "/srv/foreign";

/// What every other client gets as its source.
const SOURCE: &str = "/srv/source";

/// Races that go on after a mount that is allowed, because the client undoes it; with one mount they would be over at the first.
const MANY_MOUNTS: &[&str] =
    &["races-type", "races-target", "races-options", "races-cwd", "races-symlink", "races-rename", "races-root", "races-fd"];

#[derive(Debug)]
struct Listed {
    name: String,
    group: String,
}

fn list() -> Vec<Listed> {
    let mut client = Command::new(hostile::client());
    client.arg("list");
    let lines = command::finish(client).succeeds().stdout;
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        Some(Listed { name: fields.next()?, group: fields.next()? })
    };
    lines.lines().filter_map(row).collect()
}

#[derive(Debug)]
struct Verdict {
    name: String,
    word: String,
    detail: String,
}

/// Tabs in the client's file; colons, and perhaps something before them, where its words are shown to people.
fn verdict(line: &str) -> Option<Verdict> {
    let (words, separator) = match line.find("row: ") {
        Some(start) => (&line[start..], ": "),
        None => (line, "\t"),
    };
    let mut fields = words.splitn(4, separator).map(str::to_owned);
    fields.next().filter(|first| first == "row")?;
    Some(Verdict { name: fields.next()?, word: fields.next()?, detail: fields.next().unwrap_or_default() })
}

/// A host with things to break on it, and an image with the client in it.
struct Scene {
    sandbox: Sandbox,
    client: Client,
    source: &'static str,
    target: PathBuf,
    image: PathBuf,
    before: State,
    services: Services,
    bystanders: Vec<Child>,
    starvation: Starvation,
    host: Host,
}

impl Scene {
    fn set(sandbox: Sandbox) -> Option<Self> {
        let host = Host::new()?;
        let image = make_image();
        let namespaces = match sandbox {
            Sandbox::UserNamespace => "",
            Sandbox::KeepsOwners => "source_access = \"keep-owners\"\n",
            Sandbox::DedicatedUser => "namespaces = { pid = \"host\", user = \"host\" }\n",
        };
        make_source(Path::new(SOURCE));
        let definition = format!(
            "types = [\"hostile\"]\nsource = \"path\"\nkernel_types = [\"tmpfs\", \"fuse\"]\nlimits = {{ memory = \"64M\", pids = 64 }}\n{namespaces}\
             command = [\"/usr/bin/hostile\", \"{{source}}\", \"{{target}}\"]\n"
        );
        let client = Client::defined(&host, IMAGE, &definition);
        for place in ["/run", "/srv", "/etc", "/var/lib", "/var/log", "/var/cache"] {
            fs::write(Path::new(place).join(WITNESS), WITNESS).expect("a test's own directories can be written to");
        }
        let bystander = |words: &[&str]| Command::new("setpriv").args(["--pdeathsig", "KILL"]).args(words).spawn();
        let bystanders = vec![
            bystander(&["sleep", "300"]).expect("cannot start a bystander"),
            bystander(&["--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "300"]).expect("cannot start a bystander"),
        ];
        let services = Services::start();
        // setpriv has become sleep when this is over.
        thread::sleep(Duration::from_millis(50));
        host.settle();
        let target = host.directory("target");
        let before = State::now(&sandbox.untouchable(&image));
        Some(Self { sandbox, client, source: SOURCE, target, image, before, services, bystanders, starvation: Starvation::watch(), host })
    }

    fn allow_many_mounts(&self) {
        let definition = fs::read_to_string(&self.client.definition).expect("it was written by this test");
        fs::write(&self.client.definition, format!("mounts = 1000000\n{definition}")).expect("it is ours");
    }

    /// A filesystem that stalls, as the client's source. It looks as it did before once that is unmounted.
    fn show_foreign(&mut self) -> Child {
        fs::create_dir(FOREIGN).expect("a test's own directory");
        let server = Command::new(hostile::client()).args(["serve-foreign", FOREIGN]).spawn().expect("the server starts");
        wait::until("the server to mount", || (!mountinfo::at(Path::new(FOREIGN)).is_empty()).then_some(()));
        self.source = FOREIGN;
        server
    }

    /// `words` go to the client in place of the source, the last one as an argument of its own.
    fn mount(&self, words: &[&str], timeout: &str) -> Ran {
        self.start(words, timeout).finish()
    }

    fn start(&self, words: &[&str], timeout: &str) -> Running {
        let definition = fs::read_to_string(&self.client.definition).expect("it was written by this test");
        let spelt: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        fs::write(&self.client.definition, definition.replace("\"{source}\"", &spelt.join(", "))).expect("it is ours");
        let request = Request::new(&self.client, "hostile", self.source, &self.target);
        // A caller's descriptor that is not close-on-exec: shells and service managers leave such things open.
        let leaked = fs::File::open("/etc/passwd").expect("it can be read");
        fcntl_setfd(&leaked, FdFlags::empty()).expect("a flag of our own descriptor");
        let mut command = Command::new(self.host.binary());
        command.args(request.arguments(Way::Directory, &["--timeout", timeout])).env("SHOREFAST_TEST_SECRET", "for nobody but the caller");
        Running::start(command)
    }

    /// From the mount itself, from the log of the mount, or from what the failed command said.
    fn verdicts(&self, ran: &Ran) -> Vec<Verdict> {
        if ran.code != Some(0) {
            return ran.stderr.lines().filter_map(verdict).collect();
        }
        let [mount] = &mountinfo::at(&self.target)[..] else { return Vec::new() };
        if mount.fstype == "tmpfs" {
            return fs::read_to_string(self.target.join("results")).unwrap_or_default().lines().filter_map(verdict).collect();
        }
        let logs = self.host.shorefast(&["logs".as_ref(), self.target.as_os_str()]).succeeds();
        logs.stdout.lines().filter_map(verdict).collect()
    }

    /// A client that made somebody wait for its FUSE server leaves a process that no signal ends; this does.
    fn abort_connections(&self) {
        let control = self.host.directory("fusectl");
        drop(Command::new("mount").args(["-t", "fusectl", "fusectl"]).arg(&control).status());
        let tables = self.host.sandboxed().into_iter().filter_map(|process| mountinfo::read(process.file("mountinfo")).ok());
        for mount in tables.flatten().filter(|mount| mount.fstype.starts_with("fuse")) {
            let number = mount.device.trim_start_matches("0:");
            drop(fs::write(control.join(number).join("abort"), "1"));
        }
    }

    /// What the client left where it may write gives nobody rights.
    fn assert_source_is_harmless(&self) {
        let open = Path::new(SOURCE).join(OPEN);
        for file in files_below(&open) {
            let meta = fs::symlink_metadata(&file).expect("it was just listed");
            assert_eq!(meta.mode() & 0o6000, 0, "{} is set-id", file.display());
            if self.sandbox != Sandbox::KeepsOwners {
                assert_ne!(meta.uid(), 0, "{} is root's", file.display());
            }
            fs::remove_file(&file).expect("root may do that");
        }
    }

    /// What must be true after every launch, then an end to it.
    fn check_and_unmount(mut self, ran: &Ran) {
        let mounts = mountinfo::here();
        let new: Vec<_> = mounts.iter().filter(|mount| !self.before.mounts.contains(mount)).collect();
        match (ran.code, new.as_slice()) {
            (Some(0), [mount]) => {
                assert_eq!(mount.point, self.target);
                assert!(["tmpfs", "fuse"].contains(&mount.fstype.as_str()), "{mount:?}");
                assert!(mount.has("nosuid") && mount.has("nodev"), "{mount:?}");
                assert_eq!(self.host.list().len(), 1);
            }
            (Some(32), []) => assert_eq!(self.host.list(), [] as [serde_json::Value; 0]),
            (code, new) => panic!("exit {code:?} and these mounts: {new:?}\n{}", ran.stderr),
        }
        assert!(size_of(self.host.run_directory()) < 2 << 20, "the client's output fills {}", self.host.run_directory().display());
        if ran.code == Some(0) {
            let unmounted = self.host.shorefast(&["umount".as_ref(), self.target.as_os_str()]);
            assert!(unmounted.took < Duration::from_secs(40), "umount took {:?}", unmounted.took);
            // A server may cling to its own mount, with an open file or as its directory; to flush it may take its time. It is
            // off the host, and can be ended.
            if unmounted.code != Some(0) {
                unmounted.exits(32).says("does not end");
                self.host.shorefast(&["umount".as_ref(), "--force".as_ref(), self.target.as_os_str()]).succeeds();
            }
        }
        self.host.assert_nothing_left();
        self.assert_source_is_harmless();
        self.before.assert_same(&State::now(&self.sandbox.untouchable(&self.image)));
        let left = fs::read_dir(&self.target).expect("the target is still there").count();
        assert_eq!(left, 0, "something is in the target");
        self.services.assert_untouched();
        for bystander in &mut self.bystanders {
            assert!(bystander.try_wait().expect("it is our child").is_none(), "a bystander on the host was killed");
        }
    }
}

fn size_of(directory: &Path) -> u64 {
    files_below(directory).iter().filter_map(|path| fs::symlink_metadata(path).ok()).map(|meta| meta.len()).sum()
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A failed test leaves its mount; the host would kill whoever keeps it, and what they clean up would be left for others to find.
        if thread::panicking() {
            self.abort_connections();
            drop(Command::new(self.host.binary()).args(["umount", "--force"]).arg(&self.target).status());
        }
        for bystander in &mut self.bystanders {
            drop(bystander.kill());
            drop(bystander.wait());
        }
    }
}

/// Rows that do succeed when root runs them with nothing to hold it but namespaces of its own, so that what they do ends with them.
#[rustfmt::skip]
const UNHELD: &[&str] = &[
    "mounts-overlay", "mounts-proc", "mounts-sysfs", "mounts-ramfs", "mounts-mqueue", "mounts-devtmpfs",
    "mounts-cgroup2", "targets-root", "targets-system", "targets-scratch", "targets-dotdot", "targets-relative",
    "targets-dot", "targets-through-symlink", "targets-through-magic-link", "targets-through-descriptor", "targets-below", "targets-same-name",
    "flags-bind", "flags-bind-recursive", "flags-move", "flags-remount", "flags-remount-writable", "flags-shared",
    "flags-private-and-slave", "flags-propagation-at-target", "flags-rec-alone", "flags-kernmount", "flags-kernel-internal", "mounts-twice", "mounts-again",
    "options-suid", "unmounts-root", "unmounts-system", "unmounts-through-links", "api-fsopen", "api-fsopen-proc",
    "api-fspick", "api-open-tree", "api-move-mount", "api-mount-setattr", "api-chroot", "races-type",
    "races-type-elsewhere", "races-target", "races-target-type", "races-cwd", "races-symlink", "races-threads",
    "races-killed", "unshares-mount", "unshares-pid", "unshares-net", "unshares-ipc", "unshares-uts",
    "unshares-cgroup", "clones-namespaces", "clones3-namespaces", "enters-own-namespaces", "enters-init-namespaces", "enters-by-pidfd",
    "has-capabilities", "is-host-root", "becomes-user", "becomes-group", "becomes-file-user", "raises-capabilities",
    "raises-ambient", "sets-securebits", "clears-no-new-privs", "leaves-seccomp", "seccomp-listener", "inherits-environment",
    "becomes-realtime", "traces-init", "reads-memory", "opens-memory", "lists-descriptors", "takes-descriptors",
    "compares-processes", "inspects-robust-list", "overwrites-init", "shares-session", "inherits-descriptors", "sets-up-io-uring",
    "handles-page-faults", "renames-host", "opens-by-handle", "watches-everything", "makes-block-devices", "makes-character-devices",
    "writes-core-pattern", "writes-sysctls", "writes-image", "opens-image-devices", "removes-from-image", "changes-image-attributes", "sets-inode-flags",
    "links-image", "connects-abstract", "sends-abstract", "connects-any-abstract", "opens-raw-socket", "opens-packet-socket",
    "adds-interface", "adds-route", "adds-address", "sets-interface", "binds-low-ports", "forces-socket-options",
    "forges-credentials", "dumps-core", "fills-memory", "fills-scratch", "fills-processes", "fills-threads",
    "executes-setuid", "finds-kernel-addresses", "reads-kernel-log", "enters-root-of", "api-32-bit", "api-32-bit-mount",
    "api-32-bit-fsopen", "api-rewritten-call", "adds-keys", "api-listmount", "reads-pagemaps",
    "source-set-id-modes", "source-set-id-files", "source-file-capabilities", "source-reads-foreign", "source-changes-foreign",
    "source-gives-away", "source-devices", "source-lax", "opens-other-netlink", "pairs-other-families", "pairs-reach-abstract",
];

#[test]
fn rows_succeed_where_nothing_stops_them() {
    if is_guest() {
        return println!("left out: it is about the rows, and a guest kernel lacks some of what they reach for");
    }
    let Some(_host) = Host::new() else { return };
    let _services = Services::start();
    let image = make_image();
    let failed: Vec<String> = UNHELD.iter().filter_map(|name| failure_unheld(&image, name)).collect();
    assert!(failed.is_empty(), "{} rows cannot succeed:\n{}", failed.len(), failed.join("\n"));
}

/// What the row said, if it did not succeed. The shell stays as process 1, so that there is somebody to attack.
fn failure_unheld(image: &Path, name: &str) -> Option<String> {
    let script = "mount -t tmpfs tmpfs \"$1\" && cp -a \"$2\"/. \"$1\" && cd \"$1\" && mount -t proc proc proc && mount -t tmpfs tmpfs dev && \
        mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/urandom c 1 9 && mknod -m 666 dev/fuse c 10 229 && \
        mkdir mnt/target && mount --bind mnt/target mnt/target && { chroot . /usr/bin/hostile row \"$3\" /mnt/target 7</dev/null; true; }";
    let root = image.with_file_name("unheld");
    fs::create_dir_all(&root).expect("the test's own directory");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c", script, "sh"]);
    command.arg(&root).arg(image).arg(name).env("SHOREFAST_TEST_SECRET", "for nobody but the caller");
    let ran = command::finish(command);
    match ran.stderr.lines().find_map(verdict) {
        Some(verdict) if verdict.word == "succeeded" => None,
        _ => Some(format!("{name}: {}", ran.stderr)),
    }
}
