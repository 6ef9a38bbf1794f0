//! Secrets: from Kubernetes to the client, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shorefast_csi::messages::AccessType;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, wait};

use crate::kubelet::{Kubelet, Volume};
use crate::{INVALID_ARGUMENT, SCRIPT, UNAUTHENTICATED, define_script, refused};

const SECRET: &str = "kJ8-not-on-disk-2xQ";

#[test]
fn secrets_reach_the_client_and_nobody_else() {
    let Some(host) = Host::new() else { return };
    let script = format!(
        "f=${{2#*keyfile=}}; f=${{f%%,*}}; read -r line < $f; [ \"$line\" = {SECRET} ] || exit 9; case $2 in *user=me*) ;; *) exit 8;; esac; mount -t tmpfs none $1"
    );
    define_script(&host, &script, "files = [\"keyfile\"]\nsecret = { to_option = \"credentials\", with_options = [\"user\"] }");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::new("volume", &SCRIPT).with_secrets(&[("keyfile", &format!("{SECRET}\n")), ("user", "me")]);
    kubelet.stage(&volume).expect("the client has read its secret");
    for file in files_below(host.run_directory()) {
        let content = fs::read(&file).expect("root can read it");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!contains(&content, SECRET), "{name}");
    }
    for file in ["cmdline", "environ"] {
        assert!(!contains(&fs::read(format!("/proc/{}/{file}", kubelet.pid())).expect("it runs"), SECRET));
    }
    kubelet.unstage(&volume).expect("it can be unstaged");
    let said = refused(kubelet.stage(&volume.clone().with_secrets(&[("pasword", SECRET)])), INVALID_ARGUMENT);
    assert!(said.contains("keyfile") && said.contains("pasword") && !said.contains(SECRET), "{said}");
    refused(kubelet.stage(&volume.clone().with_secrets(&[("user", "me,dev"), ("keyfile", SECRET)])), INVALID_ARGUMENT);
    let wrong = kubelet.stage(&volume.with_secrets(&[("keyfile", "wrong"), ("user", "me")])).expect_err("a wrong secret");
    assert!(wrong.1.contains("exit status 9"), "{wrong:?}");
    drop(kubelet);
    host.assert_nothing_left();
}

fn contains(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).filter(|path| path.is_file()).collect()
}

#[test]
fn sshfs_with_its_key_in_a_secret() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    host.define("sshfs", &format!("image = \"dir:{}\"\ngroup_option = \"gid\"", Client::named("sshfs").image_directory().display()));
    fs::write(server.share.join("file"), "content").expect("the share can be written to");
    let kubelet = Kubelet::with_driver(&host);
    let key = fs::read_to_string(&server.key).expect("a key");
    let source = server.source();
    let mut volume = Volume::new("volume", &[("type", "sshfs"), ("source", &source)]);
    volume = volume.with("mountOptions", "port=2222,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null");
    if let Some(AccessType::Mount(mount)) = &mut volume.capability.access_type {
        mount.volume_mount_group = "4711".to_owned();
    }
    let volume = volume.with_secrets(&[("IdentityFile", &key)]);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    assert_eq!(fs::read(kubelet.target("pod").join("file")).expect("it serves"), b"content");
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata(kubelet.target("pod").join("file")).expect("it serves"));
    assert_eq!(group, 4711);
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    // A pod's author brings the key in the same way.
    kubelet.publish_inline(&volume, "pod").expect("it can be published");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    drop(kubelet);
    host.assert_nothing_left();
}

/// kubelet's event says what it was, and that trying again does not help.
#[test]
fn a_login_that_is_refused_is_told_as_such() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::sshfs(&host, "volume", &server);
    let other = host.path("other");
    shorefast_tests::command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other.to_str().expect("our own path")]);
    let other = fs::read_to_string(other).expect("a key");
    for (what, key) in [("a key that the server does not know", other.as_str()), ("no key at all", "nonsense\n")] {
        let wrong = volume.clone().with_secrets(&[("IdentityFile", key)]);
        let said = refused(kubelet.stage(&wrong), UNAUTHENTICATED);
        assert!(said.contains("Permission denied (publickey") && said.contains("refuses the login"), "{what}: {said}");
        let said = refused(kubelet.publish_inline(&wrong, "pod"), UNAUTHENTICATED);
        assert!(said.contains("Permission denied (publickey"), "{what}: {said}");
        assert!(!kubelet.target("pod").exists());
    }
    // Another failure is another code.
    let elsewhere = volume.clone().with("source", "root@127.0.0.1:/nowhere");
    let missing = kubelet.stage(&elsewhere).expect_err("there is no such directory");
    assert_ne!(missing.0, UNAUTHENTICATED, "{missing:?}");
    kubelet.stage(&volume).expect("with the right key it can be staged");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

/// As with `requiresRepublish`: kubelet publishes again, with what the Secret has now.
#[test]
fn a_changed_secret_arrives_without_a_remount() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    let kubelet = Kubelet::with_driver(&host);
    let source = server.source();
    let volume = Volume::new("volume", &[("type", "sshfs"), ("source", &source)])
        .with("mountOptions", "port=2222,reconnect,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null");
    let mut current = server.key.clone();
    let key_of = |path: &Path| [("IdentityFile", fs::read_to_string(path).expect("a key"))];
    let with_key = |path: &Path| volume.clone().with_secrets(&key_of(path).each_ref().map(|(name, key)| (*name, key.as_str())));
    for staged in [false, true] {
        let publish = |volume: &Volume| if staged { kubelet.publish(volume, "pod", false) } else { kubelet.publish_inline(volume, "pod") };
        if staged {
            kubelet.stage(&with_key(&current)).expect("it can be staged");
        }
        publish(&with_key(&current)).expect("it can be published");
        fs::write(server.share.join("file"), "content").expect("the server's own files");
        let read = || fs::read(kubelet.target("pod").join("file")).ok();
        assert_eq!(read().as_deref(), Some(&b"content"[..]));
        let client = host.wait_for_client("sshfs");
        let newer = host.path(format!("newer-{staged}"));
        shorefast_tests::command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", newer.to_str().expect("our own path")]);
        server.let_in(&newer.with_extension("pub"));
        server.disconnect_all();
        // Who is not told has only the key that the server no longer takes.
        assert_eq!(wait::within(Duration::from_secs(2), read), None);
        publish(&with_key(&newer)).expect("it can be published again");
        assert!(wait::within(Duration::from_secs(20), read).is_some(), "the client did not get the new key");
        assert_eq!(host.wait_for_client("sshfs"), client);
        current = newer;
        kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
        if staged {
            kubelet.unstage(&volume).expect("it can be unstaged");
        }
    }
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn a_pods_token_is_for_a_client_that_asks_for_it() {
    let Some(host) = Host::new() else { return };
    let script =
        format!("f=${{2#*tokenfile=}}; f=${{f%%,*}}; read -r line < $f; [ \"$line\" = {SECRET} ] || exit 9; mount -t tmpfs none $1");
    define_script(&host, &script, "tokens = { tokenfile = \"storage.example\" }");
    let kubelet = Kubelet::with_driver(&host);
    let tokens = format!("{{\"storage.example\":{{\"token\":\"{SECRET}\"}},\"other\":{{\"token\":\"x\"}}}}");
    let volume = Volume::new("volume", &SCRIPT).with("csi.storage.k8s.io/serviceAccount.tokens", &tokens);
    kubelet.publish_inline(&volume, "pod").expect("the client has read its token");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    // One client for all pods has no pod's token.
    let refused = kubelet.stage(&volume).expect_err("the client has no token");
    assert!(!refused.1.contains(SECRET), "{refused:?}");
    let wrong = volume.with("csi.storage.k8s.io/serviceAccount.tokens", &format!("{{\"a\":\"{SECRET}\"}}"));
    let said = crate::refused(kubelet.publish_inline(&wrong, "pod"), INVALID_ARGUMENT);
    assert!(!said.contains(SECRET), "{said}");
    drop(kubelet);
    host.assert_nothing_left();
}
