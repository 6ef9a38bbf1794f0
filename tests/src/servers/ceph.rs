//! A Ceph cluster of one node with one filesystem: a monitor, a storage daemon that keeps everything in memory, a metadata server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Server;
use crate::path::text;
use crate::{Host, command, wait};

const PORT: u16 = 3300;
/// The kernel's client and `mount.ceph` use the older of the protocols there.
const OLD_PORT: u16 = 6789;

#[derive(Debug)]
pub struct Ceph {
    /// For clients: where the monitor is.
    pub configuration: PathBuf,
    /// Of the user `admin`, and of the servers.
    pub keyring: PathBuf,
    directory: PathBuf,
    _servers: [Server; 3],
}

impl Ceph {
    pub fn is_installed() -> bool {
        Path::new("/usr/bin/ceph-mds").exists()
    }

    /// Whether this kernel can be a client. Asking loads its module.
    pub fn is_possible_in_the_kernel() -> bool {
        let knows = || fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.lines().any(|line| line.ends_with("\tceph")));
        let load = || Command::new("modprobe").args(["-q", "ceph"]).status();
        knows() || load().is_ok_and(|_| knows())
    }

    pub fn start(host: &Host) -> Self {
        let directory = host.directory("ceph");
        ["mon", "osd", "mds"].iter().for_each(|name| drop(host.directory(format!("ceph/{name}"))));
        let [cluster, storage] = [(); 2].map(|()| uuid());
        let (keyring, settings) = (directory.join("keyring"), settings(&directory, &cluster));
        let settings = host.file("ceph/ceph.conf", settings);
        let settings = text(&settings);
        make_keys(text(&keyring));
        let map = directory.join("monmap");
        let addresses = format!("[v2:{0}:{PORT},v1:{0}:{OLD_PORT}]", Ipv4Addr::LOCALHOST);
        command::run(&["monmaptool", "--create", "--fsid", &cluster, "--addv", "a", &addresses, text(&map)]);
        command::run(&["ceph-mon", "--mkfs", "-i", "a", "-c", settings, "--monmap", text(&map), "--keyring", text(&keyring)]);
        // `-d`: in the foreground, with messages on stderr.
        let monitor = Server::start(host, "ceph-mon", &["ceph-mon", "-d", "-i", "a", "-c", settings]);
        let monitor = monitor.wait_until_it_answers(host, SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        tell(host, settings, &format!("osd new {storage} 0\nosd pool create meta\nosd pool create data\nfs new files meta data\n"));
        command::run(&["ceph-osd", "--mkfs", "-i", "0", "-c", settings, "--osd-uuid", &storage]);
        let storage = Server::start(host, "ceph-osd", &["ceph-osd", "-d", "-i", "0", "-c", settings]);
        let metadata = Server::start(host, "ceph-mds", &["ceph-mds", "-d", "-i", "a", "-c", settings]);
        let configuration = host.file("ceph/client.conf", format!("[global]\nmon host = {}\n", Ipv4Addr::LOCALHOST));
        let cluster = Self { configuration, keyring, directory, _servers: [monitor, storage, metadata] };
        wait::until("the metadata server to be active", || {
            let status = cluster.ask_metadata_server("status")?;
            (status["state"] == "up:active").then_some(())
        });
        host.settle();
        cluster
    }

    /// The source for the kernel's client.
    pub fn source(&self) -> String {
        format!("{}:{OLD_PORT}:/", Ipv4Addr::LOCALHOST)
    }

    /// The key of a user such as `client.admin`, or of a server such as `osd.0`.
    pub fn key_of(&self, name: &str) -> String {
        command::run(&["ceph-authtool", "--print-key", "--name", name, text(&self.keyring)]).stdout.trim().to_owned()
    }

    /// The clients that have the filesystem mounted, according to the metadata server. A client that does not close its session stays here
    /// for minutes, and others wait for the capabilities that it holds.
    pub fn sessions(&self) -> Vec<String> {
        let sessions = wait::until("the metadata server to name its clients", || self.ask_metadata_server("session ls"));
        let sessions = sessions.as_array().expect("a list of sessions");
        sessions.iter().map(|session| format!("{} {}", session["inst"], session["state"])).collect()
    }

    /// As when it runs out of memory: asks clients to drop unused entries.
    pub fn recall(&self) {
        let answer = wait::until("the metadata server to forget", || self.ask_metadata_server("cache drop"));
        assert!(answer["client_recall"].is_object(), "no recall: {answer}");
    }

    /// Uses the socket of the program `ceph daemon`, without the seconds that its Python takes.
    fn ask_metadata_server(&self, words: &str) -> Option<serde_json::Value> {
        let mut socket = UnixStream::connect(self.directory.join("mds.a.socket")).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        socket.write_all(format!("{{\"prefix\": \"{words}\", \"timeout\": 5}}\0").as_bytes()).ok()?;
        let mut length = [0; 4];
        socket.read_exact(&mut length).ok()?;
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
        socket.read_exact(&mut answer).ok()?;
        serde_json::from_slice(&answer).ok()
    }
}

/// Without a host name in the map of storage: a guest has none. A busy machine is no reason to replace the only metadata server.
fn settings(directory: &Path, cluster: &str) -> String {
    format!(
        "[global]\n\
         fsid = {cluster}\n\
         mon host = {address}\n\
         keyring = {directory}/keyring\n\
         run dir = {directory}\n\
         admin socket = {directory}/$name.socket\n\
         mon data = {directory}/mon\n\
         mon data avail crit = 1\n\
         mon allow pool size one = true\n\
         auth allow insecure global id reclaim = false\n\
         osd data = {directory}/osd\n\
         osd objectstore = memstore\n\
         memstore device bytes = 268435456\n\
         osd pool default size = 1\n\
         osd pool default min size = 1\n\
         osd pool default pg num = 1\n\
         osd pool default pg autoscale mode = off\n\
         osd crush chooseleaf type = 0\n\
         crush location = root=default host=server\n\
         mds data = {directory}/mds\n\
         mds min caps per client = 0\n\
         mds beacon grace = 300\n",
        address = Ipv4Addr::LOCALHOST,
        directory = directory.display()
    )
}

/// The monitor reads all of these when it is created.
fn make_keys(keyring: &str) {
    let create: &[&str] = &["--create-keyring"];
    let keys: [(&[&str], &str, &[&str]); 4] = [
        (create, "mon.", &["mon", "allow *"]),
        (&[], "client.admin", &["mon", "allow *", "osd", "allow *", "mds", "allow *"]),
        (&[], "osd.0", &["mon", "allow profile osd", "osd", "allow *"]),
        (&[], "mds.a", &["mon", "allow profile mds", "osd", "allow *", "mds", "allow"]),
    ];
    for (create, name, may) in keys {
        let may: Vec<_> = may.chunks(2).flat_map(|pair| ["--cap", pair[0], pair[1]]).collect();
        command::run(&[&["ceph-authtool", keyring], create, &["--gen-key", "--name", name], &may].concat());
    }
}

/// One command per line. The program is in Python, so it is started once.
fn tell(host: &Host, settings: &str, words: &str) {
    let words = host.file("ceph/words", words);
    let script = format!("timeout 80 ceph --conf {settings} <{} >{} 2>&1", words.display(), host.path("ceph/said").display());
    let status = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status().expect("sh can be started");
    let said = fs::read_to_string(host.path("ceph/said")).unwrap_or_default();
    assert!(status.success() && said.contains("new fs"), "ceph: {status}: {said}");
}

fn uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").expect("the kernel makes them").trim().to_owned()
}
