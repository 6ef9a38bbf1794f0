//! What became of a mount is known after it: how and why it ended, or why there never was one, what its client said last, and one line in the
//! host's journal.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, command, wait};

/// Serves with bindfs, in which file the script finds what it has to do next, and ends as `$3` says.
const SERVES: &str = r#"echo "I serve"; bindfs -f "$1" "$2"; echo "my last words" >&2; eval "$3""#;

fn client(host: &Host, script: &str, last: &str, more_keys: &str) -> Client {
    let words = ["sh", "-c", script, "sh", "{source}", "{target}", last].map(|word| toml::Value::String(word.to_owned()).to_string());
    let definition = format!(
        "types = [\"script\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\ndaemon = \"foreground\"\n{more_keys}\ncommand = [{}]\n",
        words.join(", ")
    );
    Client::defined(host, "bindfs", &definition)
}

/// Mounts, and returns its id.
fn mount(host: &Host, client: &Client) -> String {
    let (source, target) = (host.directory("source"), host.directory("target"));
    Request::new(client, "script", &source, &target).sandboxed(host).succeeds();
    let id = host.list()[0]["id"].as_str().expect("an id").to_owned();
    wait::until("the client to speak", || logs(host, &id, &[]).contains("I serve").then_some(()));
    id
}

fn logs(host: &Host, of: &str, more: &[&str]) -> String {
    let mut words = vec!["logs"];
    words.extend(more);
    words.push(of);
    host.shorefast(&words).succeeds().stdout
}

/// The stories, oldest first.
fn past(host: &Host) -> Vec<Value> {
    let all = host.shorefast(&["list", "--all", "--json"]).succeeds().json();
    all.as_array().expect("an array").iter().filter(|row| row.get("why").is_some()).cloned().collect()
}

#[track_caller]
fn story(host: &Host, of: &str) -> Value {
    let row = host.shorefast(&["inspect", "--json", of]).succeeds().json();
    assert!(row.get("why").is_some(), "it lives: {row}");
    row
}

fn kill_bindfs(host: &Host) {
    let is_it = |process: &Process| process.status("Name").as_deref() == Some("bindfs");
    host.sandboxed().into_iter().find(is_it).expect("it serves").signal(Signal::KILL);
}

/// How it is ended, what the script does last, more keys of the definition, and the state and the reason that are known of it then.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[test]
fn every_end_is_known_with_its_reason_and_the_last_words() {
    let rows: [Row; 7] = [
        ("umount", "exit 0", "", "unmounted", "unmounted"),
        ("shorefast umount", "exit 0", "", "unmounted", "unmounted"),
        ("umount", "exit 5", "", "unmounted", "unmounted; its client: exit status 5"),
        ("umount", "exit 5", "ends_with = [5]", "unmounted", "unmounted"),
        ("kill", "exit 0", "", "ended", "its client ended by itself"),
        ("kill", "exit 5", "on_exit = \"detach\"", "died", "its client died: exit status 5"),
        ("kill", "kill -ABRT $$", "on_exit = \"detach\"", "died", "its client died: killed by signal 6"),
    ];
    for (by, last, more_keys, state, why) in rows {
        let Some(host) = Host::new() else { return };
        let id = mount(&host, &client(&host, SERVES, last, more_keys));
        match by {
            "umount" => drop(command::run(&["umount", "/srv/target"])),
            "kill" => kill_bindfs(&host),
            _ => drop(host.shorefast(&["umount", "/srv/target"]).succeeds()),
        }
        wait::until("the mount to be gone", || host.list().is_empty().then_some(()));
        wait::until("its story", || (past(&host).len() == 1).then_some(()));
        let name = format!("{by}, {last}, {more_keys}");
        for of in ["/srv/target", &id] {
            let story = story(&host, of);
            assert_eq!((&story["state"], &story["why"]), (&state.into(), &why.into()), "{name}: {story}");
            assert_eq!((&story["id"], &story["source"], &story["client"]), (&id.as_str().into(), &"/srv/source".into(), &"client".into()));
            assert!(story["lived_seconds"].as_u64().is_some_and(|lived| lived < 90), "{story}");
            // The shell says what became of its child.
            assert_eq!(logs(&host, of, &[]).replace("Killed\n", ""), "I serve\nmy last words\n", "{name}");
            assert_eq!(logs(&host, of, &["--tail", "1"]), "my last words\n", "{name}");
        }
        let table = host.shorefast(&["list", "--all"]).succeeds().stdout;
        assert!(table.contains(why) && table.contains(&id), "{table}");
        assert!(!host.shorefast(&["list"]).succeeds().stdout.contains(&id), "only with --all");
        host.assert_nothing_left();
    }
}

/// The shell that serves the mount becomes a program that reads a line without an end.
const EATS: &str = r#"echo "I serve"; bindfs -f "$1" "$2" & until [ -e "$1/eat" ]; do sleep 0.1; done; exec tail -n 1 /dev/zero"#;

#[test]
fn of_a_client_that_ran_out_of_memory_the_limit_is_known() {
    let Some(host) = Host::new() else { return };
    let more_keys = "on_exit = \"detach\"\nlimits = { memory = \"48M\" }";
    let id = mount(&host, &client(&host, EATS, "", more_keys));
    fs::write(host.path("source/eat"), "").expect("the test's own");
    wait::until("the mount to be gone", || host.list().is_empty().then_some(()));
    wait::until("its story", || (past(&host).len() == 1).then_some(()));
    let why = "its client died: killed by signal 9: out of memory, of which it may use 48 MiB";
    for of in ["/srv/target", &id] {
        let story = story(&host, of);
        assert_eq!((&story["state"], &story["why"]), (&"died".into(), &why.into()), "{story}");
        let end = &story["client_ended"];
        assert_eq!((&end["signal"], &end["out_of_memory"], &end["limit_bytes"]), (&9.into(), &true.into(), &(48 << 20).into()), "{story}");
    }
    assert!(host.shorefast(&["list", "--all"]).succeeds().stdout.contains(why));
    host.assert_nothing_left();
}

#[test]
fn of_a_dead_mount_that_was_kept_it_is_known_how_its_client_died() {
    let Some(host) = Host::new() else { return };
    let id = mount(&host, &client(&host, SERVES, "kill -SEGV $$", "on_exit = \"keep\""));
    kill_bindfs(&host);
    let crashes = || host.shorefast(&["inspect", "--json", &id]).succeeds().json()["crashes"].clone();
    wait::until("the death to be noted", || (crashes()[0]["client"] == "killed by signal 11").then_some(()));
    host.shorefast(&["umount", "/srv/target"]).succeeds();
    let story = story(&host, &id);
    assert_eq!((&story["state"], &story["why"]), (&"unmounted".into(), &"unmounted; its client: killed by signal 11".into()), "{story}");
    assert_eq!(story["client_ended"]["signal"], 11);
    host.assert_nothing_left();
}

/// When, why, how long it took until another client served, and what was said last: of the mount, and of the client that died.
#[test]
fn a_crash_that_was_healed_is_told_in_full() {
    let rows = [
        ("exit 7", "", "exit status 7"),
        ("kill -SEGV $$", "", "killed by signal 11"),
        ("exec tail /dev/zero", "limits = { memory = \"64M\" }", "killed by signal 9: out of memory, of which it may use 64 MiB"),
    ];
    for (last, more_keys, end) in rows {
        let Some(host) = Host::new() else { return };
        let id = mount(&host, &client(&host, SERVES, last, more_keys));
        kill_bindfs(&host);
        let said = |crash: &Value| crash["said"].as_array().is_some_and(|lines| lines.contains(&"my last words".into()));
        let row = wait::until("another client", || {
            let rows = host.list();
            let is_new = rows.first().is_some_and(|row| row["state"] == "serving" && row["id"] != id.as_str());
            is_new.then(|| host.shorefast(&["inspect", "--json", "/srv/target"]).succeeds().json())
        });
        let crash = &row["crashes"][0];
        assert_eq!((&crash["client"], &crash["id"]), (&end.into(), &id.as_str().into()), "{crash}");
        assert!(crash["healed_after_ms"].is_u64() && crash["at"].is_string() && said(crash), "{crash}");
        wait::until("its story", || (past(&host).len() == 1).then_some(()));
        // By its id, who asks gets to the client that has taken over.
        let told = past(&host).remove(0);
        assert_eq!((&told["id"], &told["state"], &told["crashes"][0]), (&id.as_str().into(), &"replaced".into(), crash), "{told}");
        let why = told["why"].as_str().unwrap_or_default();
        assert!(why.starts_with("another client took over after ") && why.ends_with(&format!(" ms; its client: {end}")), "{why}");
        assert!(host.shorefast(&["list", "--all"]).succeeds().stdout.contains("another client took over after "));
        host.shorefast(&["logs", "/srv/target"]).succeeds().says(end).says("another one took over after ");
        command::run(&["umount", "/srv/target"]);
        wait::until("the mount to be gone", || host.list().is_empty().then_some(()));
        host.assert_nothing_left();
    }
}

#[test]
fn a_mount_that_fails_leaves_why_and_what_its_client_said() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    let failing = client(&host, "echo \"no such share\" >&2; exit 3", "", "");
    Request::new(&failing, "script", &source, &target).sandboxed(&host).exits(32);
    let told = story(&host, text(&target));
    assert_eq!(told["state"], "not-mounted");
    for part in ["it could not be mounted", "exit status 3", "no such share"] {
        assert!(told["why"].as_str().is_some_and(|why| why.contains(part)), "{told}");
    }
    assert_eq!(logs(&host, text(&target), &[]), "no such share\n");
    // Before anything was begun.
    let nowhere = host.path("nowhere");
    Request::new(&failing, "script", &source, &nowhere).sandboxed(&host).exits(32);
    let told = story(&host, text(&nowhere));
    assert!(told["id"].is_null() && told["why"].as_str().is_some_and(|why| why.contains("cannot mount at")), "{told}");
    // A wrong call is nobody's story.
    host.shorefast(&["mount", "-t", "nosuch", "x", text(&target)]).exits(32);
    assert_eq!(past(&host).len(), 2);
    host.assert_nothing_left();
}

#[test]
fn a_mount_whose_maker_was_killed_is_told_by_the_next_call() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    let slow = client(&host, "echo begun; sleep 60", "", "");
    let mut mounting = host.start(&Request::new(&slow, "script", &source, &target).arguments(shorefast_tests::client::Way::Directory, &[]));
    host.wait_for_client("sleep");
    mounting.kill();
    drop(mounting.finish());
    host.shorefast(&["reconcile"]).succeeds();
    wait::until("its story", || (past(&host).len() == 1).then_some(()));
    let told = story(&host, text(&target));
    assert_eq!((&told["state"], &told["why"]), (&"abandoned".into(), &"the process that was mounting it was killed".into()));
    assert_eq!(logs(&host, text(&target), &[]), "begun\n");
    host.assert_nothing_left();
}

#[test]
fn who_follows_sees_the_last_line_and_what_was_said_since() {
    let Some(host) = Host::new() else { return };
    let id = mount(&host, &client(&host, SERVES, "sleep 2; echo \"and this\"; exit 0", ""));
    let following = host.start(&["logs", "--follow", "/srv/target"]);
    std::thread::sleep(Duration::from_secs(2));
    let between = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    std::thread::sleep(Duration::from_secs(1));
    command::run(&["umount", "/srv/target"]);
    assert_eq!(following.finish().succeeds().stdout, "I serve\nmy last words\nand this\n");
    let since = |seconds: u64| {
        let ago = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs() - seconds;
        logs(&host, &id, &["--since", &format!("{ago}s")])
    };
    assert_eq!(since(between), "my last words\nand this\n");
    assert_eq!(since(between - 60), "I serve\nmy last words\nand this\n");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(logs(&host, &id, &["--since", "0s"]), "");
    host.shorefast(&["logs", "--since", "yesterday", &id]).exits(1).says("as long ago as");
    host.assert_nothing_left();
}

/// The host's journal, as far as we can see it.
struct Journal(UnixDatagram);

impl Journal {
    fn listen() -> Self {
        let place = Path::new("/run/systemd/journal/socket");
        fs::create_dir_all(place.parent().expect("it has one")).expect("the test's own /run");
        let socket = UnixDatagram::bind(place).expect("nobody else is here");
        socket.set_nonblocking(true).expect("a socket");
        Self(socket)
    }

    /// Of each message: level, event, and what is said.
    fn said(&self) -> Vec<(String, String, String)> {
        let mut buffer = [0; 1 << 16];
        let mut said = Vec::new();
        while let Ok(length) = self.0.recv(&mut buffer) {
            let fields = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let field =
                |name: &str| fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default().to_owned();
            assert_eq!((field("SYSLOG_IDENTIFIER").as_str(), field("SHOREFAST_TARGET").as_str()), ("shorefast", "/srv/target"), "{fields}");
            said.push((field("PRIORITY"), field("SHOREFAST_EVENT"), field("MESSAGE")));
        }
        said
    }
}

#[test]
fn the_journal_has_one_line_for_each_event() {
    let Some(host) = Host::new() else { return };
    let journal = Journal::listen();
    let id = mount(&host, &client(&host, SERVES, "exit 5", ""));
    command::run(&["umount", "/srv/target"]);
    wait::until("its story", || (past(&host).len() == 1).then_some(()));
    host.shorefast(&["reconcile"]).succeeds();
    let target = "/srv/target";
    let expected = [
        ("6", "mounted", format!("{id}: {target}: mounted /srv/source (fuse)")),
        ("4", "unmounted", format!("{id}: {target}: unmounted; its client: exit status 5")),
    ];
    assert_eq!(journal.said(), expected.map(|(level, event, said)| (level.to_owned(), event.to_owned(), said)));

    let failing = client(&host, "echo \"no such\u{1b}share\" >&2; exit 3", "", "");
    Request::new(&failing, "script", host.path("source"), target).sandboxed(&host).exits(32);
    let said = journal.said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].0.as_str(), said[0].1.as_str()), ("3", "failed"));
    assert!(said[0].2.contains("no such\\u001bshare"), "{said:?}");

    let healing = client(&host, SERVES, "kill -SEGV $$", "heal = { crashes = 1 }");
    let id = mount(&host, &healing);
    for event in ["healed", "gave-up"] {
        kill_bindfs(&host);
        let said = wait::until(event, || {
            let mut said = journal.said();
            said.retain(|(_, event, _)| event != "mounted");
            (!said.is_empty()).then_some(said)
        });
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].1, event, "{said:?}");
        assert!(said[0].2.contains("killed by signal 11"), "{said:?}");
        if event == "healed" {
            assert!(said[0].2.starts_with(&id), "{said:?}");
            wait::until("the new client", || host.sandboxed().iter().find(|one| one.status("Name").as_deref() == Some("bindfs")).map(drop));
        }
    }
    host.shorefast(&["umount", "--force", target]).succeeds();
    host.assert_nothing_left();
}

/// Without systemd: one line for each event, to the host's /dev/log.
#[test]
fn without_a_journal_syslog_has_each_event_once() {
    let Some(host) = Host::new() else { return };
    command::run(&[
        "sh",
        "-ec",
        "mkdir /run/dev; mount -t tmpfs t /run/dev; cp -a /dev/null /dev/zero /dev/fuse /dev/urandom /run/dev; mount --move /run/dev /dev",
    ]);
    host.settle();
    let syslog = UnixDatagram::bind("/dev/log").expect("the test's own /dev");
    syslog.set_nonblocking(true).expect("a socket");
    let told = || {
        let mut buffer = [0; 1 << 14];
        let mut told = Vec::new();
        while let Ok(length) = syslog.recv(&mut buffer) {
            told.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        told
    };
    // The broker refuses this mount, and the client goes on.
    let asks_too_much = format!("mount -t proc x /tmp; {SERVES}");
    let rows = [
        ("exit 5", "on_exit = \"detach\"", "<27>", "its client died: exit status 5"),
        ("exit 0", "", "<29>", "its client ended by itself"),
    ];
    for (last, more_keys, level, why) in rows {
        let id = mount(&host, &client(&host, &asks_too_much, last, more_keys));
        kill_bindfs(&host);
        wait::until("its story", || past(&host).iter().any(|story| story["id"] == id.as_str()).then_some(()));
        host.shorefast(&["reconcile"]).succeeds();
        let told = told();
        let of_it = |level: &str, what: &str| {
            let is_it = |line: &&String| line.starts_with(level) && line.contains(&format!("]: {id}: /srv/target: {what}"));
            told.iter().filter(is_it).count()
        };
        let expected = [("<30>", "mounted /srv/source (fuse)"), ("<28>", "a call of its client was refused: "), (level, why)];
        for (level, what) in expected {
            assert_eq!(of_it(level, what), 1, "{level} {what}: {told:?}");
        }
        assert_eq!(told.len(), expected.len(), "{told:?}");
    }
    drop(syslog);
    host.assert_nothing_left();
}

/// Nobody reads, and the queue of a socket is short.
#[test]
fn a_journal_that_does_not_listen_holds_up_nothing() {
    let Some(host) = Host::new() else { return };
    let journal = Journal::listen();
    let (source, target) = (host.directory("source"), host.directory("target"));
    let failing = client(&host, "exit 3", "", "");
    let full = (0..2000).find(|_| {
        let sender = UnixDatagram::unbound().expect("a socket");
        sender.set_nonblocking(true).expect("a socket");
        sender.send_to(b"MESSAGE=x\n", "/run/systemd/journal/socket").is_err()
    });
    assert!(full.is_some(), "the queue is never full");
    let ran = Request::new(&failing, "script", &source, &target).sandboxed(&host).exits(32);
    assert!(ran.took < Duration::from_secs(30), "{ran:?}");
    drop(journal);
    host.assert_nothing_left();
}

/// A run directory of a megabyte: what is gone makes room for what is to live, and nothing fails for want of it.
#[test]
fn a_full_run_directory_costs_the_past_and_nothing_else() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all(host.run_directory()).expect("the test's own /run");
    command::run(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", text(host.run_directory())]);
    host.settle();
    let client = client(&host, "head -c 100000 /dev/zero | tr '\\0' x; echo; echo \"I serve\"; bindfs -f \"$1\" \"$2\"", "", "");
    let mut known = 0;
    for _ in 0..16 {
        mount(&host, &client);
        host.shorefast(&["umount", "/srv/target"]).succeeds();
        known = past(&host).len();
    }
    assert!((1..=10).contains(&known), "{known} stories of 64 KiB in a megabyte");
    // Full to the last byte: a story cannot be written, and the unmount succeeds.
    mount(&host, &client);
    let filler = host.run_directory().join("lock");
    let _ = fs::write(&filler, vec![0; 2 << 20]); // fails when it is full
    host.shorefast(&["umount", "/srv/target"]).succeeds();
    fs::remove_file(&filler).expect("the test's own");
    assert!(host.list().is_empty());
    host.assert_nothing_left();
}
