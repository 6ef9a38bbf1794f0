//! `image outdated` and `image pull --all`: what is newer in a real registry and in a signed archive of packages.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shorefast_tests::path::text;
use shorefast_tests::servers::Registry;
use shorefast_tests::servers::registry::{Access, Transport};
use shorefast_tests::{Host, Layout, client, command};

use super::{PORT, block, configure, here, plain};

const PACKAGES: &str = "packages:debian/trixie?bindfs";

/// The archive of the other tests, in which a security update of bindfs came out. Only its lists are read.
fn updated_archive(host: &Host) -> PathBuf {
    let archive = host.directory("archive");
    let script = r#"
        cp -r "$1/dists" dists; rm dists/trixie/*Release*; index=$(echo dists/trixie/main/binary-*/Packages)
        awk '/^Package: /{ours = ($2 == "bindfs")} ours && /^Version: /{$2 = $2 "+deb13u9"} ours && /^SHA256: /{$2 = "0000" substr($2, 5)} ours && /^Filename: /{sub("pool/", "pool/updates/", $2)} {print}' "$index" > new
        mv new "$index"; rm "$index".*
        apt-ftparchive -o APT::FTPArchive::Release::Origin=Debian -o APT::FTPArchive::Release::Suite=trixie -o APT::FTPArchive::Release::Codename=trixie \
            -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures="$(dpkg --print-architecture)" release dists/trixie > Release
        mv Release dists/trixie/
        mkdir -m 700 keys; export GNUPGHOME=$PWD/keys
        gpg --batch --quiet --passphrase '' --quick-gen-key tests ed25519 sign never
        gpg --output key.gpg --export; gpg --batch --output dists/trixie/InRelease --clearsign dists/trixie/Release; gpgconf --kill all
    "#;
    let inside = format!("cd {} && set -e\n{script}", text(&archive));
    command::run(&["sh", "-c", &inside, "sh", text(&client::current_packages())]);
    archive
}

fn outdated(host: &Host) -> Vec<Value> {
    let said = host.shorefast(&["image", "outdated", "--json"]).succeeds().json();
    said.as_array().expect("an array").clone()
}

fn digest_in_store(host: &Host, name: &str) -> Value {
    host.shorefast(&["image", "inspect", "--json", name]).succeeds().json()["digest"].clone()
}

#[test]
fn what_is_newer_is_told_and_then_pulled() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    configure(&plain(&registry));
    let layout = Layout::new(&host);
    layout.image("old", &here(), &[("/version", block("old"))]);
    layout.image("new", &here(), &[("/version", block("new"))]);
    registry.push(&layout.path, "old", "team/tools:1");
    let name = registry.name("team/tools:1");
    host.shorefast(&["image", "pull", &name, PACKAGES]).succeeds();
    // What was imported, and what a digest pins, has nothing to be asked for.
    host.shorefast(&["image", "import", &format!("oci:{}:old", text(&layout.path)), "localhost/imported:1"]).succeeds();
    let old = digest_in_store(&host, &name);
    host.shorefast(&["image", "pull", &registry.name(&format!("team/tools@{}", old.as_str().unwrap_or_default()))]).succeeds();

    let current = outdated(&host);
    assert_eq!(current.iter().map(|row| row["name"].clone()).collect::<Vec<_>>(), [json!(name), json!(PACKAGES)]);
    assert!(current.iter().all(|row| row["outdated"] == false && row["changes"] == json!([])), "{current:?}");
    let said = host.shorefast(&["image", "outdated"]).succeeds().stdout;
    assert!(said.contains("all 2 images"), "{said}");

    registry.push(&layout.path, "new", "team/tools:1");
    let archive = updated_archive(&host);
    host.offer_packages_of(&archive);
    let before = host.shorefast(&["image", "list", "--json"]).succeeds().stdout;
    let found = outdated(&host);
    assert!(found.iter().all(|row| row["outdated"] == true && row["newest"] != row["digest"]), "{found:?}");
    assert_eq!((&found[0]["security"], &found[1]["security"]), (&json!(false), &json!(true)));
    let [change] = &found[1]["changes"].as_array().expect("a list")[..] else { panic!("{found:?}") };
    assert_eq!((&change["package"], &change["security"]), (&json!("bindfs"), &json!(true)));
    assert!(change["to"].as_str().is_some_and(|version| version.ends_with("+deb13u9")), "{change}");
    let said = host.shorefast(&["image", "outdated"]).succeeds().stdout;
    assert!(said.contains("+deb13u9 (security)") && said.contains(&name), "{said}");
    assert_eq!(host.shorefast(&["image", "list", "--json"]).succeeds().stdout, before, "nothing was pulled");

    // The update's package itself is nowhere: the other image is refreshed all the same, and the store keeps what it has.
    let kept = digest_in_store(&host, PACKAGES);
    host.shorefast(&["image", "pull", "--all"]).exits(32).says("bindfs");
    assert_eq!(digest_in_store(&host, PACKAGES), kept);
    assert_eq!(digest_in_store(&host, &name), found[0]["newest"]);
    host.offer_packages();
    let said = host.shorefast(&["image", "pull", "--all"]).succeeds().stdout;
    assert_eq!(
        said,
        format!("{name} {}\n{PACKAGES} {}\n", found[0]["newest"].as_str().unwrap_or_default(), kept.as_str().unwrap_or_default())
    );
    assert_eq!(digest_in_store(&host, "localhost/imported:1"), old, "what was imported stays");

    // Who does not answer is told; the others are still looked at.
    drop(registry);
    let ran = host.shorefast(&["image", "outdated", "--json"]).exits(32).says("cannot reach");
    assert_eq!(ran.json()[0]["name"], PACKAGES);
    host.shorefast(&["image", "pull", "--all", &name]).exits(1);
    assert!(Path::new("/var/lib/shorefast").is_dir() && fs::read_dir("/var/lib/shorefast/blobs").map(Iterator::count).unwrap_or(0) == 0);
}
