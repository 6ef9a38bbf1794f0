//! archivemount: a client that rewrites its source when it ends.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, Way, command, kernel, mountinfo, wait};

/// A client that rewrites its source: the old file is renamed, a new one is written in its place.
const DEFINITION: &str = r#"
types = ["archivemount"]
kernel_types = ["fuse.archivemount"]
source = "path"
source_access = "as-root"
source_writes = "replace"
command = ["archivemount", "-o", "{options}", "{source}", "{target}"]
"#;

fn archive(host: &Host) -> PathBuf {
    let directory = host.directory("archives");
    let content = host.directory("content");
    fs::write(content.join("old"), "as it was\n").expect("the test's own");
    let archive = directory.join("data.tar.gz");
    command::run(&["tar", "-czf", text(&archive), "-C", text(&content), "old"]);
    archive
}

fn holds(archive: &Path, name: &str) -> Option<String> {
    let mut tar = std::process::Command::new("tar");
    tar.args(["-xzOf", text(archive), name]);
    let ran = command::finish(tar);
    (ran.code == Some(0)).then_some(ran.stdout)
}

fn saves(way: Way) {
    let Some(host) = Host::new() else { return };
    let client = Client::defined(&host, "archivemount", DEFINITION);
    let (archive, target) = (archive(&host), host.directory("target"));
    let request = Request::new(&client, "archivemount", &archive, &target).options("nobackup");
    request.mount(&host, way).succeeds();
    assert_eq!(fs::read_to_string(target.join("old")).expect("it is in the archive"), "as it was\n");
    let written = fs::write(target.join("new"), "written through the mount\n");
    if way != Way::Native && !kernel::owners_can_be_mapped() {
        // A dedicated user may not write root's archive, and archivemount says so at once: nothing is lost.
        assert_eq!(written.expect_err("it cannot be saved").kind(), ErrorKind::ReadOnlyFilesystem);
        host.shorefast(&["umount", text(&target)]).succeeds();
        return;
    }
    written.expect("the archive is writable");
    if way == Way::Native {
        command::run(&["umount", text(&target)]);
    } else {
        let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
        assert_eq!(mount.source.to_str(), Some("archivemount"), "as natively");
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    wait::until("the archive to be written", || holds(&archive, "new").filter(|content| content == "written through the mount\n"));
    assert_eq!(holds(&archive, "old").as_deref(), Some("as it was\n"));
    host.assert_nothing_left();
}

#[test]
fn natively() {
    saves(Way::Native);
}

#[test]
fn sandboxed() {
    saves(Way::Directory);
}

/// What could not be saved is refused before anything is written.
#[test]
fn what_cannot_be_replaced_is_refused_at_mount() {
    let keys = |access: &str, writes: &str| {
        DEFINITION.replace("source_access = \"as-root\"\n", access).replace("source_writes = \"replace\"\n", writes)
    };
    let replace = "source_writes = \"replace\"\n";
    let rows = [
        ("how it writes is not known", keys("source_access = \"as-root\"\n", ""), 0o755, 1, "source_writes"),
        ("a directory that others may not write to", keys("", replace), 0o755, 32, "would be lost"),
        ("a directory in which others may not rename", keys("", replace), 0o1777, 32, "would be lost"),
        ("a directory that root may not write to", keys("source_access = \"as-root\"\n", replace), 0o555, 32, "would be lost"),
    ];
    for (row, definition, mode, code, words) in rows {
        let Some(host) = Host::new() else { return };
        let client = Client::defined(&host, "archivemount", &definition);
        let (archive, target) = (archive(&host), host.directory("target"));
        fs::set_permissions(archive.parent().expect("it has one"), fs::Permissions::from_mode(mode)).expect("the test's own");
        println!("{row}");
        let request = Request::new(&client, "archivemount", &archive, &target);
        request.sandboxed(&host).exits(code).says(words);
        request.options("ro").sandboxed(&host).succeeds();
        assert_eq!(fs::read_to_string(target.join("old")).expect("it is in the archive"), "as it was\n");
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
}
