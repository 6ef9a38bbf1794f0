//! In: mount(2)'s flag word. Out: the attributes and superblock flags of the new mount API.

use rustix::mount::MountAttrFlags;

/// A mount's flags: on the mount itself, and on its superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    pub attributes: MountAttrFlags,
    /// Superblock flags, by their names in fsconfig.
    pub superblock: Vec<&'static str>,
}

/// The high half was a magic number before Linux 2.4; the kernel still ignores it.
const MAGIC: u64 = 0xc0ed_0000;
const MAGIC_MASK: u64 = 0xffff_0000;

/// Accepted and ignored, harmless on our mounts: MS_SILENT (no messages), and MS_MANDLOCK (locks stay POSIX locks).
const IGNORED: u64 = libc::MS_SILENT | libc::MS_MANDLOCK;

const ATTRIBUTES: &[(u64, MountAttrFlags)] = &[
    (libc::MS_RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
    (libc::MS_NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
    (libc::MS_NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
    (libc::MS_NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
    (libc::MS_NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
    (libc::MS_STRICTATIME, MountAttrFlags::MOUNT_ATTR_STRICTATIME),
    (libc::MS_NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    (libc::MS_RELATIME, MountAttrFlags::empty()),
    (MS_NOSYMFOLLOW, MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
];

const SUPERBLOCK: &[(u64, &str)] =
    &[(libc::MS_RDONLY, "ro"), (libc::MS_SYNCHRONOUS, "sync"), (libc::MS_DIRSYNC, "dirsync"), (libc::MS_LAZYTIME, "lazytime")];

pub const MS_NOSYMFOLLOW: u64 = 256;

const OPERATIONS: &[(u64, &str)] = &[
    (libc::MS_REMOUNT, "remount"),
    (libc::MS_BIND, "bind"),
    (libc::MS_MOVE, "move"),
    (libc::MS_REC, "recursive"),
    (libc::MS_UNBINDABLE, "unbindable"),
    (libc::MS_PRIVATE, "private"),
    (libc::MS_SLAVE, "slave"),
    (libc::MS_SHARED, "shared"),
];

/// Translates a flag word. `Err` names what in it is not a plain new mount.
pub fn translate(word: u64) -> Result<Flags, String> {
    let word = if word & MAGIC_MASK == MAGIC { word & !MAGIC_MASK } else { word };
    if let Some((_, name)) = OPERATIONS.iter().find(|(bit, _)| word & bit != 0) {
        return Err(format!("a {name} operation, not a new mount"));
    }
    let known = ATTRIBUTES.iter().map(|(bit, _)| bit).chain(SUPERBLOCK.iter().map(|(bit, _)| bit)).fold(IGNORED, |all, bit| all | bit);
    if word & !known != 0 {
        return Err(format!("unknown mount flags {:#x}", word & !known));
    }
    let attributes = ATTRIBUTES.iter().filter(|(bit, _)| word & bit != 0).fold(always(), |all, (_, flag)| all | *flag);
    let superblock = SUPERBLOCK.iter().filter(|(bit, _)| word & bit != 0).map(|(_, name)| *name).collect();
    Ok(Flags { attributes, superblock })
}

/// Set whatever client and caller ask for: an untrusted client must not bring set-uid programs or device nodes onto the host.
fn always() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

impl Flags {
    /// Both sets of flags; of two access-time modes, the second set's wins.
    pub fn and(&self, other: &Self) -> Self {
        // The access-time mode is a field of three bits: or-ing two values makes a wrong one.
        let field = MountAttrFlags::MOUNT_ATTR__ATIME;
        let rule = if (other.attributes & field).is_empty() { self.attributes & field } else { other.attributes & field };
        let attributes = ((self.attributes | other.attributes) - field) | rule;
        let mut superblock = self.superblock.clone();
        superblock.extend(other.superblock.iter().filter(|flag| !self.superblock.contains(flag)));
        Self { attributes, superblock }
    }

    /// The same as a flag word for the classic mount(2).
    pub fn word(&self) -> u64 {
        let superblock = SUPERBLOCK.iter().filter(|(_, name)| self.superblock.contains(name)).map(|(bit, _)| bit);
        let attributes = ATTRIBUTES.iter().filter(|(_, flag)| !flag.is_empty() && self.attributes.contains(*flag)).map(|(bit, _)| bit);
        superblock.chain(attributes).fold(0, |all, bit| all | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::MountAttrFlags as A;

    #[test]
    fn plain_flags_become_attributes_and_superblock_flags() {
        let rows = [
            ("nothing asked", 0, A::empty(), vec![]),
            ("read-only is both", libc::MS_RDONLY, A::MOUNT_ATTR_RDONLY, vec!["ro"]),
            ("the old magic number", 0xc0ed_0000 | libc::MS_NOEXEC, A::MOUNT_ATTR_NOEXEC, vec![]),
            ("sync is the superblock's", libc::MS_SYNCHRONOUS | libc::MS_DIRSYNC, A::empty(), vec!["sync", "dirsync"]),
            ("lazytime", libc::MS_LAZYTIME | libc::MS_SILENT, A::empty(), vec!["lazytime"]),
            ("no access times", libc::MS_NOATIME | libc::MS_NODIRATIME, A::MOUNT_ATTR_NOATIME | A::MOUNT_ATTR_NODIRATIME, vec![]),
            ("relatime is the default", libc::MS_RELATIME, A::empty(), vec![]),
        ];
        for (name, word, attributes, superblock) in rows {
            let flags = translate(word).unwrap();
            assert_eq!(flags, Flags { attributes: attributes | A::MOUNT_ATTR_NOSUID | A::MOUNT_ATTR_NODEV, superblock }, "{name}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let rows = [
            libc::MS_BIND,
            libc::MS_BIND | libc::MS_REC,
            libc::MS_MOVE,
            libc::MS_REMOUNT,
            libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY,
            libc::MS_SHARED,
            libc::MS_PRIVATE,
            libc::MS_SLAVE,
            libc::MS_UNBINDABLE,
            libc::MS_REC,
            libc::MS_I_VERSION,
            1 << 22,
            1 << 26,
            1 << 30,
            1 << 31,
            1 << 40,
            u64::MAX,
        ];
        for word in rows {
            assert!(translate(word).is_err(), "{word:#x}");
        }
    }

    #[test]
    fn the_callers_access_time_rule_wins() {
        let client = translate(libc::MS_NOATIME).unwrap();
        let caller = translate(libc::MS_STRICTATIME | libc::MS_RDONLY).unwrap();
        let both = client.and(&caller);
        assert_eq!(both.attributes & A::MOUNT_ATTR__ATIME, A::MOUNT_ATTR_STRICTATIME);
        assert_eq!(both.superblock, ["ro"]);
    }

    #[test]
    fn a_word_survives_the_way_there_and_back() {
        let word = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME | libc::MS_SYNCHRONOUS;
        assert_eq!(translate(word).unwrap().word(), word);
    }
}
