//! In: a filesystem's name and its module's. Out: whether the kernel has it, or could load it. Reads the kernel's lists, and loads nothing.

use std::fs;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Running,
    Loadable,
    Absent,
}

pub fn find(fstype: &str, names: &[&str]) -> Found {
    judge(fstype, names, &filesystems(), &list())
}

/// What the kernel has.
pub fn filesystems() -> String {
    fs::read_to_string("/proc/filesystems").unwrap_or_default()
}

/// What could be loaded, as depmod lists it.
pub fn list() -> String {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let directory = Path::new("/lib/modules").join(release);
    ["modules.dep", "modules.builtin"].map(|name| fs::read_to_string(directory.join(name)).unwrap_or_default()).concat()
}

pub fn judge(fstype: &str, modules: &[&str], known: &str, list: &str) -> Found {
    if known.lines().any(|line| line.split_whitespace().next_back() == Some(fstype)) {
        return Found::Running;
    }
    let names = list.lines().filter_map(|line| line.split(':').next()?.rsplit('/').next()?.split('.').next());
    if names.into_iter().any(|name| modules.contains(&name)) { Found::Loadable } else { Found::Absent }
}
