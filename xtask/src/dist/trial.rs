//! The .deb in a clean Debian: installed, used, upgraded while it mounts, removed, purged. Nothing of this machine is touched.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::VERSION;
use crate::{apt, process};

const SUITE: &str = "bookworm";

/// In a new root with its own mounts and processes. The archive of packages is the tests' own.
const SCRIPT: &str = r#"set -eu
umount --lazy /mnt
fail() { echo "$*" >&2; exit 1; }
apt-get --version > /dev/null
dpkg --install /release/shorefast.deb
shorefast --version | grep -q "$1" || fail "no version"
for page in man1/shorefast.1 man5/shorefast-configuration.5; do dpkg --listfiles shorefast | grep -qx "/usr/share/man/$page.gz" || fail "no man page $page"; done
[ -e /usr/share/bash-completion/completions/shorefast ] && [ -e /usr/lib/systemd/system/shorefast.service ] || fail "no completions or unit"
mkdir -p /etc/shorefast /srv/source /srv/target
printf 'suite = "trixie"\nmirrors = ["file:/packages"]\nkeyring = "/packages/key.gpg"\n' > /etc/shorefast/packages.toml
echo content > /srv/source/file
shorefast mount -t bindfs /srv/source /srv/target
[ "$(cat /srv/target/file)" = content ] || fail "the mount does not work"
dpkg --install /release/next.deb
[ "$(cat /srv/target/file)" = content ] || fail "the upgrade ended the mount"
shorefast list | grep -q /srv/target || fail "the upgrade forgot the mount"
shorefast umount /srv/target
[ ! -e /srv/target/file ] || fail "still mounted"
dpkg --remove shorefast
[ ! -e /usr/bin/shorefast ] && [ -d /var/lib/shorefast ] || fail "a removal removes the program and keeps the images"
dpkg --purge shorefast
[ ! -e /var/lib/shorefast ] || fail "a purge left /var/lib/shorefast"
dpkg --list shorefast 2>/dev/null | grep -q ^ii && fail "still there" || true
echo "installed, used, upgraded, removed, purged"
"#;

pub(super) fn run(out: &Path) -> Result<()> {
    let packages = crate::cache::directory()?.join("debian-trixie");
    let deb = out.join(format!("shorefast_{VERSION}_amd64.deb"));
    let work = tempfile::tempdir().context("cannot make a directory")?;
    let root = work.path().join("root");
    let mut strap = Command::new("mmdebstrap");
    strap.args(["--quiet", "--variant=apt", "--include=mount"]).arg(SUITE).arg(&root).arg(apt::mirror(SUITE)?);
    process::run(&mut strap)?;
    for directory in ["release", "packages"] {
        fs::create_dir(root.join(directory))?;
    }
    fs::copy(&deb, root.join("release/shorefast.deb")).context("no .deb for this machine")?;
    next_version(&deb, &root.join("release/next.deb"))?;
    fs::write(root.join("release/script"), SCRIPT)?;
    // /dev with /dev/fuse is the machine's; all else is the root's own. A chroot would not do: sandboxes need a real root.
    let enter = "mount --bind \"$1\" \"$1\"; cd \"$1\"; mount -t proc proc proc; mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs srv; mount --rbind /dev dev; mount --bind \"$2\" packages; pivot_root . mnt; exec chroot . sh /release/script \"$3\"";
    let mut inside = Command::new("timeout");
    inside.args(["300", "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", enter, "sh"]);
    process::run(inside.arg(&root).arg(&packages).arg(VERSION).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
}

/// The same files under a higher version.
fn next_version(deb: &Path, next: &Path) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a directory")?;
    let tree = work.path().join("tree");
    process::run(Command::new("dpkg-deb").arg("--raw-extract").arg(deb).arg(&tree))?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    fs::write(&control, text.replace(&format!("Version: {VERSION}\n"), &format!("Version: {VERSION}+next\n")))?;
    process::output(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).arg(&tree).arg(next)).map(|_| ())
}
