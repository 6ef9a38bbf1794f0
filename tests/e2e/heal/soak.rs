//! Clients are killed in turns while everybody works: `cargo xtask soak --crashes N`. Many kinds of operations in loops, on the host and in
//! a container (mount, pid, ipc and uts namespaces of its own), with real servers. Prints a table.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use shorefast_tests::path::text;
use shorefast_tests::servers::{Gluster, S3, Sshd, Webdav};
use shorefast_tests::{Client, Host, Root, wait};

use super::load::{ANY_CLIENT, Access, Load};
use super::{Request, Scene};

const CLIENTS: [&str; 5] = ["bindfs", "sshfs", "glusterfs", "s3fs", "rclone"];
/// Then it is the next client's turn.
const CRASHES_PER_TURN: u32 = 10;
const KINDS_AT_LEAST: usize = 14;

#[test]
#[ignore = "takes minutes: cargo xtask soak --crashes N"]
fn soak_crashes() {
    let crashes = std::env::var("SOAK_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(CLIENTS.len() as u32);
    let only = std::env::var("SOAK_CLIENT").ok();
    let clients: Vec<_> = CLIENTS.into_iter().filter(|client| only.as_deref().is_none_or(|only| only == *client)).collect();
    let mut sums: Vec<_> = clients.iter().map(|client| Sum { client, ..Sum::default() }).collect();
    let mut left = crashes;
    for turn in 0.. {
        if left == 0 {
            break;
        }
        let sum = &mut sums[turn % clients.len()];
        let now = left.min(CRASHES_PER_TURN).min(crashes.div_ceil(clients.len() as u32));
        take_turn(sum, now);
        left -= now;
        println!("{}", table(&sums));
    }
    println!("{}", table(&sums));
    assert!(sums.iter().all(|sum| sum.failed.is_empty() && sum.wrong == 0), "{sums:#?}");
}

/// Of one client.
#[derive(Debug, Default)]
struct Sum {
    client: &'static str,
    crashes: u32,
    kinds: usize,
    done: u64,
    wrong: u64,
    on_descriptors: u64,
    repeated: u64,
    /// Where, kind, errno: how often.
    failed: Vec<String>,
    healed_after_ms: Vec<u64>,
}

fn table(sums: &[Sum]) -> String {
    let mut text = "| client | crashes | kinds | operations | failed by path | wrong bytes | on old descriptors | had been done | healed p50 ms | max ms |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n".to_owned();
    for sum in sums {
        let mut times = sum.healed_after_ms.clone();
        times.sort_unstable();
        let (middle, most) = (times.get(times.len() / 2).copied().unwrap_or(0), times.last().copied().unwrap_or(0));
        let Sum { client, crashes, kinds, done, wrong, on_descriptors, repeated, failed, .. } = sum;
        let failures = failed.len();
        text += &format!(
            "| {client} | {crashes} | {kinds} | {done} | {failures} | {wrong} | {on_descriptors} | {repeated} | {middle} | {most} |\n"
        );
    }
    text
}

fn take_turn(sum: &mut Sum, crashes: u32) {
    let Some(host) = Host::with_root(Root::Shared) else { return };
    let server = Server::start(&host, sum.client);
    let target = host.directory("target");
    let client = Client::named(sum.client);
    let mut request = Request::new(&client, sum.client, server.source(&host), &target);
    request.options = format!("{},shorefast-crashes=100000", server.options(&host)).trim_start_matches(',').into();
    request.sandboxed(&host).succeeds();
    fs::write(target.join("file"), "hello").expect("a mount that can be written to");
    let scene = Scene { host, target };
    let container = Container::start();
    let loads = [("host", load(&[], &scene.target, "host")), ("container", container.load(&scene.target))];
    for _ in 0..crashes {
        loads.iter().for_each(|(_, load)| load.completes_a_round());
        scene.crash();
        sum.crashes += 1;
    }
    loads.iter().for_each(|(_, load)| load.completes_a_round());
    for (place, load) in loads {
        let result = load.finish();
        assert!(result.len() >= KINDS_AT_LEAST, "{}: {:?}", sum.client, result.keys());
        sum.kinds = result.len();
        for (kind, counted) in &result {
            sum.done += counted.done;
            sum.wrong += counted.wrong;
            sum.on_descriptors += counted.on_descriptors;
            sum.repeated += counted.repeated;
            let words = counted.failed.iter().flat_map(|(errno, times)| (0..*times).map(move |_| format!("{place}: {kind}: {errno}")));
            sum.failed.extend(words);
        }
    }
    let healed = scene.inspect()["crashes"].as_array().cloned().unwrap_or_default();
    // No more of them are kept.
    let newest = healed.iter().rev().take(crashes as usize);
    sum.healed_after_ms.extend(newest.filter_map(|crash| crash["healed_after_ms"].as_u64()));
    drop(container);
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
}

enum Server {
    Directory,
    Sshd(Sshd),
    Gluster(Gluster),
    S3(S3),
    Webdav(Webdav),
}

impl Server {
    fn start(host: &Host, client: &str) -> Self {
        match client {
            "bindfs" => Self::Directory,
            "sshfs" => Self::Sshd(Sshd::start(host)),
            "glusterfs" => Self::Gluster(Gluster::start(host)),
            "s3fs" => Self::S3(S3::start(host)),
            _ => Self::Webdav(Webdav::start(host)),
        }
    }

    fn source(&self, host: &Host) -> String {
        match self {
            Self::Directory => {
                let source = host.directory("source");
                fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("the source is the test's own");
                text(&source).to_owned()
            }
            Self::Sshd(server) => server.source(),
            Self::Gluster(server) => server.source(),
            Self::S3(server) => server.source().to_owned(),
            Self::Webdav(_) => "dav:".to_owned(),
        }
    }

    fn options(&self, host: &Host) -> String {
        match self {
            Self::Sshd(server) => server.options(),
            Self::S3(server) => {
                format!("url=http://{},use_path_request_style,passwd_file={}", server.address, server.password_file.display())
            }
            Self::Webdav(server) => {
                let configuration = host.file("rclone.conf", format!("[dav]\ntype = webdav\nurl = {}\n", server.url()));
                format!("config={},dir_cache_time=0s,vfs_cache_mode=writes", text(&configuration))
            }
            Self::Directory | Self::Gluster(_) => String::new(),
        }
    }
}

fn load(enter: &[String], directory: &Path, name: &str) -> Load {
    let words = [enter, &["env".to_owned(), format!("{ANY_CLIENT}=1")]].concat();
    Load::start(&words, directory, Access::ReadWrite, name)
}

/// A process in namespaces of its own, with a private copy of the mount.
struct Container(Child);

impl Container {
    fn start() -> Self {
        let words = ["--mount", "--pid", "--fork", "--ipc", "--uts", "--propagation", "private", "--kill-child", "sleep", "100000"];
        let child = Command::new("unshare").args(words).stdin(Stdio::null()).spawn().expect("unshare is installed");
        let container = Self(child);
        wait::until("a container", || container.first());
        container
    }

    /// As the host numbers it.
    fn first(&self) -> Option<u32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id())).ok()?;
        let pid: u32 = children.split_whitespace().next()?.parse().ok()?;
        (fs::read_to_string(format!("/proc/{pid}/comm")).ok()? == "sleep\n").then_some(pid)
    }

    fn load(&self, directory: &Path) -> Load {
        let pid = self.first().expect("it runs").to_string();
        let enter: Vec<_> = ["nsenter", "--mount", "--pid", "--ipc", "--uts", "--target", &pid].map(str::to_owned).into();
        load(&enter, directory, "container")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
