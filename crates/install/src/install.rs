//! Installing: examine everything, refuse or decide, record, act.

use std::path::PathBuf;

use crate::decide::{self, Step};
use crate::error::Error;
use crate::host::HostRoot;
use crate::manifest::{Manifest, Recorded};
use crate::place;
use crate::wish::{Content, Item, Wish};

/// All steps. Planned completely before any file is touched: after one refusal, nothing is changed.
#[derive(Debug)]
pub struct Plan {
    directory: PathBuf,
    steps: Vec<(Item, Step)>,
    obsolete: Vec<PathBuf>,
    manifest: Manifest,
}

pub fn plan(wish: &Wish, host: &HostRoot) -> Result<Plan, Error> {
    if !wish.helpers.is_empty()
        && let Some(reason) = place::unfit(host, place::HELPERS.as_ref())
    {
        return Err(Error::HelpersImpossible { directory: place::HELPERS.into(), reason });
    }
    let manifest = Manifest::read(host, &wish.directory)?.unwrap_or_default();
    let decide = |item: Item| {
        let step = decide::install(&item, &host.find(&item.path)?, manifest.items.get(&item.path))?;
        Ok((item, step))
    };
    let steps = wish.items()?.into_iter().map(decide).collect::<Result<Vec<_>, Error>>()?;
    let mut obsolete = Vec::new();
    for (path, recorded) in manifest.items.iter().filter(|(path, recorded)| **recorded != Recorded::Directory && wish.is_obsolete(path)) {
        match host.find(path)? {
            found if decide::is_ours(&found, recorded) || found == crate::host::Found::Nothing => obsolete.push(path.clone()),
            _ => return Err(Error::Changed { path: path.clone() }),
        }
    }
    Ok(Plan { directory: wish.directory.clone(), steps, obsolete, manifest })
}

impl Plan {
    /// There is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.obsolete.is_empty() && self.steps.iter().all(|(_, step)| *step == Step::Leave)
    }

    /// A line per change.
    pub fn lines(&self) -> Vec<String> {
        let changes = self.steps.iter().filter(|(_, step)| *step != Step::Leave);
        let changes = changes.map(|(item, step)| decide::describe(item, *step));
        changes.chain(self.obsolete.iter().map(|path| decide::describe_removal(path))).collect()
    }

    pub fn carry_out(mut self, host: &HostRoot) -> Result<(), Error> {
        // New files are recorded first: so the next call knows all files that a killed process leaves.
        let (ways, rest): (Vec<_>, Vec<_>) = self.steps.into_iter().partition(|(item, _)| self.directory.starts_with(&item.path));
        for (item, step) in ways.iter().chain(&rest) {
            if let Some(recorded) = decide::record(item, *step, self.manifest.items.get(&item.path)) {
                self.manifest.items.insert(item.path.clone(), recorded);
            }
        }
        ways.iter().try_for_each(|(item, step)| perform(host, item, *step))?;
        self.manifest.write(host, &self.directory)?;
        rest.iter().try_for_each(|(item, step)| perform(host, item, *step))?;
        self.obsolete.iter().try_for_each(|path| host.remove_file(path))?;
        self.manifest.items.retain(|path, _| !self.obsolete.contains(path));
        let items = std::mem::take(&mut self.manifest.items);
        self.manifest.items = items.into_iter().map(|(path, recorded)| (path, decide::settled(recorded))).collect();
        self.manifest.write(host, &self.directory)
    }
}

fn perform(host: &HostRoot, item: &Item, step: Step) -> Result<(), Error> {
    match (step, &item.content) {
        (Step::Leave, _) | (_, Content::Leavings) => Ok(()),
        (_, Content::Directory) => host.make_directory(&item.path),
        (_, Content::File { bytes, mode }) => host.write(&item.path, bytes, *mode),
        (_, Content::Link { to }) => host.link(&item.path, to),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::uninstall;
    use crate::wish::{Csi, Definitions, Docker, Kubelet, Systemd};

    fn wish(binary: &str) -> Wish {
        Wish {
            directory: "/opt/shorefast".into(),
            binary: binary.as_bytes().to_vec(),
            command: None,
            kubelet: Kubelet::Mounter,
            helpers: Vec::new(),
            systemd: Systemd::Units,
            csi: Csi::Nothing,
            docker: Docker::Plugin,
            definitions: None,
            manual: Vec::new(),
        }
    }

    fn tree(directory: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.display().to_string());
            if path.is_dir() && !path.is_symlink() {
                found.extend(tree(&path));
            }
        }
        found.sort();
        found
    }

    fn install(wish: &Wish, host: &HostRoot) {
        plan(wish, host).unwrap().carry_out(host).unwrap();
    }

    #[test]
    fn a_second_time_there_is_nothing_to_do_and_afterwards_no_trace() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/systemd/system")).unwrap();
        let before = tree(root.path());
        let host = HostRoot::at(root.path());
        install(&wish("one"), &host);
        assert!(plan(&wish("one"), &host).unwrap().is_empty());
        fs::write(root.path().join("opt/shorefast/rootfs/etc/resolv.conf"), "kubelet wrote this").unwrap();
        assert_eq!(fs::read(root.path().join("opt/shorefast/mounter")).unwrap(), b"one");
        install(&wish("two"), &host);
        assert_eq!(fs::read(root.path().join("opt/shorefast/mounter")).unwrap(), b"two");
        uninstall::plan(&host, None).unwrap().carry_out(&host).unwrap();
        assert_eq!(tree(root.path()), before);
    }

    #[test]
    fn one_foreign_file_and_nothing_happens() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sbin")).unwrap();
        fs::write(root.path().join("sbin/umount.nfs"), "the distribution's").unwrap();
        let before = tree(root.path());
        let host = HostRoot::at(root.path());
        let refused = plan(&Wish { helpers: vec!["nfs".to_owned()], ..wish("one") }, &host).unwrap_err();
        assert!(matches!(refused, Error::Foreign { path } if path == Path::new("/sbin/umount.nfs")));
        assert_eq!(tree(root.path()), before);
    }

    #[test]
    fn definitions_follow_their_set_and_edited_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let host = HostRoot::at(root.path());
        let with = |names: &[&str]| {
            let files = names.iter().map(|name| ((*name).to_owned(), b"types = []".to_vec())).collect();
            Wish { definitions: Some(Definitions { directory: "/etc/clients".into(), files }), ..wish("one") }
        };
        install(&with(&["a.toml", "b.toml"]), &host);
        fs::write(root.path().join("etc/clients/mine.toml"), "").unwrap();
        install(&with(&["b.toml"]), &host);
        let names = || fs::read_dir(root.path().join("etc/clients")).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let mut left = names();
        left.sort();
        assert_eq!(left, ["b.toml", "mine.toml"]);
        fs::write(root.path().join("etc/clients/b.toml"), "edited").unwrap();
        assert!(matches!(plan(&with(&[]), &host), Err(Error::Changed { .. })));
        let left = uninstall::plan(&host, None).unwrap().carry_out(&host).unwrap_err();
        assert!(matches!(left, Error::Left { paths } if paths[0] == Path::new("/etc/clients/b.toml")));
        assert!(!root.path().join("opt").exists());
    }
}
