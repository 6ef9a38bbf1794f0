//! In: one client, or all. Out: whether its definition is valid, the kernel has its filesystem, and its image is in the store.

use shorefast_engine::client::{self, Client};
use shorefast_engine::error::chain;
use shorefast_engine::{images, kernel};
use shorefast_image::Reference;

use crate::archive;
use crate::finding::Finding;
use crate::modules::{self, Found};
use crate::subject::Subject;

pub fn check(fstype: &str, subject: &Subject) -> Vec<Finding> {
    let configuration = match &subject.configuration {
        Ok(configuration) => configuration,
        Err(error) => return vec![unusable(fstype, error)],
    };
    let client = match client::by_type(fstype, configuration) {
        Ok(client) => client,
        Err(error) => return vec![unusable(fstype, &error)],
    };
    let mut findings = vec![Finding::good(fstype, format!("client {}: {}", client.name, client.origin))];
    findings.push(filesystems(fstype, &client));
    findings.push(image(fstype, &client, subject));
    findings.extend(archive::check(client.definition.image.as_deref().into_iter()));
    findings
}

/// Reports only clients with a problem.
pub fn check_all(subject: &Subject) -> Vec<Finding> {
    let clients = match &subject.configuration {
        Ok(configuration) => client::all(configuration),
        Err(error) => return vec![unusable("clients", error)],
    };
    let (good, broken): (Vec<_>, Vec<_>) = clients.into_iter().partition(Result::is_ok);
    let mut findings: Vec<_> = broken.into_iter().filter_map(Result::err).map(|error| unusable("clients", &error)).collect();
    let good: Vec<_> = good.into_iter().flatten().collect();
    findings.extend(archive::check(good.iter().filter_map(|client| client.definition.image.as_deref())));
    let names: Vec<_> = good.into_iter().map(|client| client.name).collect();
    findings.push(Finding::good("clients", format!("{} (`shorefast doctor TYPE` looks closer)", names.join(", "))));
    findings
}

fn unusable(subject: &str, error: &shorefast_engine::Error) -> Finding {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = format!("{text}: {source}");
    }
    Finding::bad(subject, text, error.hint().unwrap_or_else(|| "`shorefast client check FILE` says more".to_owned()))
}

fn filesystems(subject: &str, client: &Client) -> Finding {
    judge_filesystems(subject, &client.definition.kernel_types, &modules::filesystems(), &modules::list())
}

fn judge_filesystems(subject: &str, types: &[String], known: &str, list: &str) -> Finding {
    let module_of = |name: &str| match name {
        "nfs4" => "nfsv4".to_owned(),
        "smb3" => "cifs".to_owned(),
        name => name.to_owned(),
    };
    let found = |name: &str| modules::judge(name, &[&module_of(name)], known, list);
    let (is_known, is_there) = (|name: &str| found(name) == Found::Running, |name: &str| found(name) != Found::Absent);
    let names: Vec<_> = types.iter().map(|fstype| kernel::own_type(fstype)).collect();
    let absent: Vec<_> = names.iter().copied().filter(|name| !is_there(name)).collect();
    let get = || {
        format!(
            "install a kernel, or its package of modules, that has {}",
            absent.iter().map(|name| module_of(name)).collect::<Vec<_>>().join(", ")
        )
    };
    if !kernel::can_mount_any(types, is_there) {
        return Finding::bad(subject, format!("this kernel has no filesystem {}: every mount fails", absent.join(", ")), get());
    }
    if !absent.is_empty() {
        return Finding::warning(subject, format!("this kernel has no filesystem {}: mounts that need it fail", absent.join(", ")), get());
    }
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let finding = format!("the module of {name} is not loaded; the kernel loads it with the first mount, if modprobe works here");
        return Finding::warning(subject, finding, format!("modprobe {}", module_of(name)));
    }
    Finding::good(subject, format!("the kernel has {}", names.join(", ")))
}

fn image(subject: &str, client: &Client, examined: &Subject) -> Finding {
    let Some(image) = &client.definition.image else {
        return Finding::bad(subject, "the definition names no image", "add image = \"…\" to it, or pass --image with every mount");
    };
    let reference: Reference = match image.parse() {
        Ok(reference) => reference,
        Err(error) => {
            let error: shorefast_image::Error = error;
            return Finding::bad(subject, error.to_string(), error.hint().unwrap_or_default());
        }
    };
    let fetch = format!("shorefast image pull '{image}'");
    // Opening the store would create its directory.
    if !examined.root.is_dir() && !matches!(reference, Reference::Directory(_)) {
        return Finding::warning(subject, format!("image {image} is not here: the first mount gets it"), fetch);
    }
    let keys = match client.definition.signed_by.iter().map(|path| images::keys(path)).collect::<Result<Vec<_>, _>>() {
        Ok(keys) => keys,
        Err(error) => return Finding::bad(subject, chain(&error, |cause| cause.to_string()), error.hint().unwrap_or_default()),
    };
    match examined.images.resolve(&reference, &keys) {
        Ok(Some(_)) => Finding::good(subject, format!("image {image} is here")),
        Ok(None) if !keys.is_empty() => {
            Finding::warning(subject, format!("image {image} is not here, or was not verified: the first mount does it"), fetch)
        }
        Ok(None) => Finding::warning(subject, format!("image {image} is not here: the first mount gets it"), fetch),
        Err(error) => Finding::bad(subject, error.to_string(), error.hint().unwrap_or(fetch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_filesystem_is_there_or_loadable_or_absent() {
        let known = "nodev\ttmpfs\nnodev\tfuse\n\text4\n";
        let modules = "kernel/fs/nfs/nfs.ko.xz: kernel/net/sunrpc.ko.xz\nkernel/fs/nfs/nfsv4.ko.xz:\n";
        let rows = [
            (&["fuse.sshfs"][..], Verdict::Good, "has fuse"),
            (&["tmpfs", "ext4"], Verdict::Good, "has tmpfs, ext4"),
            (&["nfs", "nfs4"], Verdict::Warning, "module of nfs "),
            (&["nfs", "cifs"], Verdict::Warning, "no filesystem cifs: mounts that need it"),
            (&["cifs", "smb3"], Verdict::Bad, "no filesystem cifs, smb3: every"),
        ];
        for (types, verdict, words) in rows {
            let types: Vec<_> = types.iter().map(|name| (*name).to_owned()).collect();
            let finding = judge_filesystems("x", &types, known, modules);
            assert!(finding.verdict == verdict && finding.finding.contains(words), "{finding:?}");
        }
    }
}
