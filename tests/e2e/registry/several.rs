//! Images for several kinds of machines, built on one of them: given away as an index, and taken by others for their kind.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use shorefast_image::Digest;
use shorefast_tests::path::text;
use shorefast_tests::servers::Registry;
use shorefast_tests::servers::registry::{Access, Transport};
use shorefast_tests::{Host, client, command};

use super::{PORT, configure, here, plain, store};

const NAME: &str = "localhost/bindfs:1";

/// Its packages are in the archive of these tests, too; Debian and the OCI call it the same.
fn other() -> &'static str {
    if here() == "arm64" { "amd64" } else { "arm64" }
}

fn built(host: &Host, more: &[&str]) -> Vec<(String, Digest)> {
    host.offer_packages_of(&client::packages_of_two_architectures());
    let (own, other) = (here(), other());
    let words = [&["image", "build", "--packages", "bindfs", "--arch", other, "--arch", &own], more, &[NAME]].concat();
    let said = host.shorefast(&words).succeeds().stdout;
    let line = |line: &str| line.split_once(' ').map(|(name, digest)| (name.to_owned(), digest.parse().expect("it says digests")));
    said.lines().filter_map(line).collect()
}

/// What a program was compiled for, from its header.
fn machine_of(program: &Path) -> u16 {
    let header = fs::read(program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    u16::from_le_bytes([header[18], header[19]])
}

fn machine(architecture: &str) -> u16 {
    if architecture == "arm64" { 183 } else { 62 }
}

fn index(from: &str) -> Value {
    let said = command::run(&["skopeo", "inspect", "--tls-verify=false", "--raw", from]).stdout;
    serde_json::from_str(&said).expect("an index is JSON")
}

fn platforms(index: &Value) -> Vec<String> {
    let manifests = index["manifests"].as_array().expect("it is an index");
    manifests.iter().map(|one| one["platform"]["architecture"].as_str().unwrap_or_default().to_owned()).collect()
}

fn both() -> Vec<String> {
    let mut both = vec![here(), other().to_owned()];
    both.sort();
    both
}

#[test]
fn an_image_for_two_kinds_of_machines_is_one_name_for_both() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    configure(&plain(&registry));
    let builds = built(&host, &["--write-lock", "/srv/lock"]);
    assert_eq!(builds.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), both());
    for (name, digest) in &builds {
        let rootfs = Path::new("/var/lib/shorefast/rootfs").join(digest.hex());
        assert_eq!(machine_of(&rootfs.join("usr/bin/bindfs")), machine(name), "{name}");
        assert!(rootfs.join("etc/ld.so.cache").exists(), "{name}");
    }
    // Exactly the same from its locks.
    let locks: Vec<_> = both().iter().map(|name| format!("/srv/lock.{name}")).collect();
    let again = ["--root", "/srv/again", "image", "build", "--lock", &locks[0], "--lock", &locks[1], NAME];
    let said = host.shorefast(&again).succeeds().stdout;
    assert_eq!(said, builds.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect::<String>());
    // Pushed, it is an index, of which each machine gets its own.
    let name = registry.name("clients/bindfs:1");
    let pushed: Digest = host.shorefast(&["image", "push", NAME, &name]).succeeds().stdout.trim().parse().expect("it says the digest");
    let found = index(&format!("docker://{name}"));
    assert_eq!(platforms(&found), both(), "{found}");
    let raw = command::run(&["skopeo", "inspect", "--tls-verify=false", "--raw", &format!("docker://{name}")]).stdout;
    assert_eq!(Digest::of(raw.as_bytes()), pushed);
    for (number, architecture) in both().iter().enumerate() {
        let layout = host.path(format!("copied-{architecture}"));
        let (from, to) = (format!("docker://{}", registry.name(&format!("clients/bindfs@{pushed}"))), format!("oci:{}:1", text(&layout)));
        command::run(&[
            "skopeo",
            "--override-arch",
            architecture,
            "copy",
            "--quiet",
            "--insecure-policy",
            "--src-tls-verify=false",
            &from,
            &to,
        ]);
        assert_eq!(index(&to)["config"], inner(&registry, &found, number)["config"], "{architecture} by skopeo");
        let inspected = command::run(&["skopeo", "--override-arch", architecture, "inspect", "--format", "{{.Architecture}}", &to]).stdout;
        assert_eq!(inspected.trim(), architecture);
    }
    let by_digest = registry.name(&format!("clients/bindfs@{pushed}"));
    let taken: Digest =
        host.shorefast(&["--root", "/srv/taken", "image", "pull", &by_digest]).succeeds().stdout.trim().parse().expect("a digest");
    let program = PathBuf::from("/srv/taken/rootfs").join(taken.hex()).join("usr/bin/bindfs");
    assert_eq!(machine_of(&program), machine(&here()), "by us");
    // It works here.
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("/srv is the test's own");
    host.settle();
    host.shorefast(&["mount", "-t", "bindfs", "--image", NAME, text(&source), text(&target)]).succeeds();
    assert_eq!(fs::read(target.join("file")).expect("it is mounted"), b"content");
    host.shorefast(&["umount", text(&target)]).succeeds();
}

/// The manifest that an index lists there.
fn inner(registry: &Registry, index: &Value, number: usize) -> Value {
    let digest = index["manifests"][number]["digest"].as_str().expect("a digest");
    let name = format!("docker://{}", registry.name(&format!("clients/bindfs@{digest}")));
    serde_json::from_str(&command::run(&["skopeo", "inspect", "--tls-verify=false", "--raw", &name]).stdout).expect("JSON")
}

#[test]
fn an_export_keeps_the_index_and_what_takes_the_name_ends_it() {
    let Some(host) = Host::new() else { return };
    let builds = built(&host, &[]);
    let export = |to: &str| host.shorefast(&["image", "export", NAME, to]).succeeds().stdout;
    let first = export("oci-archive:/srv/both.tar:1");
    assert_eq!(export("oci:/srv/layout:1"), first, "a layout has the same");
    // skopeo copies all of it, or one.
    command::run(&["skopeo", "copy", "--quiet", "--all", "--insecure-policy", "oci-archive:/srv/both.tar:1", "oci:/srv/all:1"]);
    assert_eq!(platforms(&index("oci:/srv/all:1")), both());
    let import = |from: &str| host.shorefast(&["--root", "/srv/other", "image", "import", from, "localhost/taken"]).succeeds().stdout;
    assert_eq!(import("oci-archive:/srv/both.tar:1"), import("oci:/srv/layout:1"));
    // Docker's archive has room for one.
    host.shorefast(&["image", "export", NAME, "docker-archive:/srv/one.tar:lab.example/a"]).succeeds();
    assert_eq!(command::run(&["skopeo", "inspect", "--format", "{{.Architecture}}", "docker-archive:/srv/one.tar"]).stdout.trim(), here());

    let (alone, unknown) =
        (["image", "build", "--packages", "bindfs", "--arch", other(), NAME], ["image", "build", "--packages", "a", "--arch", "vax"]);
    let before = store();
    host.shorefast(&alone).exits(32).says("alone does not run here").says(&here());
    host.shorefast(&unknown).exits(1).says("not an architecture").says("arm64");
    assert_eq!(store(), before);
    // The build for others goes with its name, and not before.
    let foreign = &builds.iter().find(|(name, _)| name == other()).expect("it was built").1;
    let is_here = || Path::new("/var/lib/shorefast/rootfs").join(foreign.hex()).exists();
    host.shorefast(&["image", "gc"]).succeeds();
    assert!(is_here());
    host.shorefast(&["image", "build", "--packages", "coreutils", NAME]).succeeds();
    host.shorefast(&["image", "export", NAME, "oci:/srv/new:1"]).succeeds();
    assert!(index("oci:/srv/new:1").get("manifests").is_none(), "what is built later is not mixed with it");
    host.shorefast(&["image", "gc"]).succeeds();
    assert!(!is_here());
    built(&host, &[]);
    assert!(is_here());
    host.shorefast(&["image", "remove", NAME]).succeeds();
    assert!(!is_here());
    // The image that had the name in between has none any more.
    host.shorefast(&["image", "gc"]).succeeds();
    assert_eq!(host.shorefast(&["image", "list", "--json"]).succeeds().json(), Value::Array(Vec::new()));
}
