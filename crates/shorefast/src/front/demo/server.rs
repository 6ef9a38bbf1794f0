//! The demo's second process: runs a temporary sshd in a sandbox, and cleans up when the demo is gone.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use shorefast_engine::records::Records;
use shorefast_engine::unmount::{self, Manner};
use shorefast_engine::{Error, find, reconcile};
use shorefast_image::Store;
use shorefast_image::store::Network;
use shorefast_sandbox::launcher::launch::{LaunchContext, Launched, Root};
use shorefast_sandbox::spec::{Capabilities, Content, DEFAULT_SCRATCH, File, Identity, ProcessLimits, Processes, Role};
use shorefast_sandbox::{Cgroup, Client, Spec};
use shorefast_sys::ring::Log;
use shorefast_sys::shim::Program;

use crate::front::demo::failure::{Failure, failed};

/// The internal command: `__demo-server RUN_DIR ROOT`.
pub const COMMAND: &str = "__demo-server";
/// Sent by a demo that keeps its mount.
pub const KEEP: &[u8] = b"k";
pub const SERVER_IMAGE: &str = "packages:debian/trixie?openssh-server";
/// The sandbox's user: sshd without root serves only the user it runs as.
pub const USER: &str = "shorefast";
pub const SHARE: &str = "/root/share";

const START: Duration = Duration::from_secs(20);

/// What the demo has to know, sent once.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub port: u16,
    /// The private key's file.
    pub key: PathBuf,
    /// The server's key, as ssh knows hosts.
    pub known_hosts: PathBuf,
    /// An empty directory to mount at.
    pub target: PathBuf,
    /// The sandbox: its pid 1, its uid, and its id.
    pub pid: i32,
    pub uid: u32,
    pub id: String,
}

pub fn run(run_dir: &Path, root: &Path) -> ExitCode {
    match serve(run_dir, root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn serve(run_dir: &Path, root: &Path) -> Result<(), Failure> {
    let records = Records::at(run_dir);
    let image = Store::at(root).obtain(&SERVER_IMAGE.parse()?, &[], Network::Forbidden)?;
    let deadline = Instant::now() + START;
    let begun = records.begin(image.digest.as_ref(), None, deadline)?;
    drop(image.held);
    let port = free_port().map_err(|source| failed("cannot find a free port", source))?;
    let program = Program::default();
    let around = LaunchContext { ids: begun.ids, cgroup: &Cgroup::default(), log: &begun.log, program: &program, recipe: None, deadline };
    let spec = spec(port);
    let prepared = shorefast_sandbox::prepare(spec.shape()).map_err(Error::Sandbox)?;
    // Without a listener, every mount call is refused.
    let assigned = prepared.with_root(&spec, Root::Image { rootfs: &image.rootfs, etc: image.derived.as_deref() });
    let launched = assigned.and_then(|assigned| assigned.launch(&spec, &around)).and_then(|launching| launching.complete());
    let Launched { client, listener, .. } = launched.map_err(Error::Sandbox)?;
    drop(listener);
    let (key, host_key) = first_words(&client, &records.log(&begun.id), around.deadline)?;
    let known_hosts = format!("[127.0.0.1]:{port} {host_key}\n");
    let place = Place::make(&key, &known_hosts, run_dir).map_err(|source| failed("cannot make a directory for the demo", source))?;
    let uid = begun.ids.client(spec.identity);
    let pid = client.pid().as_raw_nonzero().get();
    let ready = Ready { port, key: place.key(), known_hosts: place.known_hosts(), target: place.target(), pid, uid, id: begun.id.clone() };
    let said = serde_json::to_string(&ready).map_err(std::io::Error::from).and_then(|line| writeln!(std::io::stdout(), "{line}"));
    said.map_err(|source| failed("the demo is gone", source))?;
    wait_for_the_end(&place.target());
    // Errors can no longer be reported, and the rest of the cleanup is still useful.
    if find::find(&records, &place.target()).is_ok() {
        let _ = unmount::unmount(&records, &place.target(), Manner::Force);
    }
    drop((place, client, begun));
    let _ = reconcile::all(&records, &Store::at(root));
    Ok(())
}

fn spec(port: u16) -> Spec {
    let configuration = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey /root/host\nAuthorizedKeysFile /root/key.pub\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n"
    );
    // The key is generated inside and discarded with the sandbox.
    let script = format!(
        "set -e; mkdir {SHARE}; ssh-keygen -q -t ed25519 -N '' -f /root/host; ssh-keygen -q -t ed25519 -N '' -f /root/key; \
         cat /root/key /root/host.pub; exec /usr/sbin/sshd -D -e -f /root/sshd_config"
    );
    Spec {
        command: ["sh", "-c", &script].map(Into::into).to_vec(),
        arg0: None,
        environment: Vec::new(),
        identity: Identity::DedicatedUser,
        processes: Processes::Own,
        capabilities: Capabilities::None,
        source: None,
        files: vec![File { inside: "/root/sshd_config".into(), content: Content::Text(configuration) }],
        shown: Vec::new(),
        stand_ins: Vec::new(),
        role: Role::Client,
        process_limits: ProcessLimits::default(),
        scratch_bytes: DEFAULT_SCRATCH,
    }
}

/// Waits until sshd listens, and returns the client's key and the server's public one, which were printed before.
fn first_words(client: &Client, log: &Path, deadline: Instant) -> Result<(String, String), Failure> {
    const END: &str = "-----END OPENSSH PRIVATE KEY-----\n";
    loop {
        let said = Log::read(log).map(|log| String::from_utf8_lossy(&log.kept).into_owned()).unwrap_or_default();
        if let Some((key, rest)) = said.split_once(END)
            && rest.contains("Server listening")
        {
            return Ok((format!("{key}{END}"), rest.lines().next().unwrap_or_default().to_owned()));
        }
        let mut ended = [PollFd::from_borrowed_fd(client.pidfd(), PollFlags::IN)];
        let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let has_ended = rustix::event::poll(&mut ended, Some(&pause)).is_ok_and(|count| count > 0);
        if has_ended || Instant::now() > deadline {
            // The output may contain the key.
            let last = said.lines().rev().find(|line| !line.contains("KEY")).unwrap_or("nothing").to_owned();
            return Err(failed(&format!("the server did not start; it said: {last}"), ErrorKind::Other.into()));
        }
    }
}

/// Until the demo is gone; if it asked to keep the mount, until that is gone.
fn wait_for_the_end(target: &Path) {
    let mut word = [0u8; 1];
    if !matches!(std::io::stdin().read(&mut word), Ok(1) if word == *KEEP) {
        return;
    }
    let Ok(table) = fs::File::open("/proc/self/mountinfo") else { return };
    let is_mounted = || fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| table.contains(&*target.to_string_lossy()));
    while is_mounted() {
        // Wakes up when the mount table changes; the timeout covers missed events.
        let timeout = rustix::time::Timespec { tv_sec: 5, tv_nsec: 0 };
        let _ = rustix::event::poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&timeout));
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A directory with a key and a mount point. Dropping it removes it, if empty.
struct Place(PathBuf);

impl Place {
    /// In the directory for temporary files, or where there is none, beside our records.
    fn make(key: &str, known_hosts: &str, run_dir: &Path) -> std::io::Result<Self> {
        let name = format!("shorefast-demo.{}", std::process::id());
        let usual = Some(std::env::temp_dir()).filter(|directory| directory.is_dir());
        let place = Self(usual.unwrap_or_else(|| run_dir.parent().unwrap_or(run_dir).to_owned()).join(name));
        fs::DirBuilder::new().mode(0o700).create(&place.0)?;
        fs::create_dir(place.target())?;
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(place.key())?;
        file.write_all(key.as_bytes())?;
        fs::write(place.known_hosts(), known_hosts)?;
        Ok(place)
    }

    fn key(&self) -> PathBuf {
        self.0.join("key")
    }

    fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    fn target(&self) -> PathBuf {
        self.0.join("mnt")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.key());
        let _ = fs::remove_file(self.known_hosts());
        // Never recursively: something could still be mounted there.
        let _ = fs::remove_dir(self.target());
        let _ = fs::remove_dir(&self.0);
    }
}
