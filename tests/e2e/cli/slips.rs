//! Slips of the pen and misleading circumstances: what was meant is named, and the hint is about the real cause.

use std::fs;
use std::process::Command;

use shorefast_tests::client::{Request, Way};
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, command};

use super::{as_nobody, words};

/// Calls, and what the error says; never what misled.
#[test]
fn a_slip_is_answered_with_what_was_meant() {
    let Some(host) = Host::new() else { return };
    host.directory("target");
    host.file("client.tar", "");
    let rows: &[(&[&str], i32, &str)] = &[
        (&["mount", "-t", "sshsf", "a:/b", "/srv/target"], 32, "did you mean sshfs?"),
        (&["mount", "--client", "glustefs", "a:/b", "/srv/target"], 1, "did you mean glusterfs?"),
        (&["client", "show", "fuse.sshsf"], 1, "did you mean fuse.sshfs?"),
        (&["mount", "--unit", "-t", "nosuch", "a:/b", "/srv/target"], 32, "no client definition lists the type \"nosuch\""),
        (&["image", "pull", "registry.example/a@sha256:12"], 1, "64 hexadecimal digits"),
        (&["image", "pull", "./client.tar"], 1, "oci-archive:"),
        (&["image", "inspect", "nosuch"], 1, "there is no image \"nosuch\""),
    ];
    for (arguments, code, words) in rows {
        let ran = host.shorefast(arguments).says(words);
        assert_eq!(ran.code, Some(*code), "{ran:?}");
        assert!(arguments[1] == "pull" || !ran.stderr.contains("cannot get the image"), "{ran:?}");
    }
    let mut import = Command::new(host.binary());
    import.args(["image", "import", "client.tar", "name"]).current_dir("/srv");
    command::finish(import).exits(1).says("it is a local file of unknown kind");
    let offline = host.shorefast(&["mount", "--offline", "-t", "sshfs", "a:/b", "/srv/target"]).exits(32);
    offline.says("image import oci-archive:FILE 'packages:debian/");
}

#[test]
fn a_check_names_all_mistakes_of_a_file_at_once() {
    let Some(host) = Host::new() else { return };
    let file = host
        .file("wrong.toml", "tpyes = [\"a\"]\nmounts = \"x\"\ncommand = [\"m\", \"{src}\", \"{target}\"]\nlimits = { memroy = \"1G\" }\n");
    let ran = host.shorefast(&["client", "check", text(&file)]).exits(1);
    for part in ["line 1", "did you mean `types`?", "line 2", "{src}", "line 4", "did you mean `memory`?"] {
        assert!(ran.stderr.contains(part), "no {part:?} in: {}", ran.stderr);
    }
    let file = host.file("drops.toml", "types = [\"a\"]\ncommand = [\"m\", \"{source}\", \"{target}\"]\n");
    host.shorefast(&["client", "check", text(&file)]).exits(1).says("no word holds {options}");
    let file = host.file("good.toml", "types = [\"a\"]\ncommand = [\"m\", \"-o\", \"{options}\", \"{source}\", \"{target}\"]\n");
    host.shorefast(&["client", "check", text(&file)]).succeeds();
}

#[test]
fn list_without_root_asks_for_root() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("tmpfs");
    Request::new(&client, "tmpfs", "none", host.directory("target")).sandboxed(&host).succeeds();
    let ran = as_nobody(&host, &words(&["list"])).exits(1).says("root rights are needed");
    assert!(!ran.stderr.contains("record"), "{ran:?}");
    host.shorefast(&["umount", "/srv/target"]).succeeds();
    host.assert_nothing_left();
}

/// It mounts, serves, and does not end: the server is not what is missing.
#[test]
fn a_helper_that_stays_in_the_foreground_is_recognized() {
    let Some(host) = Host::new() else { return };
    let definition = "types = [\"bindfs\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\nnamespaces = { user = \"host\" }\ncommand = [\"bindfs\", \"-f\", \"{source}\", \"{target}\"]\n";
    let client = Client::from_file(host.file("foreground.toml", definition), "bindfs");
    let request = Request::new(&client, "bindfs", host.directory("source"), host.directory("target"));
    let ran = host.shorefast(&request.arguments(Way::Directory, &["--timeout", "3s"])).exits(32).says("daemon = \"foreground\"");
    assert!(!ran.stderr.contains("server"), "{ran:?}");
    host.assert_nothing_left();
}

/// Every place of an immutable host is mounted so: the programs of an image run in the sandbox, and only there.
#[test]
fn an_image_on_a_noexec_filesystem_is_used() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("tmpfs");
    let (image, target) = (host.directory("image"), host.directory("target"));
    command::run(&["mount", "--bind", text(&client.image_directory()), text(&image)]);
    command::run(&["mount", "-o", "remount,bind,noexec", text(&image)]);
    host.settle();
    let arguments = ["mount", "-t", "tmpfs", "--client-file", text(&client.definition), "--image", "dir:/srv/image", "none", text(&target)];
    host.shorefast(&arguments).succeeds();
    host.shorefast(&["umount", text(&target)]).succeeds();
}

/// As a shell asks: through its script's variable.
#[test]
fn completion_knows_types_and_mounts_of_this_host() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("/etc is the test's own");
    fs::write("/etc/shorefast/clients.d/mine.toml", "types = [\"mine-of-my-own\"]\n").expect("/etc is the test's own");
    let script = host.shorefast(&["completions", "bash"]).succeeds().stdout;
    assert!(script.contains("SHOREFAST_COMPLETE") && script.contains("complete "), "{script}");
    let client = Client::named("tmpfs");
    Request::new(&client, "tmpfs", "none", host.directory("a-target")).sandboxed(&host).succeeds();
    let complete = |line: &[&str]| {
        let mut command = Command::new(host.binary());
        command.env("SHOREFAST_COMPLETE", "fish").arg("--").args(line);
        command::finish(command).succeeds().stdout
    };
    assert!(complete(&["shorefast", "mount", "-t", "mine"]).contains("mine-of-my-own"));
    assert!(complete(&["shorefast", "mount", "-t", "ss"]).contains("sshfs"));
    assert!(complete(&["shorefast", "umount", "/srv/"]).contains("/srv/a-target"));
    assert!(complete(&["shorefast", "unm"]).is_empty());
    assert!(complete(&["shorefast", "umo"]).contains("umount"));
    host.shorefast(&["umount", "/srv/a-target"]).succeeds();
    host.assert_nothing_left();
}

/// The option goes to the client as it is; when that fails, what was probably meant is said.
#[test]
fn an_option_that_looks_like_one_of_the_definition_is_named_when_the_mount_fails() {
    let Some(host) = Host::new() else { return };
    let client = Client::script(&host, "exit 1", "files = [\"IdentityFile\"]");
    let request = Request::new(&client, "script", "none", host.directory("target")).options("IdentityFlie=/srv/key,other=1");
    let ran = request.sandboxed(&host).exits(32).says("the option IdentityFlie is not known").says("did you mean IdentityFile?");
    assert_eq!(ran.stderr.matches("did you mean").count(), 1, "{ran:?}");
    host.assert_nothing_left();
}
