//! Packages whose files have hostile names, in a correctly signed archive: even the owner of a trusted key can write
//! only into the image.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should fail here")]

#[path = "../../packages/tests/debian/builder.rs"]
mod builder;
#[path = "craft/tarball.rs"]
mod tarball;
#[path = "craft/tree.rs"]
mod tree;

use std::fs;

use builder::{Archive, Package, SUITE};
use shorefast_image::packaged::{self, Spec, Wishes};
use shorefast_image::store::Network;
use shorefast_image::{Digest, Error, Store};
use tarball::{Header, SYMLINK, archive, directory, file, hard_link, long_name, pax, symlink};

/// The directory where the image is unpacked is this deep below the canaries: `store/rootfs/HEX.part`.
const UP: &str = "../../../outside";

enum Outcome {
    /// With an error that contains this.
    Refused(&'static str),
    /// It is unpacked, and this file of the image has the content that the package wanted to write elsewhere.
    Within(&'static str),
}
use Outcome::{Refused, Within};

struct Row(&'static str, fn() -> Vec<Vec<u8>>, Outcome);

/// What the package `app` holds; it comes after the skeleton and before coreutils and the others.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row("an honest name", || vec![file("./usr/bin/app", "evil")], Within("usr/bin/app")),
    Row("a name that leads upwards", || vec![file(format!("./{UP}/evil"), "evil")], Refused("leads upwards")),
    Row("a long name that leads upwards", || vec![long_name(format!("./{UP}/evil")), file("a", "evil")], Refused("leads upwards")),
    Row("a PAX name that leads upwards", || vec![pax(&[("path", format!("{UP}/evil"))]), file("a", "evil")], Refused("leads upwards")),
    Row("a name that is left out and leads upwards", || vec![file(format!("./usr/share/doc/../../../{UP}/evil"), "evil")], Refused("leads upwards")),
    Row("an absolute name", || vec![file("/outside/evil", "evil")], Within("outside/evil")),
    Row("a file through a link upwards", || vec![symlink("./up", UP), directory("./outside"), file("./up/evil", "evil")], Within("outside/evil")),
    Row("a file through an absolute link", || vec![symlink("./up", "/outside"), directory("./outside"), file("./up/evil", "evil")], Within("outside/evil")),
    Row("a directory that is a link upwards here", || vec![symlink("./up", UP), directory("./outside"), directory("./up/"), file("./up/evil", "evil")], Within("outside/evil")),
    Row("a directory that is a link to nowhere here", || vec![symlink("./up", UP), directory("./up/"), file("./up/evil", "evil")], Within("up/evil")),
    Row("a file over a link to a canary", || vec![symlink("./f", format!("{UP}/canary")), file("./f", "evil")], Within("f")),
    Row("our own links turned upwards", || vec![symlink("./bin", UP), file("./bin/evil", "evil")], Within("usr/bin/evil")),
    Row("a file through /proc", || vec![symlink("./p", "/proc/self/cwd"), file("./p/evil", "evil")], Within("proc/self/cwd/evil")),
    Row("a hard link upwards", || vec![hard_link("./evil", format!("{UP}/canary"))], Refused("leads upwards")),
    Row("a hard link to a file of the host", || vec![hard_link("./evil", "/etc/hostname")], Refused("No such file")),
    Row("a hard link through a link upwards", || vec![symlink("./up", UP), hard_link("./evil", "./up/canary")], Refused("No such file")),
    Row("a generated file as a link to a canary", || vec![Header::new(SYMLINK, "./etc/passwd").link(format!("../{UP}/canary")).then(b""), file("./evil", "evil")], Within("evil")),
    Row("the place of generated files turned upwards", || vec![symlink("./etc", UP), directory("./outside"), file("./etc/evil", "evil")], Within("outside/evil")),
    Row("the configuration of the loader turned upwards", || vec![symlink("./etc/ld.so.conf.d", format!("../{UP}")), file("./evil", "evil")], Within("evil")),
];

#[test]
fn no_package_writes_outside_of_its_image() {
    let packages = Archive::new(&[Package { name: "app", fields: "", file: "" }]);
    let mut wrong = Vec::new();
    for Row(name, build, outcome) in ROWS {
        packages.replace_files("app", &archive(&build()));
        packages.publish(&[]);
        if let Err(problem) = std::panic::catch_unwind(|| attack(&packages, outcome)) {
            let text = problem.downcast_ref::<String>().cloned();
            wrong.push(format!(
                "{name}: {}",
                text.or_else(|| problem.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

fn attack(packages: &Archive, outcome: &Outcome) {
    let home = tempfile::tempdir().unwrap();
    let outside = home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), "sings").unwrap();
    let before = tree::of(&outside);
    let store = Store::at(home.path().join("store"));
    match (outcome, built(packages, &store)) {
        (Refused(words), Err(error)) => {
            let causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
            let said = causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"));
            assert!(said.contains(words), "should say {words:?}, but says: {said}");
            assert!(store.list().unwrap().is_empty(), "it is refused, and here");
        }
        (Refused(words), Ok(_)) => panic!("accepted, though {words:?}"),
        (Within(path), Ok(digest)) => {
            let path = store.rootfs(digest).join(path);
            assert_eq!(fs::read_to_string(&path).map_err(|error| error.to_string()).as_deref(), Ok("evil"), "{path:?}");
        }
        (Within(_), Err(error)) => panic!("refused: {error}: {:?}", std::error::Error::source(&error)),
    }
    assert_eq!(tree::of(&outside), before);
    let names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "something else is there: {names:?}");
}

fn built(packages: &Archive, store: &Store) -> Result<Digest, Error> {
    let spec = Spec::new(Some(SUITE), ["app"]).unwrap();
    let wishes = Wishes { mirrors: vec![packages.url()], keyring: Some(packages.keyring("good")), architecture: None };
    let lock = packaged::lock(&spec, &wishes, &store.means(Network::Forbidden))?;
    store.build(vec![lock], &"app".parse().unwrap(), Network::Forbidden).map(|digests| digests[0])
}
