//! Files and devices: the host's, the image's, and the kernel's own in /proc and /sys.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, harm_unless_forbidden, refused, succeeded};
use crate::sandbox::{Sandbox, c_path, scratch_dir};
use crate::sys::{self, Errno, at, at_mut, negative};

const HERE: usize = negative(libc::AT_FDCWD);

/// The driver puts a file of this name, with this content, on the host wherever a client could stray to.
pub(super) const WITNESS: &str = "shorefast-witness";

/// The driver puts files into the image that every user could write to, if the image were writable.
const IMAGE_FILE: &str = "/etc/witness";
const IMAGE_DIR: &str = "/etc/witness.d";

/// Everything below `start`, nearest first, as far as it can be listed and a fixed number goes.
fn walk(start: &str, skip: &[&Path]) -> Vec<PathBuf> {
    let mut queue = VecDeque::from([PathBuf::from(start)]);
    let mut found = Vec::new();
    while let Some(path) = queue.pop_front() {
        if skip.contains(&path.as_path()) || found.len() > 50_000 {
            continue;
        }
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if is_dir {
            queue.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        found.push(path);
    }
    found
}

fn is_device(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_char_device() || meta.file_type().is_block_device())
}

/// null zero full random urandom, tty, fuse
const ALLOWED_DEVICES: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (10, 229)];

pub(super) fn finds_devices(sandbox: &Sandbox) -> Outcome {
    let all = walk("/", &[Path::new("/proc"), Path::new("/sys"), sandbox.target_path()]);
    any_of(all.iter().filter(|path| is_device(path)), |path| {
        let number = fs::symlink_metadata(path).map(|meta| meta.rdev()).unwrap_or(0);
        let pair = (libc::major(number), libc::minor(number));
        let text = format!("{} is device {}:{}", path.display(), pair.0, pair.1);
        if ALLOWED_DEVICES.contains(&pair) { refused(text) } else { succeeded(text) }
    })
}

pub(super) fn makes_devices(kind: u32, numbers: &[(u32, u32)]) -> Outcome {
    let dir = scratch_dir("nodes");
    any_of(numbers.iter(), |(major, minor)| {
        let path = c_path(dir.join(format!("{major}-{minor}")));
        let device = libc::makedev(*major, *minor) as usize;
        match sys::call(libc::SYS_mknodat, [HERE, at(&*path), (kind | 0o666) as usize, device]) {
            Ok(_) => harm_if_ok(sys::open(&path, libc::O_RDONLY | libc::O_NONBLOCK), format!("device {major}:{minor} made and opened")),
            Err(errno) => refused(errno.to_string()),
        }
    })
}

pub(super) fn opens(paths: &[&str], flags: i32) -> Outcome {
    any_of(paths.iter(), |path| harm_if_ok(sys::open(&c_path(path), flags | libc::O_NONBLOCK), format!("{path} opened")))
}

/// Every file below `start` that can be opened for writing. Nothing is written.
pub(super) fn opens_for_writing(start: &str, skip: &[&str]) -> Outcome {
    let skip: Vec<&Path> = skip.iter().map(Path::new).collect();
    let files = walk(start, &skip).into_iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()));
    any_of(files, |path| {
        let answer = sys::open(&c_path(&path), libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW);
        harm_if_ok(answer, format!("{} opened for writing", path.display()))
    })
}

/// What lies flat in /proc and belongs to no process.
pub(super) fn opens_proc_for_writing() -> Outcome {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names = entries.filter_map(|name| name.into_string().ok());
    let names =
        names.filter(|name| name.parse::<u32>().is_err() && !["sys", "self", "thread-self", "net", "mounts"].contains(&name.as_str()));
    any_of(names, |name| opens_for_writing(&format!("/proc/{name}"), &[]))
}

/// An image may have some: its author could create any.
pub(super) fn opens_image_devices() -> Outcome {
    opens(&["/mnt/zero"], libc::O_RDONLY)
}

/// What can be changed about a file without writing to it, and what can be written.
pub(super) fn writes_image() -> Outcome {
    first_harm([
        opens(&[IMAGE_FILE, "/usr/bin/hostile"], libc::O_RDWR),
        harm_if_ok(fs::write(format!("{IMAGE_DIR}/new"), "hostile").map_err(Errno::from), "a new file in the image"),
        harm_if_ok(fs::create_dir("/usr/hostile").map_err(Errno::from), "a new directory in the image"),
    ])
}

/// The driver looks whether it is there on the host when all is over.
pub(super) fn writes_under_target(sandbox: &Sandbox) -> Outcome {
    let answer = fs::write(sandbox.target_path().join("under"), "hostile").map_err(Errno::from);
    refused(format!("{answer:?}, the driver looks at the host's directory"))
}

pub(super) fn removes_from_image() -> Outcome {
    first_harm([
        harm_if_ok(fs::rename(IMAGE_FILE, format!("{IMAGE_DIR}/moved")).map_err(Errno::from), "a file of the image moved"),
        harm_if_ok(fs::remove_file(format!("{IMAGE_DIR}/file")).map_err(Errno::from), "a file of the image removed"),
    ])
}

pub(super) fn changes_image_attributes() -> Outcome {
    let owner = sys::uid() as usize;
    any_of([IMAGE_FILE, "/usr/bin/hostile", IMAGE_DIR], |file| {
        let path = c_path(file);
        let times = [0i64, 0, 0, 0];
        first_harm([
            harm_if_ok(sys::call(libc::SYS_fchmodat, [HERE, at(&*path), 0o4777]), format!("mode of {file}")),
            harm_if_ok(sys::call(libc::SYS_fchownat, [HERE, at(&*path), owner, owner, 0]), format!("owner of {file}")),
            harm_if_ok(sys::call(libc::SYS_utimensat, [HERE, at(&*path), at(&times), 0]), format!("times of {file}")),
            harm_if_ok(sys::call(libc::SYS_setxattr, [at(&*path), at(c"user.hostile"), at(c"x"), 1, 0]), format!("attribute on {file}")),
            harm_if_ok(sys::call(libc::SYS_truncate, [at(&*path), 0]), format!("length of {file}")),
        ])
    })
}

/// The flags of chattr(1): here "do not dump", which does no harm where it does work.
pub(super) fn sets_inode_flags() -> Outcome {
    const FS_IOC_GETFLAGS: usize = 0x8008_6601;
    const FS_IOC_SETFLAGS: usize = 0x4008_6602;
    const NO_DUMP: u64 = 0x40;
    let file = match sys::open(&c_path(IMAGE_FILE), libc::O_RDONLY) {
        Ok(file) => file,
        Err(errno) => return refused(format!("open: {errno}")),
    };
    let fd = file.as_raw_fd() as usize;
    let mut flags = 0u64;
    let _ = sys::call(libc::SYS_ioctl, [fd, FS_IOC_GETFLAGS, at_mut(&mut flags)]);
    flags |= NO_DUMP;
    harm_if_ok(sys::call(libc::SYS_ioctl, [fd, FS_IOC_SETFLAGS, at_mut(&mut flags)]), "inode flags of an image file")
}

/// A hard link would take a file of the image to where it can be written, or bring one of ours in.
pub(super) fn links_image() -> Outcome {
    let scratch = scratch_dir("links");
    let ours = scratch.join("ours");
    fs::write(&ours, "hostile").expect("scratch is writable");
    let link = |from: &Path, to: &Path| fs::hard_link(from, to).map_err(Errno::from);
    first_harm([
        harm_if_ok(link(Path::new(IMAGE_FILE), &scratch.join("theirs")), "a file of the image linked to scratch"),
        harm_if_ok(link(&ours, &Path::new(IMAGE_DIR).join("linked")), "a file of ours linked into the image"),
        harm_if_ok(link(Path::new(IMAGE_FILE), &Path::new(IMAGE_DIR).join("linked")), "a second name in the image"),
    ])
}

/// A program that is ours on the outside: init's own file, as in CVE-2019-5736. "Text file busy" counts: one only has to wait.
pub(super) fn overwrites_init(sandbox: &Sandbox) -> Outcome {
    any_of([1, sandbox.parent], |pid| {
        let path = format!("/proc/{pid}/exe");
        match sys::open(&c_path(&path), libc::O_WRONLY) {
            Ok(_) | Err(Errno(libc::ETXTBSY)) => succeeded(format!("{path} can be written to")),
            Err(errno) => refused(errno.to_string()),
        }
    })
}

/// Files with the host's witness in them, or that no image of ours holds.
pub(super) fn reads_host_files() -> Outcome {
    let places = ["/root", "/home", "/tmp", "/var/tmp", "/run", "/srv", "/var/lib", "/mnt", "/opt", "/var/log", "/var/cache"];
    let witnesses = places.map(|place| format!("{place}/{WITNESS}"));
    let foreign =
        ["/etc/shadow", "/etc/ssh", "/etc/machine-id", "/boot", "/lib/modules", "/var/lib/shorefast", "/run/shorefast", "/work", "/host"];
    let all = witnesses.iter().map(String::as_str).chain(foreign);
    any_of(all, |path| match fs::symlink_metadata(path) {
        Ok(_) => succeeded(format!("{path} is in sight")),
        Err(error) => refused(Errno::from(error).to_string()),
    })
}

/// Up and up, in every way that leads up.
pub(super) fn climbs_out() -> Outcome {
    let root = fs::metadata("/").map(|meta| (meta.dev(), meta.ino())).ok();
    let ups = "../".repeat(64);
    let starts = ["/", "/tmp", "/usr", "/dev", "/proc", "/proc/self/cwd", "/proc/self/root", "/proc/self/task", "/etc"];
    any_of(starts, |start| {
        let path = format!("{start}/{ups}");
        match fs::metadata(&path) {
            Ok(meta) if Some((meta.dev(), meta.ino())) != root => succeeded(format!("{start}/../.. is not our root")),
            Ok(_) if Path::new(&path).join("root").join(WITNESS).exists() => succeeded(format!("the host's root from {start}")),
            Ok(_) => refused("every way up ends at our own root"),
            Err(error) => refused(Errno::from(error).to_string()),
        }
    })
}

/// A directory that is moved away while we are in it: its parent is then whatever is left.
pub(super) fn climbs_out_of_moved_directory() -> Outcome {
    let base = scratch_dir("moved");
    let deep = base.join("a/b/c");
    fs::create_dir_all(&deep).expect("scratch is writable");
    let root = fs::metadata("/").map(|meta| (meta.dev(), meta.ino())).ok();
    std::env::set_current_dir(&deep).expect("it was just made");
    fs::rename(base.join("a/b/c"), base.join("c")).expect("both are ours");
    fs::remove_dir_all(base.join("a")).expect("it is ours");
    for _ in 0..64 {
        let _ = std::env::set_current_dir("..");
    }
    match fs::metadata(".").map(|meta| (meta.dev(), meta.ino())) {
        Ok(end) if Some(end) != root => succeeded("the way up does not end at our root"),
        end => refused(format!("the way up ends at {end:?}")),
    }
}

/// A writable place that is no memory of ours but the host's disk.
pub(super) fn writes_to_disk(sandbox: &Sandbox) -> Outcome {
    let mut outcomes = Vec::new();
    let skip = [Path::new("/proc"), Path::new("/sys"), sandbox.target_path()];
    for dir in walk("/", &skip).into_iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())) {
        let file = dir.join("hostile-probe");
        if fs::write(&file, "x").is_err() {
            continue;
        }
        let kind = filesystem_magic(&c_path(&file));
        let _ = fs::remove_file(&file);
        let text = format!("{} is writable, filesystem {kind:#x}", dir.display());
        outcomes.push(if kind == libc::TMPFS_MAGIC as u64 { refused(text) } else { succeeded(text) });
    }
    first_harm(outcomes)
}

pub(super) fn filesystem_magic(path: &CStr) -> u64 {
    let mut statfs = [0u64; 16];
    let _ = sys::call(libc::SYS_statfs, [at(path), at_mut(&mut statfs)]);
    statfs[0]
}

/// Typing into the terminal of shorefast's caller.
pub(super) fn types_into_terminal() -> Outcome {
    let terminals = [c"/dev/tty", c"/dev/console", c"/dev/tty0", c"/proc/self/fd/0", c"/proc/self/fd/2"];
    any_of(terminals, |path| match sys::open(path, libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY) {
        Ok(fd) => harm_if_ok(
            sys::call(libc::SYS_ioctl, [fd.as_raw_fd() as usize, libc::TIOCSTI as usize, at(&b'#')]),
            format!("typed into {}", path.to_string_lossy()),
        ),
        Err(errno) => refused(format!("open: {errno}")),
    })
}

/// The same where there is no terminal to type into: the filter answers before the kernel looks at what the descriptor is.
pub(super) fn may_type() -> Outcome {
    let Ok(null) = sys::open(c"/dev/null", libc::O_RDWR) else { return succeeded("no /dev/null to try it on") };
    // The kernel looks at the lower half of the word only, and so must the filter.
    let requests = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| request as usize);
    any_of(requests.into_iter().flat_map(|request| [request, request | 1 << 32]), |request| {
        harm_unless_forbidden(sys::call(libc::SYS_ioctl, [null.as_raw_fd() as usize, request, at(&b'#')]), "ioctl to type into a terminal")
    })
}

/// Pseudo terminals of the host.
pub(super) fn opens_terminals() -> Outcome {
    let nodes = walk("/dev/pts", &[]).into_iter().filter(|path| is_device(path));
    let own = ["/dev/ptmx", "/dev/pts/ptmx"].map(PathBuf::from);
    any_of(nodes.chain(own), |path| {
        harm_if_ok(sys::open(&c_path(&path), libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK), format!("{} opened", path.display()))
    })
}
