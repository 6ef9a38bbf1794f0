//! The other answer to a host without clients: a privileged container that mounts in a shared volume. Each runtime gets the same
//! image as Shorefast, the whole directory of sources and targets as its volume, the host's network, and no limits.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};
use shorefast_tests::{Client, Host};

use super::filesystem::Filesystem;
use super::way::Way;
use crate::process;

/// Not "shorefast…": those are the product's own, and the tests look for leftovers among them.
const CGROUP: &str = "bench-of-shorefast";
const CGROUPS: &str = "/sys/fs/cgroup";
const CONTAINER: &str = "bench";

/// Removes what the runtimes leave: empty groups, which no namespace hides.
pub(super) fn remove_cgroups() {
    let Ok(hierarchies) = fs::read_dir(CGROUPS) else { return };
    remove_empty(&Path::new(CGROUPS).join(CGROUP));
    hierarchies.filter_map(Result::ok).for_each(|hierarchy| remove_empty(&hierarchy.path().join(CGROUP)));
}

/// Only rmdir, which takes no group that has processes.
fn remove_empty(group: &Path) {
    let Ok(entries) = fs::read_dir(group) else { return };
    let directories = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.for_each(|directory| remove_empty(&directory.path()));
    drop(fs::remove_dir(group));
}

/// `runc run` with a bundle that has nothing in it that the client does not need.
pub(super) fn runc(host: &Host, filesystem: &Filesystem, target: &Path) -> Result<Way> {
    let bundle = PathBuf::from("/run/bundle").join(filesystem.name);
    fs::create_dir_all(&bundle).context("cannot create a bundle")?;
    let configuration = runc_configuration(host, filesystem, target).to_string();
    fs::write(bundle.join("config.json"), configuration).context("cannot write a bundle's configuration")?;
    let runc = ["runc", "--root", "/run/runc"];
    let run = words(&runc, [OsStr::new("run"), OsStr::new("--bundle"), bundle.as_os_str(), OsStr::new(CONTAINER)]);
    let end = words(&runc, ["kill", CONTAINER, "KILL"]);
    Ok(Way::container("runc", run, end, target))
}

fn runc_configuration(host: &Host, filesystem: &Filesystem, target: &Path) -> Value {
    let volume = host.path("");
    let arguments: Vec<_> = filesystem.contained(target).into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let capabilities = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"];
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/",
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "args": arguments,
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
        },
        // The image is the one in the cache: nothing may write to it.
        "root": { "path": Client::named(filesystem.name).image_directory(), "readonly": true },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] },
            { "destination": volume, "type": "none", "source": volume, "options": ["rbind", "rshared"] },
        ],
        "linux": {
            // Without it, runc cuts the volume off the host before it binds it.
            "rootfsPropagation": "shared",
            "cgroupsPath": format!("/{CGROUP}/runc"),
            "devices": [{ "path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o666, "uid": 0, "gid": 0 }],
            "resources": { "devices": [{ "allow": true, "access": "rwm" }] },
            "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
        },
    })
}

/// Storage is in memory and an overlay, the fastest that podman has. crun, its default, refuses hosts that have both versions of
/// control groups; runc works on all.
const PODMAN: [&str; 15] = [
    "podman",
    "--root",
    "/run/podman/storage",
    "--runroot",
    "/run/podman/run",
    "--tmpdir",
    "/run/podman/tmp",
    "--storage-driver",
    "overlay",
    "--cgroup-manager",
    "cgroupfs",
    "--events-backend",
    "none",
    "--runtime",
    "runc",
];

pub(super) fn podman(host: &Host, filesystem: &Filesystem, target: &Path) -> Result<Way> {
    let image = import(filesystem)?;
    let volume = format!("{0}:{0}:rshared", host.path("").display());
    let group = format!("/{CGROUP}");
    let files = format!("nofile={}", limit(Resource::Nofile, u64::MAX));
    let processes = format!("nproc={}", limit(Resource::Nproc, highest_process_id()?));
    let options = ["run", "--rm", "--name", CONTAINER, "--privileged", "--network", "host", "--ulimit", &files, "--ulimit", &processes];
    let options = options.into_iter().chain(["--cgroup-parent", &group, "--volume", &volume, &image]);
    let mut run = words(&PODMAN, options);
    run.extend(filesystem.contained(target));
    let end = words(&PODMAN, ["kill", CONTAINER]);
    Ok(Way::container("podman", run, end, target))
}

/// What podman has itself: left alone it asks for more, which root may not have on every machine.
fn limit(resource: Resource, most: u64) -> String {
    let limit = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(most);
    if limit == u64::MAX { "-1:-1".to_owned() } else { format!("{limit}:{limit}") }
}

/// podman lowers its own limit to this before it starts a container.
fn highest_process_id() -> Result<u64> {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").context("cannot read kernel.pid_max")?;
    text.trim().parse().context("kernel.pid_max is no number")
}

fn import(filesystem: &Filesystem) -> Result<String> {
    let archive = format!("/run/{}.tar", filesystem.name);
    let root = Client::named(filesystem.name).image_directory();
    process::run(Command::new("tar").args(["--create", "--file", &archive, "--directory"]).arg(root).arg("."))?;
    let image = format!("localhost/bench-{}", filesystem.name);
    process::run(Command::new(PODMAN[0]).args(&PODMAN[1..]).args(["import", &archive, &image]).env("TMPDIR", "/run"))?;
    fs::remove_file(archive).context("cannot remove an archive")?;
    Ok(image)
}

fn words<S: AsRef<OsStr>>(program: &[&str], arguments: impl IntoIterator<Item = S>) -> Vec<OsString> {
    let mut words: Vec<_> = program.iter().map(OsString::from).collect();
    words.extend(arguments.into_iter().map(|word| word.as_ref().to_owned()));
    words
}
