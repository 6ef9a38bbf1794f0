//! OpenSSH's server with keys of its own, for sshfs.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::Server;
use crate::processes::{self, Process};
use crate::{Host, command};

const PORT: u16 = 2222;

#[derive(Debug)]
pub struct Sshd {
    /// The directory that clients mount.
    pub share: PathBuf,
    /// The client's private key, readable by root alone.
    pub key: PathBuf,
    host_key: PathBuf,
    server: Server,
}

impl Sshd {
    pub fn start(host: &Host) -> Self {
        let home = host.directory("ssh");
        let key = |name: &str| {
            let path = home.join(name);
            let file = path.to_str().expect("our own paths are text");
            command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file]);
            path
        };
        let (server_key, client_key) = (key("server"), key("client"));
        Self::serve(host, server_key, client_key)
    }

    /// The same address with another host key, as after a new installation or with an attacker in between.
    pub fn with_another_host_key(self, host: &Host) -> Self {
        let Self { key, host_key, server, .. } = self;
        drop(server);
        for file in [&host_key, &host_key.with_extension("pub")] {
            fs::remove_file(file).expect("the server had a key");
        }
        command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host_key.to_str().expect("our own paths are text")]);
        Self::serve(host, host_key, key)
    }

    fn serve(host: &Host, server_key: PathBuf, client_key: PathBuf) -> Self {
        let authorized = client_key.with_extension("pub");
        let settings = format!(
            "Port {PORT}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n",
            server_key.display(),
            authorized.display(),
        );
        let settings = host.file("ssh/sshd_config", settings);
        fs::create_dir_all("/run/sshd").expect("sshd wants an empty directory to lock itself into");
        let words = ["/usr/sbin/sshd", "-D", "-e", "-f", settings.to_str().expect("our own paths are text")];
        let server = Server::start(host, "sshd", &words);
        let server = server.wait_until_it_answers(host, SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        Self { share: host.directory("share"), key: client_key, host_key: server_key, server }
    }

    /// From now on only this key is accepted.
    pub fn let_in(&self, public: &Path) {
        fs::copy(public, self.key.with_extension("pub")).expect("the server's own files");
    }

    /// Like a restart of the server: clients have to connect again.
    pub fn disconnect_all(&self) {
        let is_connection = |process: &Process| fs::read(process.file("cmdline")).is_ok_and(|words| words.starts_with(b"sshd: root"));
        processes::on_this_network().iter().filter(|process| is_connection(process)).for_each(|process| process.signal(Signal::KILL));
    }

    pub fn source(&self) -> String {
        format!("root@127.0.0.1:{}", self.share.display())
    }

    pub fn options(&self) -> String {
        format!("{},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null", self.careful_options())
    }

    /// Those that check the server's key, as ssh does by default.
    pub fn careful_options(&self) -> String {
        format!("port={PORT},IdentityFile={}", self.key.display())
    }

    /// The server's line in a file of known hosts.
    pub fn known_host(&self) -> String {
        let key = fs::read_to_string(self.host_key.with_extension("pub")).expect("the server has a key");
        format!("[127.0.0.1]:{PORT} {key}")
    }
}
