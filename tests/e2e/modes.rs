//! Where a client runs: the plan says which mode was chosen and why, and each does what it says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use shorefast_tests::client::{Request, Way};
use shorefast_tests::{Client, Host, command, mountinfo};

fn text(path: &Path) -> &str {
    path.to_str().expect("our own paths are text")
}

/// What a dry run says of the mode.
fn chosen(host: &Host, arguments: &[&str]) -> (String, String) {
    let plan = host.shorefast(&[&["mount", "--dry-run"], arguments].concat()).succeeds().json();
    let field = |name: &str| plan[name].as_str().unwrap_or_else(|| panic!("no {name} in {plan}")).to_owned();
    (field("mode"), field("why"))
}

#[test]
fn the_plan_says_which_mode_was_chosen_and_why() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast/clients.d").expect("a writable /etc");
    let define = |name: &str, text: &str| fs::write(format!("/etc/shorefast/clients.d/{name}.toml"), text).expect("a writable /etc");
    define("plain", "types = [\"plain\"]\nimage = \"dir:/\"\nmode = \"host\"\n");
    define("either", "types = [\"either\", \"fuse.bindfs\"]\nimage = \"dir:/\"\nmode = \"auto\"\n");
    let rows: [(&[&str], &str, &str); 8] = [
        (&["-t", "sshfs"], "container", "the default"),
        (&["-t", "sshfs", "--mode", "host"], "host", "this call says so"),
        (&["-t", "plain"], "host", "the client's definition says so"),
        (&["-t", "plain", "--mode", "container"], "container", "this call says so"),
        (&["-t", "either"], "container", "auto: this host has no mount.either"),
        (&["-t", "fuse.bindfs"], "host", "auto: this host has /usr/bin/bindfs"),
        (&["-t", "tmpfs"], "host", "no client definition lists the type \"tmpfs\""),
        (&["--mode", "host"], "host", "this call says so"),
    ];
    for (arguments, mode, why) in rows {
        let (said, because) = chosen(&host, &[arguments, &["source", "/srv/target"]].concat());
        assert_eq!(said, mode, "{arguments:?}: {because}");
        assert!(because.contains(why), "{arguments:?}: {because}");
    }
    // A client that was asked for is not replaced by something else.
    for arguments in [&["-t", "tmpfs", "--mode", "container"][..], &["-t", "tmpfs", "--image", "dir:/"], &["--client", "nobody"]] {
        let ran = host.shorefast(&[&["mount", "--dry-run"], arguments, &["source", "/srv/target"]].concat());
        assert!(ran.code != Some(0) && ran.stderr.contains("client"), "{ran:?}");
    }
    host.shorefast(&["mount", "--mode", "nowhere", "-t", "tmpfs", "a", "/srv"]).exits(1).says("container, ");
}

#[test]
fn a_type_without_a_client_goes_to_plain_mount() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    host.shorefast(&["mount", "-t", "tmpfs", "-o", "size=1M,noexec,x-mine", "scratch", text(&target)]).succeeds();
    let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
    assert!(mount.has("noexec") && mount.superblock_options.contains("size=1024k"), "{mount:?}");
    assert_eq!(mount.source, "scratch");
    assert!(host.list().is_empty(), "it is none of ours");
    command::run(&["umount", text(&target)]);
    host.assert_nothing_left();

    let failed = host.shorefast(&["mount", "-t", "nosuch", "a", text(&target)]);
    failed.exits(32).says("nosuch").says("hint: this was plain mount(8)");
    host.shorefast(&["mount", "-t", "tmpfs", "a", "/srv/missing"]).exits(32).says("/srv/missing");
    host.assert_nothing_left();
}

#[test]
fn auto_takes_the_hosts_helper_if_there_is_one() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &format!("mode = \"auto\"\n{definition}"));
    for (fstype, records) in [("fuse.bindfs", 0), ("bindfs", 1)] {
        Request::new(&client, fstype, &source, &target).mount(&host, Way::Directory).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content");
        assert_eq!(host.list().len(), records, "{fstype}");
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

/// Called by mount(8) as its own helper, it must not call mount(8) for ever.
#[test]
fn shorefast_as_a_helper_of_the_host_is_no_reason_to_leave_it_to_the_host() {
    let Some(host) = Host::new() else { return };
    let (changes, work) = (host.directory("sbin"), host.directory("work"));
    let options = format!("lowerdir=/usr/sbin,upperdir={},workdir={}", text(&changes), text(&work));
    command::run(&["mount", "-t", "overlay", "-o", &options, "overlay", "/usr/sbin"]);
    symlink(host.binary(), "/usr/sbin/mount.either").expect("a writable /usr/sbin");
    host.settle();
    fs::create_dir_all("/etc/shorefast/clients.d").expect("a writable /etc");
    fs::write("/etc/shorefast/clients.d/either.toml", "types = [\"either\"]\nimage = \"dir:/\"\nmode = \"auto\"\n")
        .expect("a writable /etc");
    let (mode, why) = chosen(&host, &["-t", "either", "a", "/srv"]);
    assert_eq!(mode, "container");
    assert!(why.contains("is Shorefast itself"), "{why}");
    let plan = host.shorefast(&["mount", "--dry-run", "--mode", "host", "-t", "either", "a", "/srv"]).succeeds().json();
    assert_eq!(plan["command"][1], "-i", "{plan}");
    host.shorefast(&["mount", "--mode", "host", "-t", "either", "a", text(&host.directory("target"))]).exits(32).says("either");
    host.assert_nothing_left();
}
