//! Whole archives, honest and tampered with: honest ones are accepted, and all others are refused with the right reason.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod builder;

use std::error::Error as _;
use std::fs;
use std::path::Path;

use builder::{Archive, Package, SUITE, edit};
use shorefast_net::Silent;
use shorefast_packages::{Deb, Error, Lock, Machine, Network, Spec, Supply, Wishes, ahead, lock};

const APP: Package = Package { name: "app", fields: "Depends: lib (>= 1)\n", file: "app's" };
const LIB: Package = Package { name: "lib", fields: "", file: "lib's" };

fn made(archive: &Archive, keyring: &str, cache: &Path) -> Result<Lock, Error> {
    let spec = Spec::new(Some(SUITE), ["app"]).unwrap();
    let wishes = Wishes { mirrors: vec![archive.url()], keyring: Some(archive.keyring(keyring)), architecture: None };
    lock::make(&spec, &wishes, &Machine::default(), &supply(cache))
}

/// No mirror here is elsewhere.
fn supply(cache: &Path) -> Supply<'_> {
    Supply { cache, network: Network::Avoid, progress: &Silent }
}

/// Everything in all packages, decompressed.
fn read(debs: &[Deb]) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    ahead::in_order(debs, |_, files| {
        // Errors here are reported by `in_order` itself.
        let _ = files.read_to_end(&mut all);
        Ok(())
    })
    .map(|()| all)
}

/// The whole chain of reasons.
fn told(error: &Error) -> String {
    let reasons = std::iter::successors(error.source(), |&error| error.source());
    reasons.fold(error.to_string(), |text, reason| format!("{text}: {reason}"))
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn an_honest_archive_becomes_files_in_order() {
    let archive = Archive::new(&[APP, LIB]);
    let cache = tempfile::tempdir().unwrap();
    let lock = made(&archive, "good", cache.path()).unwrap();
    let names: Vec<_> = lock.list().map(|(name, _)| name).collect();
    assert_eq!(names, ["lib", "app", "coreutils", "dash", "grep", "mawk", "mount", "sed"]);
    let files = read(&lock.fetch(&supply(cache.path())).unwrap()).unwrap();
    assert!(contains(&files, "app's") && contains(&files, "lib's"));
}

#[test]
fn the_same_inputs_give_the_same_digest() {
    let archive = Archive::new(&[APP, LIB]);
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = made(&archive, "good", one.path()).unwrap();
    assert_eq!(made(&archive, "good", one.path()).unwrap(), first, "from the kept index");
    assert_eq!(made(&archive, "good", other.path()).unwrap(), first, "from an empty cache");
}

#[test]
fn a_lock_is_replayed_without_the_archive() {
    let archive = Archive::new(&[APP, LIB]);
    let cache = tempfile::tempdir().unwrap();
    let lock = made(&archive, "good", cache.path()).unwrap();
    let before = read(&lock.fetch(&supply(cache.path())).unwrap()).unwrap();
    let text = lock.to_text();
    fs::remove_dir_all(archive.root()).unwrap();
    let replayed = Lock::from_text(&text, Path::new("app.lock")).unwrap();
    assert_eq!(replayed, lock);
    assert_eq!(read(&replayed.fetch(&supply(cache.path())).unwrap()).unwrap(), before);
    let empty = tempfile::tempdir().unwrap();
    assert!(replayed.fetch(&supply(empty.path())).is_err(), "there is nowhere to get them from");
}

#[test]
fn release_with_a_detached_signature_will_do() {
    let archive = Archive::new(&[APP, LIB]);
    fs::remove_file(archive.dists().join("InRelease")).unwrap();
    let cache = tempfile::tempdir().unwrap();
    made(&archive, "good", cache.path()).unwrap();
    edit(&archive.dists().join("Release"), "Origin: Test", "Origin: Evil");
    let error = told(&made(&archive, "good", cache.path()).unwrap_err());
    assert!(error.contains("changed after signing"), "{error}");
    fs::remove_file(archive.dists().join("Release.gpg")).unwrap();
    let error = told(&made(&archive, "good", cache.path()).unwrap_err());
    assert!(error.contains("it carries no signature"), "{error}");
}

#[test]
fn tampered_archives_are_refused() {
    type Tamper = fn(&Archive);
    let table: [(&str, Tamper, &str); 14] = [
        ("text changed", |archive| edit(&archive.dists().join("InRelease"), "Origin: Test", "Origin: Evil"), "changed after signing"),
        (
            "text in front",
            |archive| edit(&archive.dists().join("InRelease"), "-----BEGIN PGP SIGNED", "Origin: Evil\n\n-----BEGIN PGP SIGNED"),
            "no readable signature",
        ),
        (
            "text behind",
            |archive| {
                let path = archive.dists().join("InRelease");
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, text + "\nOrigin: Evil\n").unwrap();
            },
            "no readable signature",
        ),
        (
            "no signature at all",
            |archive| {
                fs::copy(archive.dists().join("Release"), archive.dists().join("InRelease")).unwrap();
            },
            "no readable signature",
        ),
        (
            "signed by a stranger",
            |archive| {
                archive.new_key("stranger", "never", &[]);
                archive.sign("stranger", &[]);
            },
            "which the keyring does not hold",
        ),
        ("signed with a weak hash", |archive| archive.sign("good", &["--digest-algo", "SHA1"]), "hash that can be forged"),
        ("expired", |archive| archive.publish(&["Valid-Until: Thu, 02 Jan 2020 00:00:00 UTC"]), "it expired at 2020-01-02T00:00:00Z"),
        ("made tomorrow", |archive| archive.publish(&["Date: Thu, 02 Jan 2090 00:00:00 UTC"]), "in the future"),
        ("rolled back", |archive| archive.publish(&["Date: Thu, 02 Jan 2020 00:00:00 UTC"]), "was seen before"),
        ("another suite's", |archive| archive.publish(&["Suite: other", "Codename: other"]), "it is of suite other"),
        ("without a date", |archive| archive.publish(&["Date: yesterday"]), "no readable Date"),
        (
            "index changed",
            |archive| {
                // As long as before; its list has its checksum still.
                let path = archive.index().join("Packages.xz");
                let mut content = fs::read(&path).unwrap();
                content[40] ^= 1;
                fs::write(path, content).unwrap();
            },
            "another size or checksum",
        ),
        (
            "index cut off",
            |archive| {
                let path = archive.index().join("Packages.xz");
                let content = fs::read(&path).unwrap();
                fs::write(path, &content[..content.len() - 1]).unwrap();
            },
            "another size or checksum",
        ),
        ("index not listed", |archive| archive.publish(&["SHA256:"]), "has no packages of main"),
    ];
    for (name, tamper, expected) in table {
        let archive = Archive::new(&[APP, LIB]);
        // The honest one is known here, as it would be on a machine in use; its index is not kept.
        let cache = tempfile::tempdir().unwrap();
        made(&archive, "good", cache.path()).unwrap();
        fs::remove_dir_all(cache.path().join("index")).unwrap();
        tamper(&archive);
        let error = told(&made(&archive, "good", cache.path()).expect_err(name));
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn keys_sign_only_while_they_are_good() {
    let archive = Archive::new(&[APP, LIB]);
    let cache = tempfile::tempdir().unwrap();
    let signed_by = |key: &str, options: &[&str]| {
        archive.sign(key, options);
        made(&archive, key, cache.path()).map(drop).map_err(|error| told(&error))
    };
    // Hours apart: gpg's faked clock goes on, and a key that took a second to make must not be younger than what it signs.
    let past = ["--faked-system-time", "20200101T000000"];
    let later_that_day = ["--faked-system-time", "20200101T120000"];
    archive.new_key("short-lived", "1d", &past);
    assert!(signed_by("short-lived", &later_that_day).unwrap_err().contains("which has expired"));
    archive.new_key("long-lived", "1000y", &past);
    signed_by("long-lived", &[]).unwrap();
    let for_a_day = [&later_that_day[..], &["--default-sig-expire", "1d"]].concat();
    assert!(signed_by("long-lived", &for_a_day).unwrap_err().contains("made a signature that has expired"));

    archive.new_key("withdrawn", "never", &[]);
    signed_by("withdrawn", &[]).unwrap();
    archive.revoke("withdrawn");
    assert!(made(&archive, "withdrawn", cache.path()).map_err(|error| told(&error)).unwrap_err().contains("which was revoked"));

    archive.new_key("with-subkey", "never", &[]);
    archive.add_subkey("with-subkey");
    signed_by("with-subkey", &[]).unwrap();
    assert!(archive.is_signed_by_a_subkey("with-subkey"), "or the line above proves nothing");
}

#[test]
fn tampered_packages_are_refused() {
    type Tamper = fn(&Path);
    let table: [(&str, Tamper); 3] = [
        ("changed", |deb| {
            let mut content = fs::read(deb).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            fs::write(deb, content).unwrap();
        }),
        ("cut off", |deb| {
            let content = fs::read(deb).unwrap();
            fs::write(deb, &content[..content.len() / 2]).unwrap();
        }),
        ("extended", |deb| {
            let content = fs::read(deb).unwrap();
            fs::write(deb, [content, b"more".to_vec()].concat()).unwrap();
        }),
    ];
    for (name, tamper) in table {
        let archive = Archive::new(&[APP, LIB]);
        let cache = tempfile::tempdir().unwrap();
        let lock = made(&archive, "good", cache.path()).unwrap();
        tamper(&archive.deb("lib"));
        let error = told(&lock.fetch(&supply(cache.path())).expect_err(name));
        assert!(error.contains("another size or checksum"), "{name}: {error}");
    }
}

#[test]
fn a_package_that_rots_in_the_cache_is_noticed_and_fetched_again() {
    let archive = Archive::new(&[APP, LIB]);
    let cache = tempfile::tempdir().unwrap();
    let lock = made(&archive, "good", cache.path()).unwrap();
    let debs = lock.fetch(&supply(cache.path())).unwrap();
    let before = read(&debs).unwrap();
    let mut content = fs::read(&debs[0].file).unwrap();
    content[100] ^= 1;
    fs::write(&debs[0].file, content).unwrap();
    let error = told(&read(&debs).unwrap_err());
    assert!(error.contains("changed or cut off"), "{error}");
    assert_eq!(read(&lock.fetch(&supply(cache.path())).unwrap()).unwrap(), before);
}

#[test]
fn mistakes_are_explained() {
    let archive = Archive::new(&[LIB]);
    let cache = tempfile::tempdir().unwrap();
    let error = made(&archive, "good", cache.path()).unwrap_err();
    assert!(told(&error).contains("there is no package app"), "{}", told(&error));
    let spec = Spec::new(Some("elsewhere"), ["lib"]).unwrap();
    let wishes = Wishes { mirrors: vec![archive.url()], keyring: Some(archive.keyring("good")), architecture: None };
    let error = lock::make(&spec, &wishes, &Machine::default(), &supply(cache.path())).unwrap_err();
    assert!(told(&error).starts_with("there is no file:") && error.hint().is_some(), "{}", told(&error));
    fs::write(archive.keyring("empty"), "").unwrap();
    assert!(matches!(made(&archive, "empty", cache.path()), Err(Error::Keyring { .. })));
}
