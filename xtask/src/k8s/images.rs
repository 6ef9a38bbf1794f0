//! Images for the node's containers: what Kubernetes needs, a shell for the pods, and Shorefast itself in two versions.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::programs::Programs;
use crate::process;

/// As in deploy/.
pub(crate) const SHOREFAST: &str = "registry.example/shorefast:0.1";
pub(crate) const NEWER_SHOREFAST: &str = "registry.example/shorefast:0.2";
pub(crate) const SHELL: &str = "registry.test/busybox:1";
const PAUSE: &str = "registry.test/pause:1";

/// Archives to import.
pub(crate) fn build(programs: &Programs, binary: &Path, place: &Path) -> Result<Vec<PathBuf>> {
    let builder = Builder { place: place.to_owned() };
    let recipe = fs::read_to_string(project().join("deploy/image/Containerfile")).context("no recipe for our own image")?;
    let context = |name: &str| -> Result<PathBuf> {
        let directory = place.join("contexts").join(name);
        fs::create_dir_all(&directory)?;
        Ok(directory)
    };
    let pause = context("pause")?;
    fs::copy(programs.path("pause")?, pause.join("pause"))?;
    let shell = context("shell")?;
    fs::create_dir(shell.join("bin"))?;
    fs::copy(programs.path("busybox")?, shell.join("bin/busybox"))?;
    for name in ["sh", "cat", "echo", "ls", "mkdir", "mv", "sleep", "touch"] {
        std::os::unix::fs::symlink("busybox", shell.join("bin").join(name))?;
    }
    let (ours, newer) = (context("shorefast")?, context("newer")?);
    for directory in [&ours, &newer] {
        fs::copy(binary, directory.join("shorefast")).context("cannot copy the binary")?;
    }
    // The same program with another digest, without compiling it twice.
    File::options().append(true).open(newer.join("shorefast"))?.write_all(b"newer")?;
    Ok(vec![
        builder.build(PAUSE, "FROM scratch\nCOPY pause /pause\nENTRYPOINT [\"/pause\"]\n", &pause)?,
        builder.build(SHELL, "FROM scratch\nCOPY bin /bin\nENV PATH=/bin\n", &shell)?,
        builder.build(SHOREFAST, &recipe, &ours)?,
        builder.build(NEWER_SHOREFAST, &recipe, &newer)?,
    ])
}

/// The checkout that this program was compiled from.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

struct Builder {
    place: PathBuf,
}

impl Builder {
    fn build(&self, name: &str, recipe: &str, context: &Path) -> Result<PathBuf> {
        let file = context.with_extension("Containerfile");
        fs::write(&file, recipe)?;
        process::run(self.buildah().args(["build", "--isolation=chroot", "--tag", name, "--file"]).arg(&file).arg(context))?;
        let archive = context.with_extension("tar");
        process::run(self.buildah().args(["push", name]).arg(format!("docker-archive:{}:{name}", archive.display())))?;
        Ok(archive)
    }

    /// With a store of its own, which goes with the node.
    fn buildah(&self) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.place.join("containers")).arg("--runroot").arg(self.place.join("run"));
        command.args(["--storage-driver", "vfs"]);
        command
    }
}
