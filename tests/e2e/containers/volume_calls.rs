//! The volume plugin, call by call: the shipped binary, real clients, no container engine.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use shorefast_tests::{Host, mountinfo, wait};

use crate::plugin::{Plugin, STATE, answer, begin, bindfs, define_script, mountpoint, terminate};

#[test]
fn a_volume_has_one_client_from_its_first_user_to_its_last() {
    let Some(host) = Host::new() else { return };
    let plugin = Plugin::start(&host);
    assert_eq!(plugin.call("/Plugin.Activate", &Value::Null)["Implements"], json!(["VolumeDriver"]));
    assert_eq!(plugin.call("Capabilities", &json!({}))["Capabilities"]["Scope"], "local");
    assert_eq!(plugin.names(), Vec::<String>::new());
    let source = host.directory("source");
    fs::write(source.join("file"), "content").expect("the source can be written to");
    for _ in 0..2 {
        plugin.create("data", &bindfs(&source));
    }
    assert_eq!(plugin.names(), ["data"]);
    let path = plugin.call("Path", &json!({ "Name": "data" }))["Mountpoint"].clone();
    assert_eq!(path, mountpoint("data").to_str().expect("text"));
    let status = plugin.status("data");
    assert_eq!((&status["state"], &status["client"], &status["users"]), (&"unmounted".into(), &"bindfs".into(), &0.into()), "{status}");
    assert!(host.list().is_empty() && !mountpoint("data").exists(), "mounted before anybody wants it");

    let mounts = || mountinfo::here().len();
    let before = mounts();
    for id in ["one", "two", "one"] {
        let place = plugin.mount("data", id);
        assert_eq!(fs::read(place.join("file")).expect("it serves"), b"content");
        assert_eq!((mounts(), host.list().len()), (before + 1, 1));
    }
    let status = plugin.status("data");
    assert_eq!((&status["state"], &status["users"], status.get("error")), (&"serving".into(), &2.into(), None), "{status}");
    assert!(status["image"].as_str().is_some_and(|image| image.starts_with("dir:")), "{status}");

    let said = plugin.refuses("Remove", &json!({ "Name": "data" }));
    assert!(said.contains("in use") && said.contains('2'), "{said}");
    for id in ["one", "one", "stranger"] {
        plugin.unmount("data", id);
        assert_eq!(mounts(), before + 1, "the other still uses it");
    }
    plugin.unmount("data", "two");
    assert_eq!(mounts(), before);
    plugin.unmount("data", "two");
    assert!(!mountpoint("data").exists());
    for _ in 0..2 {
        plugin.remove("data");
    }
    assert_eq!(plugin.names(), Vec::<String>::new());
    assert_eq!(fs::read_dir(STATE).expect("our directory").count(), 0);
    assert_eq!(fs::read(source.join("file")).expect("the data are as they were"), b"content");
    drop(plugin);
    host.assert_nothing_left();
}

#[test]
fn mistakes_are_said_when_a_volume_is_created() {
    let Some(host) = Host::new() else { return };
    let plugin = Plugin::start(&host);
    let readable = host.file("readable", "secret");
    fs::set_permissions(&readable, fs::Permissions::from_mode(0o644)).expect("the test's own file");
    let source = host.directory("source");
    let rows = [
        (json!({ "tpye": "sshfs", "device": "x" }), "did you mean \"type\"?"),
        (json!({ "type": "sshsf", "device": "x" }), "did you mean sshfs?"),
        (json!({ "type": "sshfs" }), "\"device\" is missing"),
        (json!({ "type": "sshfs", "device": "x", "o": "context=\"x" }), "unclosed double quote"),
        (json!({ "type": "sshfs", "device": "x", "client": "nosuch" }), "no client \"nosuch\""),
        (json!({ "type": "sshfs", "device": "x", "image": "nosuch:" }), "nosuch"),
        (json!({ "type": "cifs", "device": "//h/s", "secret-file": "/nowhere" }), "/nowhere"),
        (json!({ "type": "cifs", "device": "//h/s", "secret-file": readable }), "others than root may read it"),
        (json!({ "type": "cifs", "device": "//h/s", "o": "user=me,password=hunter2" }), "secret-file=PATH"),
        (json!({ "type": "sshfs", "device": "x", "password": "hunter2" }), "did you mean \"secret-file\"?"),
        (json!({ "type": "bindfs", "device": source, "secret-file": "/etc/shadow" }), "secret"),
        (json!({ "type": "tmpfs", "device": "none" }), "no client definition lists the type \"tmpfs\""),
    ];
    for (options, words) in rows {
        let said = plugin.refuses("Create", &json!({ "Name": "v", "Opts": options }));
        assert!(said.contains(words) && !said.contains("hunter2"), "{options}: {said}");
        assert_eq!(plugin.names(), Vec::<String>::new(), "{options}");
        assert_eq!(fs::read_dir(STATE).into_iter().flatten().count(), 0, "{options} left something");
    }
    plugin.create("v", &bindfs(&source));
    let mut other = bindfs(&source);
    other["o"] = "ro".into();
    let said = plugin.refuses("Create", &json!({ "Name": "v", "Opts": other }));
    assert!(said.contains("with other options: o"), "{said}");
    // Two volumes that differ in one option.
    plugin.create("w", &other);
    fs::write(plugin.mount("v", "i").join("x"), "").expect("it is writable");
    let error = fs::write(plugin.mount("w", "i").join("y"), "").expect_err("that one is read-only");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    for name in ["v", "w"] {
        plugin.unmount(name, "i");
        plugin.remove(name);
    }
    for call in ["Get", "Path", "Mount"] {
        assert!(plugin.refuses(call, &json!({ "Name": "none", "ID": "i" })).contains("no volume \"none\""));
    }
    drop(plugin);
    host.assert_nothing_left();
}

const SECRET: &str = "kJ8-not-in-our-files-2xQ";

#[test]
fn a_secret_stays_in_its_file() {
    let Some(host) = Host::new() else { return };
    let script =
        format!("f=${{2#*credentials=}}; f=${{f%%,*}}; read -r line < $f; [ \"$line\" = {SECRET} ] || exit 9; mount -t tmpfs none $1");
    let mut options = define_script(&host, &script, "secret = { to_option = \"credentials\", from_options = [\"phrase\"] }");
    let plugin = Plugin::start(&host);
    let file = host.file("secret", format!("{SECRET}\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the test's own file");
    options["o"] = format!("phrase={SECRET}").into();
    let said = plugin.refuses("Create", &json!({ "Name": "v", "Opts": options }));
    assert!(said.contains("\"phrase\"") && !said.contains(SECRET), "{said}");
    options["o"] = "ro".into();
    options["secret-file"] = file.to_str().expect("text").into();
    plugin.create("v", &options);
    plugin.mount("v", "i");
    let shown = plugin.call("Get", &json!({ "Name": "v" })).to_string();
    assert!(!shown.contains(SECRET), "{shown}");
    for directory in [Path::new(STATE), host.run_directory()] {
        for file in files_below(directory) {
            let content = fs::read(&file).expect("root can read it");
            assert!(!content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{}", file.display());
        }
    }
    assert_eq!(fs::metadata(STATE).expect("our directory").mode() & 0o777, 0o700);
    plugin.unmount("v", "i");
    // Root's alone also when it is used.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("the test's own file");
    assert!(plugin.refuses("Mount", &json!({ "Name": "v", "ID": "i" })).contains("others than root may read it"));
    assert!(plugin.status("v")["error"].as_str().is_some_and(|error| error.contains("others than root")));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the test's own file");
    plugin.mount("v", "i");
    assert_eq!(plugin.status("v").get("error"), None);
    plugin.unmount("v", "i");
    plugin.remove("v");
    drop(plugin);
    host.assert_nothing_left();
}

/// Not into mounts.
fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let inside = |path: std::path::PathBuf| match path.file_name().is_some_and(|name| name == "mount") {
        true => Vec::new(),
        false if path.is_dir() => files_below(&path),
        false => vec![path],
    };
    entries.flat_map(inside).collect()
}

/// A client that begins and never ends; and one that stops answering.
#[test]
fn a_dead_server_makes_nobody_wait_who_only_looks_and_others_not_for_long() {
    let Some(host) = Host::new() else { return };
    let plugin = Plugin::start(&host);
    plugin.create("slow", &define_script(&host, "sleep 60", ""));
    plugin.create("dead", &bindfs(&host.directory("source")));
    let place = plugin.mount("dead", "i");
    let stopped = host.wait_for_client("bindfs");
    stopped.signal(Signal::STOP);
    let waiting = begin("/VolumeDriver.Mount", &json!({ "Name": "slow", "ID": "i" }).to_string());
    host.wait_for_client("sleep");
    let asked = Instant::now();
    assert_eq!(plugin.names(), ["dead", "slow"]);
    for name in ["dead", "slow"] {
        plugin.status(name);
        plugin.call("Path", &json!({ "Name": name }));
    }
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    // Somebody is in there, and waits.
    let mut reader = std::process::Command::new("ls").arg(&place).spawn().expect("a program");
    let asked = Instant::now();
    plugin.unmount("dead", "i");
    plugin.remove("dead");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    // It was there before, and goes on waiting, as after every lazy umount.
    stopped.signal(Signal::KILL);
    wait::until("the reader to be told", || reader.try_wait().expect("a child"));
    // The caller hangs up: the mount is given up, and the volume is free.
    drop(waiting);
    let asked = Instant::now();
    plugin.unmount("slow", "i");
    plugin.remove("slow");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    drop(plugin);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn the_plugin_may_be_killed_at_any_moment_and_counts_nobody_twice() {
    let Some(host) = Host::new() else { return };
    let mut plugin = Plugin::start(&host);
    let source = host.directory("source");
    plugin.create("lasting", &bindfs(&source));
    let lasting = plugin.mount("lasting", "container");
    let mount = |name: &str, id: &str| begin("/VolumeDriver.Mount", &json!({ "Name": name, "ID": id }).to_string());
    for round in 0..10u64 {
        let delay = Duration::from_millis(round * 3 % 25);
        let create = begin("/VolumeDriver.Create", &json!({ "Name": "v", "Opts": bindfs(&source) }).to_string());
        std::thread::sleep(delay / 4);
        plugin.kill();
        drop(create);
        plugin.serve();
        plugin.create("v", &bindfs(&source));
        // The engine sends it again to the next one, while the first may still be at work.
        let first = mount("v", "i");
        std::thread::sleep(delay);
        plugin.kill();
        drop(first);
        plugin.serve();
        let place = plugin.mount("v", "i");
        assert_eq!(mountinfo::at(&place).len(), 1);
        assert_eq!(plugin.status("v")["users"], 1);
        fs::write(lasting.join("file"), format!("{round}")).expect("volumes outlive their plugin");
        assert_eq!(fs::read_to_string(place.join("file")).expect("it serves"), format!("{round}"));
        let unmount = begin("/VolumeDriver.Unmount", &json!({ "Name": "v", "ID": "i" }).to_string());
        std::thread::sleep(delay / 2);
        plugin.kill();
        drop(unmount);
        plugin.serve();
        plugin.unmount("v", "i");
        assert!(mountinfo::at(&place).is_empty());
        plugin.remove("v");
    }
    // Replaced without a gap: whoever connects finds one of them.
    for _ in 0..3 {
        let (_, predecessor) = plugin.serve();
        let predecessor = predecessor.expect("one served");
        terminate(&predecessor);
        plugin.call("List", &json!({}));
        predecessor.finish().exits(0);
    }
    plugin.unmount("lasting", "container");
    plugin.remove("lasting");
    plugin.stop().exits(0);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn up_in_no_time_whatever_is_mounted() {
    let Some(host) = Host::new() else { return };
    let mut plugin = Plugin::start(&host);
    plugin.create("stuck", &define_script(&host, "sleep 60", ""));
    let _waiting = begin("/VolumeDriver.Mount", &json!({ "Name": "stuck", "ID": "i" }).to_string());
    host.wait_for_client("sleep");
    let took = (0..5).map(|_| {
        let (took, predecessor) = plugin.serve();
        predecessor.expect("one served").kill();
        assert_eq!(plugin.names(), ["stuck"]);
        took
    });
    let took = took.min().expect("five times");
    assert!(took < Duration::from_millis(100), "{took:?}");
    drop(plugin);
    host.shorefast(&["umount", "--force", mountpoint("stuck").to_str().expect("text")]);
    host.shorefast(&["reconcile"]).succeeds();
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    use std::io::{Read as _, Write as _};
    let Some(host) = Host::new() else { return };
    let plugin = Plugin::start(&host);
    let large = format!("{{\"Name\":\"{}\"}}", "x".repeat(1 << 20));
    let rows = [
        ("/VolumeDriver.Create", "{", 400),
        ("/VolumeDriver.Get", "7", 400),
        ("/VolumeDriver.Mount", &large, 400),
        ("/VolumeDriver.Nothing", "{}", 404),
        ("/etc/passwd", "{}", 404),
        ("/VolumeDriver.Remove", "{\"Name\":\"../..\"}", 500),
        ("/VolumeDriver.Unmount", "{\"Name\":\"a\",\"ID\":\"../../a\"}", 500),
        ("/VolumeDriver.Create", "{\"Name\":\"\\u001b[2J\",\"Opts\":{}}", 500),
    ];
    for (path, body, expected) in rows {
        let mut connection = begin(path, if body.len() > 1000 { "" } else { body });
        if body.len() > 1000 {
            connection = std::os::unix::net::UnixStream::connect(crate::plugin::SOCKET).expect("it listens");
            write!(connection, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).expect("it reads");
            // It may have had enough before the end.
            let _ = connection.write_all(body.as_bytes());
        }
        let (status, said) = answer(connection);
        assert_eq!(status, expected, "{path}: {said}");
        assert!(!said["Err"].as_str().expect("a text").chars().any(char::is_control), "{said}");
    }
    for bytes in [&b"\x16\x03\x01\x02\x00"[..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST\r\n\r\n", &[0; 70000]] {
        let mut connection = std::os::unix::net::UnixStream::connect(crate::plugin::SOCKET).expect("it listens");
        let _ = connection.write_all(bytes);
        let _ = connection.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _ = connection.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
    }
    plugin.call("List", &json!({}));
    drop(plugin);
    host.assert_nothing_left();
}

/// All at the same moment, in any order.
#[test]
fn a_hundred_users_and_ten_volumes_at_once() {
    let Some(host) = Host::new() else { return };
    let plugin = Plugin::start(&host);
    let source = host.directory("source");
    let before = mountinfo::here().len();
    let names: Vec<_> = (0..10).map(|number| format!("volume-{number}")).collect();
    for name in &names {
        plugin.create(name, &bindfs(&source));
    }
    let all = |call: &str| {
        let asked = (0..100).map(|user| (&names[0], user)).chain(names[1..].iter().map(|name| (name, 0)));
        let body = |name: &str, user: i32| json!({ "Name": name, "ID": format!("user{user}") }).to_string();
        let waiting: Vec<_> = asked.map(|(name, user)| begin(&format!("/VolumeDriver.{call}"), &body(name, user))).collect();
        waiting.into_iter().map(answer).for_each(|(status, said)| assert_eq!(status, 200, "{said}"));
    };
    all("Mount");
    assert_eq!((host.list().len(), mountinfo::here().len() - before), (10, 10));
    assert_eq!(plugin.status(&names[0])["users"], 100);
    all("Unmount");
    assert_eq!((host.list().len(), mountinfo::here().len()), (0, before));
    names.iter().for_each(|name| plugin.remove(name));
    drop(plugin);
    host.assert_nothing_left();
}

#[test]
fn takes_the_socket_that_systemd_opened_and_leaves_it_there() {
    use std::os::fd::OwnedFd;
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/run/docker/plugins").expect("/run is the test's own");
    let listener = std::os::unix::net::UnixListener::bind(crate::plugin::SOCKET).expect("a socket as systemd opens it");
    // Whoever asks before the plugin is there waits, and is answered.
    let early = begin("/Plugin.Activate", "");
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=docker; exec \"$0\" serve --docker";
    let mut command = std::process::Command::new("sh");
    let mut server = command
        .args(["-c", script])
        .arg(host.binary())
        .stdin(OwnedFd::from(listener.try_clone().expect("a copy")))
        .spawn()
        .expect("a shell");
    assert_eq!(answer(early).1["Implements"], json!(["VolumeDriver"]));
    server.kill().and_then(|()| server.wait()).expect("it runs");
    assert!(Path::new(crate::plugin::SOCKET).exists());
    drop(listener);
}
