//! The kernel's own NFS server, versions 3 and 4, on a simulated machine: a network namespace with its own rpcbind and statd. The
//! test's host is another namespace, so the services that a client needs there are really the client's.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::host::Host;
use crate::{Ran, command, wait};

pub const ADDRESS: &str = "10.99.1.1";
pub const ADDRESS_6: &str = "fd99:1::1";
pub const CLIENT: &str = "10.99.1.2";
const CLIENT_6: &str = "fd99:1::2";

#[derive(Debug)]
pub struct Nfsd {
    /// The exported directory, as the server sees it. In version 4 it is `/`.
    pub share: PathBuf,
    machine: Child,
    /// It serves as long as this is open.
    life: Option<ChildStdin>,
}

impl Nfsd {
    /// Whether this kernel can be an NFS server and client. Asking loads its modules.
    pub fn is_possible() -> bool {
        let knows = |fstype: &str| {
            fs::read_to_string("/proc/filesystems")
                .is_ok_and(|list| list.lines().any(|line| line.trim_end().ends_with(&format!("\t{fstype}"))))
        };
        let load = |module: &str| Command::new("modprobe").args(["-q", module]).status().is_ok();
        (knows("nfsd") || load("nfsd") && knows("nfsd")) && (knows("nfs") || load("nfs") && knows("nfs"))
    }

    pub fn start(host: &Host) -> Self {
        Self::start_with(host, None)
    }

    /// It supports `sec=krb5`, `krb5i` and `krb5p` as well.
    pub(crate) fn start_in_realm(host: &Host, realm: &Path) -> Self {
        Self::start_with(host, Some(realm))
    }

    fn start_with(host: &Host, realm: Option<&Path>) -> Self {
        let share = host.directory("share");
        fs::set_permissions(&share, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).expect("cannot chmod");
        let log = fs::File::create(host.path("nfsd.log")).expect("cannot create a log file");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/servers/nfsd.sh");
        let mut machine = Command::new("unshare")
            .args(["--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "--", "sh"])
            .args([script.as_path(), share.as_path(), Path::new(ADDRESS)])
            .args(realm)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("cannot start a machine for the server");
        let mut output = BufReader::new(machine.stdout.take().expect("stdout is a pipe"));
        let life = machine.stdin.take();
        let mut line = String::new();
        let ready = output.read_line(&mut line).is_ok() && line == "ready\n";
        assert!(ready, "no NFS server: {}", fs::read_to_string(host.path("nfsd.log")).unwrap_or_default());
        let server = Self { share, machine, life };
        server.connect();
        host.settle();
        server
    }

    /// A virtual cable between the two machines.
    fn connect(&self) {
        let pid = self.first_process().to_string();
        command::run(&["ip", "link", "add", "client0", "type", "veth", "peer", "name", "server0", "netns", &pid]);
        // Otherwise an address of version 6 cannot be used for a second.
        for (address, more) in [(CLIENT, "/24"), (CLIENT_6, "/64 nodad")] {
            command::run(&["sh", "-ec", &format!("ip address add dev client0 {address}{more}")]);
        }
        for (address, more) in [(ADDRESS, "/24"), (ADDRESS_6, "/64 nodad")] {
            self.inside(&format!("ip address add dev server0 {address}{more}")).succeeds();
        }
        self.inside("ip link set server0 up").succeeds();
        command::run(&["ip", "link", "set", "client0", "up"]);
    }

    /// Runs a shell script on the server's machine.
    pub fn inside(&self, script: &str) -> Ran {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first_process().to_string(), "--mount", "--net", "--uts", "--pid", "--", "sh", "-ec", script]);
        command::finish(command)
    }

    /// The process that unshare started.
    fn first_process(&self) -> u32 {
        let pid = self.machine.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        wait::until("the server's machine to start", || fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok())
    }

    /// How many connections to the NFS port clients have.
    pub fn connections(&self) -> usize {
        self.inside("ss --no-header --tcp --numeric state established '( sport = :2049 )'").succeeds().stdout.lines().count()
    }

    /// The TCP port of mountd, which clients of version 3 ask first.
    pub fn port_of_mountd(&self) -> u16 {
        let said = self.inside("rpcinfo -p").succeeds().stdout;
        let port = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["100005", "3", "tcp", port, ..] => port.parse().ok(),
            _ => None,
        };
        said.lines().find_map(port).expect("mountd is registered")
    }

    /// The server's information about its version 4 clients, without the parts that differ from mount to mount.
    pub fn clients(&self) -> Vec<String> {
        let said = self.inside("cat /proc/fs/nfsd/clients/*/info 2>/dev/null || true").succeeds().stdout;
        let kept = ["name:", "minor version:", "Implementation domain:"];
        said.lines().filter(|line| kept.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
    }

    /// As after a power failure: all state of version 3 locks is gone, and clients that held locks are notified.
    pub fn restart(&self) {
        // A server that is told to stop notifies its clients, and forgets them; one that loses power does not.
        let crash = "cp -a /var/lib/nfs/sm /run/known; rpc.nfsd 0; cp -a /run/known/. /var/lib/nfs/sm; rm -r /run/known";
        self.inside(&format!("{crash}; rpc.nfsd 4; sm-notify -f -v nfs-server")).succeeds();
    }
}

impl Drop for Nfsd {
    fn drop(&mut self) {
        drop(self.life.take());
        // It ends the kernel's threads first, which would otherwise stay.
        let gone = wait::within(wait::PATIENCE, || self.machine.try_wait().ok().flatten());
        if gone.is_none() {
            drop(self.machine.kill());
            drop(self.machine.wait());
        }
    }
}
