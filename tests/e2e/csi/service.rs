//! The server as a service: ready when it says so, on sockets that systemd opened, looked at over HTTP.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use shorefast_csi::messages::{Empty, GetPluginInfoResponse};
use shorefast_tests::channel::Channel;
use shorefast_tests::{Host, wait};

const ADDRESS: &str = "127.0.0.1:9810";

#[test]
fn takes_systemds_socket_says_when_it_is_ready_and_counts() {
    let Some(host) = Host::new() else { return };
    let (root, socket, ready) = (host.directory("kubelet"), host.path("csi.sock"), host.path("ready"));
    let notified = UnixDatagram::bind(&ready).expect("a socket to be told");
    notified.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let listener = UnixListener::bind(&socket).expect("a socket as systemd opens it");
    // The variables name the process that they are for.
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=csi; exec \"$0\" \"$@\"";
    let mut server = Command::new("sh")
        .args(["-c", script])
        .arg(host.binary())
        .args(["serve", "--csi", "--listen-metrics", ADDRESS, "--kubelet-root"])
        .arg(&root)
        .env("NOTIFY_SOCKET", &ready)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .spawn()
        .expect("a shell");
    let mut said = [0; 100];
    let length = notified.recv(&mut said).expect("it says that it is ready");
    assert_eq!(String::from_utf8_lossy(&said[..length]).trim(), "READY=1");
    // Ready means that all sockets are there: none of these calls waits.
    let info: GetPluginInfoResponse = Channel::open(&socket).call("/csi.v1.Identity/GetPluginInfo", &Empty {}).expect("it answers");
    assert_eq!(info.name, "csi.shorefast.dev");
    assert!(root.join("plugins_registry/csi.shorefast.dev-reg.sock").exists());
    assert!(!root.join("plugins").exists(), "a socket of its own, too");
    assert!(get("/healthz").ends_with("ok\n"));
    let metrics = get("/metrics");
    assert!(metrics.contains("shorefast_operations_total{operation=\"list\",outcome=\"done\"} 1"), "{metrics}");
    assert!(metrics.contains("application/openmetrics-text"), "{metrics}");
    assert!(get("/etc/passwd").starts_with("HTTP/1.1 404"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM).expect("it runs");
    let ended = wait::within(Duration::from_secs(5), || server.try_wait().expect("a child"));
    assert!(ended.expect("it ends").success());
    // systemd's socket stays: the next one gets it again.
    assert!(socket.exists());
    fs::remove_file(&socket).expect("the test's own");
    host.assert_nothing_left();
}

fn get(path: &str) -> String {
    let mut connection = TcpStream::connect(ADDRESS).expect("it listens");
    write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("it answers");
    answer
}
