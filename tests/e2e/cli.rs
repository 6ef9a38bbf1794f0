//! The command line: what it prints, how fast it answers, and that bad input gets a clear error and changes nothing.

#[path = "cli/slips.rs"]
mod slips;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use shorefast_tests::client::{Request, Way};
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, Ran, command, mountinfo};

fn as_nobody(host: &Host, arguments: &[OsString]) -> Ran {
    // The target directory of cargo may be out of reach for others.
    let copy = host.path("shorefast");
    fs::copy(host.binary(), &copy).expect("the binary can be copied");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(copy).args(arguments);
    command::finish(command)
}

fn words(arguments: &[&str]) -> Vec<OsString> {
    arguments.iter().map(OsString::from).collect()
}

#[test]
fn list_has_the_documented_fields() {
    let Some(host) = Host::new() else { return };
    assert!(host.list().is_empty());
    let (tmpfs, bindfs) = (Client::named("tmpfs"), Client::named("bindfs"));
    let (source, one, two) = (host.directory("source"), host.directory("one"), host.directory("two"));
    Request::new(&bindfs, "bindfs", &source, &one).sandboxed(&host).succeeds();
    Request::new(&tmpfs, "tmpfs", "scratch", &two).sandboxed(&host).succeeds();

    let list = host.list();
    assert_eq!(list.len(), 2);
    let keys = ["client", "covered", "digest", "fstype", "id", "image", "mode", "namespace", "pid", "since", "source", "state", "target"];
    for row in &list {
        let row = row.as_object().expect("a row is an object");
        let mut own: Vec<_> = row.keys().map(String::as_str).collect();
        own.sort_unstable();
        assert_eq!(own, keys);
    }
    let row = |target: &Path| list.iter().find(|row| row["target"] == target.to_str().expect("text")).expect("a row per mount");
    let (one, two) = (row(&one), row(&two));
    assert_eq!((&one["source"], &one["client"], &one["mode"]), (&"/srv/source".into(), &"bindfs".into(), &"container".into()));
    assert!(one["image"].as_str().is_some_and(|image| image.starts_with("dir:/") && image.ends_with("/bindfs")), "{one}");
    let status = fs::read_to_string(format!("/proc/{}/comm", one["pid"])).expect("the daemon's host pid");
    assert_eq!(status, "bindfs\n");
    assert_eq!((&two["source"], &two["fstype"], &two["pid"]), (&"scratch".into(), &"tmpfs".into(), &serde_json::Value::Null));
    assert!(list.iter().all(|row| row["state"] == "serving"), "{list:?}");

    let table = host.shorefast(&["list"]).succeeds().stdout;
    assert!(table.contains("/srv/one") && table.contains("/srv/two"), "{table}");
    let inspected = host.shorefast(&["inspect", "--json", "/srv/one"]).succeeds().json();
    assert_eq!(inspected["id"], one["id"]);
    host.shorefast(&["umount", "/srv/one", "/srv/two"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn list_answers_at_once_while_a_client_hangs() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    Request::new(&client, "bindfs", host.directory("source"), host.directory("target")).sandboxed(&host).succeeds();
    let stopped = host.sandboxed();
    stopped.iter().for_each(|process| process.signal(Signal::STOP));
    // A busy machine may be slow once; a list that asks the client is slow every time. In a guest, starting any program takes long.
    let fastest = |arguments: &[&str]| (0..5).map(|_| host.shorefast(arguments).succeeds().took).min().expect("five runs");
    let (list, start) = (fastest(&["list", "--json"]), fastest(&["--version"]));
    assert!(list < Duration::from_millis(100) + start, "{list:?}, where starting takes {start:?}");
    assert_eq!(host.list().len(), 1);
    stopped.iter().for_each(|process| process.signal(Signal::CONT));
    command::run(&["umount", "/srv/target"]);
    host.assert_nothing_left();
}

#[test]
fn a_dry_run_needs_no_root_and_prints_the_plan() {
    let Some(host) = Host::new() else { return };
    let file = host.file("client.toml", "types = [\"x\"]\nkernel_types = [\"fuse.x\"]\nlimits = { memory = \"64M\" }\n");
    let client = Client::from_file(file, "tmpfs");
    let request = Request::new(&client, "x", "server:/share", "/srv/nowhere").options("ro,password=hunter2");
    let arguments = request.arguments(Way::Directory, &["--dry-run"]);
    for ran in [host.shorefast(&arguments), as_nobody(&host, &arguments)] {
        let plan = ran.succeeds().json();
        assert_eq!((&plan["source"], &plan["target"]), (&"server:/share".into(), &"/srv/nowhere".into()));
        assert_eq!(plan["limits"]["memory_bytes"], 64 << 20);
        assert!(!plan.to_string().contains("hunter2"), "{plan}");
    }
    assert!(!host.run_directory().exists());
    host.assert_nothing_left();
}

#[test]
fn without_root_it_says_what_is_needed() {
    let Some(host) = Host::new() else { return };
    let client = Client::from_file(host.file("client.toml", "types = [\"tmpfs\"]\n"), "tmpfs");
    let request = Request::new(&client, "tmpfs", "none", host.directory("target"));
    for arguments in [request.arguments(Way::Directory, &[]), words(&["umount", "/srv/target"]), words(&["reconcile"])] {
        let ran = as_nobody(&host, &arguments).says("root");
        assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
    }
    host.assert_nothing_left();
}

/// A bad call, the exit codes that are right for it, and what the error must name.
struct Bad {
    name: &'static str,
    arguments: Vec<OsString>,
    codes: &'static [i32],
    named: &'static [&'static str],
}

#[test]
fn bad_input_gets_a_clear_error_and_changes_nothing() {
    let Some(host) = Host::new() else { return };
    let definition = |name: &str, text: &str| Client::from_file(host.file(name, text), "tmpfs");
    let good = Client::named("tmpfs");
    let unknown_key = definition("unknown-key.toml", "types = [\"tmpfs\"]\nkernel_tipes = [\"tmpfs\"]\n");
    let no_toml = definition("no-toml.toml", "types = [\"tmpfs\"]\nimage = \n");
    let wrong_value = definition("wrong-value.toml", "types = [\"tmpfs\"]\nlimits = { memory = \"lots\" }\n");
    let no_helper = definition("no-helper.toml", "types = [\"tmpfs\"]\ncommand = [\"mount.nothing\", \"{target}\"]\n");
    let target = host.directory("target");
    host.file("file", "");
    host.directory("empty");
    host.file("no-archive.tar", "this is no archive");
    let on = |client: &Client, target: &str| Request::new(client, "tmpfs", "none", target).arguments(Way::Directory, &[]);
    let image =
        |image: &str| words(&["mount", "-t", "tmpfs", "--client-file", text(&good.definition), "--image", image, "none", text(&target)]);

    let rows = [
        Bad { name: "a missing target", arguments: on(&good, "/srv/missing"), codes: &[32], named: &["/srv/missing", "hint:"] },
        Bad { name: "a file as target", arguments: on(&good, "/srv/file"), codes: &[32], named: &["/srv/file", "directory"] },
        Bad {
            name: "an unknown key",
            arguments: on(&unknown_key, "/srv/target"),
            codes: &[1],
            named: &["unknown-key.toml", "line 2", "kernel_tipes"],
        },
        Bad { name: "a file that is not TOML", arguments: on(&no_toml, "/srv/target"), codes: &[1], named: &["no-toml.toml", "line 2"] },
        Bad {
            name: "a value that means nothing",
            arguments: on(&wrong_value, "/srv/target"),
            codes: &[1],
            named: &["wrong-value.toml", "limits", "lots"],
        },
        Bad {
            name: "a helper that the image lacks",
            arguments: on(&no_helper, "/srv/target"),
            codes: &[32],
            named: &["mount.nothing", "hint:"],
        },
        Bad { name: "a missing image", arguments: image("dir:/srv/missing"), codes: &[2, 32], named: &["/srv/missing"] },
        Bad { name: "an image that is no root filesystem", arguments: image("dir:/srv/empty"), codes: &[2, 32], named: &["/srv/empty"] },
        Bad { name: "an archive that is none", arguments: image("tar:/srv/no-archive.tar"), codes: &[2, 32], named: &["no-archive.tar"] },
        Bad { name: "an image reference of no kind", arguments: image("zip:/x"), codes: &[1], named: &["zip:/x", "dir:"] },
        Bad {
            name: "a missing client file",
            arguments: words(&["mount", "--client-file", "/srv/missing.toml", "none", "/srv/target"]),
            codes: &[1, 2],
            named: &["/srv/missing.toml"],
        },
        Bad {
            name: "an unknown client",
            arguments: words(&["mount", "--client", "missing", "none", "/srv/target"]),
            codes: &[1],
            named: &["missing", "/etc/shorefast/clients.d"],
        },
        Bad { name: "no type", arguments: words(&["mount", "none", "/srv/target"]), codes: &[1], named: &["-t"] },
        Bad { name: "no source", arguments: words(&["mount", "-t", "tmpfs"]), codes: &[1], named: &["SOURCE"] },
        Bad {
            name: "a time that is none",
            arguments: words(&["mount", "--timeout", "soon", "none", "/srv/target"]),
            codes: &[1],
            named: &["soon"],
        },
        Bad {
            name: "an open quote",
            arguments: Request::new(&good, "tmpfs", "none", &target).options("a=\"b").arguments(Way::Directory, &[]),
            codes: &[1],
            named: &["quote"],
        },
        Bad { name: "unmounting what is not ours", arguments: words(&["umount", "/srv"]), codes: &[1, 32], named: &["/srv", "hint:"] },
        Bad { name: "unmounting nothing", arguments: words(&["umount", "/srv/target"]), codes: &[1, 32], named: &["/srv/target"] },
        Bad { name: "logs of nothing", arguments: words(&["logs", "/srv/never"]), codes: &[1, 32], named: &["/srv/never"] },
        Bad { name: "an unknown command", arguments: words(&["mnt"]), codes: &[1], named: &["mnt"] },
    ];
    for row in rows {
        let ran = host.shorefast(&row.arguments);
        assert!(ran.code.is_some_and(|code| row.codes.contains(&code)), "{}: exit {:?}, {}", row.name, ran.code, ran.stderr);
        for part in row.named {
            assert!(ran.stderr.contains(part), "{}: no {part:?} in: {}", row.name, ran.stderr);
        }
        assert_eq!(ran.stdout, "", "{}", row.name);
        assert_eq!(mountinfo::at(&target), [], "{}", row.name);
        host.assert_nothing_left();
    }
}

#[test]
fn an_unknown_type_says_which_client_files_were_looked_at() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("/etc is the test's own");
    fs::write("/etc/shorefast/clients.d/other.toml", "types = [\"other\"]\n").expect("/etc is the test's own");
    let target = host.directory("target");
    let arguments = ["mount", "-t", "unheard-of", "none", text(&target)];
    let ran = host.shorefast(&arguments).says("unheard-of").says("/etc/shorefast/clients.d/other.toml").says("hint:");
    assert!(matches!(ran.code, Some(1 | 32)), "{ran:?}");
    host.assert_nothing_left();
}

#[test]
fn a_client_file_of_the_administrator_is_found_by_its_types() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("/etc is the test's own");
    let image = Client::named("tmpfs").image_directory();
    let definition = format!(
        "types = [\"scratch\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\ncommand = [\"mount\", \"-t\", \"tmpfs\", \"{{source}}\", \"{{target}}\"]\n",
        image.display()
    );
    fs::write("/etc/shorefast/clients.d/scratch.toml", definition).expect("/etc is the test's own");
    let target = host.directory("target");
    for arguments in [["mount", "-t", "scratch", "mine", text(&target)], ["mount", "--client", "scratch", "mine", text(&target)]] {
        host.shorefast(&arguments).succeeds();
        assert_eq!(mountinfo::at(&target)[0].source, "mine");
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    host.assert_nothing_left();
}

#[test]
fn umount_goes_on_after_a_target_that_fails() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("tmpfs");
    let target = host.directory("target");
    Request::new(&client, "tmpfs", "none", &target).sandboxed(&host).succeeds();
    let ran = host.shorefast(&["umount", "/srv/missing", text(&target)]).says("/srv/missing");
    assert_ne!(ran.code, Some(0));
    assert_eq!(mountinfo::at(&target), []);
    host.assert_nothing_left();
}
