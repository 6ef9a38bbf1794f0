//! Files with holes, as GNU tar packs them in each of its formats: the holes stay holes.

#![expect(clippy::unwrap_used, reason = "in a test, what fails should fail here")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;

use shorefast_image::{Reference, Store};

const SIZE: u64 = 64 << 20;
const FORMATS: [(&str, &[&str]); 4] = [
    ("gnu", &["--format=gnu"]),
    ("pax 1.0", &["--format=posix", "--sparse-version=1.0"]),
    ("pax 0.1", &["--format=posix", "--sparse-version=0.1"]),
    ("pax 0.0", &["--format=posix", "--sparse-version=0.0"]),
];

/// Name, and where four kilobytes of data are.
fn files() -> [(&'static str, Vec<u64>); 4] {
    [
        ("only a hole", vec![]),
        ("a hole at the end", vec![0, 20 << 20]),
        ("holes at both ends", vec![40 << 20]),
        // More than a header of GNU's format holds, and than the first block after it.
        ("many holes", (0..60).map(|number| number << 20).chain([SIZE - 4096]).collect()),
    ]
}

#[test]
fn holes_stay_holes() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source");
    fs::create_dir(&source).unwrap();
    for (name, data) in files() {
        let file = File::create(source.join(name)).unwrap();
        file.set_len(SIZE).unwrap();
        for (number, offset) in data.iter().enumerate() {
            file.write_all_at(&[b'a' + u8::try_from(number % 26).unwrap(); 4096], *offset).unwrap();
        }
        file.sync_all().unwrap();
        assert!(taken(&source.join(name)) < 1 << 20, "this filesystem has no holes: {name}");
    }
    for (format, options) in FORMATS {
        let archive = home.path().join("archive.tar");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sparse", "--file"]).arg(&archive).args(options).arg("--directory").arg(&source).arg(".");
        assert!(tar.status().unwrap().success(), "{tar:?}");
        assert!(fs::metadata(&archive).unwrap().len() < 1 << 20, "{format}: or nothing in it is sparse");
        let store = Store::at(home.path().join(format));
        let reference: Reference = format!("tar:{}", archive.display()).parse().unwrap();
        let root = store.rootfs(store.pull(&reference, None, &[]).unwrap());
        for (name, data) in files() {
            let unpacked = root.join(name);
            assert_eq!(fs::metadata(&unpacked).unwrap().len(), SIZE, "{format}: {name}");
            assert!(fs::read(&unpacked).unwrap() == fs::read(source.join(name)).unwrap(), "{format}: {name} has another content");
            let most = (data.len() as u64 + 1) * (64 << 10);
            assert!(taken(&unpacked) <= most, "{format}: {name} takes {} bytes", taken(&unpacked));
        }
    }
}

/// On disk.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}
