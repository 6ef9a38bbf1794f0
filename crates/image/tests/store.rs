//! The store: names and digests, many at once, removal, and what a look-up costs.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should fail here")]

#[path = "craft/layout.rs"]
mod layout;
#[path = "craft/tarball.rs"]
mod tarball;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use layout::Layout;
use shorefast_image::store::{Extent, Network, Users};
use shorefast_image::{Digest, Error, Reference, Store};
use tarball::{archive, file};

/// In memory where there is such a place: a store syncs what it unpacks.
fn home() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn tar(home: &Path, name: &str, content: &str) -> Reference {
    let path = home.join(name);
    fs::write(&path, archive(&[file("file", content)])).unwrap();
    format!("tar:{}", path.display()).parse().unwrap()
}

fn nobody() -> Result<Users, Error> {
    Ok(Users::new())
}

fn content(store: &Store, reference: &Reference) -> String {
    let resolved = store.obtain(reference, &[], Network::Forbidden).unwrap();
    fs::read_to_string(resolved.rootfs.join("file")).unwrap()
}

#[test]
fn a_layer_that_umoci_inserted_is_whole() {
    let home = home();
    let umoci = |words: &[&str]| {
        let ran = std::process::Command::new("umoci").args(words).current_dir(home.path()).output();
        let ran = ran.unwrap_or_else(|error| panic!("umoci: {error}; `cargo xtask setup` installs it"));
        assert!(ran.status.success(), "umoci {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    fs::write(home.path().join("file"), "content").unwrap();
    umoci(&["init", "--layout", "layout"]);
    umoci(&["new", "--image", "layout:test"]);
    umoci(&["insert", "--image", "layout:test", "file", "/file"]);
    let reference: Reference = format!("oci:{}:test", home.path().join("layout").display()).parse().unwrap();
    let store = Store::at(home.path().join("store"));
    store.pull(&reference, None, &[]).unwrap();
    assert_eq!(content(&store, &reference), "content");
}

#[test]
fn a_present_image_is_found_in_a_fifth_of_a_millisecond() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    for number in 0..200 {
        let name: Reference = format!("localhost/image:{number}").parse().unwrap();
        store.pull(&tar(home.path(), "a.tar", &number.to_string()), Some(&name), &[]).unwrap();
    }
    let local = tar(home.path(), "b.tar", "local");
    store.pull(&local, None, &[]).unwrap();
    for reference in ["localhost/image:77".parse().unwrap(), local] {
        let once = || {
            let started = Instant::now();
            let resolved = store.resolve(&reference, &[]).unwrap().unwrap();
            let took = started.elapsed();
            drop(resolved);
            took
        };
        let mut times: Vec<_> = (0..300).map(|_| once()).collect();
        times.sort();
        println!("{reference}: median {:?}, best {:?}", times[150], times[0]);
        assert!(times[150] < Duration::from_micros(200), "{reference}: {:?}", times[150]);
    }
}

#[test]
fn many_at_once_get_one_image_under_all_their_names() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    Layout::of(vec![archive(&[file("file", "x".repeat(100_000))])]).write(&home.path().join("image"));
    let reference: Reference = format!("oci:{}", home.path().join("image").display()).parse().unwrap();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (store, reference) = (&store, &reference);
            scope.spawn(move || {
                let name: Reference = format!("localhost/image:{}", number % 4).parse().unwrap();
                store.pull(reference, Some(&name), &[]).unwrap();
                store.obtain(&name, &[], Network::Forbidden).unwrap();
            });
        }
    });
    let images = store.list().unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].1.len(), 4);
    assert_eq!(fs::read_dir(home.path().join("store/rootfs")).unwrap().count(), 2, "the image and its description");
}

#[test]
fn an_archive_that_changes_is_another_image_and_one_that_goes_stays() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    let reference = tar(home.path(), "a.tar", "old");
    assert_eq!(content(&store, &reference), "old");
    assert_eq!(content(&store, &tar(home.path(), "a.tar", "newer")), "newer");
    fs::remove_file(home.path().join("a.tar")).unwrap();
    assert_eq!(content(&store, &reference), "newer");
    assert_eq!(store.collect(Extent::Unnamed, nobody).unwrap().images.len(), 1, "the old one has no name any more");
    assert_eq!(content(&store, &reference), "newer");
}

#[test]
fn an_image_in_use_is_neither_removed_nor_collected() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    let name: Reference = "tools".parse().unwrap();
    let digest = store.pull(&tar(home.path(), "a.tar", "old"), Some(&name), &[]).unwrap();
    let used = || Ok::<_, Error>(Users::from([(digest, vec!["/mnt".to_owned()])]));
    let refused = store.remove("tools", used).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    // With another name, the first may go.
    store.pull(&tar(home.path(), "a.tar", "old"), Some(&"tools:2".parse().unwrap()), &[]).unwrap();
    store.remove("tools", used).unwrap();
    store.pull(&tar(home.path(), "a.tar", "new"), Some(&"tools:2".parse().unwrap()), &[]).unwrap();
    assert_eq!(store.collect(Extent::Unnamed, used).unwrap().images, [] as [Digest; 0]);
    assert_eq!(store.collect(Extent::Unnamed, nobody).unwrap().images, [digest]);
    assert!(matches!(store.remove("nothing", nobody), Err(Error::Unknown { .. })));
    assert!(matches!(store.remove(&digest.to_string(), nobody), Err(Error::Unknown { .. })));
}

#[test]
fn nobody_removes_what_somebody_is_about_to_use() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    let name: Reference = "tools".parse().unwrap();
    store.pull(&tar(home.path(), "a.tar", "x"), Some(&name), &[]).unwrap();
    let resolved = store.resolve(&name, &[]).unwrap().unwrap();
    let step = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            store.remove("tools", nobody).unwrap();
            step.fetch_add(1, Ordering::SeqCst)
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(resolved.rootfs.join("file").exists());
        assert_eq!(step.fetch_add(1, Ordering::SeqCst), 0, "the removal waits");
        drop(resolved);
        assert_eq!(removal.join().unwrap(), 1);
    });
    assert!(store.resolve(&name, &[]).unwrap().is_none());
}

#[test]
fn what_killed_processes_left_is_removed_and_what_live_ones_do_is_not() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    store.pull(&tar(home.path(), "a.tar", "x"), Some(&"tools".parse().unwrap()), &[]).unwrap();
    let rootfs = home.path().join("store/rootfs");
    for name in ["dead.part/deep", "live.part/deep", "gone.gone/deep"] {
        fs::create_dir_all(rootfs.join(name)).unwrap();
    }
    fs::write(rootfs.join("dead.lock"), "").unwrap();
    fs::write(home.path().join("store/names/.new-1-1"), "").unwrap();
    let live = fs::File::create(rootfs.join("live.lock")).unwrap();
    live.lock().unwrap();
    assert_eq!(store.collect(Extent::Unnamed, nobody).unwrap().leftovers, 1);
    assert!(rootfs.join("live.part").exists());
    for path in ["rootfs/dead.part", "rootfs/dead.lock", "rootfs/gone.gone", "names/.new-1-1"] {
        assert!(!home.path().join("store").join(path).exists(), "{path}");
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn without_the_network_what_is_not_here_is_absent() {
    let home = home();
    let store = Store::at(home.path().join("store"));
    for text in ["registry.invalid/a:1", "packages:debian/bookworm?sshfs"] {
        let error = store.obtain(&text.parse().unwrap(), &[], Network::Forbidden).unwrap_err();
        assert!(error.hint().unwrap().contains("image import"), "{error}");
    }
}

#[test]
fn derived_files_come_and_go_with_their_image() {
    fn make(rootfs: &Path, derived: &Path) -> std::io::Result<()> {
        fs::write(derived.join("made"), fs::read(rootfs.join("file"))?)
    }
    let home = home();
    let store = Store::at(home.path().join("store")).with_derived(make);
    let reference = tar(home.path(), "one.tar", "of the image");
    let derived = store.obtain(&reference, &[], Network::Forbidden).unwrap().derived.unwrap();
    assert_eq!(fs::read_to_string(derived.join("made")).unwrap(), "of the image");
    store.remove(&reference.to_string(), nobody).unwrap();
    assert!(!derived.exists());
    // Left by a process that was killed while it removed the image.
    fs::create_dir(&derived).unwrap();
    fs::write(derived.join("old"), "").unwrap();
    let again = store.obtain(&reference, &[], Network::Forbidden).unwrap();
    assert!(!again.derived.unwrap().join("old").exists());
    let orphan = derived.with_file_name(format!("{}.derived", "0".repeat(64)));
    fs::create_dir(&orphan).unwrap();
    drop(again.held);
    store.collect(Extent::Unnamed, nobody).unwrap();
    assert!(!orphan.exists());
    assert!(derived.join("made").exists(), "its image is there");
}

#[test]
fn an_image_whose_derived_files_cannot_be_made_is_as_good() {
    let home = home();
    let store = Store::at(home.path().join("store")).with_derived(|_, _| Err(std::io::Error::other("no")));
    let reference = tar(home.path(), "one.tar", "of the image");
    assert!(!store.obtain(&reference, &[], Network::Forbidden).unwrap().derived.unwrap().exists());
    assert_eq!(content(&store, &reference), "of the image");
}
