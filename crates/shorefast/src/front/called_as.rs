//! One binary, several fronts: the name under which it was called says which.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalledAs {
    Shorefast,
    /// kubelet's `--experimental-mounter-path`.
    Mounter,
}

/// Of a path only the last part counts: a symbolic link or a copy of us may be anywhere.
pub fn of(arg0: &OsStr) -> CalledAs {
    match Path::new(arg0).file_name().unwrap_or_default().as_bytes() {
        b"mounter" => CalledAs::Mounter,
        _ => CalledAs::Shorefast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        let rows = [
            ("shorefast", CalledAs::Shorefast),
            ("/usr/bin/shorefast", CalledAs::Shorefast),
            ("", CalledAs::Shorefast),
            ("/", CalledAs::Shorefast),
            ("mounter", CalledAs::Mounter),
            ("/home/kubernetes/containerized_mounter/mounter", CalledAs::Mounter),
            ("/mounter/shorefast-1.2", CalledAs::Shorefast),
        ];
        for (arg0, expected) in rows {
            assert_eq!(of(OsStr::new(arg0)), expected, "{arg0}");
        }
    }
}
