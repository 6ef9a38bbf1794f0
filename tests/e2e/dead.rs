//! Servers that die, stop or vanish, before, during and after a mount: whoever waits for them, it is not us. Each test says its
//! figures (`dead: …`); `cargo xtask dead-servers` makes a table of them.

use std::any::Any;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::client::{Request, Way, images, store};
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::servers::{Gluster, Nfsd, S3, Samba, Sshd, Webdav, nfsd, samba};
use shorefast_tests::skip::skip;
use shorefast_tests::{Client, Host, Ran, command, mountinfo, wait};

/// What `--timeout` says here.
const ALLOWED: &str = "3s";
/// The goals are 10 s and 100 ms, which the table of `cargo xtask dead-servers` is held to. A busy machine takes longer; whoever
/// waits for a dead server takes for ever.
const MOUNT_WITHIN: Duration = Duration::from_secs(15);
const UMOUNT_WITHIN: Duration = Duration::from_secs(15);
const LIST_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Killed,
    Paused,
    /// Packets go nowhere, and nobody says so.
    Cut,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Killed => "server killed",
            Self::Paused => "server paused",
            Self::Cut => "network cut",
        })
    }
}

/// A client, its server, and how to mount.
struct Scene {
    host: Host,
    name: &'static str,
    words: Vec<String>,
    target: PathBuf,
    /// The names of the server's processes.
    server: &'static [&'static str],
    /// For a server that is no process, or on another network.
    harm: Option<Box<dyn Fn(Fault)>>,
    _server: Box<dyn Any>,
}

impl Scene {
    fn mount(&self) -> Running {
        self.host.start(&self.words)
    }

    /// While all is well, which takes its time in a guest.
    fn mount_in_peace(&self) {
        let words: Vec<_> = self.words.iter().map(|word| if word == ALLOWED { "30s" } else { word }).collect();
        self.host.start(&words).finish().succeeds();
    }

    fn happen(&self, fault: Fault) {
        if let Some(harm) = &self.harm {
            return harm(fault);
        }
        let signal = |signal| self.servers().iter().for_each(|process| process.signal(signal));
        match fault {
            Fault::Killed => signal(Signal::KILL),
            Fault::Paused => signal(Signal::STOP),
            Fault::Cut => drop(command::run(&["tc", "qdisc", "replace", "dev", "lo", "root", "blackhole"])),
        }
    }

    /// Those that a server forks for each client, too.
    fn servers(&self) -> Vec<Process> {
        let is_server = |process: &Process| process.status("Name").is_some_and(|name| self.server.contains(&name.as_str()));
        processes::on_this_network().into_iter().filter(|process| !process.is_sandboxed() && is_server(process)).collect()
    }

    fn say(&self, when: &str, fault: Fault, what: &str, took: Duration, how: &str) {
        println!("dead: {} | {fault} {when} | {what} | {:.2} s | {how}", self.name, took.as_secs_f64());
    }

    /// It fails with a clear word by its deadline. Some clients succeed without a word from their server: those must be
    /// unmountable, then.
    fn ends_in_time(&self, when: &str, fault: Fault, ran: Ran) {
        assert!(ran.took < MOUNT_WITHIN, "{}, {fault} {when}: {:?}: {}", self.name, ran.took, ran.stderr);
        if ran.code == Some(0) {
            self.say(when, fault, "mount", ran.took, "mounted: this client asks its server later");
            self.unmount(when, fault);
            return;
        }
        assert_eq!(ran.code, Some(32), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        assert_eq!(mountinfo::at(&self.target), []);
        let first = ran.stderr.lines().next().unwrap_or_default().trim_start_matches("shorefast: ").to_owned();
        self.say(when, fault, "mount", ran.took, &first);
    }

    /// Politely first. A mount that somebody uses stays, and so does what waits for a dead server in it; whoever wants it gone
    /// all the same says so.
    fn unmount(&self, when: &str, fault: Fault) {
        if mountinfo::at(&self.target).is_empty() {
            return self.say(when, fault, "umount", Duration::ZERO, "not needed: its client ended, and the mount with it");
        }
        let polite = self.host.shorefast(&["umount", text(&self.target)]);
        assert!(polite.took < UMOUNT_WITHIN, "{}, {fault} {when}: {:?}", self.name, polite.took);
        let how = match &polite {
            ran if ran.stderr.contains("by force") => "by force",
            ran if ran.stderr.contains("lazily") => "lazily",
            ran if ran.code == Some(0) => "politely",
            ran if ran.stderr.contains("does not end") => "politely; its client waits on",
            ran if ran.stderr.contains("busy") => "refused: in use",
            ran => panic!("{}", ran.stderr),
        };
        self.say(when, fault, "umount", polite.took, how);
        // A client that ends in order may keep us waiting for its last process, and end after that.
        if polite.code != Some(0) && !self.host.list().is_empty() {
            let forced = self.host.shorefast(&["umount", "--force", text(&self.target)]);
            // It may also have ended since we looked.
            let is_gone = forced.stderr.contains("is not a mount of ours") && self.host.list().is_empty();
            assert!(forced.code == Some(0) || is_gone, "{}, {fault} {when}: {}", self.name, forced.stderr);
            assert!(forced.took < UMOUNT_WITHIN, "{}, {fault} {when}: {:?}", self.name, forced.took);
            let how = if forced.stderr.contains("lazily") { "lazily" } else { "by force" };
            self.say(when, fault, "umount --force", forced.took, how);
        }
        assert_eq!(mountinfo::at(&self.target), [], "{}", polite.stderr);
    }

    /// What a stopped server forked does not count.
    fn nothing_is_left(&self) {
        self.happen(Fault::Killed);
        self.host.assert_nothing_left();
    }
}

fn before(scene: &Scene, fault: Fault) {
    scene.happen(fault);
    scene.ends_in_time("before", fault, scene.mount().finish());
    scene.nothing_is_left();
}

/// The server has accepted the connection and says nothing; then it gets worse.
fn during(scene: &Scene, fault: Fault) {
    scene.happen(Fault::Paused);
    let mount = scene.mount();
    wait::until("a client to run", || (!scene.host.sandboxed().is_empty()).then_some(()));
    std::thread::sleep(Duration::from_millis(700));
    scene.happen(fault);
    scene.ends_in_time("during", fault, mount.finish());
    scene.nothing_is_left();
}

fn after(scene: &Scene, fault: Fault) {
    scene.mount_in_peace();
    fs::read_dir(&scene.target).expect("it serves").count();
    scene.happen(fault);
    let user = User::start(&scene.target);
    // The kernel may answer from what it has for a second.
    std::thread::sleep(Duration::from_millis(1500));

    let took = list(&scene.host);
    assert!(took < LIST_WITHIN, "list took {took:?}");
    scene.say("after", fault, "list", took, "answers");
    let inspected = scene.host.shorefast(&["inspect", "--json", text(&scene.target)]);
    assert!(inspected.took < Duration::from_secs(2), "{:?}", inspected.took);
    assert!(inspected.code == Some(0) || mountinfo::at(&scene.target).is_empty(), "{}", inspected.stderr);
    another_mount_works(&scene.host);
    scene.unmount("after", fault);
    user.end(scene, fault);
    scene.nothing_is_left();
}

fn list(host: &Host) -> Duration {
    (0..5).map(|_| host.shorefast(&["list"]).succeeds().took).min().expect("five")
}

fn another_mount_works(host: &Host) {
    let client = Client::named("tmpfs");
    let request = Request::new(&client, "tmpfs", "none", host.directory("other"));
    let ran = request.sandboxed(host).succeeds();
    assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
    host.shorefast(&["umount", text(&request.target)]).succeeds();
}

/// Somebody who looks into the mount, and waits.
struct User(Child);

impl User {
    fn start(target: &Path) -> Self {
        let mut command = Command::new("ls");
        command.arg("-la").arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("cannot start ls"))
    }

    /// It is not ours, and neither is the kernel that may not let it go: the table shows what becomes of it.
    fn end(mut self, scene: &Scene, fault: Fault) {
        let start = Instant::now();
        let _ = self.0.kill();
        let ended = wait::within(Duration::from_secs(3), || self.0.try_wait().ok().flatten());
        let how = if ended.is_some() { "ends" } else { "waits on in the kernel" };
        scene.say("after", fault, "kill of a process in it", start.elapsed(), how);
    }
}

fn sshfs() -> Option<Scene> {
    let host = Host::new()?;
    let server = Sshd::start(&host);
    let client = Client::named("sshfs");
    scene(host, "sshfs", &["sshd"], |host| {
        Request::new(&client, "sshfs", server.source(), host.directory("target")).options(server.options())
    })
    .map(|scene| Scene { _server: Box::new(server), ..scene })
}

fn glusterfs() -> Option<Scene> {
    let host = Host::new()?;
    let server = Gluster::start(&host);
    let client = Client::named("glusterfs");
    scene(host, "glusterfs", &["glusterd", "glusterfsd"], |host| {
        Request::new(&client, "glusterfs", server.source(), host.directory("target"))
    })
    .map(|scene| Scene { _server: Box::new(server), ..scene })
}

fn s3fs() -> Option<Scene> {
    let host = Host::new()?;
    let server = S3::start(&host);
    server.put("greeting", b"hello");
    let client = Client::named("s3fs");
    let options = format!("url=http://{},use_path_request_style,passwd_file={}", server.address, server.password_file.display());
    scene(host, "s3fs", &["python3"], |host| Request::new(&client, "s3fs", server.source(), host.directory("target")).options(&options))
        .map(|scene| Scene { _server: Box::new(server), ..scene })
}

fn davfs() -> Option<Scene> {
    let host = Host::new()?;
    let server = Webdav::start(&host);
    let client = Client::named("davfs2");
    scene(host, "davfs2", &["rclone"], |host| Request::new(&client, "davfs", server.url(), host.directory("target")))
        .map(|scene| Scene { _server: Box::new(server), ..scene })
}

fn scene<'a>(host: Host, name: &'static str, server: &'static [&'static str], request: impl FnOnce(&Host) -> Request<'a>) -> Option<Scene> {
    let request = request(&host);
    let words = request.arguments(Way::Directory, &["--timeout", ALLOWED]);
    let words = words.into_iter().map(|word| word.into_string().expect("our own words are text")).collect();
    let target = request.target;
    Some(Scene { host, name, words, target, server, harm: None, _server: Box::new(()) })
}

fn cifs() -> Option<Scene> {
    if !Samba::is_possible() {
        skip("this kernel has no CIFS");
        return None;
    }
    let host = Host::new()?;
    let server = Samba::start(&host);
    let target = host.directory("target");
    let password = host.file("password", samba::PASSWORD);
    let image = format!("dir:{}", images().join("cifs").display());
    let source = server.source();
    let words = ["mount", "-t", "cifs", "--image", &image, "-o", "user=root", "--secret-file", text(&password), "--timeout", ALLOWED];
    let words = [&words[..], &[&source, text(&target)]].concat().into_iter().map(str::to_owned).collect();
    Some(Scene { host, name: "cifs", words, target, server: &["smbd"], harm: None, _server: Box::new(server) })
}

fn nfs() -> Option<Scene> {
    nfs_of("nfs 4.2", "vers=4.2", |_| "/".into())
}

fn nfs_3() -> Option<Scene> {
    nfs_of("nfs 3", "vers=3", |server| server.share.clone())
}

fn nfs_of(name: &'static str, options: &str, path: impl FnOnce(&Nfsd) -> PathBuf) -> Option<Scene> {
    if !Nfsd::is_possible() {
        skip("this kernel has no NFS");
        return None;
    }
    let host = Host::new()?;
    host.offer_packages();
    let server = Nfsd::start(&host);
    let target = host.directory("target");
    let (root, source) = (store(), format!("{}:{}", nfsd::ADDRESS, path(&server).display()));
    let words = ["--root", text(&root), "mount", "-t", "nfs", "-o", options, "--timeout", ALLOWED, &source, text(&target)];
    let words = words.into_iter().map(str::to_owned).collect();
    // Its threads are the kernel's, which cannot be stopped: a server that says nothing looks the same as one out of reach.
    let harm = move |fault| match fault {
        Fault::Killed => drop(server.inside("rpc.nfsd 0").succeeds()),
        Fault::Paused | Fault::Cut => drop(command::run(&["tc", "qdisc", "replace", "dev", "client0", "root", "blackhole"])),
    };
    Some(Scene { host, name, words, target, server: &[], harm: Some(Box::new(harm)), _server: Box::new(()) })
}

/// The same nine rows for every client.
macro_rules! rows {
    ($client:ident, $(#[$attribute:meta])?) => {
        rows!($client, before_the_mount, before, $(#[$attribute])?);
        rows!($client, during_the_mount, during, $(#[$attribute])?);
        rows!($client, after_the_mount, after, $(#[$attribute])?);
    };
    ($client:ident, $when:ident, $scenario:ident, $(#[$attribute:meta])?) => {
        mod $when {
            use super::super::*;

            #[test]
            $(#[$attribute])?
            fn it_is_killed() {
                $client().into_iter().for_each(|scene| $scenario(&scene, Fault::Killed));
            }

            #[test]
            $(#[$attribute])?
            fn it_is_paused() {
                $client().into_iter().for_each(|scene| $scenario(&scene, Fault::Paused));
            }

            #[test]
            $(#[$attribute])?
            fn the_network_is_cut() {
                $client().into_iter().for_each(|scene| $scenario(&scene, Fault::Cut));
            }
        }
    };
}

// Called thorough: left out of what `cargo xtask test` runs in guests. Those that are not ignored are part of what it runs here.
mod thorough_of_sshfs {
    rows!(sshfs,);
}

mod thorough_of_glusterfs {
    rows!(glusterfs, #[ignore = "minutes: cargo xtask dead-servers"]);
}

mod thorough_of_s3fs {
    rows!(s3fs, #[ignore = "minutes: cargo xtask dead-servers"]);
}

mod thorough_of_davfs {
    rows!(davfs, #[ignore = "minutes: cargo xtask dead-servers"]);
}

mod thorough_of_cifs {
    rows!(cifs, #[ignore = "needs a kernel with CIFS"]);
}

mod thorough_of_nfs {
    rows!(nfs, #[ignore = "needs a kernel with NFS"]);
}

mod thorough_of_nfs_3 {
    rows!(nfs_3, #[ignore = "needs a kernel with NFS"]);
}

/// The worst row of each kernel client, in every guest.
#[test]
#[ignore = "needs a kernel with CIFS"]
fn a_paused_cifs_server() {
    cifs().into_iter().for_each(|scene| after(&scene, Fault::Paused));
}

#[test]
#[ignore = "needs a kernel with NFS"]
fn an_nfs_server_that_is_cut_off() {
    nfs().into_iter().for_each(|scene| after(&scene, Fault::Cut));
}

/// What is not ours can be dead, too: a path that leads through it is no way to hang us.
#[test]
fn a_target_behind_a_dead_mount_is_refused_in_time() {
    let Some(scene) = sshfs() else { return };
    scene.mount_in_peace();
    scene.happen(Fault::Paused);
    let behind = scene.target.join("share-sub/target");
    let client = Client::named("tmpfs");
    let request = Request::new(&client, "tmpfs", "none", behind);
    let start = Instant::now();
    let ran = scene.host.shorefast(&request.arguments(Way::Directory, &["--timeout", ALLOWED])).exits(32).says("does not answer");
    scene.say("after", Fault::Paused, "mount at a target behind it", start.elapsed(), "refused");
    assert!(ran.took < MOUNT_WITHIN, "{:?}", ran.took);
    scene.unmount("after", Fault::Paused);
    scene.nothing_is_left();
}

/// The root of a mount whose server is dead is a place like any other: nobody needs to be asked about it.
#[test]
#[ignore = "needs a kernel with NFS"]
fn a_target_that_is_a_dead_nfs_mount_is_mounted_on_in_time() {
    let Some(scene) = nfs() else { return };
    scene.mount_in_peace();
    scene.happen(Fault::Cut);
    let client = Client::named("tmpfs");
    let request = Request::new(&client, "tmpfs", "none", &scene.target);
    let ran = scene.host.shorefast(&request.arguments(Way::Directory, &["--over", "--timeout", ALLOWED])).succeeds();
    assert!(ran.took < MOUNT_WITHIN, "{:?}", ran.took);
    assert_eq!(mountinfo::at(&scene.target).len(), 2);
    rustix::mount::unmount(&scene.target, rustix::mount::UnmountFlags::NOFOLLOW).expect("nobody uses it");
    scene.unmount("after", Fault::Cut);
    scene.nothing_is_left();
}
