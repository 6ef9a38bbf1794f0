//! Small real archives, made with Debian's own tools and throw-away keys.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shorefast_packages::rules;
use tempfile::TempDir;

pub(crate) const SUITE: &str = "testing-ground";

/// Files in `dists` and `pool`, and the keys in a home of their own.
pub(crate) struct Archive {
    place: TempDir,
}

/// Fields and files of a package.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static str,
    pub(crate) file: &'static str,
}

impl Archive {
    /// Signed by "good"; `packages` besides the base that every image has.
    pub(crate) fn new(packages: &[Package]) -> Self {
        let archive = Self { place: tempfile::Builder::new().prefix("deb").tempdir_in("/tmp").unwrap() };
        fs::create_dir_all(archive.home()).unwrap();
        run(Command::new("chmod").arg("700").arg(archive.home()));
        archive.new_key("good", "never", &[]);
        let base = rules::BASE.map(|name| Package { name, fields: "", file: "" });
        for package in base.iter().chain(packages) {
            archive.add(package);
        }
        archive.publish(&[]);
        archive
    }

    pub(crate) fn url(&self) -> String {
        format!("file:{}", self.root().display())
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.place.path().join("debian")
    }

    pub(crate) fn dists(&self) -> PathBuf {
        self.root().join("dists").join(SUITE)
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.dists().join(format!("main/binary-{}", shorefast_packages::Architecture::native().name))
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("gnupg")
    }

    pub(crate) fn deb(&self, name: &str) -> PathBuf {
        self.root().join(format!("pool/{name}_1_all.deb"))
    }

    fn add(&self, package: &Package) {
        let tree = self.place.path().join("tree").join(package.name);
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("usr/share").join(package.name)).unwrap();
        fs::write(tree.join("usr/share").join(package.name).join("content"), package.file).unwrap();
        let fields =
            format!("Package: {}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n{}Description: d\n", package.name, package.fields);
        fs::write(tree.join("DEBIAN/control"), fields).unwrap();
        fs::create_dir_all(self.root().join("pool")).unwrap();
        run(Command::new("dpkg-deb").args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(self.deb(package.name)));
    }

    /// Gives a package another archive of files, which no tool would make of a directory.
    pub(crate) fn replace_files(&self, name: &str, archive: &[u8]) {
        let plain = self.place.path().join("data.tar");
        fs::write(&plain, archive).unwrap();
        run(Command::new("xz").args(["--force", "--keep"]).arg(&plain));
        run(Command::new("ar").arg("r").arg(self.deb(name)).arg(self.place.path().join("data.tar.xz")));
    }

    /// Writes and signs indexes and Release anew, with these further fields of Release.
    pub(crate) fn publish(&self, fields: &[&str]) {
        fs::create_dir_all(self.index()).unwrap();
        let packages = output(Command::new("apt-ftparchive").args(["packages", "pool"]).current_dir(self.root()));
        fs::write(self.index().join("Packages"), packages).unwrap();
        run(Command::new("xz").args(["--force", "--keep"]).arg(self.index().join("Packages")));
        self.release(fields);
        self.sign("good", &[]);
    }

    fn release(&self, fields: &[&str]) {
        for name in ["Release", "InRelease", "Release.gpg"] {
            let _ = fs::remove_file(self.dists().join(name));
        }
        let mut command = Command::new("apt-ftparchive");
        for (field, value) in [("Suite", SUITE), ("Codename", SUITE), ("Origin", "Test")] {
            command.args(["-o", &format!("APT::FTPArchive::Release::{field}={value}")]);
        }
        let release = String::from_utf8(output(command.arg("release").arg(self.dists()))).unwrap();
        let named = |line: &&str| fields.iter().any(|field| line.split(':').next() == field.split(':').next());
        let kept: Vec<_> = release.lines().filter(|line| !named(line)).collect();
        fs::write(self.dists().join("Release"), format!("{}\n{}\n", fields.join("\n"), kept.join("\n")).trim_start()).unwrap();
    }

    /// `life` as gpg has it. The public key goes to a file of that name.
    pub(crate) fn new_key(&self, name: &str, life: &str, options: &[&str]) {
        run(self.gpg().args(options).args(["--quick-gen-key", name, "ed25519", "sign", life]));
        self.export(name);
    }

    pub(crate) fn export(&self, name: &str) {
        fs::write(self.keyring(name), output(self.gpg().args(["--export", name]))).unwrap();
    }

    pub(crate) fn keyring(&self, name: &str) -> PathBuf {
        self.place.path().join(format!("{name}.gpg"))
    }

    pub(crate) fn sign(&self, key: &str, options: &[&str]) {
        let (release, dists) = (self.dists().join("Release"), self.dists());
        let sign = || {
            let mut gpg = self.gpg();
            gpg.args(options).args(["--yes", "--local-user", key]);
            gpg
        };
        run(sign().arg("--output").arg(dists.join("InRelease")).arg("--clearsign").arg(&release));
        run(sign().arg("--output").arg(dists.join("Release.gpg")).args(["--armor", "--detach-sign"]).arg(&release));
    }

    pub(crate) fn revoke(&self, name: &str) {
        let fingerprint = self.fingerprint(name);
        // gpg made it with the key, and put a colon in front so that it cannot be imported by accident.
        let prepared = self.home().join(format!("openpgp-revocs.d/{fingerprint}.rev"));
        edit(&prepared, ":-----BEGIN", "-----BEGIN");
        run(self.gpg().arg("--import").arg(prepared));
        self.export(name);
    }

    pub(crate) fn add_subkey(&self, name: &str) {
        let fingerprint = self.fingerprint(name);
        run(self.gpg().args(["--quick-add-key", &fingerprint, "ed25519", "sign", "never"]));
        self.export(name);
    }

    fn fingerprint(&self, name: &str) -> String {
        let listed = String::from_utf8(output(self.gpg().args(["--with-colons", "--list-keys", name]))).unwrap();
        listed.lines().find_map(|line| line.strip_prefix("fpr:")).unwrap().trim_matches(':').to_owned()
    }

    /// gpg takes the newest key that can sign.
    pub(crate) fn is_signed_by_a_subkey(&self, name: &str) -> bool {
        let packets = output(self.gpg().arg("--list-packets").arg(self.dists().join("Release.gpg")));
        let listed = String::from_utf8(output(self.gpg().args(["--with-colons", "--list-keys", name]))).unwrap();
        let subkey = listed.lines().find(|line| line.starts_with("sub:")).and_then(|line| line.split(':').nth(4)).unwrap();
        String::from_utf8_lossy(&packets).contains(subkey)
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", self.home()).args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]);
        gpg
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").env("GNUPGHOME", self.home()).args(["--kill", "all"]).status();
    }
}

/// Replaces a part of a file.
pub(crate) fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{path:?} has no {from:?}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn run(command: &mut Command) {
    output(command);
}

fn output(command: &mut Command) -> Vec<u8> {
    let output =
        command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask setup` installs it"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
