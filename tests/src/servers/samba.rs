//! smbd with one share for a user, and the same directory for guests.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Server;
use crate::Host;
use crate::path::text;

/// Of the user `root`.
pub const PASSWORD: &str = "correct=horse+battery";

/// Of the user `daemon`. The comma is a trap: it separates mount options, and the kernel wants it doubled.
pub const PASSWORD_WITH_COMMA: &str = "correct,horse";

const PORT: u16 = 445;

#[derive(Debug)]
pub struct Samba {
    /// The directory that clients mount.
    pub share: PathBuf,
    _server: Server,
}

impl Samba {
    /// Whether this kernel can be a client. Asking loads its module.
    pub fn is_possible() -> bool {
        let knows = || fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.lines().any(|line| line.ends_with("\tcifs")));
        let load = || Command::new("modprobe").args(["-q", "cifs"]).status();
        knows() || load().is_ok_and(|_| knows())
    }

    pub fn start(host: &Host) -> Self {
        let share = host.directory("share");
        fs::set_permissions(&share, fs::Permissions::from_mode(0o1777)).expect("cannot chmod");
        let state = host.directory("samba");
        let configuration = host.file("smb.conf", configuration(&share, &state));
        add_user(&configuration, "root", PASSWORD);
        add_user(&configuration, "daemon", PASSWORD_WITH_COMMA);
        let words = ["smbd", "--foreground", "--no-process-group", "--debug-stdout", "--configfile", text(&configuration)];
        let server = Server::start(host, "smbd", &words);
        let server = server.wait_until_it_answers(host, SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        Self { share, _server: server }
    }

    pub fn source(&self) -> String {
        "//127.0.0.1/share".to_owned()
    }

    /// The share that guests may mount.
    pub fn public_source(&self) -> String {
        "//127.0.0.1/public".to_owned()
    }
}

fn configuration(share: &Path, state: &Path) -> String {
    let directories = ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"];
    let lines: String = directories.iter().map(|name| format!("{name} = {}/{}\n", state.display(), name.replace(' ', "-"))).collect();
    for name in directories {
        fs::create_dir_all(state.join(name.replace(' ', "-"))).expect("cannot create a directory for samba");
    }
    format!(
        "[global]\nserver role = standalone server\ndisable netbios = yes\nsmb ports = {PORT}\nload printers = no\ndisable spoolss = yes\n\
         map to guest = Bad User\nguest account = nobody\n{lines}\
         [share]\npath = {share}\nread only = no\n[public]\npath = {share}\nread only = no\nguest ok = yes\nguest only = yes\n",
        share = share.display()
    )
}

fn add_user(configuration: &Path, user: &str, password: &str) {
    let mut command = Command::new("smbpasswd");
    command.args(["-s", "-a", "-c", text(configuration), user]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cannot start smbpasswd");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    write!(input, "{password}\n{password}\n").expect("smbpasswd reads its input");
    drop(input);
    let output = child.wait_with_output().expect("smbpasswd can be waited for");
    assert!(output.status.success(), "smbpasswd: {}", String::from_utf8_lossy(&output.stderr));
}
