//! The root filesystem that the client sees, assembled in the sandbox's first process while it is
//! still the host's root.
//!
//! The root itself is a small private tmpfs. The image's top-level entries are bound into it
//! read-only, so an image needs no directories for our sake and is shared by all its mounts. What
//! is writable is ours, empty at the start, and bounded.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::mount::{MountAttrFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::mount::Attributes;
use sys::{Result, call};

/// What to assemble; everything in it was opened or read by the launching process.
#[derive(Debug)]
pub struct Root<'a> {
    /// The image's root directory.
    pub image: &'a OwnedFd,
    pub files: &'a [ReadFile],
    pub scratch_bytes: u64,
    pub source: Option<SourceKind>,
    /// Who owns the writable places, on the host.
    pub owner: u32,
}

/// A file for the client, with its content.
#[derive(Debug)]
pub struct ReadFile {
    pub inside: PathBuf,
    pub content: Vec<u8>,
    pub mode: u32,
    /// Below a directory of ours, in contrast to a directory of the image.
    pub in_ours: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Directory,
    File,
}

/// Top-level names that the image does not decide.
const OURS: &[&str] = &["dev", "proc", "sys", "run", "tmp", "root", "var", "shorefast"];

/// Character devices: name, major, minor.
const DEVICES: &[(&str, u32, u32)] = &[
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
    ("fuse", sys::fuse::MAJOR, sys::fuse::MINOR),
];

/// Directories that belong to the client. They start empty.
const WRITABLE: &[&str] = &["run", "tmp", "root", "shorefast/target", "dev/shm", "var/log", "var/lib", "var/cache", "var/tmp", "var/spool"];

const LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
];

/// Where files for the image's /etc wait to be laid over it.
const ETC: &str = "shorefast/etc";
/// Some clients insist on it; a distribution makes it when a system is set up, which an image
/// made straight from packages never was.
const MTAB: &str = "etc/mtab";

impl Root<'_> {
    /// Makes the assembled filesystem this process's root, in a mount namespace of its own.
    pub fn enter(&self) -> Result<()> {
        // Copies can be made only of mounts in one's own namespace: before it is left.
        let entries = self.image_entries()?;
        let size = self.scratch_bytes.to_string();
        let options = [("size", size.as_str()), ("nr_inodes", "65536"), ("mode", "0755"), ("source", "shorefast")];
        let root = sys::mount::new_filesystem("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
        let proc_attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let proc = sys::mount::new_filesystem("proc", &[], proc_attributes)?;

        own_mount_namespace()?;
        sys::mount::attach(root.as_fd(), CWD, Path::new("/"))?;
        call(|| "fchdir(root)".into(), rustix::process::fchdir(&root))?;
        call(|| "pivot_root(\".\", \".\")".into(), rustix::process::pivot_root(".", "."))?;
        call(|| "umount2(old root)".into(), rustix::mount::unmount(".", UnmountFlags::DETACH))?;
        call(|| "chdir(\"/\")".into(), rustix::process::chdir("/"))?;

        self.make_places()?;
        self.make_devices()?;
        for entry in &entries {
            entry.place()?;
        }
        sys::mount::attach(proc.as_fd(), CWD, Path::new("proc"))?;
        self.make_files()
    }

    fn image_entries(&self) -> Result<Vec<ImageEntry>> {
        let directory = call(|| "open(image)".into(), rustix::fs::Dir::read_from(self.image))?;
        let mut entries = Vec::new();
        for entry in directory {
            let entry = call(|| "getdents(image)".into(), entry)?;
            let name = PathBuf::from(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
            if matches!(name.to_str(), Some("." | "..")) || name.to_str().is_some_and(|name| OURS.contains(&name)) {
                continue;
            }
            let stat = call(|| format!("stat({name:?})"), rustix::fs::statat(self.image, &name, AtFlags::SYMLINK_NOFOLLOW))?;
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => {
                    let target = call(|| format!("readlink({name:?})"), rustix::fs::readlinkat(self.image, &name, Vec::new()))?;
                    Kind::Link(target)
                }
                FileType::Directory => Kind::Directory(self.read_only_copy(&name)?),
                FileType::RegularFile => Kind::File(self.read_only_copy(&name)?),
                _ => continue,
            };
            entries.push(ImageEntry { name, kind });
        }
        Ok(entries)
    }

    fn read_only_copy(&self, name: &Path) -> Result<OwnedFd> {
        let tree = sys::mount::detached_copy(self.image.as_fd(), name)?;
        let set = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        // Private: on a host with shared mounts, what is mounted there later must not appear here.
        sys::mount::set_attributes(tree.as_fd(), Attributes { set: Some(set), private: true, ..Attributes::default() })?;
        Ok(tree)
    }

    fn make_places(&self) -> Result<()> {
        for name in ["dev", "proc", "sys", "var", "shorefast", "shorefast/files", ETC] {
            make_directory(name, 0o755)?;
        }
        for name in WRITABLE {
            make_directory(name, 0o755)?;
            self.give(name)?;
        }
        for (link, target) in LINKS {
            call(|| format!("symlink({target:?})"), rustix::fs::symlink(*target, *link))?;
        }
        match self.source {
            None => Ok(()),
            Some(SourceKind::Directory) => make_directory("shorefast/source", 0o755),
            Some(SourceKind::File) => make_file("shorefast/source", b"", 0o644),
        }
    }

    fn make_devices(&self) -> Result<()> {
        for (name, major, minor) in DEVICES {
            let path = Path::new("dev").join(name);
            let node =
                rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), rustix::fs::makedev(*major, *minor));
            call(|| format!("mknod({path:?})"), node)?;
        }
        Ok(())
    }

    fn make_files(&self) -> Result<()> {
        let (ours, in_image): (Vec<_>, Vec<_>) = self.files.iter().partition(|file| file.in_ours);
        for file in ours {
            let path = relative(&file.inside);
            if let Some(parent) = path.parent() {
                call(|| format!("mkdir({parent:?})"), std::fs::create_dir_all(parent))?;
            }
            make_file(path, &file.content, file.mode)?;
            self.give(path)?;
        }
        let is_missing = |file: &&ReadFile| std::fs::symlink_metadata(relative(&file.inside)).map_or(true, |metadata| !metadata.is_file());
        let has_mtab = std::fs::symlink_metadata(MTAB).is_ok();
        let missing = !has_mtab || in_image.iter().any(is_missing);
        for file in &in_image {
            let name = relative(&file.inside).strip_prefix("etc").expect("the plan puts files only below /etc or our own directories");
            let copy = Path::new(ETC).join(name);
            if let Some(parent) = copy.parent() {
                call(|| format!("mkdir({parent:?})"), std::fs::create_dir_all(parent))?;
            }
            make_file(&copy, &file.content, file.mode)?;
            self.give(&copy)?;
            if !missing {
                bind(&copy, relative(&file.inside))?;
            }
        }
        if !has_mtab {
            let link = Path::new(ETC).join("mtab");
            call(|| format!("symlink({link:?})"), rustix::fs::symlink("/proc/self/mounts", &link))?;
        }
        if missing { lay_over_etc() } else { Ok(()) }
    }

    fn give(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let chown =
            rustix::fs::chownat(CWD, path, Some(Uid::from_raw(self.owner)), Some(Gid::from_raw(self.owner)), AtFlags::SYMLINK_NOFOLLOW);
        call(|| format!("chown({path:?})"), chown)
    }
}

struct ImageEntry {
    name: PathBuf,
    kind: Kind,
}

enum Kind {
    Directory(OwnedFd),
    File(OwnedFd),
    Link(std::ffi::CString),
}

impl ImageEntry {
    fn place(&self) -> Result<()> {
        let name = &self.name;
        match &self.kind {
            Kind::Link(target) => call(|| format!("symlink({name:?})"), rustix::fs::symlink(target.as_c_str(), name)),
            Kind::Directory(tree) => {
                make_directory(name, 0o755)?;
                sys::mount::attach(tree.as_fd(), CWD, name)
            }
            Kind::File(tree) => {
                make_file(name, b"", 0o644)?;
                sys::mount::attach(tree.as_fd(), CWD, name)
            }
        }
    }
}

/// A new mount namespace, made from a small one where that can be seen: its price is then the
/// same on every host.
fn own_mount_namespace() -> Result<()> {
    if let Some(small) = sys::namespace::small_mount_namespace() {
        sys::namespace::join_mount(small.as_fd())?;
    }
    sys::namespace::unshare_mount()?;
    sys::mount::make_all_private()
}

/// The image's /etc lacks a file that it must have: a read-only overlay shows ours above it.
fn lay_over_etc() -> Result<()> {
    let lower = if Path::new("etc").is_dir() { format!("/{ETC}:/etc") } else { return bind(Path::new(ETC), Path::new("etc")) };
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let overlay = sys::mount::new_filesystem("overlay", &[("lowerdir", lower.as_str())], attributes)?;
    sys::mount::attach(overlay.as_fd(), CWD, Path::new("etc"))
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    let copy = sys::mount::detached_copy(CWD, from)?;
    sys::mount::attach(copy.as_fd(), CWD, to)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn make_directory(path: impl AsRef<Path>, mode: u32) -> Result<()> {
    let path = path.as_ref();
    call(|| format!("mkdir({path:?})"), rustix::fs::mkdir(path, Mode::from_raw_mode(mode)))
}

fn make_file(path: impl AsRef<Path>, content: &[u8], mode: u32) -> Result<()> {
    let path = path.as_ref();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = call(|| format!("open({path:?})"), rustix::fs::open(path, flags, Mode::from_raw_mode(mode)))?;
    call(|| format!("write({path:?})"), std::fs::File::from(file).write_all(content))
}
