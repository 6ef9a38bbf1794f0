//! The volume plugin as its callers see it: a socket, calls in JSON, and the places of its volumes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, Ran, client, wait};

pub(crate) const SOCKET: &str = "/run/docker/plugins/shorefast.sock";
pub(crate) const STATE: &str = "/var/lib/shorefast/docker";

pub(crate) struct Plugin<'a> {
    binary: &'a Path,
    server: Option<Running>,
}

impl<'a> Plugin<'a> {
    pub(crate) fn start(host: &'a Host) -> Self {
        Self::of_binary(host.binary())
    }

    pub(crate) fn of_binary(binary: &'a Path) -> Self {
        let mut plugin = Self { binary, server: None };
        plugin.serve();
        plugin
    }

    /// How long it took until it could be called. One that still serves is replaced, and returned.
    pub(crate) fn serve(&mut self) -> (Duration, Option<Running>) {
        let began = Instant::now();
        let inode = || fs::metadata(SOCKET).ok().map(|socket| std::os::unix::fs::MetadataExt::ino(&socket));
        let before = inode();
        let mut serve = std::process::Command::new(self.binary);
        serve.args(["serve", "--docker"]);
        let predecessor = self.server.replace(Running::start(serve));
        while inode() == before || UnixStream::connect(SOCKET).is_err() {
            assert!(began.elapsed() < wait::PATIENCE, "no socket");
            std::thread::sleep(Duration::from_millis(1));
        }
        (began.elapsed(), predecessor)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().expect("it runs").pid()
    }

    pub(crate) fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        server.kill();
        drop(server.finish());
    }

    pub(crate) fn stop(&mut self) -> Ran {
        let server = self.server.take().expect("it runs");
        terminate(&server);
        server.finish()
    }

    /// What it answers, and whether that is an error.
    pub(crate) fn ask(&self, call: &str, body: &Value) -> (u16, Value) {
        let call = if call.starts_with('/') { call.to_owned() } else { format!("/VolumeDriver.{call}") };
        answer(begin(&call, &body.to_string()))
    }

    #[track_caller]
    pub(crate) fn call(&self, call: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(call, body);
        assert_eq!((status, &answer["Err"]), (200, &"".into()), "{call} {body}: {answer}");
        answer
    }

    /// What it says instead of doing it.
    #[track_caller]
    pub(crate) fn refuses(&self, call: &str, body: &Value) -> String {
        let (status, answer) = self.ask(call, body);
        assert_ne!(status, 200, "{call} {body}: {answer}");
        let said = answer["Err"].as_str().unwrap_or_default().to_owned();
        assert!(!said.is_empty(), "{call} {body}: {answer}");
        said
    }

    #[track_caller]
    pub(crate) fn create(&self, name: &str, options: &Value) {
        self.call("Create", &json!({ "Name": name, "Opts": options }));
    }

    #[track_caller]
    pub(crate) fn mount(&self, name: &str, id: &str) -> PathBuf {
        let answer = self.call("Mount", &json!({ "Name": name, "ID": id }));
        let place = PathBuf::from(answer["Mountpoint"].as_str().expect("a path"));
        assert_eq!(place, mountpoint(name));
        place
    }

    #[track_caller]
    pub(crate) fn unmount(&self, name: &str, id: &str) {
        self.call("Unmount", &json!({ "Name": name, "ID": id }));
    }

    #[track_caller]
    pub(crate) fn remove(&self, name: &str) {
        self.call("Remove", &json!({ "Name": name }));
    }

    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> Value {
        self.call("Get", &json!({ "Name": name }))["Volume"]["Status"].clone()
    }

    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.call("List", &json!({}))["Volumes"].clone();
        list.as_array().expect("a list").iter().map(|volume| volume["Name"].as_str().expect("a name").to_owned()).collect()
    }
}

impl Drop for Plugin<'_> {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            server.kill();
        }
    }
}

pub(crate) fn terminate(server: &Running) {
    kill_process(Pid::from_raw(server.pid() as i32).expect("a pid"), Signal::TERM).expect("it can be ended");
}

/// A request that is sent, and not answered yet. Dropped: its caller hangs up.
pub(crate) fn begin(path: &str, body: &str) -> UnixStream {
    let mut connection = UnixStream::connect(SOCKET).expect("the plugin listens");
    connection.set_read_timeout(Some(Duration::from_secs(80))).expect("a timeout");
    let length = body.len();
    write!(connection, "POST {path} HTTP/1.1\r\nHost: plugin\r\nContent-Length: {length}\r\n\r\n{body}").expect("it reads");
    connection
}

pub(crate) fn answer(mut connection: UnixStream) -> (u16, Value) {
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("it answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer:?}"));
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer:?}")))
}

pub(crate) fn mountpoint(name: &str) -> PathBuf {
    Path::new(STATE).join(name).join("mount")
}

/// Options of a volume of bindfs, which runs as a user of its own.
pub(crate) fn bindfs(source: &Path) -> Value {
    fs::set_permissions(source, fs::Permissions::from_mode(0o777)).expect("the test's own directory");
    json!({ "type": "bindfs", "device": text(source), "image": bindfs_image() })
}

pub(crate) fn bindfs_image() -> String {
    format!("dir:{}", Client::named("bindfs").image_directory().display())
}

/// Options of a volume of a script, as the client that it defines.
pub(crate) fn define_script(host: &Host, script: &str, more_keys: &str) -> Value {
    client::define_script(host, script, more_keys);
    json!({ "type": "script", "device": "server:/x" })
}
