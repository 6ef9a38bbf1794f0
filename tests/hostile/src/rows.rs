//! The table: everything the hostile client tries, one row each. `what` says it in a line; the functions are in `rows/`.
//!
//! A row's name is what the driver and its reports use. Rows are grouped by what they go for, and their order is
//! the order in which they run.

mod api;
mod exhaustion;
mod files;
mod kernel;
mod lasts;
mod mounts;
mod namespaces;
mod network;
pub(crate) mod privilege;
mod processes;
mod races;
mod source;
mod stalls;

use libc::c_ulong;
use mounts::Part;

use crate::outcome::{Group, Outcome, Row, any_of, first_harm};
use crate::sandbox::Sandbox;

type Attempt = fn(&Sandbox) -> Outcome;

const fn batch(name: &'static str, what: &'static str, attempt: Attempt) -> Row {
    Row { name, what, group: Group::Batch, attempt }
}

const fn alone(name: &'static str, what: &'static str, attempt: Attempt) -> Row {
    Row { name, what, group: Group::Alone, attempt }
}

const fn deadly(name: &'static str, what: &'static str, attempt: Attempt) -> Row {
    Row { name, what, group: Group::Deadly, attempt }
}

const fn failing(name: &'static str, what: &'static str, attempt: Attempt) -> Row {
    Row { name, what, group: Group::Failing, attempt }
}

/// Bits of mount(2) that are the kernel's own; libc has no names for them.
const MS_POSIXACL: c_ulong = 1 << 16;
const MS_UNBINDABLE: c_ulong = libc::MS_UNBINDABLE;
const MS_KERNMOUNT: c_ulong = 1 << 22;
const MS_SUBMOUNT: c_ulong = 1 << 26;
const MS_NOREMOTELOCK: c_ulong = 1 << 27;
const MS_NOSEC: c_ulong = 1 << 28;
const MS_BORN: c_ulong = 1 << 29;
const MS_ACTIVE: c_ulong = 1 << 30;
const MS_NOUSER: c_ulong = 1 << 31;

const BLOCK: u32 = libc::S_IFBLK;
const CHARACTER: u32 = libc::S_IFCHR;

pub(crate) static ALL: &[Row] = &[
    // Types that the broker must not mount: it mounts as root, and the kernel would parse what the client gives it.
    batch("mounts-ext4", "a disk filesystem, parsed by the kernel", |s| mounts::of_disk_types(s, &[c"ext4"])),
    batch("mounts-other-disks", "xfs, btrfs, vfat, squashfs and other parsers in the kernel", |s| {
        mounts::of_disk_types(s, &[c"xfs", c"btrfs", c"vfat", c"iso9660", c"squashfs", c"erofs", c"f2fs", c"udf", c"ntfs3", c"exfat"])
    }),
    batch("mounts-overlay", "overlay of the sandbox's own directories, readable and writable", mounts::overlay),
    batch("mounts-proc", "a fresh proc without the sandbox's covers", |s| mounts::of_type(s, c"proc", c"proc", c"")),
    batch("mounts-sysfs", "a sysfs of its own", |s| mounts::of_type(s, c"sysfs", c"sysfs", c"")),
    batch("mounts-cgroup2", "the cgroup tree, to lift its limits", |s| mounts::of_type(s, c"cgroup2", c"cgroup2", c"")),
    batch("mounts-cgroup1", "a version 1 hierarchy, whose release agent runs as root", |s| {
        mounts::of_type(s, c"cgroup", c"cgroup", c"none,name=hostile")
    }),
    batch("mounts-devtmpfs", "all devices of the machine", |s| mounts::of_type(s, c"devtmpfs", c"devtmpfs", c"")),
    batch("mounts-devpts", "the terminals of the machine", |s| mounts::of_type(s, c"devpts", c"devpts", c"")),
    batch("mounts-mqueue", "message queues", |s| mounts::of_type(s, c"mqueue", c"mqueue", c"")),
    batch("mounts-bpf", "pinned programs and maps", |s| mounts::of_type(s, c"bpf", c"bpf", c"")),
    batch("mounts-debugfs", "the kernel's debugging files", |s| mounts::of_type(s, c"debugfs", c"debugfs", c"")),
    batch("mounts-tracefs", "the kernel's tracing files", |s| mounts::of_type(s, c"tracefs", c"tracefs", c"")),
    batch("mounts-configfs", "kernel objects made with mkdir", |s| mounts::of_type(s, c"configfs", c"configfs", c"")),
    batch("mounts-securityfs", "the security modules' files", |s| mounts::of_type(s, c"securityfs", c"securityfs", c"")),
    batch("mounts-binfmt-misc", "interpreters for the whole machine", |s| mounts::of_type(s, c"binfmt_misc", c"binfmt_misc", c"")),
    batch("mounts-kernel-files", "pstore, efivarfs, fusectl, selinuxfs, hugetlbfs, rpc_pipefs, nfsd", |s| {
        mounts::of_types(
            s,
            &[c"pstore", c"efivarfs", c"fusectl", c"selinuxfs", c"smackfs", c"hugetlbfs", c"rpc_pipefs", c"nfsd", c"functionfs"],
        )
    }),
    batch("mounts-ramfs", "memory without any limit", |s| mounts::of_type(s, c"ramfs", c"ramfs", c"")),
    batch("mounts-nfs", "a kernel client that its definition does not name", |s| {
        first_harm([
            mounts::of_type(s, c"nfs", c"127.0.0.1:/", c"vers=3,addr=127.0.0.1,nolock,retry=0,timeo=1,retrans=0,soft"),
            mounts::of_type(s, c"nfs4", c"127.0.0.1:/", c"vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,retry=0,timeo=1,soft"),
        ])
    }),
    batch("mounts-cifs-and-9p", "other kernel clients", |s| {
        first_harm([
            mounts::of_type(s, c"cifs", c"//127.0.0.1/x", c"ip=127.0.0.1,unc=\\\\127.0.0.1\\x,user=a,pass=b"),
            mounts::of_type(s, c"9p", c"127.0.0.1", c"trans=tcp,port=1"),
            mounts::of_type(s, c"ceph", c"127.0.0.1:/", c"name=a,secret=b"),
        ])
    }),
    batch("mounts-fuseblk", "FUSE on a block device, which the kernel opens", |s| {
        any_of([c"/dev/loop0", c"/dev/vda", c"none"], |disk| {
            mounts::of_type(s, c"fuseblk", disk, c"fd=3,rootmode=40000,user_id=0,group_id=0")
        })
    }),
    batch("mounts-pseudo-types", "types that exist inside the kernel only", |s| {
        mounts::of_types(s, &[c"sockfs", c"pipefs", c"nsfs", c"pidfs", c"bdev", c"anon_inodefs", c"rootfs", c"secretmem"])
    }),
    batch("mounts-autofs", "a trap that makes the kernel wait for the client", |s| {
        mounts::of_type(s, c"autofs", c"hostile", c"fd=2,pgrp=1,minproto=5,maxproto=5,direct")
    }),
    batch("mounts-misspelt-types", "tmpfs with spaces, newline, capitals, a subtype or a path", |s| {
        mounts::of_types(
            s,
            &[
                c" tmpfs",
                c"tmpfs ",
                c"tmpfs\n",
                c"TMPFS",
                c"tmpfs.x",
                c"tmpfs,proc",
                c"./tmpfs",
                c"fs-tmpfs",
                c"tmpfs\xff",
                c"",
                c".",
                c"fuse.",
            ],
        )
    }),
    // Targets that are not the one target.
    batch("targets-root", "a tmpfs over /", |_| mounts::onto("/")),
    batch("targets-system", "a tmpfs over /usr, /etc, /dev, /proc", |_| mounts::onto_each(&["/usr", "/etc", "/dev", "/proc", "/dev/shm"])),
    batch("targets-proc-parts", "a tmpfs over /proc/self, /proc/sys, /proc/1", |_| {
        mounts::onto_each(&["/proc/self", "/proc/sys", "/proc/1", "/proc/self/fd", "/proc/self/task", "/proc/self/attr"])
    }),
    batch("targets-scratch", "a tmpfs over directories the client may write to", |_| {
        mounts::onto_each(&["/tmp", "/run", "/var/lib", "/root"])
    }),
    batch("targets-dotdot", "the directory above and beside the target", mounts::beside_the_target),
    batch("targets-relative", "a relative name in another directory", |_| {
        first_harm([
            mounts::onto_relative("/", "usr"),
            mounts::onto_relative("/usr", "../etc"),
            mounts::onto_relative("/tmp", "./.././usr"),
        ])
    }),
    batch("targets-dot", "\".\" in a directory that is not the target", |_| {
        first_harm([mounts::onto_relative("/usr", "."), mounts::onto_relative("/", "."), mounts::onto_relative("/tmp", "")])
    }),
    batch("targets-through-symlink", "a symbolic link to /usr, to /, to /proc/self/root", |_| {
        any_of(["/usr", "/", "/proc/self/root", "/proc/self/cwd", "../../usr"], mounts::through_symlink)
    }),
    batch("targets-through-magic-link", "/proc/self/root/usr and its relatives", |_| mounts::through_magic_link("/usr")),
    batch("targets-through-descriptor", "/proc/self/fd/N of other directories", mounts::through_descriptor),
    batch("targets-below", "a directory below the target", mounts::below_the_target),
    batch("targets-same-name", "another directory with the target's name", mounts::same_name_elsewhere),
    batch("targets-deleted", "a directory that is deleted, through \".\" and through descriptors", |_| mounts::deleted_directory()),
    batch("targets-moved", "the target renamed, and a symbolic link to /usr in its place", mounts::moved_target),
    batch("targets-files", "files, devices, an empty name", |_| mounts::not_a_directory()),
    // Flags that turn mount(2) into something else, combined with an allowed type and the allowed target.
    batch("flags-bind", "a bind mount in disguise", |s| {
        mounts::reuse(s, &["/", "/etc", "/proc/self/root", "/proc/1/root", "/dev/fuse"], libc::MS_BIND)
    }),
    batch("flags-bind-recursive", "a recursive bind mount in disguise", |s| {
        mounts::reuse(s, &["/", "/proc"], libc::MS_BIND | libc::MS_REC)
    }),
    batch("flags-move", "a mount moved to the target", |s| mounts::reuse(s, &["/proc", "/dev", "/tmp", "/"], libc::MS_MOVE)),
    batch("flags-remount", "a remount of the target", |s| mounts::with_flags(s, libc::MS_REMOUNT)),
    batch("flags-remount-writable", "the image made writable", |_| {
        first_harm([
            mounts::change(&["/", "/usr", "/etc", "/proc", "/dev"], libc::MS_REMOUNT),
            mounts::change(&["/", "/usr", "/etc", "/proc", "/dev"], libc::MS_REMOUNT | libc::MS_BIND),
        ])
    }),
    batch("flags-shared", "the sandbox's mounts made to propagate", |_| {
        first_harm([
            mounts::change(&["/", "/usr", "/tmp"], libc::MS_SHARED),
            mounts::change(&["/", "/usr", "/tmp"], libc::MS_SHARED | libc::MS_REC),
        ])
    }),
    batch("flags-private-and-slave", "other kinds of propagation", |_| {
        any_of([libc::MS_PRIVATE, libc::MS_SLAVE, MS_UNBINDABLE], |flag| mounts::change(&["/", "/usr", "/tmp"], flag))
    }),
    batch("flags-propagation-at-target", "propagation flags with an allowed type at the target", |s| {
        mounts::with_each_flag(s, [libc::MS_SHARED, libc::MS_PRIVATE, libc::MS_SLAVE, MS_UNBINDABLE])
    }),
    batch("flags-rec-alone", "MS_REC without anything to recurse into", |s| mounts::with_flags(s, libc::MS_REC)),
    batch("flags-nouser", "MS_NOUSER, which is the kernel's own", |s| mounts::with_flags(s, MS_NOUSER)),
    batch("flags-kernmount", "MS_KERNMOUNT, which is the kernel's own", |s| mounts::with_flags(s, MS_KERNMOUNT)),
    batch("flags-kernel-internal", "the other flags that only the kernel sets", |s| {
        mounts::with_each_flag(s, [MS_SUBMOUNT, MS_NOREMOTELOCK, MS_NOSEC, MS_BORN, MS_ACTIVE, MS_POSIXACL])
    }),
    batch("flags-unknown", "each bit above the 32nd", |s| mounts::with_each_flag(s, (32..64).map(|bit| 1 << bit))),
    batch("flags-false-magic", "the ancient magic number, almost right", |s| {
        mounts::with_each_flag(s, [0xC0EE_0000, 0xC0EC_0000, 0x80ED_0000])
    }),
    batch("flags-all", "all bits at once", |s| mounts::with_each_flag(s, [c_ulong::MAX, 0xffff_ffff, c_ulong::MAX ^ libc::MS_BIND])),
    // Strings that are none.
    batch("strings-null-type", "no type at all", |s| mounts::null(s, Part::Type)),
    batch("strings-null-target", "no target at all", |s| mounts::null(s, Part::Target)),
    batch("strings-bad-addresses", "each argument at addresses where nothing is", mounts::bad_addresses),
    batch("strings-unterminated-type", "\"tmpfs\" that ends with its page, no NUL", |s| mounts::unterminated(s, Part::Type, c"tmpfs")),
    batch("strings-unterminated-target", "the target's name that ends with its page, no NUL", |s| {
        mounts::unterminated(s, Part::Target, &s.target)
    }),
    batch("strings-unterminated-source", "a source that ends with its page, no NUL", |s| mounts::unterminated(s, Part::Source, c"hostile")),
    batch("strings-long-type", "types of 4096 bytes and more", |s| mounts::too_long(s, Part::Type)),
    batch("strings-long-target", "targets of 4096 bytes and more", |s| mounts::too_long(s, Part::Target)),
    batch("strings-long-source", "sources of 4096 bytes and more", |s| mounts::too_long(s, Part::Source)),
    batch("strings-long-spelling", "the right target, spelt with 3000 times \"/.\"", mounts::too_long_spelling),
    alone("strings-forged-source", "a source with newlines, escapes and bytes that are no UTF-8", mounts::forged_source),
    // Options that reach for more than an option may.
    batch("options-source", "another source in the options", |s| mounts::with_options(s, &[c"source=/etc/shadow", c"size=1m,source=evil"])),
    batch("options-fd", "a descriptor for a type that takes none", |s| mounts::with_options(s, &[c"fd=0", c"fd=3", c"size=1m,fd=5"])),
    batch("options-of-mount8", "options that mount(8) would act on, not the kernel", |s| {
        mounts::with_options(
            s,
            &[c"bind", c"rbind", c"remount", c"move", c"loop=/etc/passwd", c"helper=sh", c"X-mount.mkdir", c"uhelper=x"],
        )
    }),
    batch("options-broken", "options that the kernel does not take", |s| {
        let numbers = [c"size", c"size=", c"size=-1", c"mode=99999", c"nr_inodes=-1", c"uid=-1", c"mpol=9"];
        let noise = [c"\n", c"\x01=\x02", c"\xff\xfe=\xfd", c"no-such-option", c"size=1m\nmode=777"];
        first_harm([mounts::with_options(s, &numbers), mounts::with_options(s, &noise)])
    }),
    alone("options-suid", "suid and dev in the options: the mount must be nosuid,nodev all the same", mounts::asks_for_suid),
    batch("fuse-without-fd", "FUSE with no descriptor", |s| mounts::fuse_with(s, "rootmode=40000,user_id=0,group_id=0")),
    batch("fuse-negative-fd", "fd=-1, AT_FDCWD, the smallest number", |s| mounts::fuse_with_number(s, &["-1", "-100", "-2147483648"])),
    batch("fuse-standard-fd", "fd=0, 1, 2: its own log", |s| mounts::fuse_with_number(s, &["0", "1", "2"])),
    batch("fuse-closed-fd", "descriptors that are not open here, but may be in the broker", |s| {
        mounts::fuse_with_number(s, &["3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "999", "1048576", "2147483647"])
    }),
    batch("fuse-huge-fd", "numbers that become our descriptor when cut short or trimmed", mounts::fuse_with_wrapped_number),
    batch("fuse-other-files", "fd= of /dev/null, /dev/zero, a file, /proc/self/mem", mounts::fuse_with_other_files),
    batch(
        "fuse-sockets",
        "fd= of a socket, a pipe, a directory, /dev/fuse opened as a mere path",
        mounts::fuse_with_sockets_and_directories,
    ),
    batch("fuse-two-fds", "two fd= options, or one without a value", mounts::fuse_with_two_descriptors),
    alone("fuse-another-user", "a mount for a user of the host, or for no user", mounts::fuse_for_another_user),
    batch("fuse-root-no-directory", "a root that is a device, a symbolic link or a file", |s| {
        mounts::fuse_with_options(
            s,
            &[
                "fd={fd},rootmode=60666,user_id=0,group_id=0",
                "fd={fd},rootmode=120777,user_id=0,group_id=0",
                "fd={fd},rootmode=100644,user_id=0,group_id=0",
                "fd={fd},rootmode=0,user_id=0,group_id=0",
            ],
        )
    }),
    batch("fuse-injected-options", "block size, block device and source among FUSE's options", |s| {
        mounts::fuse_with_options(
            s,
            &[
                "fd={fd},rootmode=40000,user_id=0,group_id=0,source=/etc",
                "fd={fd},rootmode=40000,user_id=0,group_id=0,blkdev",
                "fd={fd},rootmode=40000,user_id=0,group_id=0,tag=hostile,dax",
            ],
        )
    }),
    alone("fuse-used-fd", "a second mount on the descriptor of the first", mounts::fuse_on_used_descriptor),
    // More than one mount, and less.
    alone("mounts-twice", "a second mount after the first, at the target and elsewhere", mounts::second_mount),
    alone("mounts-again", "another mount after the one that is allowed was undone, and so without end", mounts::mounts_again),
    batch("unmounts-root", "umount of / in every manner", |_| {
        mounts::unmount(&["/"], &[0, libc::MNT_DETACH, libc::MNT_FORCE, libc::MNT_EXPIRE])
    }),
    batch("unmounts-system", "umount of /proc, /dev, /usr, /tmp and what is below", |_| {
        mounts::unmount(&["/proc", "/dev", "/dev/fuse", "/dev/null", "/usr", "/etc", "/tmp", "/run", "/root"], &[0, libc::MNT_DETACH])
    }),
    batch("unmounts-through-links", "umount of /proc/self/root and of descriptors", |_| {
        mounts::unmount(&["/proc/self/root", "/proc/1/root", "/proc/self/cwd", "/proc/self/root/proc", "."], &[0, libc::MNT_DETACH])
    }),
    batch("unmounts-odd-flags", "flags of umount2 that do not exist", |s| {
        let target = s.target_path().to_string_lossy().into_owned();
        mounts::unmount(&["/", "/proc", &target], &[i32::MIN, 0x10, 0x7fff_ffff, -1, 0x100])
    }),
    batch("unmounts-nothing", "umount of bad addresses, and of the target while nothing is there", mounts::unmount_nowhere),
    alone("unmounts-its-own", "the mount undone by the client at once", mounts::unmounts_its_own),
    // Other doors to the same.
    batch("api-fsopen", "the new mount calls with an allowed type", |s| api::filesystem_context(s, c"tmpfs")),
    batch("api-fsopen-proc", "the new mount calls with another type", |s| api::filesystem_context(s, c"proc")),
    batch("api-fspick", "a handle on a superblock that is mounted already", |_| api::picks_a_superblock()),
    batch("api-open-tree", "a detached copy of the tree", |_| api::clones_a_tree()),
    batch("api-move-mount", "a mount moved by the new call", api::moves_a_mount),
    batch("api-mount-setattr", "read-only taken off, propagation put on", |_| api::changes_attributes()),
    batch("api-open-tree-attr", "a copy of the tree with other attributes", |_| api::clones_with_attributes()),
    batch("api-listmount", "the mounts of other namespaces", |_| api::lists_foreign_mounts()),
    batch("api-pivot-root", "another root through pivot_root", |_| api::pivots()),
    batch("api-chroot", "another root through chroot", |_| api::changes_root()),
    batch("api-32-bit", "the 32-bit entry of the kernel", |_| api::enters_as_32_bit()),
    batch("api-32-bit-mount", "mount through the 32-bit entry", api::mounts_as_32_bit),
    batch("api-32-bit-unshare", "unshare through the 32-bit entry", |_| api::unshares_as_32_bit()),
    batch("api-32-bit-fsopen", "fsopen through the 32-bit entry", |_| api::opens_context_as_32_bit()),
    batch("api-x32-mount", "mount under its x32 number", api::mounts_as_x32),
    batch("api-x32", "other calls under their x32 numbers", |_| api::calls_as_x32()),
    batch("api-unknown-numbers", "system calls that this program has no name for", |_| api::calls_unknown_numbers()),
    batch("api-rewritten-call", "a traced child's call turned into mount after the filter saw it", processes::rewrites_a_call),
    // Races against the reader of the arguments.
    alone("races-type", "the type flips between tmpfs and others during the call", races::flips_type),
    alone("races-type-elsewhere", "the same at a target that is never allowed", races::flips_type_elsewhere),
    alone("races-target", "the target flips between ours and others during the call", |s| races::flips_target(s, c"tmpfs")),
    alone("races-target-type", "the same with a type that is never allowed", |s| races::flips_target(s, c"proc")),
    alone("races-options", "the options flip during the call", races::flips_options),
    alone("races-unmapping", "the argument's page is taken away and given back during the call", races::unmaps_arguments),
    alone("races-cwd", "target \".\" while another thread changes the directory", races::changes_directory),
    alone("races-symlink", "a symbolic link that is swapped during the call", races::swaps_link),
    alone("races-rename", "directories that exchange their names during the call", races::swaps_directories),
    alone("races-root", "the way to the target is another one in turn, where the client may change it", races::swaps_the_way),
    alone("races-fd", "fd=60 is /dev/fuse, /dev/null and closed in turn", races::swaps_descriptor),
    alone("races-threads", "24 threads with a proper request each: one may win", races::all_at_once),
    alone("races-flood", "16 threads with requests that can only be refused", races::floods),
    alone("races-killed", "callers that are killed during the call", races::killed_while_mounting),
    alone("races-exec", "callers that become another program during the call", races::execs_while_mounting),
    alone("races-signals", "a signal every 50 µs during the call", races::interrupted_while_mounting),
    // Servers and processes that are meant to outlast or to stall.
    alone("stalls-init", "a FUSE server that never answers: the mount must fail in time", stalls::never_answers),
    alone("stalls-garbage", "a FUSE server that answers the first request with nonsense", stalls::answers_garbage),
    alone("stalls-after-init", "a FUSE server that answers the first request only", stalls::answers_only_init),
    deadly("stalls-arguments", "arguments in memory that only the client's own FUSE server can deliver", stalls::arguments_in_a_trap),
    deadly("stalls-target", "a target that only the client's own FUSE server can look up", stalls::target_in_a_trap),
    deadly("stalls-foreign-memory", "arguments in a mapped file of a source that stalls", stalls::arguments_in_a_foreign_file),
    deadly("stalls-foreign-target", "a target below a source that stalls", stalls::target_in_a_foreign_directory),
    deadly("stalls-foreign-cwd", "the same from a directory in there", stalls::target_from_a_foreign_directory),
    deadly("stalls-foreign-descriptor", "a descriptor of a source that stalls", stalls::foreign_descriptor),
    alone("lasts-asking", "a process that goes on calling mount after the client is done", lasts::mounts_after_the_end),
    alone("lasts-serving", "a FUSE server that goes on calling mount, and climbs out of its mount", lasts::attacks_while_serving),
    alone("lasts-holding", "a process that holds the mount open and ignores every polite signal", lasts::holds_the_mount),
    alone("lasts-forking", "a process that forks away from its killer", lasts::outruns_the_killer),
    // Namespaces.
    batch("unshares-user", "a user namespace, and with it all capabilities in it", |_| namespaces::unshare("user")),
    batch("unshares-mount", "a mount namespace", |_| namespaces::unshare("mnt")),
    batch("unshares-pid", "a pid namespace", |_| namespaces::unshare("pid")),
    batch("unshares-net", "a network namespace", |_| namespaces::unshare("net")),
    batch("unshares-ipc", "an ipc namespace", |_| namespaces::unshare("ipc")),
    batch("unshares-uts", "a uts namespace", |_| namespaces::unshare("uts")),
    batch("unshares-cgroup", "a cgroup namespace", |_| namespaces::unshare("cgroup")),
    batch("unshares-time", "a time namespace", |_| namespaces::unshare("time")),
    batch("unshares-together", "each together with a user namespace", |_| namespaces::unshare_together()),
    batch("clones-namespaces", "clone with each namespace flag", |_| namespaces::clone()),
    batch("clones3-namespaces", "clone3 with each namespace flag", |_| namespaces::clone3()),
    batch("clones-into-cgroup", "clone3 into another cgroup", |_| namespaces::clone_into_cgroup()),
    batch("enters-own-namespaces", "setns to its own namespaces, which takes capabilities", |_| namespaces::enter_by_file("self")),
    batch("enters-init-namespaces", "setns to those of process 1", |_| namespaces::enter_by_file("1")),
    batch("enters-by-pidfd", "setns to those of process 1 and of its parent, by pidfd", |s| namespaces::enter_by_pidfd(&[1, s.parent])),
    batch("climbs-namespaces", "the owner and parent of its namespaces", |_| namespaces::climb()),
    batch("walks-mount-namespaces", "the mount namespaces before and after its own", |_| namespaces::walk_mount_namespaces()),
    batch("opens-namespaces-by-handle", "the host's namespaces by their well-known handles", |_| namespaces::open_by_handle()),
    // Privilege.
    batch("has-capabilities", "any capability in any set", |_| privilege::has_capabilities()),
    batch("is-host-root", "uid 0 of the host, or another system user", |_| privilege::is_host_root()),
    batch("has-groups", "supplementary groups of the caller", |_| privilege::keeps_groups()),
    batch("becomes-user", "setresuid and its relatives to other users", |_| privilege::becomes_another_user()),
    batch("becomes-group", "setresgid and setgroups to other groups", |_| privilege::becomes_another_group()),
    batch("becomes-file-user", "file access as another user", |_| privilege::borrows_a_file_identity()),
    batch("inspects-init", "process 1, as its user", |_| privilege::inspects_init_as_its_user()),
    batch("raises-capabilities", "each capability by capset", |_| privilege::raises_capabilities()),
    batch("raises-ambient", "each capability into the ambient set", |_| privilege::raises_ambient_capabilities()),
    batch("sets-securebits", "the bits that give uid 0 its powers", |_| privilege::changes_secure_bits()),
    batch("clears-no-new-privs", "no_new_privs off", |_| privilege::clears_no_new_privileges()),
    batch("leaves-seccomp", "the filter off", |_| privilege::leaves_seccomp()),
    batch("seccomp-listener", "a seccomp listener of its own, to answer before the broker", |_| privilege::installs_a_listener()),
    batch("seccomp-allow-all", "a filter that allows everything, on top", |_| privilege::allows_itself_everything()),
    batch("seccomp-ioctl", "the broker's listener among the descriptors", |_| privilege::answers_its_own_calls()),
    batch("executes-setuid", "a set-user-id root program of the image", |_| privilege::executes("/usr/bin/hostile-setuid")),
    batch("executes-filecaps", "a program of the image with file capabilities", |_| privilege::executes("/usr/bin/hostile-filecaps")),
    batch("inherits-descriptors", "descriptors that were left open for it", privilege::keeps_descriptors),
    batch("reopens-streams", "standard streams that are the host's files or terminal", |_| privilege::reopens_standard_streams()),
    batch("inherits-environment", "variables of shorefast's caller", |_| privilege::keeps_environment("SHOREFAST_TEST_SECRET")),
    batch("inherits-directory", "a working directory outside its root", privilege::keeps_directory),
    batch("raises-limits", "resource limits above the hard ones", |_| privilege::raises_limits()),
    batch("raises-priority", "nice -20 and real-time disk priority", |_| privilege::raises_priority()),
    batch("becomes-realtime", "real-time scheduling", |_| privilege::becomes_realtime()),
    batch("escapes-oom", "never to be chosen when memory runs out", |_| privilege::writes_own(c"/proc/self/oom_score_adj", "-1000")),
    batch("writes-uid-map", "the host's root into its user map", |_| privilege::writes_own(c"/proc/self/uid_map", "0 0 1")),
    batch("writes-gid-map", "the host's groups into its group map", |_| privilege::writes_own(c"/proc/self/gid_map", "0 0 1")),
    batch("writes-setgroups", "setgroups allowed again", |_| privilege::writes_own(c"/proc/self/setgroups", "allow")),
    // Other processes.
    batch("traces-init", "ptrace on process 1 and on its parent", processes::traces),
    batch("reads-memory", "process_vm_readv and writev on them", processes::reads_memory),
    batch("opens-memory", "/proc/PID/mem of them", processes::opens_memory),
    batch("lists-descriptors", "/proc/PID/fd of them", processes::lists_descriptors),
    batch("enters-root-of", "/proc/PID/root and cwd of them, if that is another root", processes::enters_root_of),
    batch("reads-environment", "variables of other processes that it does not have itself", processes::reads_environment),
    batch("takes-descriptors", "pidfd_getfd on them", processes::takes_descriptors),
    batch("compares-processes", "kcmp with them", processes::compares),
    batch("inspects-robust-list", "an address from inside them", processes::inspects),
    batch("migrates-pages", "their memory moved about", processes::moves_pages),
    batch("kills-init", "deadly signals to process 1", processes::kills_init),
    batch("signals-strangers", "signals to processes of other users", processes::signals_strangers),
    batch("signals-hidden", "signals to process numbers that it cannot see", processes::signals_hidden),
    batch("shares-session", "the caller's session, and with it the caller's terminal", processes::shares_session),
    batch("limits-strangers", "resource limits of processes of other users", processes::limits_strangers),
    deadly("signals-everybody", "SIGTERM to everything it may signal; a witness on the host must live", processes::signals_everybody),
    batch("overwrites-init", "the file that process 1 runs from", files::overwrites_init),
    // The kernel.
    batch("loads-bpf", "a bpf map and a bpf program", |_| kernel::loads_programs()),
    batch("sets-up-io-uring", "an io_uring, whose operations no filter sees", |_| kernel::sets_up_io_uring()),
    batch("registers-rseq", "memory that the kernel writes to with each switch", |_| kernel::registers_restartable_sequences()),
    batch("opens-perf", "a perf event", |_| kernel::opens_perf()),
    batch("handles-page-faults", "a userfaultfd", |_| kernel::handles_page_faults()),
    batch("loads-modules", "init_module and finit_module", |_| kernel::loads_modules()),
    batch("removes-modules", "delete_module", |_| kernel::removes_modules()),
    batch("autoloads-modules", "modules that the kernel loads on demand", |_| kernel::makes_the_kernel_load_modules()),
    batch("loads-kernel", "kexec", |_| kernel::loads_another_kernel()),
    batch("reboots", "reboot, with a wrong magic number in case it is permitted", |_| kernel::reboots()),
    batch("swaps", "swapon and swapoff", |_| kernel::swaps()),
    batch("accounts", "process accounting", |_| kernel::accounts()),
    batch("sets-quotas", "disk quotas", |_| kernel::sets_quotas()),
    batch("sets-clock", "the clock, to what it is", |_| kernel::sets_the_clock()),
    batch("tunes-clock", "the clock's tick, to what it is", |_| kernel::tunes_the_clock()),
    batch("sets-wake-alarm", "a timer that wakes the machine", |_| kernel::sets_a_wake_alarm()),
    batch("renames-host", "host name and domain name", |_| kernel::renames_the_host()),
    batch("reaches-ports", "I/O ports", |_| kernel::reaches_ports()),
    batch("reads-kernel-log", "the kernel's log, for reading and writing", |_| kernel::reads_the_kernel_log()),
    batch("finds-kernel-addresses", "where the kernel is in memory", |_| kernel::finds_kernel_addresses()),
    batch("watches-everything", "fanotify with the right to hold up others", |_| kernel::watches_everything()),
    batch("opens-by-handle", "files by handle, without a path", |_| kernel::opens_by_handle()),
    batch("hangs-up", "vhangup on the caller's terminal", |_| kernel::hangs_up()),
    batch("reads-keyrings", "the special keyrings", |_| kernel::reads_keyrings()),
    batch("adds-keys", "a key in the session's keyring", |_| kernel::adds_keys()),
    batch("requests-keys", "a key that the kernel would call a program on the host for", |_| kernel::requests_keys()),
    batch("joins-keyrings", "the caller's session keyring described, another joined", |_| kernel::joins_keyrings()),
    // Files and devices.
    batch("finds-devices", "device nodes beyond the seven that are allowed", files::finds_devices),
    batch("makes-block-devices", "block device nodes", |_| files::makes_devices(BLOCK, &[(8, 0), (253, 0), (254, 0), (7, 0), (259, 0)])),
    batch("makes-character-devices", "memory, kernel log, kvm as nodes of its own", |_| {
        files::makes_devices(CHARACTER, &[(1, 1), (1, 2), (1, 4), (1, 11), (10, 232), (10, 237), (10, 200)])
    }),
    batch("opens-devices", "memory, disks, kvm, tun, loop control", |_| {
        files::opens(
            &[
                "/dev/mem",
                "/dev/kmem",
                "/dev/port",
                "/dev/vda",
                "/dev/sda",
                "/dev/nvme0n1",
                "/dev/loop0",
                "/dev/loop-control",
                "/dev/kvm",
                "/dev/net/tun",
                "/dev/mapper/control",
                "/dev/vhost-net",
                "/dev/vsock",
                "/dev/cuse",
                "/dev/btrfs-control",
                "/dev/autofs",
                "/dev/uinput",
                "/dev/snapshot",
            ],
            libc::O_RDWR,
        )
    }),
    batch("opens-terminals", "pseudo terminals of the host", |_| files::opens_terminals()),
    batch("may-type", "TIOCSTI and TIOCLINUX, which the filter must refuse whatever they are tried on", |_| files::may_type()),
    batch("types-into-terminal", "TIOCSTI: commands typed for the caller", |_| files::types_into_terminal()),
    batch("writes-core-pattern", "the program that the kernel runs as root when something crashes", |_| {
        files::opens(&["/proc/sys/kernel/core_pattern"], libc::O_WRONLY)
    }),
    batch("writes-kernel-programs", "other programs that the kernel runs as root", |_| {
        files::opens(
            &["/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper"],
            libc::O_WRONLY,
        )
    }),
    batch("writes-sysctls", "any file below /proc/sys", |_| files::opens_for_writing("/proc/sys", &[])),
    batch("writes-sysrq", "/proc/sysrq-trigger", |_| files::opens(&["/proc/sysrq-trigger"], libc::O_WRONLY)),
    batch("writes-proc", "any other file of /proc that belongs to no process", |_| files::opens_proc_for_writing()),
    batch("writes-sysfs", "any file below /sys", |_| files::opens_for_writing("/sys", &[])),
    batch("reads-pagemaps", "physical memory by number, and the like", |_| {
        files::opens(
            &[
                "/proc/kpagecount",
                "/proc/kpageflags",
                "/proc/kcore",
                "/proc/vmallocinfo",
                "/proc/1/pagemap",
                "/proc/1/stack",
                "/proc/1/syscall",
            ],
            libc::O_RDONLY,
        )
    }),
    batch("writes-image", "files of the image, which are writable for everybody", |_| files::writes_image()),
    batch(
        "writes-under-target",
        "a file in the target before there is a mount; the host's directory must stay empty",
        files::writes_under_target,
    ),
    batch("opens-image-devices", "a device node of the image", |_| files::opens_image_devices()),
    batch("removes-from-image", "files of the image moved and removed", |_| files::removes_from_image()),
    batch("changes-image-attributes", "mode, owner, times and attributes of the image's files", |_| files::changes_image_attributes()),
    batch("sets-inode-flags", "chattr on the image's files", |_| files::sets_inode_flags()),
    batch("links-image", "hard links out of the image and into it", |_| files::links_image()),
    batch("reads-host-files", "the host's /root, /home, /etc/shadow, our own state", |_| files::reads_host_files()),
    batch("climbs-out", "../../.. from everywhere", |_| files::climbs_out()),
    batch("climbs-out-moved", ".. from a directory that was moved", |_| files::climbs_out_of_moved_directory()),
    batch("writes-to-disk", "a writable place that is on the host's disk", files::writes_to_disk),
    // The directory of the host that it is given as its source.
    batch("source-set-id-modes", "set-user-id and set-group-id bits on files of its own", |_| source::changes_modes()),
    batch("source-set-id-files", "new files with such bits, by every call that makes files", |_| source::makes_files()),
    batch("source-file-capabilities", "capabilities on files of its own", |_| source::makes_file_capabilities()),
    batch("source-reads-foreign", "what root and others keep for themselves there", |_| source::reads_foreign()),
    batch("source-changes-foreign", "what belongs to root and others there", |_| source::changes_foreign()),
    batch("source-gives-away", "its own files, as another user's", |_| source::gives_files_away()),
    batch("source-devices", "a device node in there", |_| source::opens_devices()),
    batch("source-lax", "the source without nosuid and nodev", source::is_lax),
    // The network.
    batch("connects-abstract", "an abstract socket of the host", |_| network::connects_to_abstract()),
    batch("sends-abstract", "a datagram to an abstract socket of the host", |_| network::sends_to_abstract()),
    batch("connects-any-abstract", "every abstract socket that is listed", |_| network::connects_to_any_abstract()),
    batch("connects-paths", "sockets in the host's /run and /tmp", |_| network::connects_to_paths()),
    batch("opens-raw-socket", "raw IP", |_| network::opens_socket(libc::AF_INET, &[libc::SOCK_RAW], libc::IPPROTO_ICMP)),
    batch("opens-packet-socket", "everything on the wire", |_| {
        network::opens_socket(libc::AF_PACKET, &[libc::SOCK_RAW, libc::SOCK_DGRAM], 0x0300)
    }),
    batch("opens-alg-socket", "the kernel's ciphers", |_| network::opens_socket(libc::AF_ALG, &[libc::SOCK_SEQPACKET], 0)),
    batch("opens-vsock", "the hypervisor", |_| network::opens_socket(libc::AF_VSOCK, &[libc::SOCK_STREAM, libc::SOCK_DGRAM], 0)),
    batch("opens-other-families", "every socket family that no client needs", |_| network::opens_other_families()),
    batch("opens-other-protocols", "protocols that no client needs", |_| network::opens_other_protocols()),
    batch("opens-other-types", "types of sockets that stand for a protocol", |_| network::opens_other_types()),
    batch("opens-other-netlink", "every netlink protocol but routing", |_| network::opens_other_netlink()),
    batch("pairs-other-families", "pairs of every family that no client needs: the kernel loads it before it refuses", |_| {
        network::pairs_other_families()
    }),
    batch("pairs-reach-abstract", "a pair of datagram sockets, which can be sent from to any name", |_| network::sends_from_pair()),
    batch("adds-interface", "a network interface", |_| network::adds_interface()),
    batch("adds-route", "a route", |_| network::adds_route()),
    batch("adds-address", "an address", |_| network::adds_address()),
    batch("changes-firewall", "the firewall", |_| network::changes_firewall()),
    batch("sets-interface", "flags and size of the loopback interface, to what they are", |_| network::sets_interface_flags()),
    batch("writes-audit", "audit records", |_| network::writes_audit()),
    batch("sends-uevents", "device events in the kernel's name", |_| network::sends_device_events()),
    batch("binds-low-ports", "ports below 1024", |_| network::binds_low_ports()),
    batch("forces-socket-options", "marks, forced buffers, repair mode", |_| network::forces_socket_options()),
    batch("forges-credentials", "credentials of others along a socket", |_| network::forges_credentials()),
    // Using up what others need.
    deadly("fills-memory", "four times its limit of memory", |_| exhaustion::fills_memory()),
    deadly("fills-memory-files", "the same in anonymous files", |_| exhaustion::fills_memory_files()),
    deadly("fills-shared-segments", "the same in shared memory segments", |_| exhaustion::fills_shared_segments()),
    deadly("fills-scratch", "the same in every directory it may write to", |_| exhaustion::fills_scratch()),
    deadly("fills-inodes", "400,000 empty files", |_| exhaustion::fills_inodes()),
    deadly("fills-processes", "four times its limit of processes", |_| exhaustion::fills_processes()),
    deadly("fills-threads", "the same in threads", |_| exhaustion::fills_threads()),
    deadly("fills-message-queues", "2,000 message queues", |_| exhaustion::fills_message_queues()),
    alone("fills-log", "50 MB of output", exhaustion::fills_log),
    alone("fills-log-line", "20 MB of output in one line", exhaustion::fills_log_with_one_line),
    alone("fills-syslog", "a flood of messages to /dev/log: long, empty, and with descriptors", |_| exhaustion::fills_syslog()),
    failing("speaks-to-terminal", "terminal control codes as last words", exhaustion::speaks_to_the_terminal),
    alone("starves-inotify", "all inotify instances, also those of the host's root", |_| exhaustion::starves_inotify()),
    alone("starves-signals", "all queued signals, also those of the host's root", |_| exhaustion::starves_signals()),
    batch("dumps-core", "a crash that starts the host's core dump handler", |_| exhaustion::dumps_core()),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_at_least_a_hundred_rows_each_with_its_own_name() {
        let mut names: Vec<&str> = ALL.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(names.len() >= 110);
    }
}
