//! The desired state of the host, as a list of files, links and directories. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::{manifest, place, unit};

#[derive(Clone, Debug)]
pub struct Wish {
    /// The directory of the binary and the files that belong to it.
    pub directory: PathBuf,
    pub binary: Vec<u8>,
    /// A link for shells, where there is such a directory.
    pub command: Option<PathBuf>,
    pub kubelet: Kubelet,
    /// Filesystem types for which mount(8) gets a helper.
    pub helpers: Vec<String>,
    pub systemd: Systemd,
    pub csi: Csi,
    pub docker: Docker,
    pub definitions: Option<Definitions>,
    /// Man pages and completions, below /usr/local/share.
    pub manual: Vec<(PathBuf, &'static [u8])>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// A file for `--experimental-mounter-path`, and a place where kubelet writes the cluster's name servers.
    Mounter,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Systemd {
    Units,
    Nothing,
}

/// The CSI driver as a service of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Csi {
    Service,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Docker {
    /// Units of systemd that serve the volume plugin.
    Plugin,
    Nothing,
}

/// Client definitions: the whole set, so that a definition that is missing from it is removed from the host, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definitions {
    pub directory: PathBuf,
    /// By file name.
    pub files: Vec<(String, Vec<u8>)>,
}

/// One desired file, link or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub path: PathBuf,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Directory,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link {
        to: PathBuf,
    },
    /// Not created by us, but to be removed with the rest.
    Leavings,
}

impl Wish {
    pub fn program(&self) -> PathBuf {
        self.directory.join("shorefast")
    }

    /// Directories before their content; the binary before the links to it.
    pub fn items(&self) -> Result<Vec<Item>, Error> {
        let mut items = directories(&self.directory);
        items.push(Item { path: self.program(), content: Content::File { bytes: self.binary.clone(), mode: 0o755 } });
        let link = |path: PathBuf| Item { path, content: Content::Link { to: self.program() } };
        items.extend(self.command.clone().map(link));
        if self.kubelet == Kubelet::Mounter {
            // kubelet appends rootfs/etc/resolv.conf to the directory of its mounter, and writes there when it starts.
            items.push(Item { path: self.directory.join("mounter"), content: Content::Link { to: "shorefast".into() } });
            let resolver = self.directory.join("rootfs/etc/resolv.conf");
            for directory in [self.directory.join("rootfs"), self.directory.join("rootfs/etc")] {
                items.push(Item { path: directory, content: Content::Directory });
            }
            items.push(Item { path: resolver, content: Content::Leavings });
        }
        for fstype in &self.helpers {
            if !is_type(fstype) {
                return Err(Error::NotAType { name: fstype.clone() });
            }
            items.extend(["mount", "umount"].map(|verb| link(Path::new(place::HELPERS).join(format!("{verb}.{fstype}")))));
        }
        let general = (self.systemd == Systemd::Units).then(|| unit::all(&self.program()));
        let driver = (self.csi == Csi::Service).then(|| unit::csi(&self.program()));
        let docker = (self.docker == Docker::Plugin).then(|| unit::docker(&self.program()));
        for unit in general.into_iter().flatten().chain(driver).chain(docker.into_iter().flatten()) {
            let path = Path::new(place::UNITS).join(unit.name);
            items.extend(directories(Path::new(place::UNITS)));
            items.push(Item { path: path.clone(), content: Content::File { bytes: unit.text.into_bytes(), mode: 0o644 } });
            if let Some(wants) = unit.wanted_by.map(|target| Path::new(place::UNITS).join(target)) {
                items.extend(directories(&wants));
                items.push(Item { path: wants.join(unit.name), content: Content::Link { to: path } });
            }
        }
        for (path, bytes) in &self.manual {
            let path = Path::new(place::MANUAL).join(path);
            items.extend(path.parent().map(directories).unwrap_or_default());
            items.push(Item { path, content: Content::File { bytes: bytes.to_vec(), mode: 0o644 } });
        }
        if let Some(Definitions { directory, files }) = &self.definitions {
            items.extend(directories(directory));
            let file = |(name, bytes): &(String, Vec<u8>)| Item {
                path: directory.join(name),
                content: Content::File { bytes: bytes.clone(), mode: 0o644 },
            };
            items.extend(files.iter().map(file));
        }
        // Two parts may need the same directory.
        let mut seen = BTreeSet::new();
        items.retain(|item| seen.insert(item.path.clone()));
        Ok(items)
    }

    /// Installed earlier and no longer wanted: applies to definitions only. The other parts add up with each call.
    pub fn is_obsolete(&self, path: &Path) -> bool {
        self.definitions.as_ref().is_some_and(|Definitions { directory, files }| {
            let is_wanted = || files.iter().any(|(name, _)| path == directory.join(name));
            path.parent() == Some(directory) && path.file_name() != Some(manifest::NAME.as_ref()) && !is_wanted()
        })
    }
}

fn directories(deepest: &Path) -> Vec<Item> {
    let mut all: Vec<_> = deepest.ancestors().filter(|path| path.parent().is_some()).collect();
    all.reverse();
    all.into_iter().map(|path| Item { path: path.to_owned(), content: Content::Directory }).collect()
}

/// What may follow `mount.` in a file's name.
fn is_type(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|each| each.is_ascii_alphanumeric() || "-_.".contains(each)) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        Wish {
            directory: "/opt/shorefast".into(),
            binary: b"program".to_vec(),
            command: None,
            kubelet: Kubelet::Nothing,
            helpers: Vec::new(),
            systemd: Systemd::Nothing,
            csi: Csi::Nothing,
            docker: Docker::Nothing,
            definitions: None,
            manual: Vec::new(),
        }
    }

    fn paths(wish: &Wish) -> Vec<String> {
        wish.items().unwrap().into_iter().map(|item| item.path.display().to_string()).collect()
    }

    #[test]
    fn each_wish_adds_its_own_files() {
        let base = ["/opt", "/opt/shorefast", "/opt/shorefast/shorefast"];
        let with = |change: &dyn Fn(&mut Wish)| {
            let mut wish = wish();
            change(&mut wish);
            paths(&wish).split_off(base.len())
        };
        assert_eq!(paths(&wish()), base);
        let mounter = ["mounter", "rootfs", "rootfs/etc", "rootfs/etc/resolv.conf"].map(|name| format!("/opt/shorefast/{name}"));
        assert_eq!(with(&|wish| wish.kubelet = Kubelet::Mounter), mounter);
        assert_eq!(with(&|wish| wish.helpers = vec!["nfs".into()]), ["/sbin/mount.nfs", "/sbin/umount.nfs"]);
        assert_eq!(with(&|wish| wish.command = Some("/usr/local/bin/shorefast".into())), ["/usr/local/bin/shorefast"]);
        let manual = ["man", "man/man1", "man/man1/x.1"].map(|name| format!("/usr/local/share/{name}"));
        let page = vec![("man/man1/x.1".into(), &b"x"[..])];
        assert_eq!(with(&|wish| wish.manual = page.clone()).split_off(3), manual);
        let files = vec![("a.toml".to_owned(), Vec::new())];
        let definitions = Definitions { directory: "/etc/shorefast".into(), files };
        assert_eq!(with(&|wish| wish.definitions = Some(definitions.clone())), ["/etc", "/etc/shorefast", "/etc/shorefast/a.toml"]);
    }

    #[test]
    fn a_type_is_no_path() {
        for name in ["", "../x", "a/b", ".x", "a b"] {
            let wish = Wish { helpers: vec![name.to_owned()], ..wish() };
            assert!(matches!(wish.items(), Err(Error::NotAType { .. })), "{name}");
        }
    }

    #[test]
    fn only_definitions_that_are_gone_from_the_set_are_obsolete() {
        let definitions = Definitions { directory: "/etc/c".into(), files: vec![("a.toml".to_owned(), Vec::new())] };
        let wish = Wish { definitions: Some(definitions), ..wish() };
        let rows = [("/etc/c/a.toml", false), ("/etc/c/b.toml", true), ("/sbin/mount.nfs", false), ("/opt/shorefast/mounter", false)];
        for (path, expected) in rows {
            assert_eq!(wish.is_obsolete(Path::new(path)), expected, "{path}");
        }
    }
}
