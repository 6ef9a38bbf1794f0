//! Where the program can be installed: any writable directory from which programs can be executed. Read-only systems have one, too.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use crate::error::Error;
use crate::host::{Found, HostRoot};
use crate::manifest::Manifest;

/// Tried in this order.
pub const CANDIDATES: [&str; 4] = ["/usr/local/lib/shorefast", "/opt/shorefast", "/var/lib/shorefast/bin", "/home/kubernetes/shorefast"];

/// Where mount(8) looks for helpers.
pub const HELPERS: &str = "/sbin";

/// Where shells look for programs.
const COMMANDS: &str = "/usr/local/bin";

/// Where shells and man(1) look for completions and pages that administrators install.
pub const MANUAL: &str = "/usr/local/share";

pub const UNITS: &str = "/etc/systemd/system";

/// The requested directory, or the one where it is already installed, or the first suitable one.
pub fn choose(host: &HostRoot, asked: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(directory) = asked {
        return match unfit_for_programs(host, directory) {
            Some(reason) => Err(Error::UnfitPlace { directory: directory.to_owned(), reason }),
            None => Ok(directory.to_owned()),
        };
    }
    let mut tried = Vec::new();
    if let Some((directory, _)) = installed(host, None)? {
        return Ok(directory);
    }
    for candidate in CANDIDATES.map(PathBuf::from) {
        match unfit_for_programs(host, &candidate) {
            None => return Ok(candidate),
            Some(reason) => tried.push((candidate, reason)),
        }
    }
    Err(Error::NoPlace { tried })
}

/// Where it is installed, and the list of installed files.
pub fn installed(host: &HostRoot, asked: Option<&Path>) -> Result<Option<(PathBuf, Manifest)>, Error> {
    let candidates = match asked {
        Some(directory) => vec![directory.to_owned()],
        None => CANDIDATES.map(PathBuf::from).to_vec(),
    };
    for directory in candidates {
        if let Some(manifest) = Manifest::read(host, &directory)? {
            return Ok(Some((directory, manifest)));
        }
    }
    Ok(None)
}

/// The name under which shells find the program. None: there is no such directory, or something has that name already,
/// such as the copy that we are being installed from.
pub fn command(host: &HostRoot, program: &Path) -> Result<Option<PathBuf>, Error> {
    let directory = Path::new(COMMANDS);
    if !host.see(directory).is_dir() || unfit(host, directory).is_some() {
        return Ok(None);
    }
    let command = directory.join("shorefast");
    let free = match host.find(&command)? {
        Found::Nothing => true,
        Found::Link { to } => to == program,
        _ => false,
    };
    Ok(free.then_some(command))
}

/// Why a file cannot be put there. None: it can.
pub fn unfit(host: &HostRoot, directory: &Path) -> Option<String> {
    unfit_because(host, directory, StatVfsMountFlags::RDONLY)
}

fn unfit_for_programs(host: &HostRoot, directory: &Path) -> Option<String> {
    unfit_because(host, directory, StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOEXEC)
}

fn unfit_because(host: &HostRoot, directory: &Path, harmful: StatVfsMountFlags) -> Option<String> {
    // Missing directories will be created in the nearest existing one.
    let existing = directory.ancestors().map(|ancestor| host.see(ancestor)).find(|ancestor| ancestor.exists())?;
    if !existing.is_dir() {
        return Some(format!("{} is no directory", existing.display()));
    }
    let flags = match statvfs(&existing) {
        Ok(information) => information.f_flag & harmful,
        Err(error) => return Some(error.to_string()),
    };
    if flags.contains(StatVfsMountFlags::RDONLY) {
        Some("on a read-only filesystem".to_owned())
    } else if flags.contains(StatVfsMountFlags::NOEXEC) {
        Some("on a filesystem that is mounted noexec".to_owned())
    } else {
        access(&existing, Access::WRITE_OK).err().map(|error| error.to_string())
    }
}
