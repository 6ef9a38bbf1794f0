//! CephFS against a real cluster, by ceph-fuse and by the kernel, beside the natively installed clients in the same run. Starting a
//! cluster takes long: `cargo xtask e2e-ceph`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use shorefast_tests::client::store;
use shorefast_tests::command::{self, Ran};
use shorefast_tests::path::text;
use shorefast_tests::servers::Ceph;
use shorefast_tests::skip::skip;
use shorefast_tests::{Host, mountinfo, processes, wait};

/// A client that says nothing is forgotten after a minute: this is less.
const GOOD_BYE: Duration = Duration::from_secs(40);

/// A test's host, its cluster, and nothing mounted yet.
struct Scene {
    host: Host,
    cluster: Ceph,
    target: PathBuf,
}

/// What the mount table shows.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    fstype: String,
    source: String,
    options: Vec<String>,
    flags: Vec<String>,
}

impl Scene {
    /// None: it said why the test is skipped.
    fn new() -> Option<Self> {
        if !Ceph::is_installed() {
            skip("no Ceph is installed: cargo xtask e2e-ceph");
            return None;
        }
        let host = Host::new()?;
        let cluster = Ceph::start(&host);
        let target = host.directory("target");
        Some(Self { host, cluster, target })
    }

    fn mount(&self, words: &[&str]) -> Ran {
        self.host.shorefast(&self.words(words))
    }

    /// From the catalogue, with an image that was made before.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let store = store();
        let fixed = ["--root", text(&store), "mount", "--offline", "--timeout", "80s"];
        [&fixed[..], words].concat().into_iter().map(str::to_owned).collect()
    }

    fn shown(&self) -> Shown {
        let [mount] = &mountinfo::at(&self.target)[..] else { panic!("not one mount: {:?}", mountinfo::at(&self.target)) };
        let words = |text: &str| text.split(',').map(str::to_owned).collect();
        Shown {
            fstype: mount.fstype.clone(),
            source: mount.source.to_string_lossy().into_owned(),
            options: words(&mount.superblock_options),
            // These we always set.
            flags: mount.flags.iter().filter(|flag| !["nosuid", "nodev"].contains(&flag.as_str())).cloned().collect(),
        }
    }

    #[track_caller]
    fn write(&self, name: &str) {
        fs::write(self.target.join(name), content(name)).unwrap_or_else(|error| panic!("{name} cannot be written: {error}"));
    }

    #[track_caller]
    fn has(&self, names: &[&str]) {
        for name in names {
            let read = fs::read(self.target.join(name)).unwrap_or_else(|error| panic!("{name} cannot be read: {error}"));
            assert!(read == content(name), "{name} is not what was written");
        }
    }

    /// And its client has said good-bye to the cluster.
    fn unmount(&self, words: &[&str]) {
        command::run(&[words, &[text(&self.target)]].concat());
        self.is_over();
    }

    fn unmount_by_us(&self) {
        let ran = self.host.shorefast(&["umount", text(&self.target)]);
        // Its time is limited; whatever takes longer goes on.
        assert!(ran.code == Some(0) || ran.stderr.contains("does not end"), "{}", ran.stderr);
        self.is_over();
    }

    fn is_over(&self) {
        assert_eq!(mountinfo::at(&self.target), []);
        // In the end, the list itself says who is still there.
        let over = wait::within(GOOD_BYE, || self.cluster.sessions().is_empty().then_some(()));
        assert!(over.is_some(), "still there: {:?}", self.cluster.sessions());
        // It has dozens of threads to end, one after the other, which takes its time in a guest.
        wait::until("the client to end, and its record to go", || (!self.has_client() && !self.has_record()).then_some(()));
        self.host.assert_nothing_left();
    }

    fn has_client(&self) -> bool {
        processes::on_this_network().iter().any(|process| process.status("Name").as_deref() == Some("ceph-fuse"))
    }

    fn has_record(&self) -> bool {
        let mut files = fs::read_dir(self.host.run_directory()).into_iter().flatten().flatten();
        files.any(|file| file.path().extension().is_some_and(|extension| extension == "json"))
    }
}

/// More than fits into one piece of what the client sends, so that something is left to be written when the mount ends.
fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(5_000_000 + name.len()).collect()
}

/// ceph-fuse, as in fstab.
mod fuse {
    use super::*;

    impl Scene {
        fn fuse_options(&self) -> String {
            let (configuration, keyring) = (self.cluster.configuration.display(), self.cluster.keyring.display());
            format!("ceph.id=admin,ceph.conf={configuration},ceph.keyring={keyring}")
        }

        fn mount_fuse(&self) {
            self.mount(&["-t", "fuse.ceph", "-o", &self.fuse_options(), "none", text(&self.target)]).succeeds();
        }

        /// Its daemon keeps our output open, which is its own affair.
        fn mount_fuse_natively(&self) {
            let mut command = Command::new("sh");
            command.args(["-c", "exec mount.fuse.ceph none \"$1\" -o \"$2\" >/srv/native.log 2>&1", "sh"]);
            command.arg(&self.target).arg(self.fuse_options());
            command::finish(command).succeeds();
        }
    }

    #[test]
    #[ignore = "needs a cluster: cargo xtask e2e-ceph"]
    fn what_is_written_is_there_the_next_time() {
        let Some(scene) = Scene::new() else { return };
        scene.mount_fuse_natively();
        let natively = scene.shown();
        scene.write("natively");
        scene.unmount(&["umount"]);

        scene.mount_fuse();
        assert_eq!(scene.shown(), natively);
        assert_eq!((natively.fstype.as_str(), natively.source.as_str()), ("fuse.ceph-fuse", "ceph-fuse"));
        scene.has(&["natively"]);
        scene.write("first");
        scene.unmount(&["umount"]);

        scene.mount_fuse();
        scene.has(&["natively", "first"]);
        scene.write("second");
        scene.unmount_by_us();

        scene.mount_fuse_natively();
        scene.has(&["natively", "first", "second"]);
        scene.unmount(&["umount"]);
    }

    /// ceph-fuse tries whether it can remount, which it cannot, and tries again whenever the cluster wants something back. As it comes
    /// from Ceph it gives up then, and does not tell the cluster.
    #[test]
    #[ignore = "needs a cluster: cargo xtask e2e-ceph"]
    fn it_stays_when_it_found_that_it_cannot_remount() {
        let Some(scene) = Scene::new() else { return };
        scene.mount_fuse();
        scene.write("before");
        let client = scene.host.wait_for_client("ceph-fuse");
        let tries = || {
            let threads = fs::read_dir(client.file("task")).into_iter().flatten().flatten();
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok()).any(|name| name == "tester\n")
        };
        wait::until("ceph-fuse to have tried", || (!tries()).then_some(()));
        scene.has(&["before"]);
        // As often as ceph-fuse would try in vain.
        (0..6).for_each(|_| scene.cluster.recall());
        scene.write("after");
        assert!(client.is_sandboxed(), "the client has ended");
        scene.unmount(&["umount"]);
        scene.mount_fuse();
        scene.has(&["before", "after"]);
        scene.unmount_by_us();
    }
}

/// mount.ceph.
mod kernel {
    use super::*;
    use shorefast_tests::unseen::{OwnCommandLine, mounts_unseen};

    fn scene() -> Option<Scene> {
        if !Ceph::is_possible_in_the_kernel() {
            skip("this kernel has no CephFS");
            return None;
        }
        Scene::new()
    }

    #[test]
    #[ignore = "needs a cluster and a kernel with CephFS: cargo xtask e2e-ceph"]
    fn what_is_written_is_there_the_next_time() {
        let Some(scene) = scene() else { return };
        let (source, target) = (scene.cluster.source(), text(&scene.target));
        let secret = scene.host.file("secret", scene.cluster.key_of("client.admin"));
        let native_options = format!("name=admin,secretfile={}", secret.display());
        command::run(&["mount.ceph", &source, target, "-o", &native_options]);
        let natively = scene.shown();
        scene.write("natively");
        scene.unmount(&["umount"]);

        scene.mount(&["-t", "ceph", "-o", "name=admin", "--secret-file", text(&secret), &source, target]).succeeds();
        assert_eq!(scene.shown(), natively);
        assert_eq!((natively.fstype.as_str(), natively.source.as_str()), ("ceph", source.as_str()));
        scene.has(&["natively"]);
        scene.write("first");
        scene.unmount(&["umount"]);

        scene.mount(&["-t", "ceph", "-o", &native_options, &source, target]).succeeds();
        scene.has(&["natively", "first"]);
        scene.write("second");
        scene.unmount_by_us();

        command::run(&["mount.ceph", &source, target, "-o", &native_options]);
        scene.has(&["natively", "first", "second"]);
        scene.unmount(&["umount"]);
    }

    /// From wherever its key comes, nobody but the client and the kernel sees it; and a wrong one is refused.
    #[test]
    #[ignore = "needs a cluster and a kernel with CephFS: cargo xtask e2e-ceph"]
    fn with_a_key_that_nobody_sees() {
        let Some(scene) = scene() else { return };
        let (source, target) = (scene.cluster.source(), text(&scene.target));
        let secret = scene.cluster.key_of("client.admin");
        let file = scene.host.file("secret", &secret);
        let option = format!("name=admin,secret={secret}");
        let file_option = format!("name=admin,secretfile={}", file.display());
        let rows: [(&[&str], OwnCommandLine); 3] = [
            (&["-o", "name=admin", "--secret-file", text(&file)], OwnCommandLine::Clean),
            (&["-o", &file_option], OwnCommandLine::Clean),
            (&["-o", &option], OwnCommandLine::HasIt),
        ];
        for (more, own_command_line) in rows {
            let words = scene.words(&[&["-t", "ceph"], more, &[&source, target]].concat());
            mounts_unseen(&scene.host, &secret, own_command_line, &scene.target, || scene.host.start(&words));
            scene.unmount_by_us();
        }

        let another = scene.cluster.key_of("osd.0");
        let wrong = scene.host.file("wrong", &another);
        let ran = scene.mount(&["-t", "ceph", "-o", "name=admin", "--secret-file", text(&wrong), &source, target]).exits(32);
        assert!(!ran.stderr.contains(&another), "{}", ran.stderr);
        assert_eq!(mountinfo::at(&scene.target), []);
        scene.host.assert_nothing_left();
    }
}
