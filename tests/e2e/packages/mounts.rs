//! Every client of the catalogue that is not the subject of another program's tests: from its image, with real data or a real server.
//!
//! What a client mounts is made by its own program, or by others of the same release, in their images: nothing is installed here.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::{Program, S3, Samba, samba};
use shorefast_tests::{Host, client, command, mountinfo, wait};

const GREETING: &[u8] = b"hello from the other side\n";
const ANSWER: &[u8] = b"hello from the client\n";
const SECRET: &str = "correct horse";
const DATA: &str = "/srv/data";

/// Programs that make filesystems, and servers.
const MAKERS: &str = "dosfstools,erofs-utils,genisoimage,moosefs-chunkserver,moosefs-master,nbdkit,python3-pyftpdlib,squashfs-tools";

/// Runs a script in an image, which it may write to, with the test's data where it is outside.
const ENTER: &str = "set -e; place=$(mktemp -d /srv/inside.XXXXXX); mkdir $place/upper $place/work $place/root
mount -t overlay overlay -o lowerdir=$1,upperdir=$place/upper,workdir=$place/work $place/root; cd $place/root
mkdir -p .$2 proc dev tmp; mount --bind $2 .$2; mount --rbind /dev dev; mount -t proc proc proc
exec chroot . /bin/sh -ec \"cd $2; export LC_ALL=C HOME=/tmp; $3\"";

/// These have tests of their own: `clients`, `ceph`, `cifs`, `nfs`, `catalogue`.
const ELSEWHERE: [&str; 10] = ["bindfs", "ceph", "ceph-fuse", "cifs", "davfs", "glusterfs", "nfs", "rclone", "s3fs", "sshfs"];

/// chown, dac_override, dac_read_search, fowner, setgid, setuid: in a user namespace of the client's own.
const OVER_FILES: u64 = 0xcf;

struct Row {
    client: &'static str,
    /// More than its documented line has.
    options: &'static str,
    /// Makes what is mounted, and says what to name as the source.
    scenery: fn(&Scene) -> String,
    /// `{}` is the client's password.
    secret: Option<&'static str>,
    /// The file in the mount that has the greeting.
    reads: Option<&'static str>,
    writes: Writes,
}

enum Writes {
    Nothing,
    /// A new file; it is there, too, when the source is mounted the next time.
    File(&'static str),
    /// A new file, read back at once: another mount takes long.
    FileOnce(&'static str),
    /// Into a file that is there.
    Into(&'static str),
}

pub(super) struct Scene {
    pub(super) host: Host,
    servers: RefCell<Vec<Server>>,
}

#[expect(dead_code, reason = "they are held for what their Drop does")]
pub(super) enum Server {
    Program(Program),
    Samba(Samba),
    S3(S3),
}

impl Scene {
    pub(super) fn new() -> Option<Self> {
        let scene = Self { host: Host::new()?, servers: RefCell::default() };
        scene.host.offer_packages_of(&client::catalogue_packages());
        let plain = scene.directory("plain");
        fs::write(plain.join("greeting"), GREETING).expect("/srv is the test's own");
        fs::write(Path::new(DATA).join("secret"), SECRET).expect("/srv is the test's own");
        Some(scene)
    }

    /// Everybody may write there.
    fn directory(&self, name: &str) -> PathBuf {
        let path = self.host.directory(Path::new("data").join(name));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("/srv is the test's own");
        path
    }

    pub(super) fn keep(&self, server: Server) {
        self.servers.borrow_mut().push(server);
    }

    fn image(&self, reference: &str) -> String {
        let store = client::store();
        let inspect = || self.host.shorefast(&["--root", text(&store), "image", "inspect", "--json", reference]);
        let found = inspect();
        let found = if found.code == Some(0) {
            found
        } else {
            self.host.shorefast(&["--root", text(&store), "image", "pull", reference]).succeeds();
            inspect().succeeds()
        };
        found.json()["rootfs"].as_str().expect("it says where it is").to_owned()
    }

    fn words_inside(&self, reference: &str, script: &str) -> Vec<String> {
        let words = ["unshare", "--mount", "sh", "-c", ENTER, "sh", &self.image(reference), DATA, script];
        words.map(str::to_owned).to_vec()
    }

    /// In the image of the row's client.
    fn with_client(&self, name: &str, script: &str) {
        let shown = self.host.shorefast(&["client", "show", "--json", name]).succeeds().json();
        let reference = shown["keys"]["image"]["value"].as_str().expect("it has an image").to_owned();
        let words = self.words_inside(&reference, script);
        command::run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn with_makers(&self, script: &str) {
        let words = self.words_inside(&format!("packages:debian/trixie?{MAKERS}"), script);
        command::run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(super) fn serve(&self, name: &str, script: &str, address: &str) {
        let words = self.words_inside(&format!("packages:debian/trixie?{MAKERS}"), script);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let address: SocketAddr = address.parse().expect("an address");
        self.keep(Server::Program(Program::start(&self.host, name, &words, address)));
    }

    fn mount(&self, row: &Row, source: &str, target: &Path) {
        let store = client::store();
        let mut words = ["--root", text(&store), "mount", "--timeout", "80s"].map(str::to_owned).to_vec();
        if !row.options.is_empty() {
            words.extend(["-o", row.options].map(str::to_owned));
        }
        let file = row.secret.map(|form| self.host.file("given-secret", form.replace("{}", SECRET)));
        words.extend(self.example(row.client, source, target, file.as_deref()));
        self.host.shorefast(&words).succeeds();
    }

    /// The documented line of the client (docs/EXAMPLES.md), with our names in the place of those that it has; what follows `mount`.
    fn example(&self, name: &str, source: &str, target: &Path, secret: Option<&Path>) -> Vec<String> {
        let shown = self.host.shorefast(&["client", "show", name, "--example"]).succeeds().stdout;
        let line = shown.lines().find_map(|line| line.strip_prefix("shorefast mount ")).unwrap_or_else(|| panic!("no line in {shown}"));
        // The file that appears is read as a whole.
        let line = line.replace("https://s3.example/", "http://127.0.0.1:9000/").replace("size=1G", "size=1M");
        let mut words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let [.., their_source, their_target] = &mut words[..] else { panic!("{line}") };
        assert_eq!(their_target, "/mnt", "{line}");
        (*their_source, *their_target) = (source.to_owned(), text(target).to_owned());
        let place = words.iter().position(|word| word == "--secret-file").map(|at| at + 1);
        assert_eq!(place.is_some(), secret.is_some(), "the line and this test do not agree on a secret: {line}");
        if let (Some(place), Some(secret)) = (place, secret) {
            words[place] = text(secret).to_owned();
        }
        words
    }

    fn unmount(&self, client: &str, target: &Path) {
        /// Now and then these do not end when their filesystem is gone, but wait for a thread of theirs for ever.
        const LINGERING: [&str; 1] = ["mergerfs"];
        let force: &[&str] = if LINGERING.contains(&client) { &["--force"] } else { &[] };
        self.host.shorefast(&[&["umount"], force, &[text(target)]].concat()).succeeds();
        assert_eq!(mountinfo::at(target), []);
    }
}

#[track_caller]
fn begins_with(path: &Path, expected: &[u8]) {
    let content = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(content.starts_with(expected), "{}: {:?}", path.display(), String::from_utf8_lossy(&content[..content.len().min(80)]));
}

fn mounts(row: &Row) {
    let Some(scene) = Scene::new() else { return };
    let source = (row.scenery)(&scene);
    let target = scene.host.directory("target");
    scene.host.settle();
    scene.mount(row, &source, &target);
    if let Some(name) = row.reads {
        begins_with(&target.join(name), GREETING);
    }
    let written = match row.writes {
        Writes::Nothing => None,
        Writes::File(name) | Writes::FileOnce(name) => {
            // A server of several parts may need a moment before it takes something.
            wait::until("a file to be written", || fs::write(target.join(name), ANSWER).ok());
            Some(name)
        }
        Writes::Into(name) => {
            let mut file = OpenOptions::new().write(true).open(target.join(name)).expect("it is there");
            file.write_all(ANSWER).and_then(|()| file.sync_all()).expect("it can be written to");
            Some(name)
        }
    };
    if let Some(name) = written {
        begins_with(&target.join(name), ANSWER);
    }
    let shown = scene.host.shorefast(&["client", "show", "--json", row.client]).succeeds().json();
    let allowed = if shown["keys"]["source_access"]["value"] == "keep-owners" { OVER_FILES } else { 0 };
    let held = |process: &Process| process.status("CapEff").and_then(|set| u64::from_str_radix(&set, 16).ok()).unwrap_or(0);
    let no_privilege = scene.host.sandboxed().iter().all(|process| held(process) & !allowed == 0);
    assert!(no_privilege && !scene.host.sandboxed().is_empty());
    scene.unmount(row.client, &target);
    scene.host.assert_nothing_left();
    if let (Some(name), Writes::File(_) | Writes::Into(_)) = (written, &row.writes) {
        scene.mount(row, &source, &target);
        begins_with(&target.join(name), ANSWER);
        scene.unmount(row.client, &target);
        scene.host.assert_nothing_left();
    }
}

macro_rules! rows {
    ($($name:ident: $row:expr;)*) => {
        $(#[test] fn $name() { mounts(&$row); })*
        const ROWS: &[&str] = &[$($row.client),*];
    };
}

/// A directory that others may write to, with the greeting.
fn open(scene: &Scene) -> String {
    let open = scene.directory("open");
    fs::write(open.join("greeting"), GREETING).expect("/srv is the test's own");
    text(&open).to_owned()
}

const fn passed_through(client: &'static str, options: &'static str) -> Row {
    Row { client, options, scenery: open, secret: None, reads: Some("greeting"), writes: Writes::File("answer") }
}

const fn encrypted(client: &'static str, scenery: fn(&Scene) -> String) -> Row {
    Row { client, options: "", scenery, secret: Some("{}"), reads: None, writes: Writes::File("answer") }
}

const fn read_only(client: &'static str, scenery: fn(&Scene) -> String, reads: &'static str) -> Row {
    Row { client, options: "", scenery, secret: None, reads: Some(reads), writes: Writes::Nothing }
}

const fn stored(client: &'static str, options: &'static str, scenery: fn(&Scene) -> String, reads: Option<&'static str>) -> Row {
    Row { client, options, scenery, secret: None, reads, writes: Writes::File("answer") }
}

/// A file in a directory of its own: clients that replace it write there.
fn alone(scene: &Scene, file: &str) -> String {
    let place = scene.directory("alone").join(file);
    fs::rename(Path::new(DATA).join(file), &place).expect("/srv is the test's own");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o666)).expect("/srv is the test's own");
    text(&place).to_owned()
}

rows! {
    mergerfs: passed_through("mergerfs", "");
    mergerfs_for_others: passed_through("mergerfs", "allow_other");
    disorderfs: passed_through("disorderfs", "");
    posixovl: passed_through("posixovl", "");
    convmvfs: passed_through("convmvfs", "");
    avfs: read_only("avfs", |scene| {
        command::run(&["tar", "-C", "/srv/data/plain", "-cf", "/srv/data/plain.tar", "."]);
        let place = alone(scene, "plain.tar");
        place.trim_end_matches("/plain.tar").to_owned()
    }, "plain.tar#/greeting");
    fuse_overlayfs: stored("fuse-overlayfs", "", |scene| {
        let place = scene.directory("overlay");
        ["overlay/upper", "overlay/work"].iter().for_each(|name| drop(scene.directory(name)));
        command::run(&["cp", "-r", "/srv/data/plain", "/srv/data/overlay/lower"]);
        text(&place).to_owned()
    }, Some("greeting"));
    gocryptfs: encrypted("gocryptfs", |scene| {
        scene.with_client("gocryptfs", "mkdir cipher; gocryptfs -q -init -passfile secret cipher");
        format!("{DATA}/cipher")
    });
    encfs: encrypted("encfs", |scene| {
        scene.with_client("encfs", "mkdir cipher /tmp/plain; encfs -S --standard $PWD/cipher /tmp/plain < secret; fusermount3 -u /tmp/plain");
        format!("{DATA}/cipher")
    });
    securefs: encrypted("securefs", |scene| {
        scene.with_client("securefs", "mkdir cipher; securefs create --pass \"$(cat secret)\" cipher");
        format!("{DATA}/cipher")
    });
    // It makes a filesystem of an empty directory, and takes seconds to derive a key.
    cryfs: Row { writes: Writes::FileOnce("answer"), ..encrypted("cryfs", |scene| text(&scene.directory("cipher")).to_owned()) };
    squashfuse: read_only("squashfuse", |scene| {
        scene.with_makers("mksquashfs plain plain.squashfs -quiet -no-progress");
        format!("{DATA}/plain.squashfs")
    }, "greeting");
    fuseiso: read_only("fuseiso", |scene| {
        scene.with_makers("genisoimage -quiet -R -o plain.iso plain");
        format!("{DATA}/plain.iso")
    }, "greeting");
    erofsfuse: read_only("erofsfuse", |scene| {
        scene.with_makers("mkfs.erofs --quiet plain.erofs plain");
        format!("{DATA}/plain.erofs")
    }, "greeting");
    archivemount: stored("archivemount", "", |scene| {
        command::run(&["tar", "-C", "/srv/data/plain", "-cf", "/srv/data/plain.tar", "greeting"]);
        alone(scene, "plain.tar")
    }, Some("greeting"));
    fuse_zip: stored("fuse-zip", "", |scene| {
        command::run(&["python3", "-m", "zipfile", "-c", "/srv/data/plain.zip", "/srv/data/plain/greeting"]);
        alone(scene, "plain.zip")
    }, Some("greeting"));
    fuse2fs: stored("fuse2fs", "", ext4, Some("greeting"));
    fuse2fs_read_only: Row { options: "ro", writes: Writes::Nothing, ..stored("fuse2fs", "", ext4, Some("greeting")) };
    ntfs_3g: stored("ntfs-3g", "", |scene| {
        scene.with_client("ntfs-3g", "truncate -s 8M disk.ntfs; mkntfs -q -F -f disk.ntfs");
        format!("{DATA}/disk.ntfs")
    }, None);
    fusefat: stored("fusefat", "", |scene| {
        scene.with_makers("truncate -s 8M disk.fat; mkfs.fat disk.fat");
        format!("{DATA}/disk.fat")
    }, None);
    borg: Row { secret: Some("{}"), ..read_only("borg", |scene| {
        scene.with_client("borg", "export BORG_PASSCOMMAND='cat secret'; borg init -e repokey repository; borg create repository::one plain");
        format!("{DATA}/repository")
    }, "one/plain/greeting") };
    restic: Row { secret: Some("{}"), ..read_only("restic", |scene| {
        scene.with_client("restic", "export RESTIC_PASSWORD_FILE=secret; restic -q init -r repository; restic -q backup -r repository plain");
        format!("{DATA}/repository")
    }, "snapshots/latest/plain/greeting") };
    httpdirfs: read_only("httpdirfs", |scene| {
        let words = ["rclone", "serve", "http", "--addr", "127.0.0.1:8080", "/srv/data/plain"];
        let server = Program::start(&scene.host, "http", &words, SocketAddr::from(([127, 0, 0, 1], 8080)));
        scene.keep(Server::Program(server));
        "http://127.0.0.1:8080/".to_owned()
    }, "greeting");
    curlftpfs: Row { writes: Writes::File("answer"), ..read_only("curlftpfs", |scene| {
        scene.serve("ftp", "exec python3 -m pyftpdlib -i 127.0.0.1 -p 2121 -w -d plain", "127.0.0.1:2121");
        "ftp://127.0.0.1:2121/".to_owned()
    }, "greeting") };
    nbdfuse: Row { writes: Writes::Into("nbd"), ..read_only("nbdfuse", |scene| {
        command::run(&["sh", "-c", "cp /srv/data/plain/greeting /srv/data/disk && truncate -s 1M /srv/data/disk"]);
        scene.serve("nbd", "exec nbdkit -f -i 127.0.0.1 -p 10809 file disk", "127.0.0.1:10809");
        "nbd://127.0.0.1:10809".to_owned()
    }, "nbd") };
    s3backer: Row { secret: Some("key-id:secret-key\n"), reads: None, writes: Writes::Into("file"), ..stored(
        "s3backer",
        "",
        |scene| {
            let s3 = S3::start(&scene.host);
            let bucket = s3.source().to_owned();
            scene.keep(Server::S3(s3));
            bucket
        },
        None,
    ) };
    smbnetfs: Row { secret: Some(SMB_LOGIN), writes: Writes::File("127.0.0.1/share/answer"), ..read_only("smbnetfs", |scene| {
        let samba = Samba::start(&scene.host);
        fs::write(samba.share.join("greeting"), GREETING).expect("/srv is the test's own");
        scene.keep(Server::Samba(samba));
        "smb".to_owned()
    }, "127.0.0.1/share/greeting") };
    moosefs: stored("moosefs", "", moosefs_cluster, None);
}

const SMB_LOGIN: &str = "\"root\" \"correct=horse+battery\"";

fn ext4(_: &Scene) -> String {
    let disk = format!("{DATA}/disk.ext4");
    command::run(&["truncate", "-s", "8M", &disk]);
    command::run(&["mke2fs", "-q", "-t", "ext4", "-d", "/srv/data/plain", &disk]);
    disk
}

/// A master and a chunk server. It wants an address that is not of the loopback network.
fn moosefs_cluster(scene: &Scene) -> String {
    command::run(&["ip", "address", "add", "10.99.0.1/32", "dev", "lo"]);
    ["mfs/master", "mfs/chunks", "mfs/disk"].iter().for_each(|name| drop(scene.directory(name)));
    let common = "WORKING_USER = root\nWORKING_GROUP = root\n";
    let files = [
        ("exports.cfg", "* / rw,alldirs,maproot=0:0\n".to_owned()),
        ("topology.cfg", String::new()),
        ("master/metadata.mfs", "MFSM NEW".to_owned()),
        ("disk.cfg", format!("{DATA}/mfs/disk\n")),
        (
            "chunks.cfg",
            format!("{common}DATA_PATH = {DATA}/mfs/chunks\nHDD_CONF_FILENAME = {DATA}/mfs/disk.cfg\nMASTER_HOST = 10.99.0.1\n"),
        ),
        (
            "master.cfg",
            format!(
                "{common}DATA_PATH = {DATA}/mfs/master\nEXPORTS_FILENAME = {DATA}/mfs/exports.cfg\nTOPOLOGY_FILENAME = {DATA}/mfs/topology.cfg\n"
            ),
        ),
    ];
    for (name, content) in files {
        fs::write(Path::new(DATA).join("mfs").join(name), content).expect("/srv is the test's own");
    }
    let script = "ulimit -n 4096; mfsmaster -c mfs/master.cfg start; mfschunkserver -c mfs/chunks.cfg start; exec sleep 300";
    scene.serve("moosefs", script, "10.99.0.1:9422");
    "10.99.0.1".to_owned()
}

#[test]
fn every_client_of_the_catalogue_is_mounted_in_some_test() {
    let Some(host) = Host::new() else { return };
    let list = host.shorefast(&["client", "list", "--json"]).succeeds().json();
    let names: Vec<_> = list.as_array().expect("an array").iter().filter_map(|row| row["name"].as_str()).collect();
    let untested: Vec<_> = names.iter().filter(|name| !ROWS.contains(name) && !ELSEWHERE.contains(name)).collect();
    assert_eq!(untested, Vec::<&&str>::new());
    assert!(names.len() >= 30, "{names:?}");
    // A password that another test has: the login here is the same.
    assert!(SMB_LOGIN.contains(samba::PASSWORD));
}
