//! Where a part runs: a process of its own, with its own mounts and its own network. The processes stay visible in the machine's
//! own pid namespace, where the product finds what a real host has; a [`super::warden`] ends what is left of them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use shorefast_tests::Host;

use super::filesystem::Filesystem;
use super::numbers::Measured;
use super::{Part, Role};

/// Runs a part, and hears its numbers.
pub(super) fn measure(part: Part, n: usize, binary: &Path) -> Result<Measured> {
    let kept = ["HOME", "SHOREFAST_CACHE"].map(|name| (name, std::env::var_os(name)));
    let output = ourselves(Role::Warden, part, n)?
        // cargo sets LD_LIBRARY_PATH, which would slow down native clients: the linker looks there first, in vain.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(kept.into_iter().filter_map(|(name, value)| Some((name, value?))))
        .env("SHOREFAST_BIN", binary)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a warden")?;
    ensure!(output.status.success(), "it could not be measured");
    serde_json::from_slice(&output.stdout).context("cannot read its numbers")
}

/// Ctrl-C ends a measurer, not its warden, which has to clean up then.
pub(super) fn ourselves(role: Role, part: Part, n: usize) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let signals = match role {
        Role::Warden => "--ignore-signal=INT,TERM,HUP",
        Role::Measurer => "--default-signal=INT,TERM,HUP",
    };
    let mut command = Command::new("env");
    command.arg(signals).arg(program).args(["bench", "--role", &name(role), "--only", &name(part), "--n", &n.to_string()]);
    Ok(command)
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("none is hidden").get_name().to_owned()
}

/// Makes a test's host fit for measuring, and for containers.
pub(super) fn furnish(host: &Host) -> Result<()> {
    Filesystem::obtain_images(host);
    // Native clients read their configuration where they always do, not through the overlay that a test has.
    unmount("/etc", UnmountFlags::empty()).context("cannot uncover /etc")?;
    // Shared, as systemd makes everything: a container's mount comes out through it.
    mount_change(host.path(""), MountPropagationFlags::SHARED).context("cannot share the directory for mounts")?;
    // podman keeps its locks there, for all of the machine.
    mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::empty(), None).context("cannot cover /dev/shm")
}
