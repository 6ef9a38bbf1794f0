//! What is mounted: a filesystem with its source, as command lines for the host's own client and for Shorefast. Both run the same
//! helper in the same way; where it runs is the only difference. Shorefast is called as its users call it: by the type alone.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use shorefast_tests::client::{Request, store};
use shorefast_tests::{Client, Host, Way};

#[derive(Debug)]
pub(super) struct Filesystem {
    /// Of the client definition, of the image, and the type.
    pub(super) name: &'static str,
    pub(super) source: OsString,
    options: String,
}

impl Filesystem {
    pub(super) fn new(name: &'static str, source: impl Into<OsString>, options: impl Into<String>) -> Self {
        Self { name, source: source.into(), options: options.into() }
    }

    pub(super) fn tmpfs() -> Self {
        Self::new("tmpfs", "tmpfs", "")
    }

    pub(super) fn bindfs(host: &Host) -> Self {
        Self::new("bindfs", host.directory("source"), "")
    }

    /// What the client definition says, done by root on the host.
    pub(super) fn native(&self, target: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = match self.name {
            "bindfs" => vec!["bindfs".into()],
            fstype => vec!["mount".into(), "-t".into(), fstype.into()],
        };
        if !self.options.is_empty() {
            words.extend(["-o".into(), OsString::from(&self.options)]);
        }
        words.extend([self.source.clone(), target.into()]);
        words
    }

    /// Gets what Shorefast mounts it with.
    pub(super) fn obtain_images(host: &Host) {
        host.offer_packages();
        for image in ["bindfs", "sshfs", "glusterfs-client"] {
            let reference = format!("packages:debian/trixie?{image}");
            host.shorefast(&[OsStr::new("--root"), store().as_os_str(), "image".as_ref(), "pull".as_ref(), reference.as_ref()]).succeeds();
        }
    }

    pub(super) fn sandboxed(&self, host: &Host, target: &Path) -> Vec<OsString> {
        let client = Client::named(self.name);
        let request = Request::new(&client, self.name, &self.source, target).options(&self.options);
        let mut words = vec![host.binary().into()];
        // A tmpfs needs no client, so none is built in.
        let way = if self.name == "tmpfs" { Way::Directory } else { Way::Catalogue };
        words.extend(request.arguments(way, &[]));
        words
    }

    /// In a container that sees the same paths: mounts, and stays as long as the mount.
    pub(super) fn contained(&self, target: &Path) -> Vec<OsString> {
        match self.name {
            "bindfs" => vec!["bindfs".into(), "-f".into(), self.source.clone(), target.into()],
            _ => {
                let script = r#"mount -t "$1" "$2" "$3" && exec sleep infinity"#;
                vec!["sh".into(), "-c".into(), script.into(), "sh".into(), self.name.into(), self.source.clone(), target.into()]
            }
        }
    }
}
