//! In: the mount table of a client that mounts by itself, without calls to us. Out: its mount, copied for the host.
//!
//! Such a client is fully trusted. Its mount is checked nevertheless: it has to be of a type in its definition, and gets the caller's flags
//! on the host.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use rustix::mount::MountFlags;
use shorefast_sys as sys;

use crate::broker::Mounted;
use crate::error::Error;
use crate::flags;
use crate::policy::Policy;
use crate::view::View;

#[derive(Debug)]
pub struct SelfMountObserver<'a> {
    view: View,
    policy: &'a Policy,
    mounted: Option<Mounted>,
}

impl<'a> SelfMountObserver<'a> {
    pub fn new(policy: &'a Policy, view: View) -> Self {
        Self { view, policy, mounted: None }
    }

    pub fn mounted(&self) -> Option<&Mounted> {
        self.mounted.as_ref()
    }

    /// Detaches the mount in the client's namespace.
    pub fn hide(&self) -> Result<(), Error> {
        self.view.hide().map_err(Error::View)
    }

    pub fn into_mounted(self) -> Option<Mounted> {
        self.mounted
    }

    pub fn look(&mut self) -> Result<(), Error> {
        if self.mounted.is_some() {
            return Ok(());
        }
        let Some(entry) = self.view.seen().map_err(Error::View)? else { return Ok(()) };
        if !self.policy.allows(&entry.fstype) {
            return Err(Error::Type { fstype: entry.fstype, allowed: self.policy.kernel_types.join(", ") });
        }
        let mount = self.view.copy_with(flags_on_host(&entry.options, self.policy.flags)).map_err(Error::View)?;
        self.mounted = Some(Mounted {
            identity: sys::mount::identify(mount.as_fd()).map_err(Error::View)?,
            mount,
            is_fuse: matches!(entry.fstype.split('.').next(), Some("fuse" | "fuseblk")),
            fstype: entry.fstype,
            source: self.policy.source_outside(entry.source.as_bytes()),
            services: Vec::new(),
            kept: false,
        });
        Ok(())
    }
}

/// The flags of a mount, in contrast to its superblock's, as named in /proc/self/mountinfo.
const OF_MOUNT: &[(&str, u64)] = &[
    ("ro", libc::MS_RDONLY),
    ("nosuid", libc::MS_NOSUID),
    ("nodev", libc::MS_NODEV),
    ("noexec", libc::MS_NOEXEC),
    ("noatime", libc::MS_NOATIME),
    ("nodiratime", libc::MS_NODIRATIME),
    ("nosymfollow", flags::MS_NOSYMFOLLOW),
];

/// `own`: the flags of the client's mount, from the mount table; `caller`: a flag word. Always with nosuid and nodev.
fn flags_on_host(own: &str, caller: u64) -> MountFlags {
    let own = OF_MOUNT.iter().filter(|(name, _)| own.split(',').any(|word| word == *name)).fold(0, |all, (_, bit)| all | bit);
    let of_mount = OF_MOUNT.iter().fold(libc::MS_STRICTATIME, |all, (_, bit)| all | bit);
    // A known flag word always translates.
    let [own, caller] = [own, caller & of_mount].map(|word| flags::translate(word).ok());
    let both = own.zip(caller).map_or(0, |(own, caller)| own.and(&caller).word());
    MountFlags::from_bits_retain((both & of_mount) as u32) | MountFlags::NOSUID | MountFlags::NODEV
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_gets_what_either_asks_for() {
        let always = MountFlags::NOSUID | MountFlags::NODEV;
        let rows = [
            ("rw,relatime", 0, always),
            ("ro,noexec", 0, always | MountFlags::RDONLY | MountFlags::NOEXEC),
            ("rw,noatime", libc::MS_RDONLY, always | MountFlags::RDONLY | MountFlags::NOATIME),
            ("rw,noatime", libc::MS_STRICTATIME, always | MountFlags::STRICTATIME),
            ("rw", libc::MS_SYNCHRONOUS | libc::MS_NOEXEC, always | MountFlags::NOEXEC),
        ];
        for (own, caller, expected) in rows {
            assert_eq!(flags_on_host(own, caller), expected, "{own} {caller:#x}");
        }
    }
}
