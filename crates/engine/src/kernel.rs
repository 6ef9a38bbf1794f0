//! What this kernel can mount: asked before an image is fetched or a server hears of us. To ask is to load a module, so `doctor`,
//! which changes nothing, reads the kernel's lists instead.

use rustix::io::Errno;
use rustix::mount::FsOpenFlags;

use crate::error::Error;

/// Those of `types` that this kernel does not have and cannot load. A subtype (`fuse.sshfs`) is its type's.
///
/// Opening a filesystem context is how the kernel itself finds a filesystem, and loads its module; the context is thrown away.
fn missing(types: &[String]) -> Vec<&str> {
    types.iter().map(String::as_str).filter(|fstype| is_missing(fstype)).collect()
}

/// One of the types is enough: which one a client needs, it knows only when it has talked to its server.
pub fn require_any(types: &[String]) -> Result<(), Error> {
    if !types.is_empty() && missing(types).len() == types.len() {
        return Err(Error::NotInKernel { types: types.to_vec(), kernel: release() });
    }
    Ok(())
}

fn is_missing(fstype: &str) -> bool {
    let own = fstype.split('.').next().unwrap_or(fstype);
    matches!(rustix::mount::fsopen(own, FsOpenFlags::FSOPEN_CLOEXEC), Err(Errno::NODEV))
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn one_known_type_is_enough() {
        if !rustix::process::geteuid().is_root() {
            assert!(missing(&types(&["nosuchfs"])).is_empty(), "who may not ask hears of nothing that is missing");
            return;
        }
        assert_eq!(missing(&types(&["tmpfs", "nosuchfs", "tmpfs.sub"])), ["nosuchfs"]);
        assert!(require_any(&types(&["tmpfs", "nosuchfs"])).is_ok());
        assert!(require_any(&[]).is_ok());
        let error = require_any(&types(&["nosuchfs"])).unwrap_err().to_string();
        assert!(error.starts_with("this kernel has no filesystem nosuchfs"), "{error}");
    }
}
