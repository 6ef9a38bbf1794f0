//! In: the unpacked packages. Out: a layer with what their scripts would have made and mount clients need: users, alternatives, the bundle
//! of CA certificates, the loader's cache.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

use crate::architecture::Architecture;
use crate::loader;
use crate::skeleton::Layer;
use crate::unpacked::Unpacked;

/// Users and groups of every Debian system that files in an image may refer to, then those that packages would add. The ids of the latter
/// are chosen by us: a package takes the next free one.
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

/// Names that a package's script links to one of several programs: link, target.
const ALTERNATIVES: [(&str, &str); 4] = [
    ("usr/bin/awk", "mawk"),
    ("usr/bin/which", "which.debianutils"),
    ("etc/cifs-utils/idmap-plugin", "../../usr/lib/{triplet}/cifs-utils/idmapwb.so"),
    ("usr/bin/nc", "nc.openbsd"),
];

/// Every TLS library of Debian looks here.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
const CERTIFICATES: &str = "usr/share/ca-certificates";

/// A plain tar archive with what the unpacked packages below `root` still lack. Existing files stay as they are.
pub fn layer(root: BorrowedFd<'_>, architecture: Architecture) -> io::Result<Vec<u8>> {
    let image = Unpacked::below(root);
    let mut layer = Layer::new();
    let mut add = |path: &str, mode: u32, content: &[u8]| if image.has(path) { Ok(()) } else { layer.file(path, mode, content) };
    add("etc/passwd", 0o644, passwd().as_bytes())?;
    add("etc/group", 0o644, group().as_bytes())?;
    add("etc/shadow", 0o640, shadow().as_bytes())?;
    add("etc/nsswitch.conf", 0o644, NAME_SERVICES.as_bytes())?;
    let certificates = certificates(&image)?;
    if !certificates.is_empty() {
        add(BUNDLE, 0o644, &certificates)?;
    }
    if let Some(cache) = loader::cache(&image)? {
        add(loader::CACHE, 0o644, &cache)?;
    }
    for (link, target) in ALTERNATIVES {
        let target = target.replace("{triplet}", architecture.triplet);
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

/// Password logins are disabled.
fn shadow() -> String {
    USERS.iter().map(|(name, ..)| format!("{name}:*:19000:0:99999:7:::\n")).collect()
}

/// All CA certificates in one file, sorted by name.
fn certificates(image: &Unpacked<'_>) -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    collect(image, CERTIFICATES, 0, &mut files)?;
    files.sort();
    let mut bundle = Vec::new();
    for file in files {
        bundle.extend_from_slice(&image.read(&file, u64::MAX)?);
        if bundle.last().is_some_and(|last| *last != b'\n') {
            bundle.push(b'\n');
        }
    }
    Ok(bundle)
}

fn collect(image: &Unpacked<'_>, path: &str, depth: u32, files: &mut Vec<String>) -> io::Result<()> {
    for (name, kind) in image.list(path)? {
        let path = format!("{path}/{name}");
        match kind {
            FileType::Directory if depth < 4 && !name.starts_with('.') => collect(image, &path, depth + 1, files)?,
            FileType::RegularFile if name.ends_with(".crt") => files.push(path),
            _ => {}
        }
    }
    Ok(())
}
