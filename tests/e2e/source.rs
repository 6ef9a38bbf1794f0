//! A directory of the host as a client's source: what the client can do to it, and what it cannot.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use shorefast_tests::client::Request;
use shorefast_tests::kernel::owners_can_be_mapped;
use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::{Client, Host, Way, mountinfo};

/// Tries all of it and leaves a line for each in the mount: what was tried, and whether it worked or what came out.
const SCRIPT: &str = r#"
s=/shorefast/source
can() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "$what yes"; else echo "$what no"; fi >> /tmp/said; }
put() { echo changed >> "$1"; }
can read-public cat $s/public
can read-private cat $s/private
can read-theirs cat $s/theirs
can write-public put $s/public
can write-private put $s/private
can write-open put $s/open/file
can make-in-root put $s/made
can make-in-open put $s/open/made
can set-uid chmod 4755 $s/open/made
can set-uid-by-letters chmod u+s $s/open/made
can set-gid chmod 2755 $s/open/made
can plain-mode chmod 755 $s/open/made
echo "owner-root $(stat -c %u $s/public)" >> /tmp/said
echo "owner-theirs $(stat -c %u $s/theirs)" >> /tmp/said
echo "owner-made $(stat -c %u $s/open/made)" >> /tmp/said
mount -t tmpfs none "$1" && cat /tmp/said > "$1/said"
"#;

/// What a client that is the host's root itself would find: files of root's and of another user, some for nobody else.
fn make_source(host: &Host) -> PathBuf {
    let source = host.directory("source");
    let mode = |name: &str, mode| fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    fs::create_dir(source.join("open")).expect("the test's own");
    for (name, bits) in [("public", 0o644), ("private", 0o600), ("theirs", 0o640), ("open/file", 0o666)] {
        fs::write(source.join(name), "as it was\n").expect("the test's own");
        mode(name, bits);
    }
    mode("open", 0o777);
    chown(source.join("theirs"), Some(1000), Some(1000)).expect("root may do that");
    source
}

/// Name, content, mode, owner and times of all that is in it.
fn snapshot(source: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32, i64, i64)> {
    let mut all = BTreeMap::new();
    for directory in [source.to_owned(), source.join("open")] {
        for path in fs::read_dir(&directory).expect("it is there").flatten().map(|entry| entry.path()) {
            let meta = fs::symlink_metadata(&path).expect("it was just listed");
            let state = (fs::read(&path).unwrap_or_default(), meta.mode(), meta.uid(), meta.mtime_nsec(), meta.ctime_nsec());
            all.insert(path, state);
        }
    }
    all
}

fn said(target: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(target.join("said")).expect("the client left its words");
    text.lines().filter_map(|line| line.split_once(' ')).map(|(what, answer)| (what.to_owned(), answer.to_owned())).collect()
}

fn assert_said(said: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (what, answer) in expected {
        assert_eq!(said.get(*what).map(String::as_str), Some(*answer), "{what} of {said:?}");
    }
}

/// No call of a client sets these bits, whoever it is.
const NO_SET_ID: [(&str, &str); 4] = [("set-uid", "no"), ("set-uid-by-letters", "no"), ("set-gid", "no"), ("plain-mode", "yes")];

/// What others may.
const AS_OTHERS: [(&str, &str); 8] = [
    ("read-public", "yes"),
    ("read-private", "no"),
    ("read-theirs", "no"),
    ("write-public", "no"),
    ("write-private", "no"),
    ("write-open", "yes"),
    ("make-in-root", "no"),
    ("make-in-open", "yes"),
];

fn owner_of_made(source: &Path) -> u32 {
    fs::metadata(source.join("open/made")).expect("the client made it").uid()
}

#[test]
fn a_client_reaches_its_source_as_others_do() {
    // Who may keep owners, and has no user namespace to do that in, has the rights of others.
    for namespaces in ["", "namespaces = { user = \"host\" }", "source_access = \"keep-owners\"\nnamespaces = { user = \"host\" }"] {
        let Some(host) = Host::new() else { return };
        let client = Client::script(&host, SCRIPT, &format!("source = \"path\"\n{namespaces}"));
        let source = make_source(&host);
        let target = host.directory("target");
        Request::new(&client, "script", &source, &target).sandboxed(&host).succeeds();
        let said = said(&target);
        assert_said(&said, &AS_OTHERS);
        assert_said(&said, &NO_SET_ID);
        // Nobody of the host owns what it makes.
        assert!(owner_of_made(&source) >= 2_000_000_000, "{}", owner_of_made(&source));
        let in_namespace = namespaces.is_empty() && owners_can_be_mapped();
        let root = if in_namespace { "65534" } else { "0" };
        assert_said(&said, &[("owner-theirs", "1000"), ("owner-root", root)]);
        if in_namespace {
            assert_said(&said, &[("owner-made", "0")]);
        }
        assert_eq!(fs::read_to_string(source.join("private")).expect("root may"), "as it was\n");
        drop(host.shorefast(&["umount", text(&target)]).succeeds());
    }
}

#[test]
fn only_a_definition_that_says_so_makes_roots_files_the_clients() {
    let Some(host) = Host::new() else { return };
    if !owners_can_be_mapped() {
        return println!("left out: without mapped owners a client is a dedicated user, and never root to its source");
    }
    let client = Client::script(&host, SCRIPT, "source = \"path\"\nsource_access = \"as-root\"");
    let source = make_source(&host);
    let target = host.directory("target");
    Request::new(&client, "script", &source, &target).sandboxed(&host).succeeds();
    let said = said(&target);
    let granted = ["read-private", "write-public", "write-private", "write-open", "make-in-root", "make-in-open"];
    assert_said(&said, &granted.map(|what| (what, "yes")));
    assert_said(&said, &[("read-theirs", "no"), ("owner-root", "0"), ("owner-theirs", "1000")]);
    assert_said(&said, &NO_SET_ID);
    assert_eq!(owner_of_made(&source), 0);
    host.shorefast(&["umount", text(&target)]).succeeds();
}

/// Rights that count for the source only: in a user namespace whose ids nothing else has.
#[test]
fn only_a_definition_that_says_so_makes_everybodys_files_the_clients() {
    let Some(host) = Host::new() else { return };
    if !owners_can_be_mapped() {
        return println!("left out: without mapped owners, nothing of the source is in the client's user namespace");
    }
    // The image's own files are not the source's: they belong to the host's root, who is nobody inside.
    let more = r#"
can give-away chown 1000:1001 $s/open/made
can give-to-root chown 0:0 $s/theirs
can take-away rm $s/private
can own-an-id-of-the-host chown 100000 $s/public
can change-the-image chown 1000 /bin
can write-the-image touch /bin/new
can make-a-device mknod $s/device c 1 3
echo "capabilities $(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)" >> /tmp/said
mount -t tmpfs"#;
    let script = SCRIPT.replacen("\nmount -t tmpfs", more, 1);
    let client = Client::script(&host, &script, "source = \"path\"\nsource_access = \"keep-owners\"");
    let source = make_source(&host);
    let target = host.directory("target");
    Request::new(&client, "script", &source, &target).sandboxed(&host).succeeds();
    let said = said(&target);
    let granted =
        ["read-private", "read-theirs", "write-public", "write-private", "make-in-root", "give-away", "give-to-root", "take-away"];
    assert_said(&said, &granted.map(|what| (what, "yes")));
    let refused = ["own-an-id-of-the-host", "change-the-image", "write-the-image", "make-a-device"];
    assert_said(&said, &refused.map(|what| (what, "no")));
    // chown, dac_override, dac_read_search, fowner, setgid, setuid.
    assert_said(&said, &[("capabilities", "00000000000000cf"), ("owner-root", "0"), ("owner-theirs", "1000")]);
    assert_said(&said, &NO_SET_ID);
    let owners = |name: &str| fs::metadata(source.join(name)).map(|meta| (meta.uid(), meta.gid())).expect("it is there");
    assert_eq!((owners("open/made"), owners("theirs")), ((1000, 1001), (0, 0)));
    assert!(!source.join("private").exists() && !source.join("device").exists());
    host.shorefast(&["umount", text(&target)]).succeeds();
}

#[test]
fn a_read_only_mount_has_a_read_only_source() {
    // Where the caller says it, and where the definition does; where the client has the rights of others, of root's files, and all rights.
    let rows = [
        ("ro", "", Way::Directory),
        ("defaults,ro,nofail", "namespaces = { user = \"host\" }", Way::Directory),
        ("", "options = [\"ro\"]", Way::Directory),
        ("rw", "options = [\"ro\"]", Way::Directory),
        ("ro", "source_access = \"as-root\"", Way::Directory),
        ("ro", "source_access = \"keep-owners\"", Way::Directory),
        ("ro", "", Way::Chroot),
    ];
    for (options, keys, way) in rows {
        let Some(host) = Host::new() else { return };
        // The mount itself is read-only, so the words go where a client's words go.
        let script = SCRIPT.replace("cat /tmp/said > \"$1/said\"", "cat /tmp/said").replace("-t tmpfs", "-t tmpfs -o ro");
        let client = Client::script(&host, &format!("{script}\nsleep 1"), &format!("source = \"path\"\n{keys}"));
        let source = make_source(&host);
        let before = snapshot(&source);
        let target = host.directory("target");
        Request::new(&client, "script", &source, &target).options(options).mount(&host, way).succeeds();
        assert!(mountinfo::at(&target)[0].has("ro"), "{options} {keys}");
        assert_eq!(snapshot(&source), before, "{options} {keys} {way:?}");
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
}

/// Who sees the host's root without its rights, in a container without a user namespace, gets no more of the host's files.
#[test]
fn a_client_in_a_container_reaches_its_source_as_others_do() {
    let Some(host) = Host::new() else { return };
    if !owners_can_be_mapped() {
        return println!("left out: no filesystem here can show other owners");
    }
    let runtime = Runtime::start(&host, Kind::Containerd);
    runtime.run(&host, "clients", "role=mounter");
    let source = make_source(&host);
    let target = host.directory("target");
    let define = |keys: &str| {
        let script = toml::Value::String(SCRIPT.to_owned());
        let definition = format!(
            "types = [\"inside\"]\nkernel_types = [\"tmpfs\"]\nmode = \"exec\"\ncontainer = \"role=mounter\"\nsource = \"path\"\n{keys}\n\
             command = [\"sh\", \"-c\", {script}, \"sh\", \"{{target}}\"]\n"
        );
        host.define("inside", &definition);
    };
    define("");
    host.shorefast(&["mount", "-t", "inside", text(&source), text(&target)]).succeeds();
    let heard = said(&target);
    assert_said(&heard, &AS_OTHERS);
    assert_said(&heard, &NO_SET_ID);
    assert!(owner_of_made(&source) >= 2_000_000_000, "{}", owner_of_made(&source));
    host.shorefast(&["umount", text(&target)]).succeeds();

    define("source_access = \"as-root\"");
    fs::remove_file(format!("/proc/{}/root/tmp/said", runtime.pid("clients"))).expect("the client left it there");
    fs::remove_file(source.join("open/made")).expect("root may do that");
    host.shorefast(&["mount", "-t", "inside", text(&source), text(&target)]).succeeds();
    let heard = said(&target);
    assert_said(&heard, &[("read-private", "yes"), ("make-in-root", "yes")]);
    assert_said(&heard, &NO_SET_ID);
    host.shorefast(&["umount", text(&target)]).succeeds();
}

/// What others ask a pass-through client for, it asks the kernel for; and they hear why not.
#[test]
fn a_pass_through_mount_says_that_set_id_files_cannot_be_made() {
    let Some(host) = Host::new() else { return };
    let source = host.directory("source");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", &source, host.directory("target"));
    request.sandboxed(&host).succeeds();
    let file = request.target.join("file");
    File::create(&file).expect("everybody may write there");
    let change = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode));
    change(0o755).expect("the client owns what it makes");
    for mode in [0o4755, 0o2755] {
        assert_eq!(change(mode).expect_err("a set-id file").kind(), std::io::ErrorKind::PermissionDenied);
        let made = OpenOptions::new().create_new(true).write(true).mode(mode).open(request.target.join("new"));
        assert!(made.is_err() || fs::metadata(source.join("new")).expect("it was made").mode() & 0o6000 == 0);
        drop(fs::remove_file(source.join("new")));
    }
    assert_eq!(fs::metadata(source.join("file")).expect("it is there").mode() & 0o7777, 0o755);
    host.shorefast(&["umount", text(&request.target)]).succeeds();
    host.assert_nothing_left();
}
