//! Real images, built here with Debian's tools from Debian's packages: unpacked by us and by umoci, file by file the same. And the
//! store that they live in, used by many at once, killed, filled up.

#[path = "../../crates/image/tests/craft/tree.rs"]
#[expect(clippy::unwrap_used, reason = "in a test, what fails should fail here")]
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::command::{self, Running};
use shorefast_tests::path::text;
use shorefast_tests::skip::skip;
use shorefast_tests::{Client, Host, Way, wait};

/// What we leave out on purpose: set-uid and set-gid bits, devices and FIFOs, all attributes but those of users.
fn by_our_policy(mut tree: BTreeMap<PathBuf, tree::Node>) -> BTreeMap<PathBuf, tree::Node> {
    tree.retain(|_, node| !matches!(node.kind, 'c' | 'b' | 'p'));
    for node in tree.values_mut() {
        if node.kind != 'l' {
            node.mode &= 0o1777;
        }
        node.xattrs.retain(|name, _| name.starts_with("user."));
        node.blocks = 0;
    }
    tree
}

#[track_caller]
fn assert_same(ours: &Path, umocis: &Path) {
    let (ours, umocis) = (by_our_policy(tree::of(ours)), by_our_policy(tree::of(umocis)));
    let mut different = Vec::new();
    for path in ours.keys().chain(umocis.keys().filter(|path| !ours.contains_key(*path))) {
        if ours.get(path) != umocis.get(path) {
            different.push(format!("{}\n  ours:  {:?}\n  umoci: {:?}", path.display(), ours.get(path), umocis.get(path)));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} differ:\n{}",
        different.len(),
        ours.len(),
        different.iter().take(10).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(ours.len() > 1000, "a real image has more than {} files", ours.len());
}

fn tools_missing() -> bool {
    let missing: Vec<_> = ["umoci", "buildah", "skopeo", "setfattr"].into_iter().filter(|tool| !is_installed(tool)).collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {}; run `cargo xtask setup`", missing.join(", ")));
    }
    !missing.is_empty()
}

fn is_installed(tool: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/bin"].iter().any(|directory| Path::new(directory).join(tool).exists())
}

/// The digest that an import printed, and where the image is now.
#[track_caller]
fn imported(host: &Host, words: &[&str]) -> (String, PathBuf) {
    let digest = host.shorefast(&[&["image", "import"], words].concat()).succeeds().stdout.trim().to_owned();
    let rootfs = Path::new("/var/lib/shorefast/rootfs").join(digest.trim_start_matches("sha256:"));
    (digest, rootfs)
}

/// A layer is what was done to a tree since the layer before: umoci finds that out.
struct Built {
    layout: PathBuf,
    bundle: PathBuf,
}

impl Built {
    fn new(host: &Host, base: &Path) -> Self {
        let (layout, bundle) = (host.path("layout"), host.path("bundle"));
        command::run(&["umoci", "init", "--layout", text(&layout)]);
        let built = Self { layout, bundle };
        command::run(&["umoci", "new", "--image", &built.image()]);
        command::run(&["umoci", "unpack", "--image", &built.image(), text(&built.bundle)]);
        command::run(&["cp", "-a", "--", &format!("{}/.", text(base)), text(&built.root())]);
        built
    }

    fn image(&self) -> String {
        format!("{}:test", text(&self.layout))
    }

    fn root(&self) -> PathBuf {
        self.bundle.join("rootfs")
    }

    fn layer(&self) {
        command::run(&["umoci", "repack", "--refresh-bundle", "--image", &self.image(), text(&self.bundle)]);
    }

    fn unpacked_by_umoci(&self, host: &Host) -> PathBuf {
        let other = host.path("umoci");
        command::run(&["umoci", "unpack", "--image", &self.image(), text(&other)]);
        other.join("rootfs")
    }
}

/// Everything that a later layer can do to an earlier one.
fn change(root: &Path) {
    let at = |path: &str| root.join(path);
    let must = |what: &str, result: std::io::Result<()>| result.unwrap_or_else(|error| panic!("{what}: {error}"));
    must("remove a file", fs::remove_file(at("usr/bin/dircolors")));
    must("remove a tree", fs::remove_dir_all(at("usr/share/doc")));
    must(
        "a tree again, with other things in it",
        fs::create_dir(at("usr/share/doc")).and_then(|()| fs::write(at("usr/share/doc/new"), "new")),
    );
    must(
        "a directory becomes a file",
        fs::remove_dir_all(at("usr/share/lintian")).and_then(|()| fs::write(at("usr/share/lintian"), "file")),
    );
    must("a file becomes a link", fs::remove_file(at("usr/bin/sort")).and_then(|()| symlink("/usr/bin/true", at("usr/bin/sort"))));
    must("a link becomes a directory", fs::remove_file(at("var/lock")).or(Ok(())).and_then(|()| fs::create_dir_all(at("var/lock/deep"))));
    must("a hard link to a file of a lower layer", fs::hard_link(at("usr/bin/cat"), at("usr/bin/cat-too")));
    must("a hard link to a link", fs::hard_link(at("usr/bin/sort"), at("usr/bin/sort-too")));
    must("a name with every byte", fs::write(at("usr/share/a b\tc\n\u{e9}"), "odd"));
    must(
        "a long name",
        fs::create_dir_all(at(&"n".repeat(200))).and_then(|()| fs::write(at(&"n".repeat(200)).join("m".repeat(250)), "long")),
    );
    must("an absolute link that leads nowhere", symlink("/no/such/place", at("dangling")));
    command::run(&["setfattr", "-n", "user.colour", "-v", "blue", text(&at("usr/bin/cat"))]);
    command::run(&["setfattr", "-n", "user.colour", "-v", "red", text(&at("usr/share/doc"))]);
    command::run(&["truncate", "-s", "50M", text(&at("usr/share/sparse"))]);
    command::run(&["chown", "1234:5678", text(&at("usr/share/doc/new"))]);
    command::run(&["chmod", "4711", text(&at("usr/bin/cut"))]);
    command::run(&["chmod", "3777", text(&at("usr/share/doc"))]);
    command::run(&["mkfifo", text(&at("usr/share/fifo"))]);
    command::run(&["mknod", text(&at("usr/share/null")), "c", "1", "3"]);
    command::run(&["touch", "-d", "1999-12-31 23:59:59.123456789", text(&at("usr/bin/cut"))]);
    command::run(&["touch", "-d", "1960-01-01", text(&at("usr/share/lintian"))]);
}

#[test]
fn layers_give_what_umoci_makes_of_them() {
    let Some(host) = Host::new() else { return };
    if tools_missing() {
        return;
    }
    for (number, client) in ["sshfs", "glusterfs"].into_iter().enumerate() {
        let base = Client::named(client).image_directory();
        let built = Built::new(&host, &base);
        built.layer();
        change(&built.root());
        built.layer();
        fs::write(built.root().join("usr/share/doc/newer"), "newer").expect("cannot write");
        fs::remove_file(built.root().join("usr/bin/cat")).expect("cannot remove");
        built.layer();
        let expected = built.unpacked_by_umoci(&host);
        let name = format!("localhost/umoci:{number}");
        let (_, ours) = imported(&host, &[&format!("oci:{}", built.image()), &name]);
        assert_same(&ours, &expected);
        for path in [&built.bundle, &built.layout, &host.path("umoci")] {
            fs::remove_dir_all(path).expect("cannot remove");
        }
        host.shorefast(&["image", "remove", &name]).succeeds();
    }
}

/// From the same image, through every kind of archive that Debian's tools write.
#[test]
fn archives_of_podman_and_skopeo_give_the_same_files() {
    let Some(host) = Host::new() else { return };
    if tools_missing() {
        return;
    }
    let storage = host.directory("storage");
    let places = ["--root", text(&storage), "--runroot", "/run/storage", "--storage-driver", "vfs"];
    let buildah = |words: &[&str]| {
        let mut command = Command::new("buildah");
        command.args(places).args(words).env("BUILDAH_ISOLATION", "chroot");
        command::finish(command).succeeds().stdout.trim().to_owned()
    };
    let base = Client::named("bindfs").image_directory();
    let container = buildah(&["from", "scratch"]);
    buildah(&["copy", &container, text(&base), "/"]);
    buildah(&["commit", "--format", "docker", &container, "localhost/first"]);
    let second = buildah(&["from", "localhost/first"]);
    change(Path::new(&buildah(&["mount", &second])));
    buildah(&["commit", "--format", "oci", &second, "localhost/second:1"]);

    let layout = host.path("layout");
    let to = |target: &str, more: &[&str]| buildah(&[&["push", "--quiet"], more, &["localhost/second:1", target]].concat());
    to(&format!("oci:{}:gzip", text(&layout)), &["--compression-format", "gzip"]);
    to(&format!("oci:{}:zstd", text(&layout)), &["--compression-format", "zstd"]);
    to(&format!("oci-archive:{}:1", text(&host.path("oci.tar"))), &[]);
    to(&format!("docker-archive:{}:localhost/second:1", text(&host.path("docker.tar"))), &[]);
    command::run(&["gzip", "--keep", "--fast", text(&host.path("docker.tar"))]);
    buildah(&["rm", "--all"]);
    buildah(&["rmi", "--all"]);
    command::run(&["umoci", "unpack", "--image", &format!("{}:gzip", text(&layout)), text(&host.path("umoci"))]);
    let expected = host.path("umoci/rootfs");

    let references = [
        format!("oci:{}:gzip", text(&layout)),
        format!("oci:{}:zstd", text(&layout)),
        format!("oci-archive:{}:1", text(&host.path("oci.tar"))),
        format!("oci-archive:{}", text(&host.path("oci.tar"))),
        format!("docker-archive:{}", text(&host.path("docker.tar"))),
        format!("docker-archive:{}.gz:localhost/second:1", text(&host.path("docker.tar"))),
    ];
    for reference in &references {
        println!("{reference}");
        let (digest, ours) = imported(&host, &[reference]);
        assert_same(&ours, &expected);
        let sparse = tree::of(&ours)[Path::new("usr/share/sparse")].clone();
        assert_eq!(sparse.size, 50 << 20);
        host.shorefast(&["image", "remove", &digest]).succeeds();
    }
    host.shorefast(&["image", "import", &format!("oci:{}", text(&layout))]).exits(32).says("gzip, zstd");
    host.shorefast(&["image", "import", &format!("oci:{}:none", text(&layout))]).exits(32).says("none");
}

fn archive(name: &str) -> String {
    format!("tar:{}", text(&Client::named("bindfs").image_directory().with_file_name(name)))
}

fn images(host: &Host) -> Vec<Value> {
    let list = host.shorefast(&["image", "list", "--json"]).succeeds().json();
    list.as_array().expect("a list of images").clone()
}

/// All that is in the store, but for the times of directories.
fn store() -> BTreeMap<PathBuf, tree::Node> {
    let mut all = tree::of(Path::new("/var/lib/shorefast"));
    all.values_mut().filter(|node| node.kind == 'd').for_each(|node| node.mtime = (0, 0));
    all
}

#[test]
fn a_live_mount_holds_its_image() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let (source, one, two) = (host.directory("source"), host.directory("one"), host.directory("two"));
    let mount = |target: &Path| {
        let mut words = Request::new(&client, "bindfs", &source, target).arguments(Way::Directory, &[]);
        let image = words.iter().position(|word| word == "--image").expect("an image is given") + 1;
        words[image] = "tools".into();
        host.shorefast(&words).succeeds();
    };
    let digest_at = |target: &Path| host.list().iter().find(|row| row["target"] == text(target)).map(|row| row["digest"].clone());
    fs::write(source.join("alive"), "yes").expect("cannot write");
    host.shorefast(&["image", "import", &archive("bindfs.tar"), "tools"]).succeeds();
    host.settle();
    mount(&one);
    let first = digest_at(&one).expect("it is mounted");
    assert_eq!(images(&host)[0]["used_by"], serde_json::json!([text(&one)]));
    let refused = host.shorefast(&["image", "remove", "tools"]).exits(32).says("in use by /srv/one");
    assert!(!refused.stderr.contains("cannot get"), "{refused:?}");
    host.shorefast(&["image", "remove", first.as_str().expect("a digest")]).exits(32).says("in use");

    // Another version under the same name: new mounts use it, live ones keep theirs.
    let changed = host.path("changed.tar");
    fs::copy(archive("bindfs.tar").trim_start_matches("tar:"), &changed).expect("cannot copy");
    command::run(&["tar", "--append", "--file", text(&changed), "--directory", "/etc", "hostname"]);
    host.shorefast(&["image", "import", &format!("tar:{}", text(&changed)), "tools"]).succeeds();
    mount(&two);
    let second = digest_at(&two).expect("it is mounted");
    assert_ne!(first, second);
    assert_eq!(digest_at(&one), Some(first.clone()));
    host.shorefast(&["image", "gc"]).succeeds();
    assert_eq!(images(&host).len(), 2, "both are in use");
    assert_eq!(fs::read_to_string(one.join("alive")).expect("the old mount works"), "yes");

    host.shorefast(&["umount", text(&one)]).succeeds();
    let collected = host.shorefast(&["image", "gc", "--json"]).succeeds().json();
    assert_eq!(collected["images"], serde_json::json!([first]));
    assert_eq!(images(&host).len(), 1);
    host.shorefast(&["umount", text(&two)]).succeeds();
    host.shorefast(&["image", "remove", "tools"]).succeeds();
    assert_eq!(images(&host), Vec::<Value>::new());
    host.assert_nothing_left();
}

#[test]
fn ten_mounts_at_once_get_their_image_once() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let source = host.directory("source");
    let targets: Vec<_> = (0..10).map(|number| host.directory(format!("target{number}"))).collect();
    let running: Vec<_> = targets
        .iter()
        .map(|target| host.start(&Request::new(&client, "bindfs", &source, target).arguments(Way::Archive("bindfs.tar"), &[])))
        .collect();
    running.into_iter().for_each(|mount| drop(mount.finish().succeeds()));
    assert_eq!(images(&host).len(), 1);
    let left: Vec<_> =
        fs::read_dir("/var/lib/shorefast/rootfs").expect("a store").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 3, "the image, its description and the files derived from it: {left:?}");
    targets.iter().for_each(|target| drop(host.shorefast(&["umount", text(target)]).succeeds()));
}

#[test]
fn imports_that_are_killed_at_any_moment_leave_nothing_to_be_used() {
    let Some(host) = Host::new() else { return };
    let reference = archive("bindfs.tar");
    let started = Instant::now();
    let (digest, _) = imported(&host, &[&reference, "good"]);
    let whole = started.elapsed();
    let expected = store();
    host.shorefast(&["image", "remove", "good"]).succeeds();
    const KILLS: u32 = 25;
    let mut survived = 0;
    for number in 0..KILLS {
        let mut command = Command::new(host.binary());
        command.args(["image", "import", &reference, "good"]);
        let mut import = Running::start(command);
        std::thread::sleep(whole * number / KILLS);
        import.kill();
        survived += u32::from(import.finish().code == Some(0));
        for image in images(&host) {
            assert_eq!(image["digest"], digest.as_str());
            assert_eq!(by_digest(&digest, &store()), by_digest(&digest, &expected), "killed after {number}/{KILLS}");
        }
        if number % 2 == 0 {
            host.shorefast(&["image", "gc"]).succeeds();
            assert!(
                store().keys().all(|path| !text(path).contains(".part") && !text(path).contains(".lock")),
                "gc leaves nothing half-done"
            );
        }
        host.shorefast(&["image", "import", &reference, "good"]).succeeds();
        assert_eq!(by_digest(&digest, &store()), by_digest(&digest, &expected));
        host.shorefast(&["image", "remove", "good"]).succeeds();
    }
    assert!(survived < KILLS, "no kill came in time");
}

fn by_digest(digest: &str, store: &BTreeMap<PathBuf, tree::Node>) -> BTreeMap<PathBuf, tree::Node> {
    let root = Path::new("rootfs").join(digest.trim_start_matches("sha256:"));
    store.iter().filter(|(path, _)| path.starts_with(&root)).map(|(path, node)| (path.clone(), node.clone())).collect()
}

#[test]
fn a_full_disk_leaves_the_store_as_it_was() {
    let Some(host) = Host::new() else { return };
    host.directory("small");
    command::run(&["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", "/srv/small"]);
    fs::create_dir(host.path("root")).expect("cannot create");
    fs::write(host.path("root/file"), "small").expect("cannot write");
    command::run(&["tar", "--create", "--file", "/srv/good.tar", "--directory", "/srv/root", "."]);
    host.shorefast(&["--root", "/srv/small", "image", "import", "tar:/srv/good.tar", "good"]).succeeds();
    let before = tree::of(Path::new("/srv/small"));
    for reference in [archive("bindfs.tar"), archive("sshfs.tar.zst")] {
        host.shorefast(&["--root", "/srv/small", "image", "import", &reference, "good"]).exits(32).says("free some space");
    }
    let mut after = tree::of(Path::new("/srv/small"));
    for path in ["rootfs", "names"] {
        after.get_mut(Path::new(path)).expect("it is there").mtime = before[Path::new(path)].mtime;
    }
    assert_eq!(before, after);
    host.shorefast(&["--root", "/srv/small", "image", "inspect", "good"]).succeeds();
    command::run(&["umount", "/srv/small"]);
}

#[test]
fn an_image_that_is_not_here_is_not_looked_for_offline() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("tmpfs");
    let target = host.directory("target");
    let definition = text(&client.definition);
    let words =
        ["mount", "-t", "tmpfs", "--client-file", definition, "--offline", "--image", "registry.invalid/a:1", "none", text(&target)];
    host.shorefast(&words).exits(32).says("image import oci-archive:FILE 'registry.invalid/a:1'");
    host.shorefast(&["image", "import", &archive("bindfs.tar"), "registry.invalid/a:1"]).succeeds();
    host.shorefast(&words).succeeds();
    assert!(wait::within(Duration::from_secs(5), || (!host.list().is_empty()).then_some(())).is_some());
    host.shorefast(&["umount", text(&target)]).succeeds();
}
