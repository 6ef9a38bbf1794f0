//! What is around a sandbox and must not notice it: the state of the host, its services, and what root needs to work.

use std::collections::BTreeSet;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify;
use shorefast_tests::hostile::files_below;
use shorefast_tests::mountinfo;

/// What files of the host and of the image hold that no client may change.
pub(crate) const WITNESS: &str = "shorefast-witness";

/// All that a client must not change and that can be looked at.
pub(crate) struct State {
    pub(crate) mounts: Vec<mountinfo::Mount>,
    /// Name and content; a difference is shown as it is.
    texts: Vec<(String, String)>,
    /// How far the wall clock is ahead of the clock that nobody can set.
    clock: Duration,
}

impl State {
    /// `trees`: directories in which nothing may change.
    pub(crate) fn now(trees: &[&Path]) -> Self {
        // IPv6 is for every client; where it is a module, let it be loaded now rather than by the first one.
        drop(std::net::UdpSocket::bind("[::1]:0"));
        let kernel = ["hostname", "domainname", "core_pattern", "modprobe", "printk", "sysrq", "randomize_va_space"];
        let mut texts: Vec<(String, String)> = kernel.iter().map(|name| read(&format!("/proc/sys/kernel/{name}"))).collect();
        texts.extend(["/proc/net/route", "/proc/net/if_inet6", "/proc/swaps", "/etc/shorefast-witness", "/etc/passwd"].map(read));
        texts.push(("interfaces".into(), names(&read("/proc/thread-self/net/dev").1, ':')));
        // Linux 6.1 loads bpfilter for any user who asks for the firewall's tables, and then refuses to show them.
        let modules = read("/proc/modules")
            .1
            .lines()
            .filter(|line| !line.starts_with("bpfilter "))
            .map(|line| format!("{line}\n"))
            .collect::<String>();
        texts.push(("modules".into(), names(&modules, ' ')));
        let keys = read("/proc/key-users").1;
        let of_sandboxes =
            |line: &&str| line.split(':').next().is_some_and(|uid| uid.trim().parse().is_ok_and(|uid: u32| uid >= 2_000_000_000));
        texts.push(("keys of sandboxes".into(), keys.lines().filter(of_sandboxes).collect()));
        texts.extend(trees.iter().flat_map(|tree| files_below(tree)).map(|file| (file.display().to_string(), describe(&file))));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        let uptime = read("/proc/uptime").1.split('.').next().and_then(|seconds| seconds.parse().ok()).expect("whole seconds come first");
        let clock = wall - Duration::from_secs(uptime);
        Self { mounts: mountinfo::here(), texts, clock }
    }

    pub(crate) fn assert_same(&self, after: &Self) {
        assert_eq!(self.mounts, after.mounts);
        for (before, after) in self.texts.iter().zip(&after.texts) {
            assert_eq!(before, after);
        }
        assert_eq!(self.texts.len(), after.texts.len(), "files of the image or of the source came or went");
        assert!(self.clock.abs_diff(after.clock) < Duration::from_secs(2), "somebody set the clock");
    }
}

fn read(path: &str) -> (String, String) {
    (path.to_owned(), fs::read_to_string(path).unwrap_or_default())
}

fn names(table: &str, end: char) -> String {
    let names: BTreeSet<&str> = table.lines().filter_map(|line| Some(line.split_once(end)?.0.trim())).collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

fn describe(file: &Path) -> String {
    let meta = fs::symlink_metadata(file).expect("it was just listed");
    let attributes =
        [meta.mode().into(), meta.uid().into(), meta.gid().into(), meta.len().cast_signed(), meta.mtime(), meta.nlink().cast_signed()];
    format!("{attributes:?}")
}

/// Services of the host that a client could reach if it had the wrong view of it.
pub(crate) struct Services {
    listeners: Vec<UnixListener>,
    datagrams: UnixDatagram,
}

impl Services {
    pub(crate) fn start() -> Self {
        let name = |name: &str| SocketAddr::from_abstract_name(name).expect("a short name");
        let listeners = vec![
            UnixListener::bind_addr(&name("shorefast-probe")).expect("nobody else has the name on this network"),
            UnixListener::bind(format!("/run/{WITNESS}.sock")).expect("a test has its own /run"),
        ];
        let datagrams = UnixDatagram::bind_addr(&name("shorefast-probe-datagram")).expect("nobody else has the name");
        listeners.iter().for_each(|listener| listener.set_nonblocking(true).expect("a socket can be told not to wait"));
        datagrams.set_nonblocking(true).expect("a socket can be told not to wait");
        Self { listeners, datagrams }
    }

    pub(crate) fn assert_untouched(&self) {
        assert!(self.listeners.iter().all(|listener| listener.accept().is_err()), "a client connected to a service of the host");
        assert!(self.datagrams.recv(&mut [0; 16]).is_err(), "a client sent a datagram to a service of the host");
    }
}

/// Root of the host, trying all the time to get what clients may use up.
pub(crate) struct Starvation {
    over: Arc<AtomicBool>,
    watch: Option<JoinHandle<Option<String>>>,
}

impl Starvation {
    pub(crate) fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen_over = over.clone();
        let watch = thread::spawn(move || {
            let mut starved = None;
            while !seen_over.load(Ordering::Relaxed) {
                starved = starved.or_else(starved_of);
                thread::sleep(Duration::from_millis(50));
            }
            starved
        });
        Self { over, watch: Some(watch) }
    }

    pub(crate) fn assert_none(&mut self) {
        assert_eq!(self.end(), None, "root of the host was starved");
    }

    fn end(&mut self) -> Option<String> {
        self.over.store(true, Ordering::Relaxed);
        self.watch.take().and_then(|watch| watch.join().expect("it does not panic"))
    }
}

impl Drop for Starvation {
    /// The test's thread can leave its namespaces only when no other thread is in them.
    fn drop(&mut self) {
        self.end();
    }
}

fn starved_of() -> Option<String> {
    if let Err(error) = inotify::init(inotify::CreateFlags::CLOEXEC) {
        return Some(format!("inotify instances: {error}"));
    }
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let (queued, limit) = status.lines().find_map(|line| line.strip_prefix("SigQ:"))?.trim().split_once('/')?;
    let (queued, limit): (u64, u64) = (queued.parse().ok()?, limit.parse().ok()?);
    (queued > limit / 2).then(|| format!("queued signals: {queued} of {limit}"))
}
