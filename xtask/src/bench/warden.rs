//! The process above a part, which also removes the control groups of its containers.

use std::process::ExitCode;

use anyhow::Result;

use super::{Part, Role, containers, enclosure};
use crate::warden;

pub(super) fn watch(part: Part, n: usize) -> Result<ExitCode> {
    containers::remove_cgroups(); // those of a bench whose warden was killed
    let status = warden::watch(enclosure::ourselves(Role::Measurer, part, n)?)?;
    containers::remove_cgroups();
    Ok(status)
}
