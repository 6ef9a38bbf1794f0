//! The directory of the host that the client sees: files that are not its own must stay unchanged, and files that it creates must give no user
//! any rights. The driver puts these things there: `open`, a directory that every user can write to; files and a directory of root's, some
//! accessible to root alone; a file of another user; a set-user-id program; a device node.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use libc::c_long;

use super::files::filesystem_magic;
use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::{Sandbox, c_path, mount_table, scratch_dir};
use crate::sys::{self, Answer, Errno, at, negative};

const SOURCE: &str = "/shorefast/source";
const OPEN: &str = "/shorefast/source/open";
const HERE: usize = negative(libc::AT_FDCWD);

const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
/// With which fchmodat2 and setxattrat take a descriptor instead of a name, also one that opens nothing.
const EMPTY_PATH: usize = libc::AT_EMPTY_PATH as usize;

const SET_ID: [usize; 3] = [0o4755, 0o2755, 0o6777];

/// Where files of the client's may lie: its own memory, and the host's directory.
fn places() -> [PathBuf; 2] {
    [scratch_dir("set-id"), PathBuf::from(OPEN)]
}

/// Whether it worked is for the file to say: the kernel leaves out some bits without a word.
fn judge<T>(path: &Path, what: &str, answer: Answer<T>) -> Outcome {
    let mode = fs::symlink_metadata(path).map_or(0, |meta| meta.mode());
    let outcome = match answer {
        _ if mode & 0o6000 != 0 => succeeded(format!("{what}: {} has mode {mode:o}", path.display())),
        Ok(_) => refused(format!("{what}: nothing came of it")),
        Err(errno) => refused(format!("{what}: {errno}")),
    };
    drop(fs::remove_file(path).or_else(|_| fs::remove_dir(path)));
    outcome
}

/// chmod in all its forms, on a file and on a directory of the client's own.
pub(super) fn changes_modes() -> Outcome {
    first_harm(places().iter().flat_map(|place| SET_ID.map(|mode| changes_mode_in(place, mode))))
}

fn changes_mode_in(place: &Path, mode: usize) -> Outcome {
    let file = place.join("changed");
    let fresh = || {
        fs::write(&file, "#!/bin/sh\n").expect("everybody may write here");
        c_path(&file)
    };
    let by = |what, change: &dyn Fn(&CString) -> Answer| {
        let path = fresh();
        judge(&file, what, change(&path))
    };
    let by_descriptor =
        |path: &CString, flags, change: &dyn Fn(usize) -> Answer| sys::open(path, flags).and_then(|file| change(file.as_raw_fd() as usize));
    let empty = at(c"");
    let mut outcomes = vec![
        by("fchmod", &|path| by_descriptor(path, libc::O_RDWR, &|fd| sys::call(libc::SYS_fchmod, [fd, mode]))),
        by("fchmodat", &|path| sys::call(libc::SYS_fchmodat, [HERE, at(path.as_c_str()), mode])),
        by("fchmodat with a high half", &|path| sys::call(libc::SYS_fchmodat, [HERE, at(path.as_c_str()), mode | 1 << 32])),
        by("fchmodat2", &|path| sys::call(SYS_FCHMODAT2, [HERE, at(path.as_c_str()), mode, 0])),
        by("fchmodat2 of O_PATH", &|path| by_descriptor(path, libc::O_PATH, &|fd| sys::call(SYS_FCHMODAT2, [fd, empty, mode, EMPTY_PATH]))),
    ];
    #[cfg(target_arch = "x86_64")]
    outcomes.push(by("chmod", &|path| sys::call(libc::SYS_chmod, [at(path.as_c_str()), mode])));
    drop(fs::remove_file(&file));
    let directory = place.join("directory");
    fs::create_dir(&directory).expect("everybody may write here");
    outcomes.push(judge(&directory, "of a directory", sys::call(libc::SYS_fchmodat, [HERE, at(&*c_path(&directory)), mode])));
    first_harm(outcomes)
}

/// Every call that makes a file with a mode.
pub(super) fn makes_files() -> Outcome {
    // So that it is not the mask that saves the host.
    let _ = sys::call(libc::SYS_umask, [0]);
    first_harm(places().iter().flat_map(|place| SET_ID.map(|mode| makes_file_in(place, mode))))
}

fn makes_file_in(place: &Path, mode: usize) -> Outcome {
    let file = place.join("made");
    let path = c_path(&file);
    let name = at(&*path);
    let create = (libc::O_CREAT | libc::O_RDWR) as usize;
    let how = [create as u64, mode as u64, 0];
    let unnamed = || {
        let directory = c_path(place);
        let made = sys::fd_call(libc::SYS_openat, [HERE, at(&*directory), (libc::O_TMPFILE | libc::O_RDWR) as usize, mode])?;
        let link = c_path(format!("/proc/self/fd/{}", made.as_raw_fd()));
        sys::call(libc::SYS_linkat, [HERE, at(&*link), HERE, name, libc::AT_SYMLINK_FOLLOW as usize])
    };
    let regular = libc::S_IFREG as usize | mode;
    let mut outcomes = vec![
        judge(&file, "openat", sys::fd_call(libc::SYS_openat, [HERE, name, create, mode])),
        judge(&file, "openat2", sys::fd_call(libc::SYS_openat2, [HERE, name, at(&how), size_of_val(&how)])),
        judge(&file, "an unnamed file", unnamed()),
        judge(&file, "mknodat", sys::call(libc::SYS_mknodat, [HERE, name, regular, 0])),
        judge(&file, "mkdirat", sys::call(libc::SYS_mkdirat, [HERE, name, mode])),
    ];
    #[cfg(target_arch = "x86_64")]
    outcomes.extend([
        judge(&file, "open", sys::fd_call(libc::SYS_open, [name, create, mode])),
        judge(&file, "creat", sys::fd_call(libc::SYS_creat, [name, mode])),
        judge(&file, "mknod", sys::call(libc::SYS_mknod, [name, regular, 0])),
        judge(&file, "mkdir", sys::call(libc::SYS_mkdir, [name, mode])),
    ]);
    first_harm(outcomes)
}

/// What else gives a program rights: capabilities of its file.
pub(super) fn makes_file_capabilities() -> Outcome {
    // Version 2, effective: cap_sys_admin. Version 3 adds the root user that it is for.
    let two = [0x0200_0001u32, 1 << 21, 0, 0, 0];
    let three = [0x0300_0001u32, 1 << 21, 0, 0, 0, sys::uid()];
    let versions: [&[u32]; 2] = [&two, &three];
    first_harm(places().iter().flat_map(|place| versions.map(|value| capabilities_in(place, value))))
}

fn capabilities_in(place: &Path, value: &[u32]) -> Outcome {
    let file = place.join("capable");
    fs::write(&file, "").expect("everybody may write here");
    let path = c_path(&file);
    let (name, attribute, size) = (at(&*path), at(c"security.capability"), size_of_val(value));
    let arguments = [at(value) as u64, size as u64];
    let outcome = first_harm([
        harm_if_ok(sys::call(libc::SYS_setxattr, [name, attribute, at(value), size, 0]), "capabilities of a file"),
        harm_if_ok(sys::call(libc::SYS_lsetxattr, [name, attribute, at(value), size, 0]), "capabilities of a file"),
        harm_if_ok(sys::call(SYS_SETXATTRAT, [HERE, name, 0, attribute, at(&arguments), 16]), "capabilities of a file"),
    ]);
    drop(fs::remove_file(&file));
    outcome
}

pub(super) fn reads_foreign() -> Outcome {
    let files = ["secret", "theirs", "private/file"].map(|name| format!("{SOURCE}/{name}"));
    let read = any_of(&files, |file| harm_if_ok(fs::read(file).map_err(Errno::from), format!("{file} was read")));
    let listed = harm_if_ok(fs::read_dir(format!("{SOURCE}/private")).map_err(Errno::from), "a private directory was listed");
    first_harm([read, listed])
}

/// Anything that changes what is not the client's. The driver looks at all of it when the client has ended.
pub(super) fn changes_foreign() -> Outcome {
    let owner = sys::uid() as usize;
    let files = any_of(["readme", "secret", "theirs", "program"], |name| {
        let file = format!("{SOURCE}/{name}");
        let path = c_path(&file);
        let times = [0i64, 0, 0, 0];
        first_harm([
            harm_if_ok(sys::open(&path, libc::O_WRONLY), format!("{file} opened for writing")),
            harm_if_ok(sys::open(&path, libc::O_RDWR | libc::O_APPEND), format!("{file} opened for appending")),
            harm_if_ok(sys::call(libc::SYS_truncate, [at(&*path), 0]), format!("length of {file}")),
            harm_if_ok(sys::call(libc::SYS_fchmodat, [HERE, at(&*path), 0o777]), format!("mode of {file}")),
            harm_if_ok(sys::call(libc::SYS_fchownat, [HERE, at(&*path), owner, owner, 0]), format!("owner of {file}")),
            harm_if_ok(sys::call(libc::SYS_utimensat, [HERE, at(&*path), at(&times), 0]), format!("times of {file}")),
            harm_if_ok(sys::call(libc::SYS_setxattr, [at(&*path), at(c"user.x"), at(c"x"), 1, 0]), format!("attribute of {file}")),
            harm_if_ok(fs::rename(&file, format!("{OPEN}/moved")).map_err(Errno::from), format!("{file} moved")),
            harm_if_ok(fs::remove_file(&file).map_err(Errno::from), format!("{file} removed")),
        ])
    });
    let made = |name: &str| harm_if_ok(fs::write(format!("{SOURCE}/{name}"), "").map_err(Errno::from), format!("{name} was made"));
    first_harm([files, made("new"), made("private/new")])
}

/// With an owner of its choice, a file of its own would be one of root's.
pub(super) fn gives_files_away() -> Outcome {
    let file = format!("{OPEN}/given");
    fs::write(&file, "").expect("everybody may write here");
    let path = c_path(&file);
    let own = sys::uid();
    let outcome = any_of([0u32, 1000, 65_534].into_iter().filter(|id| *id != own), |id| {
        harm_if_ok(sys::call(libc::SYS_fchownat, [HERE, at(&*path), id as usize, id as usize, 0]), format!("a file given to user {id}"))
    });
    drop(fs::remove_file(&file));
    outcome
}

pub(super) fn opens_devices() -> Outcome {
    harm_if_ok(sys::open(&c_path(format!("{SOURCE}/zero")), libc::O_RDONLY), "a device of the source was opened")
}

/// Programs and devices on the mount itself: they must give no user any rights.
pub(super) fn is_lax(_: &Sandbox) -> Outcome {
    let table = mount_table();
    let Some(mount) = table.iter().find(|mount| mount.at == Path::new(SOURCE)) else {
        return succeeded(format!("the source is no mount of its own, on {:#x}", filesystem_magic(&c_path(SOURCE))));
    };
    let missing = ["nosuid", "nodev"].into_iter().find(|must| !mount.options.split(',').any(|option| option == *must));
    match missing {
        Some(option) => succeeded(format!("the source is not {option}: {}", mount.options)),
        None => refused(mount.options.clone()),
    }
}
