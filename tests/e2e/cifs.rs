//! CIFS against samba, beside the natively installed mount.cifs in the same run: what that gets is what must come out. They need a
//! kernel with CIFS: `cargo xtask e2e-kernels`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use shorefast_tests::client::images;
use shorefast_tests::command::{self, Ran};
use shorefast_tests::path::text;
use shorefast_tests::servers::{Samba, samba};
use shorefast_tests::skip::skip;
use shorefast_tests::unseen::{OwnCommandLine, mounts_unseen};
use shorefast_tests::{Host, mountinfo};

const GREETING: &[u8] = b"hello from the server\n";
const ANSWER: &[u8] = b"hello from the client\n";

/// A test's host, its server, and nothing mounted yet.
struct Scene {
    host: Host,
    server: Samba,
    target: PathBuf,
}

/// What the mount table shows, but for the flags that we always set.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    fstype: String,
    source: String,
    options: Vec<String>,
    flags: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

impl Scene {
    /// None: it said why the test is skipped.
    fn new() -> Option<Self> {
        if !Samba::is_possible() {
            skip("this kernel has no CIFS");
            return None;
        }
        let host = Host::new()?;
        let server = Samba::start(&host);
        fs::write(server.share.join("greeting"), GREETING).expect("the share can be written to");
        let target = host.directory("target");
        Some(Self { host, server, target })
    }

    fn mount(&self, fstype: &str, source: &str, options: &str, more: &[&str]) -> Ran {
        self.host.shorefast(&words(fstype, source, options, more, &self.target))
    }

    fn mount_natively(&self, fstype: &str, source: &str, options: &str) -> Ran {
        let mut command = Command::new(format!("mount.{fstype}"));
        command.args([source, text(&self.target), "-o", options]);
        command::finish(command)
    }

    fn credentials(&self, user: &str, password: &str) -> String {
        let file = self.host.file("credentials", format!("username={user}\npassword={password}\n"));
        format!("credentials={}", file.display())
    }

    /// Uses what is mounted, unmounts it, and says what was seen meanwhile.
    fn use_it(&self, access: Access) -> Shown {
        let [mount] = &mountinfo::at(&self.target)[..] else { panic!("not one mount: {:?}", mountinfo::at(&self.target)) };
        assert_eq!(fs::read(self.target.join("greeting")).expect("the greeting can be read"), GREETING);
        let answer = self.target.join("answer");
        match access {
            Access::ReadOnly => assert!(fs::write(&answer, ANSWER).is_err(), "a read-only mount was written to"),
            Access::ReadWrite => {
                fs::write(&answer, ANSWER).expect("the mount can be written to");
                assert_eq!(fs::read(self.server.share.join("answer")).expect("the server has it"), ANSWER);
                command::run(&["flock", "--exclusive", "--timeout", "30", text(&answer), "true"]);
                fs::remove_file(&answer).expect("a file can be removed");
            }
        }
        command::run(&["umount", text(&self.target)]);
        assert_eq!(mountinfo::at(&self.target), []);
        Shown {
            fstype: mount.fstype.clone(),
            source: mount.source.to_string_lossy().into_owned(),
            options: mount.superblock_options.split(',').map(str::to_owned).collect(),
            flags: mount.flags.iter().filter(|flag| !["nosuid", "nodev"].contains(&flag.as_str())).cloned().collect(),
        }
    }

    /// The scenario: natively, then sandboxed, and both look the same.
    fn is_as_native(&self, fstype: &str, source: &str, options: &str, access: Access) -> Shown {
        self.mount_natively(fstype, source, options).succeeds();
        let natively = self.use_it(access);
        self.mount(fstype, source, options, &[]).succeeds();
        let sandboxed = self.use_it(access);
        assert_eq!(sandboxed, natively);
        self.host.assert_nothing_left();
        sandboxed
    }
}

/// The built-in definition, the image of the set-up.
fn words(fstype: &str, source: &str, options: &str, more: &[&str], target: &Path) -> Vec<String> {
    let image = format!("dir:{}", images().join("cifs").display());
    let words = [&["mount", "-t", fstype, "--image", &image, "-o", options][..], more, &["--", source, text(target)]].concat();
    words.into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a kernel with CIFS"]
fn with_a_password_that_has_a_comma() {
    let Some(scene) = Scene::new() else { return };
    let options = scene.credentials("daemon", samba::PASSWORD_WITH_COMMA);
    let shown = scene.is_as_native("cifs", &scene.server.source(), &options, Access::ReadWrite);
    assert!(shown.options.contains(&"username=daemon".to_owned()), "{shown:?}");
    let file = scene.host.file("password", samba::PASSWORD_WITH_COMMA);
    scene.mount("cifs", &scene.server.source(), "user=daemon", &["--secret-file", text(&file)]).succeeds();
    assert_eq!(scene.use_it(Access::ReadWrite), shown);
}

/// From wherever its password comes, nobody but the client and the kernel sees it.
#[test]
#[ignore = "needs a kernel with CIFS"]
fn with_a_password_that_nobody_sees() {
    let Some(Scene { host, server, target }) = Scene::new() else { return };
    let file = host.file("password", samba::PASSWORD);
    let credentials = host.file("credentials", format!("username=root\npassword={}\n", samba::PASSWORD));
    let rows: [(String, Vec<&str>, OwnCommandLine); 3] = [
        ("user=root".into(), vec!["--secret-file", text(&file)], OwnCommandLine::Clean),
        (format!("credentials={}", credentials.display()), vec![], OwnCommandLine::Clean),
        (format!("username=root,password={}", samba::PASSWORD), vec![], OwnCommandLine::HasIt),
    ];
    for (options, more, own_command_line) in rows {
        let words = words("cifs", &server.source(), &options, &more, &target);
        mounts_unseen(&host, samba::PASSWORD, own_command_line, &target, || host.start(&words));
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    host.assert_nothing_left();
}

mod thorough {
    use super::*;

    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn with_a_credentials_file() {
        let Some(scene) = Scene::new() else { return };
        let options = scene.credentials("root", samba::PASSWORD);
        let shown = scene.is_as_native("cifs", &scene.server.source(), &options, Access::ReadWrite);
        assert_eq!(shown.fstype, "cifs");
        assert!(shown.options.contains(&"vers=3.1.1".to_owned()), "{shown:?}");
    }

    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn with_owners_and_modes_read_only() {
        let Some(scene) = Scene::new() else { return };
        let options = format!("{},uid=1234,gid=5678,file_mode=0640,dir_mode=0750,ro", scene.credentials("root", samba::PASSWORD));
        let shown = scene.is_as_native("cifs", &scene.server.source(), &options, Access::ReadOnly);
        assert!(shown.flags.contains(&"ro".to_owned()), "{shown:?}");
        scene.mount("cifs", &scene.server.source(), &options, &[]).succeeds();
        let seen = fs::metadata(scene.target.join("greeting")).expect("the greeting is there");
        assert_eq!((seen.uid(), seen.gid(), seen.mode() & 0o7777), (1234, 5678, 0o640));
        scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
        scene.host.assert_nothing_left();
    }

    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn a_wrong_password_is_named_and_leaves_nothing() {
        let Some(scene) = Scene::new() else { return };
        let file = scene.host.file("password", "wrong-and-secret");
        let ran = scene.mount("cifs", &scene.server.source(), "user=root", &["--secret-file", text(&file)]).exits(32).says("EACCES");
        assert!(!ran.stderr.contains("wrong-and-secret"), "{}", ran.stderr);
        assert_eq!(mountinfo::at(&scene.target), []);
        scene.host.assert_nothing_left();
    }

    /// Whoever listens there says nothing: the kernel waits, and we do not.
    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn a_server_that_says_nothing_ends_with_the_deadline() {
        if !Samba::is_possible() {
            return skip("this kernel has no CIFS");
        }
        let Some(host) = Host::new() else { return };
        let _silent = std::net::TcpListener::bind("127.0.0.1:445").expect("nobody else is there");
        let target = host.directory("target");
        let words = words("cifs", "//127.0.0.1/share", "guest", &["--timeout", "2s"], &target);
        let ran = host.shorefast(&words).exits(32).says("the server does not answer");
        // Whoever waits for it does so for ever.
        assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
        assert_eq!(mountinfo::at(&target), []);
        host.assert_nothing_left();
    }

    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn as_a_guest() {
        let Some(scene) = Scene::new() else { return };
        scene.is_as_native("cifs", &scene.server.public_source(), "guest", Access::ReadWrite);
    }

    #[test]
    #[ignore = "needs a kernel with CIFS"]
    fn every_version() {
        let Some(scene) = Scene::new() else { return };
        let credentials = scene.credentials("root", samba::PASSWORD);
        for version in ["vers=3.1.1", "vers=3.0", "vers=2.1"] {
            let shown = scene.is_as_native("cifs", &scene.server.source(), &format!("{credentials},{version}"), Access::ReadWrite);
            assert!(shown.options.contains(&version.to_owned()), "{shown:?}");
        }
        let shown = scene.is_as_native("smb3", &scene.server.source(), &credentials, Access::ReadWrite);
        assert_eq!(shown.fstype, "smb3");
    }
}
