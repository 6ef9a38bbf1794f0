//! The list of installed files, stored beside the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, failed};
use crate::host::HostRoot;

pub const NAME: &str = "installed.json";

/// In the order of paths: a directory comes before its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub items: BTreeMap<PathBuf, Recorded>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Recorded {
    Directory,
    /// Two digests while a file is being replaced: after a crash, a file with either of them is ours.
    File {
        sha256: Vec<String>,
    },
    Link {
        to: Vec<PathBuf>,
    },
    /// Written by another program, for our use: kubelet's resolv.conf.
    Leavings,
}

impl Manifest {
    /// None: nothing is installed in that directory.
    pub fn read(host: &HostRoot, directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(NAME);
        let text = match fs::read(host.see(&path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(failed("read", &path))?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|source| Error::Manifest { path, source })
    }

    pub fn write(&self, host: &HostRoot, directory: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_vec_pretty(self).expect("paths of ours are text");
        text.push(b'\n');
        host.write(&directory.join(NAME), &text, 0o644)
    }
}
