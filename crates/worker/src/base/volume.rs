//! Creates, finds and removes a volume's directory on its base. In: the base's root and a task. Out: the volume's note.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use shorefast_engine::error::{Failure, Kind, Step};

use crate::base::note::{self, failed, open_directory};
use crate::base::tree;
use crate::task::{self, NewVolume, Note, OnDelete, Task};

/// Idempotent: a repeated task has the same result. `None`: there is no such volume.
pub fn perform(root: &OwnedFd, task: &Task) -> Result<Option<Note>, Box<Failure>> {
    match task {
        Task::Create(new) => create(root, new).map(Some),
        Task::Delete(key) => delete(root, key).map(|()| None),
        Task::Find(key) => note::read(root, key),
    }
}

fn create(root: &OwnedFd, new: &NewVolume) -> Result<Note, Box<Failure>> {
    let key = task::key(&new.directory);
    let noted = match note::read(root, &key)? {
        Some(there) => same(there, new)?,
        None => {
            if let Some(there) = by_name(root, &new.name)? {
                return Err(another(&there));
            }
            if new.on_delete != OnDelete::Retain && is_there(root, &new.directory)? {
                return Err(not_ours(&new.directory));
            }
            let note = Note {
                name: new.name.clone(),
                directory: new.directory.clone(),
                capacity: new.required,
                on_delete: new.on_delete,
                made_of: new.made_of.clone(),
            };
            if let Some(name_key) = name_key(&note) {
                note::write(root, &name_key, &note)?;
            }
            // Before the directory: one without a note is taken for another program's.
            note::write(root, &key, &note)?;
            note
        }
    };
    make(root, &new.directory, new.mode)?;
    Ok(noted)
}

/// A volume that already exists.
fn same(there: Note, new: &NewVolume) -> Result<Note, Box<Failure>> {
    let fits = new.required <= there.capacity && (new.limit == 0 || there.capacity <= new.limit);
    let is_same = |there: &Note| {
        (&there.name, &there.directory, there.on_delete, &there.made_of) == (&new.name, &new.directory, new.on_delete, &new.made_of)
    };
    if fits && is_same(&there) { Ok(there) } else { Err(another(&there)) }
}

fn another(there: &Note) -> Box<Failure> {
    let message = format!("there is already another volume, {:?}, with the directory {}", there.name, there.directory.display());
    Box::new(Failure::new(Step::Target, Kind::AlreadyDifferent, message))
}

/// A volume whose directory has a different name has a second note, under the volume's name: so no other volume can have that name.
fn name_key(note: &Note) -> Option<String> {
    (note.directory != Path::new(&note.name)).then(|| format!("name-{}", task::key(Path::new(&note.name))))
}

fn by_name(root: &OwnedFd, name: &str) -> Result<Option<Note>, Box<Failure>> {
    let usual = task::key(Path::new(name));
    if let Some(there) = note::read(root, &usual)?.filter(|there| there.name == name) {
        return Ok(Some(there));
    }
    let Some(second) = note::read(root, &format!("name-{usual}"))? else { return Ok(None) };
    // Without the first note, this one was left by a killed worker.
    Ok(note::read(root, &task::key(&second.directory))?.filter(|there| there.name == name))
}

fn not_ours(directory: &Path) -> Box<Failure> {
    let message = format!("the base volume has a directory {} already, which belongs to no volume", directory.display());
    let mut failure = Box::new(Failure::new(Step::Target, Kind::AlreadyDifferent, message));
    failure.hint = Some("choose another subDir, or set onDelete to retain: then it is used, and never removed".to_owned());
    failure
}

fn is_there(root: &OwnedFd, directory: &Path) -> Result<bool, Box<Failure>> {
    let (parent, name) = split(directory);
    let parent = match open_parent(root, parent) {
        Err(Errno::NOENT) => return Ok(false),
        parent => parent.map_err(|errno| failed(&format!("look at {}", directory.display()), errno))?,
    };
    exists(&parent, name).map_err(|errno| failed(&format!("look at {}", directory.display()), errno))
}

/// Of any type; a link is not followed.
fn exists(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The mode is for the last component, which is the volume's own directory, and only if that is new.
fn make(root: &OwnedFd, directory: &Path, mode: u32) -> Result<(), Box<Failure>> {
    let making = |errno| failed(&format!("create {}", directory.display()), errno);
    let (parent, name) = split(directory);
    let mut here = open_parent(root, Path::new("")).map_err(making)?;
    for above in parent.components() {
        here = note::make_directory(&here, above.as_os_str(), note::mode_of(root)).map_err(making)?;
    }
    note::make_directory(&here, name, mode).map(drop).map_err(making)
}

fn delete(root: &OwnedFd, key: &str) -> Result<(), Box<Failure>> {
    let Some(note) = note::read(root, key)? else { return Ok(()) };
    // A user with access to the base may have written it, so it must name a directory below the base.
    if task::key(&note.directory) != key || !is_plain(&note.directory) {
        let message = format!("{}/{key} on the base volume is not ours", note::DIRECTORY);
        return Err(Box::new(Failure::new(Step::Target, Kind::Denied, message)));
    }
    let (parent, name) = split(&note.directory);
    let removing = |errno| failed(&format!("remove {}", note.directory.display()), errno);
    match (note.on_delete, open_parent(root, parent)) {
        (OnDelete::Retain, _) | (_, Err(Errno::NOENT)) => {}
        (OnDelete::Delete, parent) => tree::remove(parent.map_err(removing)?.as_fd(), name).map_err(removing)?,
        (OnDelete::Archive, parent) => archive(&parent.map_err(removing)?, name).map_err(removing)?,
    }
    if let Some(name_key) = name_key(&note) {
        note::remove(root, &name_key)?;
    }
    note::remove(root, key)
}

/// How many archived volumes may have the same name.
const ARCHIVED: u32 = 1000;

fn archive(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let mut new = std::ffi::OsString::from("archived-");
    new.push(name);
    for number in 0..ARCHIVED {
        let mut new = new.clone();
        if number > 0 {
            new.push(format!("-{number}"));
        }
        let renamed = match rustix::fs::renameat_with(parent, name, parent, &new, RenameFlags::NOREPLACE) {
            // Few clients support that flag. No other program creates such names.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match exists(parent, &new)? {
                true => Err(Errno::EXIST),
                false => rustix::fs::renameat(parent, name, parent, &new),
            },
            renamed => renamed,
        };
        match renamed {
            Err(Errno::EXIST) => {}
            // Already done.
            Err(Errno::NOENT) => return Ok(()),
            renamed => return renamed,
        }
    }
    Err(Errno::EXIST)
}

/// Relative, not empty, without `.` and `..`, and not among the notes.
pub fn is_plain(directory: &Path) -> bool {
    let is_name = |component| matches!(component, std::path::Component::Normal(_));
    let is_canonical = directory.components().collect::<PathBuf>().as_os_str() == directory.as_os_str();
    directory.components().all(is_name) && is_canonical && directory.file_name().is_some() && !directory.starts_with(note::DIRECTORY)
}

fn split(directory: &Path) -> (&Path, &OsStr) {
    (directory.parent().unwrap_or(Path::new("")), directory.file_name().unwrap_or(OsStr::new(".")))
}

fn open_parent(root: &OwnedFd, parent: &Path) -> rustix::io::Result<OwnedFd> {
    open_directory(root, if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn new(name: &str, directory: &str, on_delete: OnDelete) -> NewVolume {
        let made_of = "parameters".to_owned();
        NewVolume { name: name.to_owned(), directory: directory.into(), required: 10, limit: 0, mode: 0o770, on_delete, made_of }
    }

    fn kind(result: Result<Option<Note>, Box<Failure>>) -> Option<Kind> {
        result.err().map(|failure| failure.kind)
    }

    #[test]
    fn a_volume_is_made_once_and_removed_as_was_agreed() {
        use std::os::unix::fs::PermissionsExt as _;
        let base = tempfile::tempdir().unwrap();
        let root = OwnedFd::from(fs::File::open(base.path()).unwrap());
        let at = |path: &str| base.path().join(path);
        let create = |new: NewVolume| perform(&root, &Task::Create(new));
        let delete = |directory: &str| perform(&root, &Task::Delete(task::key(Path::new(directory)))).unwrap();
        for _ in 0..2 {
            let volume = create(new("a", "ns/a", OnDelete::Delete)).unwrap().unwrap();
            assert_eq!((volume.name.as_str(), volume.capacity), ("a", 10));
        }
        assert_eq!(fs::metadata(at("ns/a")).unwrap().permissions().mode() & 0o7777, 0o770);
        let found = perform(&root, &Task::Find(task::key(Path::new("ns/a")))).unwrap();
        assert!(found.is_some_and(|note| note.directory == Path::new("ns/a")));
        // A request with another name, size or deletion policy is for another volume.
        let different = Some(Kind::AlreadyDifferent);
        assert_eq!(kind(create(new("b", "ns/a", OnDelete::Delete))), different);
        assert_eq!(kind(create(new("a", "ns/a", OnDelete::Retain))), different);
        assert_eq!(kind(create(NewVolume { required: 11, ..new("a", "ns/a", OnDelete::Delete) })), different);
        assert_eq!(kind(create(NewVolume { required: 1, limit: 9, ..new("a", "ns/a", OnDelete::Delete) })), different);
        assert_eq!(kind(create(NewVolume { made_of: "others".to_owned(), ..new("a", "ns/a", OnDelete::Delete) })), different);
        // One name, two directories.
        assert_eq!(kind(create(new("a", "ns/b", OnDelete::Delete))), different);
        assert_eq!(kind(create(new("a", "a", OnDelete::Delete))), different);
        create(new("usual", "usual", OnDelete::Delete)).unwrap();
        assert_eq!(kind(create(new("usual", "ns/usual", OnDelete::Delete))), different);
        delete("usual");
        fs::write(at("ns/a/file"), "").unwrap();
        (0..2).for_each(|_| drop(delete("ns/a")));
        assert!(!at("ns/a").exists() && at("ns").exists() && !at(".shorefast").exists());
        // The name is free again, even if a killed worker has left a note of it.
        create(new("a", "ns/other", OnDelete::Delete)).unwrap();
        note::remove(&root, &task::key(Path::new("ns/other"))).unwrap();
        fs::remove_dir(at("ns/other")).unwrap();
        create(new("a", "ns/a", OnDelete::Delete)).unwrap();
        delete("ns/a");
        assert!(!at(".shorefast").exists());
        // A directory that existed before is not adopted, unless the volume is never removed.
        assert_eq!(kind(create(new("n", "ns", OnDelete::Delete))), different);
        create(new("n", "ns", OnDelete::Retain)).unwrap();
        delete("ns");
        assert!(at("ns").exists());
        for number in ["", "-1", "-2"] {
            create(new("c", "ns/c", OnDelete::Archive)).unwrap();
            fs::write(at("ns/c/file"), "").unwrap();
            delete("ns/c");
            assert!(at(&format!("ns/archived-c{number}/file")).exists());
        }
        assert!(!at("ns/c").exists());
    }

    #[test]
    fn links_on_the_way_are_refused_and_forged_notes_too() {
        let (base, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = OwnedFd::from(fs::File::open(base.path()).unwrap());
        std::os::unix::fs::symlink(outside.path(), base.path().join("link")).unwrap();
        let through = perform(&root, &Task::Create(new("a", "link/a", OnDelete::Delete)));
        assert_eq!(kind(through), Some(Kind::Denied));
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
        let made_of = String::new();
        let forged = Note { name: "x".to_owned(), directory: "../x".into(), capacity: 0, on_delete: OnDelete::Delete, made_of };
        note::write(&root, &task::key(Path::new("../x")), &forged).unwrap();
        assert_eq!(kind(perform(&root, &Task::Delete(task::key(Path::new("../x"))))), Some(Kind::Denied));
        note::write(&root, "another", &Note { directory: "link".into(), ..forged }).unwrap();
        assert_eq!(kind(perform(&root, &Task::Delete("another".to_owned()))), Some(Kind::Denied));
    }

    #[test]
    fn directories_that_are_not_below_or_are_ours_are_not_plain() {
        let rows = [
            ("a", true),
            ("a/b", true),
            ("", false),
            ("/a", false),
            ("a/../b", false),
            ("a//b", false),
            ("a/", false),
            (".shorefast/x", false),
        ];
        for (text, expected) in rows {
            assert_eq!(is_plain(Path::new(text)), expected, "{text:?}");
        }
    }
}
