//! Images that are given away: exported and pushed by us, taken by us, podman, skopeo and docker's own format, all with the same content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use shorefast_image::Digest;
use shorefast_tests::path::text;
use shorefast_tests::servers::registry::{Access, PASSWORD, Transport, USER};
use shorefast_tests::servers::tokens::{Asker, Given};
use shorefast_tests::servers::{Meddler, Mischief, Registry, Tokens};
use shorefast_tests::{Host, Ran, command};

use super::{BASE64_OF_LOGIN, BASE64_OF_WRONG_LOGIN, LARGE, PORT, configure, image_pull, noise, plain, store};

/// Every kind of entry that the store keeps, with names and targets that are too long for a header.
fn awkward(host: &Host) -> PathBuf {
    let root = host.directory("awkward");
    let long = format!("deep/{}/{}", "d".repeat(90), "f".repeat(120));
    for (path, content) in [("bin/tool", &b"#!/bin/sh\n"[..]), (&long, b"long"), ("empty", b""), ("big", &noise(LARGE, 3))] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("/srv is the test's own");
        fs::write(path, content).expect("/srv is the test's own");
    }
    let script = format!(
        "cd {root} && chmod 755 bin/tool && ln bin/tool bin/same && ln -s ./tool bin/link && ln -s /{long} absolute && ln -s nowhere dangling \
         && chown 7:300000 empty && chmod 1777 deep && setfattr -n user.note -v text empty && touch -d 2001-02-03T04:05:06 big",
        root = text(&root)
    );
    command::run(&["sh", "-c", &script]);
    let archive = host.path("awkward.tar");
    command::run(&["tar", "--xattrs", "--numeric-owner", "-C", text(&root), "-cf", text(&archive), "."]);
    archive
}

/// Type, mode, owner, size, links and target of everything, time and content of files.
fn tree(root: &Path) -> String {
    let listing = "find . -mindepth 1 ! -type d -printf '%P %y %m %U:%G %s %n %Ts %l\\n' -o -printf '%P %y %m %U:%G\\n' | sort; \
                   find . -type f -exec sha256sum {} + | sort; getfattr -R -d . 2>/dev/null | grep -v '^$'";
    let mut command = Command::new("sh");
    command.args(["-c", listing]).current_dir(root).env("LC_ALL", "C");
    command::finish(command).succeeds().stdout
}

fn shorefast(host: &Host, root: &str, words: &[&str]) -> Ran {
    host.shorefast(&[&["--root", root], words].concat())
}

#[track_caller]
fn digest(ran: Ran) -> Digest {
    ran.succeeds().stdout.trim().parse().expect("it says the digest")
}

fn rootfs(root: &str, digest: Digest) -> PathBuf {
    Path::new(root).join("rootfs").join(digest.hex())
}

/// The image in a podman of the test's own, unpacked.
fn in_podman(host: &Host, source: &str, more: &[&str]) -> PathBuf {
    fs::create_dir_all("/etc/containers").expect("/etc is the test's own");
    fs::write("/etc/containers/policy.json", r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).expect("/etc is the test's own");
    let storage = host.directory("podman");
    let podman = |words: &[&str]| {
        let run = text(&storage);
        command::run(&[&["podman", "--storage-driver", "vfs", "--root", run, "--runroot", run, "--tmpdir", run], words].concat())
    };
    let id = podman(&[&["pull", "--quiet"], more, &[source]].concat()).stdout;
    PathBuf::from(podman(&["image", "mount", id.trim()]).stdout.trim())
}

#[test]
fn the_same_packages_are_the_same_image_on_every_machine() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let export = |root: &str, name: &str, to: &str| digest(shorefast(&host, root, &["image", "export", name, to]));
    let mut archives = Vec::new();
    // Two machines, one of them with a careless umask.
    for (root, umask) in [("/srv/one", "022"), ("/srv/two", "000")] {
        let call = format!("umask {umask}; exec {} --root {root} image build --packages bindfs localhost/bindfs:1", text(host.binary()));
        let built = digest(command::run(&["sh", "-c", &call]));
        let file = format!("{root}.tar");
        archives.push((export(root, "localhost/bindfs:1", &format!("oci-archive:{file}")), fs::read(&file).expect("it was written")));
        assert_eq!(export(root, &built.hex()[..12], &format!("oci:{root}.layout:1")), archives[0].0, "a layout has the same image");
    }
    assert!(archives[0] == archives[1], "digests {} and {}", archives[0].0, archives[1].0);
    // A third machine takes it, and gives it away again.
    let taken = digest(shorefast(&host, "/srv/three", &["image", "import", "oci-archive:/srv/one.tar", "localhost/bindfs:1"]));
    assert_eq!(taken, archives[0].0);
    assert_eq!(export("/srv/three", "localhost/bindfs:1", "oci-archive:/srv/three.tar"), taken);
    assert!(fs::read("/srv/three.tar").expect("it was written") == archives[0].1);
    // It works.
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("/srv is the test's own");
    host.settle();
    let words = ["mount", "-t", "bindfs", "--image", "localhost/bindfs:1", text(&source), text(&target)];
    shorefast(&host, "/srv/three", &words).succeeds();
    assert_eq!(fs::read(target.join("file")).expect("it is mounted"), b"content");
    shorefast(&host, "/srv/three", &["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn what_is_exported_is_what_others_get() {
    let Some(host) = Host::new() else { return };
    let image = digest(host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]));
    let expected = tree(&rootfs("/var/lib/shorefast", image));
    assert!(expected.contains("user.note=\"text\"") && expected.contains("bin/same f 755 0:0 10 2 "), "{expected}");
    for to in ["oci-archive:/srv/a.tar:1", "oci:/srv/layout:1", "docker-archive:/srv/d.tar:lab.example/awkward"] {
        let given = digest(host.shorefast(&["image", "export", "localhost/awkward", to]));
        let from = to.trim_end_matches(":lab.example/awkward");
        let said = command::run(&["skopeo", "inspect", "--format", "{{.Digest}}", from]).stdout;
        // An archive of docker's has no manifest; skopeo makes one up.
        assert!(said.trim() == given.to_string() || to.starts_with("docker"), "{to}: {said} instead of {given}");
        let taken = digest(shorefast(&host, "/srv/other", &["image", "import", from, "localhost/taken"]));
        assert_eq!(taken, given, "{to}");
        assert_eq!(tree(&rootfs("/srv/other", taken)), expected, "{to}, by us");
        assert_eq!(tree(&in_podman(&host, from, &[])), expected, "{to}, by podman");
    }
    // A layout is added to: another tag stays, the same tag is replaced.
    host.shorefast(&["image", "export", "localhost/awkward", "oci:/srv/layout:2"]).succeeds();
    host.shorefast(&["image", "export", "localhost/awkward", "oci:/srv/layout:1"]).succeeds();
    let index: serde_json::Value = serde_json::from_slice(&fs::read("/srv/layout/index.json").expect("a layout has it")).expect("JSON");
    assert_eq!(index["manifests"].as_array().map(Vec::len), Some(2), "{index}");
    let left: Vec<_> = fs::read_dir("/srv").expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn an_export_that_fails_leaves_all_as_it_was() {
    let Some(host) = Host::new() else { return };
    host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]).succeeds();
    let before = store();
    let (small, foreign) = (host.directory("small"), host.directory("foreign"));
    command::run(&["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", text(&small)]);
    fs::write(foreign.join("file"), "mine").expect("/srv is the test's own");
    fs::write("/srv/there.tar", "mine").expect("/srv is the test's own");
    let rows = [
        ("a full disk", "localhost/awkward", "oci-archive:/srv/small/a.tar", 32, "hint: free some space there"),
        ("a full disk, as a layout", "localhost/awkward", "oci:/srv/small/layout", 32, "hint: free some space there"),
        ("a file that is there", "localhost/awkward", "oci-archive:/srv/there.tar", 32, "hint: choose another name"),
        ("a directory of somebody's", "localhost/awkward", "oci:/srv/foreign", 32, "hint: choose another name"),
        ("no such directory", "localhost/awkward", "docker-archive:/srv/none/a.tar", 32, "hint: check the directory"),
        ("a device", "localhost/awkward", "oci-archive:/dev/null", 32, "hint: choose another name"),
        ("no such image", "localhost/none", "oci-archive:/srv/new.tar", 1, "hint: `shorefast image list`"),
        ("a registry", "localhost/awkward", "lab.example/a", 1, "exported to oci:DIR"),
        ("a directory", "localhost/awkward", "dir:/srv/new", 1, "exported to oci:DIR"),
        ("a digest for docker", "localhost/awkward", &format!("docker-archive:/srv/new.tar:a@{}", Digest::of(b"")), 1, "not a digest"),
        ("no name for docker", "localhost/awkward", "docker-archive:/srv/new.tar:A B", 1, "a repository has"),
    ];
    for (what, name, to, code, said) in rows {
        let ran = host.shorefast(&["image", "export", name, to]);
        assert_eq!(ran.code, Some(code), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{what}: {}", ran.stderr);
    }
    assert_eq!(store(), before);
    assert_eq!(fs::read_dir(&small).expect("it is there").count(), 0, "nothing is left on the full disk");
    assert_eq!(fs::read_dir(&foreign).expect("it is there").count(), 1);
    assert_eq!(fs::read("/srv/there.tar").expect("it is there"), b"mine");
    assert!(!Path::new("/srv/new.tar").exists() && !Path::new("/srv/new").exists());
}

/// `shorefast image push NAME [TO]`, in an environment where only `home` holds logins.
fn push(host: &Host, home: &Path, name: &str, to: &str) -> Ran {
    let mut command = Command::new(host.binary());
    command.args(["image", "push", name, to]).env("HOME", home).env_remove("XDG_RUNTIME_DIR").env_remove("DOCKER_CONFIG");
    command::finish(command)
}

fn logged_in(host: &Host, name: &str, registry: &Registry, login: &str) -> PathBuf {
    let home = host.directory(name);
    fs::create_dir_all(home.join(".docker")).expect("/srv is the test's own");
    let file = home.join(".docker/config.json");
    fs::write(file, format!(r#"{{"auths": {{"{}": {{"auth": "{login}"}}}}}}"#, registry.address)).expect("/srv is the test's own");
    home
}

#[test]
fn what_is_pushed_is_what_others_pull() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Tls, Access::Login);
    configure(&format!("[\"{}\"]\nca = {:?}\n", registry.address, registry.ca));
    let image = digest(host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]));
    let expected = tree(&rootfs("/var/lib/shorefast", image));
    let name = registry.name("team/awkward:1");
    let home = logged_in(&host, "home", &registry, BASE64_OF_LOGIN);
    let pushed = digest(push(&host, &home, "localhost/awkward", &name));
    assert_eq!(digest(image_pull(&host, &home, &name)), pushed);
    assert_eq!(tree(&rootfs("/var/lib/shorefast", pushed)), expected, "by us");
    assert_eq!(digest(image_pull(&host, &home, &registry.name(&format!("team/awkward@{pushed}")))), pushed, "by digest");
    let login = format!("{USER}:{PASSWORD}");
    let inspected = ["skopeo", "inspect", "--tls-verify=false", "--creds", &login, "--format", "{{.Digest}}", &format!("docker://{name}")];
    assert_eq!(command::run(&inspected).stdout.trim(), pushed.to_string());
    assert_eq!(tree(&in_podman(&host, &name, &["--tls-verify=false", "--creds", &login])), expected, "by podman");
    // What was pulled is the same image when it is pushed, under its own name.
    let mut again = Command::new(host.binary());
    again.args(["image", "push", &name]).env("HOME", &home).env_remove("XDG_RUNTIME_DIR").env_remove("DOCKER_CONFIG");
    assert_eq!(digest(command::finish(again)), pushed);
}

#[test]
fn a_token_for_a_push_allows_both_and_nothing_else() {
    let Some(host) = Host::new() else { return };
    let tokens = Tokens::start(&host);
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Token(tokens.address));
    let server = format!("token_servers = [\"{}\"]\n[\"{0}\"]\nplain_http = true\n", tokens.address);
    configure(&format!("{}{server}", plain(&registry)));
    host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]).succeeds();
    let home = logged_in(&host, "home", &registry, BASE64_OF_LOGIN);
    push(&host, &home, "localhost/awkward", &registry.name("team/awkward:1")).succeeds();
    assert_eq!(tokens.given(), [Given { to: Asker::Password, scope: "repository:team/awkward:pull,push".to_owned() }]);
}

#[test]
fn what_the_registry_has_is_not_sent_again() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]).succeeds();
    let straight = Meddler::start(registry.address, Mischief::CutAfter(u64::MAX));
    let broken = Meddler::start(registry.address, Mischief::CutQuestionsOnce(4 << 20));
    let rules = [straight.address, broken.address].map(|address| format!("[\"{address}\"]\nplain_http = true\n"));
    configure(&format!("{}{}", plain(&registry), rules.concat()));
    let to = |meddler: &Meddler, image: &str| {
        digest(push(&host, Path::new("/srv"), "localhost/awkward", &format!("{}/{image}", meddler.address)))
    };
    // A connection that breaks in the middle of a layer.
    let first = to(&broken, "tools:1");
    assert_eq!(digest(image_pull(&host, Path::new("/srv"), &registry.name("tools:1"))), first);
    let before = straight.asked();
    assert_eq!(to(&straight, "tools:2"), first);
    assert!(straight.asked() - before < 64 << 10, "{} bytes were sent for a new tag", straight.asked() - before);
}

#[test]
fn a_push_that_fails_says_why_and_leaves_the_store_as_it_was() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Login);
    configure(&plain(&registry));
    host.shorefast(&["image", "import", &format!("tar:{}", text(&awkward(&host))), "localhost/awkward"]).succeeds();
    let before = store();
    let (nobody, wrong) = (host.directory("nobody"), logged_in(&host, "wrong", &registry, BASE64_OF_WRONG_LOGIN));
    let good = logged_in(&host, "good", &registry, BASE64_OF_LOGIN);
    let name = registry.name("team/awkward:1");
    let pinned = registry.name(&format!("team/awkward@{}", Digest::of(b"")));
    let no_tls = name.replace("127.0.0.1", "localhost");
    let rows = [
        ("no login", &nobody, "localhost/awkward", name.as_str(), 32, "there are no credentials"),
        ("a wrong login", &wrong, "localhost/awkward", &name, 32, "does not accept the credentials"),
        ("no such image", &good, "localhost/none", &name, 1, "there is no image"),
        ("an unreachable registry", &good, "localhost/awkward", "127.0.0.1:1/awkward:1", 32, "cannot reach"),
        ("no TLS there", &good, "localhost/awkward", &no_tls, 32, "cannot"),
        ("a digest", &good, "localhost/awkward", &pinned, 1, "under a tag"),
        ("a file", &good, "localhost/awkward", "oci-archive:/srv/a.tar", 1, "`image export` writes files"),
    ];
    for (what, home, image, to, code, said) in rows {
        let ran = push(&host, home, image, to);
        assert_eq!(ran.code, Some(code), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.contains("hint: "), "{what}: {}", ran.stderr);
        assert!(!ran.stderr.contains("wrong-password") && !ran.stderr.contains(BASE64_OF_WRONG_LOGIN), "{what}: {}", ran.stderr);
    }
    assert_eq!(store(), before);
}
