//! Which users could have changed a file: checks its owner and mode, and those of every directory and link on the way to it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// On whose authority the file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It is used because of its location, so it must be root's.
    ByPlace,
    /// The caller, who is root, named it: it may belong to any user, if only that user and root can change it.
    ByCaller,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} {problem}: its content decides what root does, so no other user may be able to change it (chown root, chmod go-w)")]
pub struct Untrusted {
    pub path: PathBuf,
    pub problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("belongs to uid {0}")]
    Owner(u32),
    #[error("can be written to by group {0}")]
    Group(u32),
    #[error("can be written to by everybody")]
    Everybody,
    #[error("leads through too many symbolic links")]
    Links,
}

pub fn read(path: &Path, chosen: Chosen) -> io::Result<Vec<u8>> {
    fs::read(check_file(path, chosen)?)
}

pub fn read_to_string(path: &Path, chosen: Chosen) -> io::Result<String> {
    fs::read_to_string(check_file(path, chosen)?)
}

/// The file's own name, free of links.
pub fn check_file(path: &Path, chosen: Chosen) -> io::Result<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Ok(path.to_owned());
    }
    let mut also = None;
    if chosen == Chosen::ByCaller {
        also = Some(fs::metadata(path)?.uid());
    }
    let (real, file) = walk(path, also)?;
    judge(&real, &file, also, Sticky::No)?;
    Ok(real)
}

/// A directory of such files: only root can add one.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn check(path: &Path) -> io::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(path.to_owned()));
        }
        let (real, directory) = walk(path, None)?;
        judge_directory(&real, &directory, None, Sticky::No)?;
        Ok(Self(real))
    }

    pub fn read_to_string(&self, name: impl AsRef<Path>) -> io::Result<String> {
        let path = self.0.join(name);
        let entry = fs::symlink_metadata(&path)?;
        // The path to here was already checked.
        if entry.is_symlink() || !rustix::process::geteuid().is_root() {
            return read_to_string(&path, Chosen::ByPlace);
        }
        judge(&path, &entry, None, Sticky::No)?;
        fs::read_to_string(path)
    }
}

/// Whether a sticky bit is enough: with it, other users cannot replace root's files, but they can create new files beside them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sticky {
    Helps,
    No,
}

const LINKS: usize = 40;

/// Checks every component of the path. `also`: a further trusted owner.
fn walk(path: &Path, also: Option<u32>) -> io::Result<(PathBuf, Metadata)> {
    let path = std::path::absolute(path)?;
    let mut ahead: VecDeque<OsString> = parts(&path).collect();
    let mut here = PathBuf::from("/");
    let mut found = fs::symlink_metadata(&here)?;
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            // Without links, so its parent is the one in its name.
            here.pop();
            found = fs::symlink_metadata(&here)?;
            continue;
        }
        judge_directory(&here, &found, also, Sticky::Helps)?;
        let next = here.join(&part);
        found = fs::symlink_metadata(&next)?;
        if found.is_symlink() {
            links += 1;
            if links > LINKS {
                return Err(untrusted(&next, Problem::Links));
            }
            judge(&next, &found, also, Sticky::Helps)?;
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                ahead.push_front(part);
            }
            found = fs::symlink_metadata(&here)?;
        } else {
            here = next;
        }
    }
    Ok((here, found))
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn judge_directory(path: &Path, meta: &Metadata, also: Option<u32>, sticky: Sticky) -> io::Result<()> {
    judge(path, meta, also, sticky).or_else(|error| if is_config_map(path) && is_out_of_reach(path)? { Ok(()) } else { Err(error) })
}

fn judge(path: &Path, meta: &Metadata, also: Option<u32>, sticky: Sticky) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    let owner = meta.uid();
    if owner != 0 && Some(owner) != also {
        return Err(untrusted(path, Problem::Owner(owner)));
    }
    // A link cannot be written to.
    if meta.is_symlink() || (sticky == Sticky::Helps && meta.is_dir() && meta.mode() & STICKY != 0) {
        return Ok(());
    }
    // Where every user has a group of their own, it has their number.
    let is_own_group = owner != 0 && meta.gid() == owner;
    match meta.mode() & 0o022 {
        mode if mode & 0o002 != 0 => Err(untrusted(path, Problem::Everybody)),
        0o020 if !is_own_group => Err(untrusted(path, Problem::Group(meta.gid()))),
        _ => Ok(()),
    }
}

fn untrusted(path: &Path, problem: Problem) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Untrusted { path: path.to_owned(), problem })
}

/// kubelet makes such a directory writable for everyone, and keeps other users away from it: with a directory that only root can enter, or
/// with a read-only mount.
fn is_config_map(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join("..data")).is_ok_and(|data| data.is_symlink() && data.uid() == 0)
}

fn is_out_of_reach(directory: &Path) -> io::Result<bool> {
    let is_root_only = |meta: Metadata| meta.uid() == 0 && meta.mode() & 0o001 == 0 && (meta.gid() == 0 || meta.mode() & 0o010 == 0);
    let is_owned = fs::symlink_metadata(directory)?.uid() == 0;
    let is_read_only = rustix::fs::statvfs(directory)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let is_locked = directory.ancestors().skip(1).any(|parent| fs::symlink_metadata(parent).is_ok_and(is_root_only));
    Ok(is_owned && (is_read_only || is_locked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    struct Tree(tempfile::TempDir);

    impl Tree {
        /// `None`: only root can give files away, and only for root is anything refused.
        fn new() -> Option<Self> {
            if !rustix::process::geteuid().is_root() {
                return None;
            }
            let tree = Self(tempfile::tempdir().unwrap());
            tree.set("", 0, 0o755);
            for directory in ["a", "a/b", "other"] {
                fs::create_dir(tree.at(directory)).unwrap();
                tree.set(directory, 0, 0o755);
            }
            fs::write(tree.at("a/b/file"), "text").unwrap();
            tree.set("a/b/file", 0, 0o644);
            Some(tree)
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn set(&self, path: &str, owner: u32, mode: u32) {
            chown(self.at(path), Some(owner), Some(owner)).unwrap();
            fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn problem(&self, path: &str, chosen: Chosen) -> Option<Problem> {
            let error = read(&self.at(path), chosen).err()?;
            error.get_ref().and_then(|inner| inner.downcast_ref::<Untrusted>()).map(|untrusted| untrusted.problem)
        }
    }

    #[test]
    fn only_what_root_alone_can_change_is_read() {
        let Some(tree) = Tree::new() else { return };
        let rows = [
            ("a/b/file", 0, 0o644, None),
            ("a/b/file", 0, 0o600, None),
            ("a/b/file", 0, 0o664, Some(Problem::Group(0))),
            ("a/b/file", 0, 0o646, Some(Problem::Everybody)),
            ("a/b/file", 7, 0o644, Some(Problem::Owner(7))),
            ("a/b", 0, 0o775, Some(Problem::Group(0))),
            ("a/b", 7, 0o755, Some(Problem::Owner(7))),
            ("a", 0, 0o777, Some(Problem::Everybody)),
            ("a", 0, 0o1777, None),
            ("a", 7, 0o755, Some(Problem::Owner(7))),
        ];
        for (path, owner, mode, expected) in rows {
            tree.set(path, owner, mode);
            assert_eq!(tree.problem("a/b/file", Chosen::ByPlace), expected, "{path} of {owner}, {mode:o}");
            tree.set(path, 0, if path.ends_with("file") { 0o644 } else { 0o755 });
        }
    }

    #[test]
    fn links_are_followed_with_open_eyes() {
        let Some(tree) = Tree::new() else { return };
        symlink("../a/./b/../b/file", tree.at("other/link")).unwrap();
        assert_eq!(read(&tree.at("other/link"), Chosen::ByPlace).unwrap(), b"text");
        tree.set("a/b", 0, 0o777);
        assert_eq!(tree.problem("other/link", Chosen::ByPlace), Some(Problem::Everybody), "where it leads");
        tree.set("a/b", 0, 0o755);
        tree.set("other", 0, 0o777);
        assert_eq!(tree.problem("other/link", Chosen::ByPlace), Some(Problem::Everybody), "where it is");
        tree.set("other", 0, 0o1777);
        std::os::unix::fs::lchown(tree.at("other/link"), Some(7), None).unwrap();
        assert_eq!(tree.problem("other/link", Chosen::ByPlace), Some(Problem::Owner(7)), "whose it is");
        symlink("round", tree.at("a/round")).unwrap();
        assert_eq!(tree.problem("a/round", Chosen::ByPlace), Some(Problem::Links));
        symlink("/etc/passwd", tree.at("a/absolute")).unwrap();
        assert_eq!(tree.problem("a/absolute", Chosen::ByPlace), None);
    }

    #[test]
    fn the_caller_may_name_a_file_of_somebody() {
        let Some(tree) = Tree::new() else { return };
        tree.set("a/b", 7, 0o755);
        tree.set("a/b/file", 7, 0o664);
        assert_eq!(tree.problem("a/b/file", Chosen::ByCaller), None);
        tree.set("a/b/file", 7, 0o666);
        assert_eq!(tree.problem("a/b/file", Chosen::ByCaller), Some(Problem::Everybody));
        tree.set("a/b/file", 7, 0o644);
        tree.set("a/b", 8, 0o755);
        assert_eq!(tree.problem("a/b/file", Chosen::ByCaller), Some(Problem::Owner(8)));
    }

    #[test]
    fn nobody_can_add_a_file() {
        let Some(tree) = Tree::new() else { return };
        assert!(Directory::check(&tree.at("a")).is_ok());
        for mode in [0o1777, 0o777, 0o775] {
            tree.set("a", 0, mode);
            assert!(Directory::check(&tree.at("a")).is_err(), "{mode:o}");
        }
    }

    #[test]
    fn a_config_map_is_as_kubelet_makes_it() {
        let Some(tree) = Tree::new() else { return };
        symlink("b", tree.at("a/..data")).unwrap();
        symlink("..data/file", tree.at("a/file")).unwrap();
        tree.set("a", 0, 0o777);
        assert!(Directory::check(&tree.at("a")).is_err(), "everybody can get there");
        tree.set("", 0, 0o700);
        assert!(Directory::check(&tree.at("a")).is_ok());
        assert_eq!(tree.problem("a/file", Chosen::ByPlace), None);
        tree.set("a", 7, 0o755);
        assert!(Directory::check(&tree.at("a")).is_err(), "it is somebody's");
    }
}
