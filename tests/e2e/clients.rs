//! Any client: each mounts, reads, writes and unmounts. The same scenario holds for the natively installed client, which proves
//! the scenario.

use std::fs;
use std::path::{Path, PathBuf};

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::servers::{Gluster, S3, Sshd, Webdav};
use shorefast_tests::{Client, Host, Way, command, mountinfo, wait};

const GREETING: &[u8] = b"hello from the server\n";
const ANSWER: &[u8] = b"hello from the client\n";

/// What must be seen in the mount table.
struct Seen<'a> {
    fstype: &'a str,
    source: &'a str,
}

/// The scenario: the server has a file `greeting`, and `on_server` reads what is there by name.
fn mounts_reads_writes_unmounts(
    host: &Host,
    way: Way,
    request: &Request<'_>,
    seen: &Seen<'_>,
    on_server: impl Fn(&str) -> Option<Vec<u8>>,
) {
    let target = request.target.as_path();
    request.mount(host, way).succeeds();

    let names: Vec<_> = fs::read_dir(target).expect("the mount can be listed").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(names.iter().any(|name| name == "greeting"), "{names:?}");
    assert_eq!(fs::read(target.join("greeting")).expect("the greeting can be read"), GREETING);
    fs::write(target.join("answer"), ANSWER).expect("the mount can be written to");
    wait::until("the answer to reach the server", || on_server("answer").filter(|content| content == ANSWER));

    let [mount] = &mountinfo::at(target)[..] else { panic!("not one mount: {:?}", mountinfo::at(target)) };
    assert_eq!((mount.fstype.as_str(), mount.source.to_str()), (seen.fstype, Some(seen.source)));
    if way != Way::Native {
        assert!(mount.has("nosuid") && mount.has("nodev") && mount.has("rw"), "{mount:?}");
    }

    // Ours fails if the client ends with an error: a healthy one does not.
    if way == Way::Native {
        command::run(&["umount", text(target)]);
    } else {
        host.shorefast(&["umount", text(target)]).succeeds();
    }
    assert_eq!(mountinfo::at(target), []);
    host.assert_nothing_left();
}

fn in_directory(directory: &Path) -> impl Fn(&str) -> Option<Vec<u8>> {
    move |name| fs::read(directory.join(name)).ok()
}

fn greet(directory: &Path) -> PathBuf {
    let file = directory.join("greeting");
    fs::write(&file, GREETING).expect("the server's directory can be written to");
    file
}

mod tmpfs {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let client = Client::named("tmpfs");
        let request = Request::new(&client, "tmpfs", "scratch", host.directory("target")).options("size=1m,mode=700,noexec");
        request.mount(&host, way).succeeds();
        let [mount] = &mountinfo::at(&request.target)[..] else { panic!("not one mount") };
        assert_eq!((mount.fstype.as_str(), mount.source.to_str()), ("tmpfs", Some("scratch")));
        assert!(mount.has("noexec"), "{mount:?}");
        assert!(mount.superblock_options.contains("size=1024k"), "{mount:?}");
        fs::write(request.target.join("file"), ANSWER).expect("the mount can be written to");
        // Nothing serves it: what was needed to mount it is gone while it is mounted.
        wait::until("the sandbox to end", || host.sandboxed().is_empty().then_some(()));
        command::run(&["umount", text(&request.target)]);
        host.assert_nothing_left();
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    #[test]
    fn in_a_chroot() {
        scenario(Way::Chroot);
    }
}

mod bindfs {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let source = host.directory("source");
        fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("cannot chmod");
        let greeting = greet(&source);
        std::os::unix::fs::chown(&greeting, Some(1234), Some(5678)).expect("cannot chown");
        let client = Client::named("bindfs");
        let request = Request::new(&client, "bindfs", &source, host.directory("target"));

        request.mount(&host, way).succeeds();
        let seen = fs::metadata(request.target.join("greeting")).expect("the greeting is there");
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&seen), 1234);
        assert_eq!(std::os::unix::fs::MetadataExt::gid(&seen), 5678);
        command::run(&["umount", text(&request.target)]);

        // What a client calls its source by itself, nobody corrects.
        let source_seen = if way == Way::Chroot { "/shorefast/source" } else { text(&source) };
        let seen = Seen { fstype: "fuse", source: source_seen };
        mounts_reads_writes_unmounts(&host, way, &request, &seen, in_directory(&source));
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    #[test]
    fn in_a_chroot() {
        scenario(Way::Chroot);
    }

    #[test]
    fn from_an_archive() {
        scenario(Way::Archive("bindfs.tar"));
    }

    #[test]
    fn from_the_catalogue() {
        scenario(Way::Catalogue);
    }
}

mod sshfs {
    use super::*;

    fn scenario(way: Way, fstype: &str) {
        let Some(host) = Host::new() else { return };
        let server = Sshd::start(&host);
        greet(&server.share);
        let client = Client::named("sshfs");
        let request = Request::new(&client, fstype, server.source(), host.directory("target")).options(server.options());
        let seen = Seen { fstype: "fuse.sshfs", source: &server.source() };
        mounts_reads_writes_unmounts(&host, way, &request, &seen, in_directory(&server.share));
    }

    #[test]
    fn natively() {
        scenario(Way::Native, "sshfs");
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory, "sshfs");
    }

    #[test]
    fn in_a_chroot() {
        scenario(Way::Chroot, "sshfs");
    }

    #[test]
    fn from_an_archive() {
        scenario(Way::Archive("sshfs.tar.zst"), "sshfs");
    }

    #[test]
    fn as_a_fuse_type() {
        scenario(Way::Directory, "fuse.sshfs");
    }

    #[test]
    fn from_the_catalogue() {
        scenario(Way::Catalogue, "sshfs");
    }
}

mod s3fs {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let server = S3::start(&host);
        server.put("greeting", GREETING);
        let client = Client::named("s3fs");
        let options = format!("url=http://{},use_path_request_style,passwd_file={}", server.address, server.password_file.display());
        let request = Request::new(&client, "s3fs", server.source(), host.directory("target")).options(options);
        mounts_reads_writes_unmounts(&host, way, &request, &Seen { fstype: "fuse.s3fs", source: "s3fs" }, |name| server.get(name));
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    #[test]
    fn from_the_catalogue() {
        scenario(Way::Catalogue);
    }
}

mod glusterfs {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let server = Gluster::start(&host);
        let client = Client::named("glusterfs");
        let request = Request::new(&client, "glusterfs", server.source(), host.directory("target"));

        request.mount(&host, way).succeeds();
        greet(&request.target); // through a mount: the brick itself must not be written to
        only_members_of_a_group_read(&request.target);
        command::run(&["umount", text(&request.target)]);

        let seen = Seen { fstype: "fuse.glusterfs", source: &server.source() };
        mounts_reads_writes_unmounts(&host, way, &request, &seen, in_directory(&server.brick));
    }

    /// The caller's supplementary groups count, as on every file system.
    fn only_members_of_a_group_read(target: &Path) {
        let file = target.join("for-the-group");
        fs::write(&file, "secret").expect("the mount can be written to");
        std::os::unix::fs::chown(&file, Some(0), Some(54321)).expect("cannot chown");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("cannot chmod");
        let read_as = |groups: &str| {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=12345", "--regid=12345", groups, "cat", text(&file)]);
            command::finish(command)
        };
        assert_eq!(read_as("--groups=54321").succeeds().stdout, "secret");
        read_as("--clear-groups").exits(1).says("Permission denied");
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    #[test]
    fn in_a_chroot() {
        scenario(Way::Chroot);
    }

    #[test]
    fn from_the_catalogue() {
        scenario(Way::Catalogue);
    }
}

mod rclone {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let server = Webdav::start(&host);
        greet(&server.share);
        let client = Client::named("rclone");
        let source = format!(":webdav,url='{}':", server.url());
        let request = Request::new(&client, "rclone", &source, host.directory("target"));
        mounts_reads_writes_unmounts(&host, way, &request, &Seen { fstype: "fuse.rclone", source: &source }, in_directory(&server.share));
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    /// As a mount helper it takes its flags as options, and its configuration from a file.
    #[test]
    fn from_the_catalogue() {
        let Some(host) = Host::new() else { return };
        let server = Webdav::start(&host);
        greet(&server.share);
        let configuration = host.file("rclone.conf", format!("[dav]\ntype = webdav\nurl = {}\n", server.url()));
        let client = Client::named("rclone");
        let options = format!("config={},vfs_cache_mode=off,dir_cache_time=0s", text(&configuration));
        let request = Request::new(&client, "rclone", "dav:", host.directory("target")).options(options);
        let seen = Seen { fstype: "fuse.rclone", source: "dav:" };
        mounts_reads_writes_unmounts(&host, Way::Catalogue, &request, &seen, in_directory(&server.share));
    }
}

mod davfs2 {
    use super::*;

    fn scenario(way: Way) {
        let Some(host) = Host::new() else { return };
        let server = Webdav::start(&host);
        greet(&server.share);
        let client = Client::named("davfs2");
        let url = server.url();
        let request = Request::new(&client, "davfs", &url, host.directory("target"));
        mounts_reads_writes_unmounts(&host, way, &request, &Seen { fstype: "fuse", source: &url }, in_directory(&server.share));
    }

    #[test]
    fn natively() {
        scenario(Way::Native);
    }

    #[test]
    fn from_a_directory() {
        scenario(Way::Directory);
    }

    #[test]
    fn from_the_catalogue() {
        scenario(Way::Catalogue);
    }
}
