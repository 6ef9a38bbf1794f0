//! What the packages' scripts would have made and mount clients need: users, alternatives, the bundle of CA certificates.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};

use crate::skeleton::Layer;

/// Users and groups that every Debian system has and something in an image may ask for, then those that packages would add.
/// The numbers of the latter are ours: a package takes the next free one.
const USERS: [(&str, u32, &str, &str); 11] = [
    ("root", 0, "/root", "/bin/sh"),
    ("daemon", 1, "/usr/sbin", "/usr/sbin/nologin"),
    ("bin", 2, "/bin", "/usr/sbin/nologin"),
    ("sys", 3, "/dev", "/usr/sbin/nologin"),
    ("sshd", 100, "/run/sshd", "/usr/sbin/nologin"),
    ("statd", 101, "/var/lib/nfs", "/usr/sbin/nologin"),
    ("_rpc", 102, "/run/rpcbind", "/usr/sbin/nologin"),
    ("davfs2", 103, "/var/cache/davfs2", "/usr/sbin/nologin"),
    ("gluster", 104, "/var/lib/glusterd", "/usr/sbin/nologin"),
    ("ceph", 64045, "/var/lib/ceph", "/usr/sbin/nologin"),
    ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin"),
];

const GROUPS: [(&str, u32); 16] = [
    ("root", 0),
    ("daemon", 1),
    ("bin", 2),
    ("sys", 3),
    ("adm", 4),
    ("tty", 5),
    ("disk", 6),
    ("users", 100),
    ("sshd", 110),
    ("statd", 111),
    ("_rpc", 112),
    ("davfs2", 113),
    ("gluster", 114),
    ("ceph", 64045),
    ("fuse", 115),
    ("nogroup", 65534),
];

const NAME_SERVICES: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";

/// Names that a script of a package links to one of several programs: link, what it leads to.
const ALTERNATIVES: [(&str, &str); 4] = [
    ("usr/bin/awk", "mawk"),
    ("usr/bin/which", "which.debianutils"),
    ("etc/cifs-utils/idmap-plugin", "../../usr/lib/{triplet}/cifs-utils/idmapwb.so"),
    ("usr/bin/nc", "nc.openbsd"),
];

/// Every TLS library of Debian looks here.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
const CERTIFICATES: &str = "usr/share/ca-certificates";

/// A plain tar archive with what the unpacked packages below `root` still lack. What they have stays as it is.
pub fn layer(root: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let image = Image { root };
    let mut layer = Layer::new();
    let mut add = |path: &str, mode: u32, content: &[u8]| if image.has(path) { Ok(()) } else { layer.file(path, mode, content) };
    add("etc/passwd", 0o644, passwd().as_bytes())?;
    add("etc/group", 0o644, group().as_bytes())?;
    add("etc/shadow", 0o640, shadow().as_bytes())?;
    add("etc/nsswitch.conf", 0o644, NAME_SERVICES.as_bytes())?;
    let certificates = image.certificates()?;
    if !certificates.is_empty() {
        add(BUNDLE, 0o644, &certificates)?;
    }
    for (link, target) in ALTERNATIVES {
        let target = target.replace("{triplet}", triplet());
        let directory = link.rsplit_once('/').map_or("", |(directory, _)| directory);
        if !image.has(link) && image.has(&format!("{directory}/{target}")) {
            layer.link(link, &target)?;
        }
    }
    layer.finish()
}

fn passwd() -> String {
    let group = |name: &str| GROUPS.iter().find(|(group, _)| *group == name).map_or(65534, |(_, id)| *id);
    USERS.iter().map(|(name, id, home, shell)| format!("{name}:x:{id}:{}:{name}:{home}:{shell}\n", group(name))).collect()
}

fn group() -> String {
    GROUPS.iter().map(|(name, id)| format!("{name}:x:{id}:\n")).collect()
}

/// Nobody logs in with a password.
fn shadow() -> String {
    USERS.iter().map(|(name, ..)| format!("{name}:*:19000:0:99999:7:::\n")).collect()
}

fn triplet() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86_64-linux-gnu",
        "aarch64" => "aarch64-linux-gnu",
        "x86" => "i386-linux-gnu",
        "arm" => "arm-linux-gnueabihf",
        "riscv64" => "riscv64-linux-gnu",
        "powerpc64" => "powerpc64le-linux-gnu",
        "s390x" => "s390x-linux-gnu",
        _ => "",
    }
}

/// The unpacked packages. Paths are resolved within them, whatever their links say.
struct Image<'a> {
    root: BorrowedFd<'a>,
}

impl Image<'_> {
    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    /// A link counts, wherever it leads.
    fn has(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    /// All CA certificates in one file, in the order of their names.
    fn certificates(&self) -> io::Result<Vec<u8>> {
        let mut files = Vec::new();
        self.collect(CERTIFICATES, 0, &mut files)?;
        files.sort();
        let mut bundle = Vec::new();
        for file in files {
            std::fs::File::from(self.open(&file, OFlags::RDONLY | OFlags::NONBLOCK)?).read_to_end(&mut bundle)?;
            if bundle.last().is_some_and(|last| *last != b'\n') {
                bundle.push(b'\n');
            }
        }
        Ok(bundle)
    }

    fn collect(&self, path: &str, depth: u32, files: &mut Vec<String>) -> io::Result<()> {
        let Ok(directory) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return Ok(()) };
        for entry in Dir::read_from(directory.as_fd())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let path = format!("{path}/{name}");
            match entry.file_type() {
                FileType::Directory if depth < 4 && !name.starts_with('.') => self.collect(&path, depth + 1, files)?,
                FileType::RegularFile if name.ends_with(".crt") => files.push(path),
                _ => {}
            }
        }
        Ok(())
    }
}
