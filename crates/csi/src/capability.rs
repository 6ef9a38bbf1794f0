//! In: how a volume is to be used. Out: what that means for its mounts.

use shorefast_engine::publish::{Access, Sharing};
use tonic::Status;

use crate::messages::{AccessType, Mode, VolumeCapability};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub access: Access,
    pub sharing: Sharing,
    /// Options, as in fstab.
    pub flags: Vec<String>,
    pub group: Option<u32>,
}

pub fn parse(capability: Option<&VolumeCapability>) -> Result<Use, Status> {
    let wrong = |text: &str| Err(Status::invalid_argument(text));
    let Some(capability) = capability else { return wrong("volume_capability is missing") };
    let mount = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => return wrong("these are filesystems, no block devices: use volumeMode: Filesystem"),
        None => return wrong("volume_capability has no access_type"),
    };
    let mode = capability.access_mode.as_ref().map(|mode| Mode::try_from(mode.mode));
    let (access, sharing) = match mode {
        Some(Ok(Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)) => (Access::ReadOnly, Sharing::Shared),
        Some(Ok(Mode::SingleNodeSingleWriter)) => (Access::ReadWrite, Sharing::Alone),
        Some(Ok(Mode::SingleNodeWriter | Mode::SingleNodeMultiWriter)) => (Access::ReadWrite, Sharing::Shared),
        Some(Ok(Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter)) => (Access::ReadWrite, Sharing::Shared),
        Some(Ok(Mode::Unknown) | Err(_)) | None => return wrong("volume_capability has no access_mode that we know"),
    };
    let group = match mount.volume_mount_group.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| Status::invalid_argument("volume_mount_group is no number"))?),
    };
    Ok(Use { access, sharing, flags: mount.mount_flags.clone(), group })
}
