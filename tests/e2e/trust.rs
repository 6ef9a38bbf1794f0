//! Whose words count: what clients and servers wrote does not steer a terminal, and nobody but root decides what root does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, Ran, command};

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let steers = |letter: char| letter.is_control() && letter != '\n' && letter != '\t' || letter == '\u{202e}';
    assert!(!text.contains(steers), "control characters of the client in {what}: {text:?}");
}

/// Whatever a client names its source, its type, its target, and whatever it prints.
#[test]
fn a_client_does_not_steer_the_terminal() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let orders = "$(printf '\\033[2J\\302\\23331m\\342\\200\\256\\nhint: run this\\n')x";
    for call in [
        format!("mount -i -t \"{orders}\" none $1"),
        format!("mount -i -t tmpfs none \"/tmp/{orders}\""),
        format!("mount -i -t tmpfs -o \"{orders}\" none $1"),
        format!("mount -i -t tmpfs -o \"size={orders}\" none $1"),
    ] {
        let client = Client::script(&host, &format!("mkdir \"/tmp/{orders}\"; {call}; echo \"{orders}\"; exit 3"), "");
        let ran = Request::new(&client, "script", "none", &target).sandboxed(&host).exits(32).says("broker:");
        assert_harmless(&call, &ran.stderr);
        assert!(!ran.stderr.lines().any(|line| line.starts_with("hint: run this")), "{}", ran.stderr);
    }
    // As an installed client's helper we say its words alone.
    let image = format!("image = \"dir:{}\"", Client::named("tmpfs").image_directory().display());
    let client = Client::script(&host, &format!("echo \"{orders}\" >&2; exit 3"), &image);
    host.define("script", &fs::read_to_string(&client.definition).expect("it was just written"));
    let mut helper = Command::new(host.install("mount.script"));
    helper.args(["none", text(&target)]);
    let ran = command::finish(helper).exits(3).says("\\u001b[2J");
    assert_harmless("what a helper says", &ran.stderr);
    let client = Client::script(&host, &format!("echo \"{orders}\"; mount -i -t tmpfs tmpfs $1"), "");
    let source = "s\u{1b}[2J\u{9b}31m\u{202e}\nhint: run this";
    Request::new(&client, "script", source, &target).sandboxed(&host).succeeds();
    for words in [&["list"][..], &["list", "--json"], &["inspect", "/srv/target"], &["inspect", "--json", "/srv/target"]] {
        let shown = host.shorefast(words).succeeds().stdout;
        assert_harmless(&format!("{words:?}"), &shown);
        assert!(!shown.lines().any(|line| line.starts_with("hint: run this")), "{shown}");
    }
    // What goes to a program is the client's to the byte; a terminal gets what a person can read.
    assert!(host.shorefast(&["logs", "/srv/target"]).succeeds().stdout.contains('\u{1b}'));
    let line = format!("{} logs /srv/target", host.binary().display());
    let shown = command::run(&["script", "--quiet", "--return", "--command", &line, "/dev/null"]).stdout.replace("\r\n", "\n");
    assert!(shown.contains("hint: run this"), "{shown:?}");
    assert_harmless("logs", &shown);
    host.shorefast(&["umount", "/srv/target"]).succeeds();
    host.assert_nothing_left();
}

fn as_nobody(program: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program).args(arguments);
    command::finish(command)
}

#[test]
fn a_set_uid_installation_gives_nobody_root() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let copy = host.path("shorefast");
    fs::copy(host.binary(), &copy).expect("the binary can be copied");
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("a file of the test's own");
        for words in [&["mount", "-t", "tmpfs", "none", text(&target)][..], &["list"], &["--version"], &["__ended", "x"]] {
            as_nobody(&copy, words).exits(1).says("set-uid");
        }
    }
    // Root gains nothing by it.
    let mut command = Command::new(&copy);
    command.arg("list");
    command::finish(command).succeeds();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("a file of the test's own");
    as_nobody(&copy, &["--version"]).succeeds();
    host.assert_nothing_left();
}

/// Definitions decide what root runs and mounts: whoever can write one is root.
#[test]
fn only_root_decides_what_root_does() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let clients = host.directory("etc/clients");
    let file = clients.join("mine.toml");
    let image = Client::named("tmpfs").image_directory();
    let definition = format!(
        "types = [\"mine\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\ncommand = [\"mount\", \"-t\", \"tmpfs\", \"x\", \"{{target}}\"]\n",
        image.display()
    );
    fs::write(&file, definition).expect("a test's own directory");
    let set = |path: &Path, owner: u32, mode: u32| {
        std::os::unix::fs::chown(path, Some(owner), Some(owner)).expect("root can");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("root can");
    };
    let words = ["--clients", text(&clients), "mount", "-t", "mine", "none", text(&target)];
    let directory = host.path("etc");
    for (path, owner, mode, problem) in [
        (&file, 0, 0o666, "can be written to by everybody"),
        (&file, 0, 0o664, "can be written to by group 0"),
        (&file, 1000, 0o644, "belongs to uid 1000"),
        (&clients, 0, 0o777, "can be written to by everybody"),
        (&clients, 0, 0o1777, "can be written to by everybody"),
        (&clients, 1000, 0o755, "belongs to uid 1000"),
        (&directory, 0, 0o775, "can be written to by group 0"),
        (&directory, 1000, 0o755, "belongs to uid 1000"),
    ] {
        set(path, owner, mode);
        host.shorefast(&words).exits(1).says("its content decides what root does").says(problem).says(text(path));
        set(path, 0, if path == &file { 0o644 } else { 0o755 });
    }
    // A link is as good as what it leads to.
    fs::rename(&file, host.path("elsewhere.toml")).expect("a test's own files");
    std::os::unix::fs::symlink(host.path("elsewhere.toml"), &file).expect("a test's own files");
    host.shorefast(&words).succeeds();
    host.shorefast(&["umount", text(&target)]).succeeds();
    set(&host.path("elsewhere.toml"), 0, 0o666);
    host.shorefast(&words).exits(1).says("elsewhere.toml").says("can be written to by everybody");
    // Who names a file has chosen whom to trust; not so what everybody can write to.
    let named = ["mount", "-t", "mine", "--client-file", "/srv/elsewhere.toml", "none", text(&target)];
    host.shorefast(&named).exits(1).says("can be written to by everybody");
    set(&host.path("elsewhere.toml"), 1000, 0o664);
    host.shorefast(&named).succeeds();
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn so_it_is_with_registries_and_packages() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all("/etc/shorefast").expect("/etc is the test's own");
    for (file, reference) in [("registries.toml", "docker://127.0.0.1:1/x"), ("packages.toml", "packages:debian/bookworm?sshfs")] {
        let path = Path::new("/etc/shorefast").join(file);
        fs::write(&path, "").expect("/etc is the test's own");
        let problem = "its content decides what root does";
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("/etc is the test's own");
        host.shorefast(&["image", "pull", reference]).exits(32).says(problem).says(file);
        fs::remove_file(&path).expect("/etc is the test's own");
    }
    host.assert_nothing_left();
}

/// The kernel acts on options with all its rights: the broker asks who wanted them.
#[test]
fn options_for_the_kernel_are_somebodys() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let socket = host.path("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a test's own directory");
    listener.set_nonblocking(true).expect("a socket of ours");
    let types = "kernel_types = [\"tmpfs\", \"9p\", \"ceph\", \"cifs\"]";
    let client = |call: &str, more: &str| {
        let script = format!("{call} || exit 3");
        let command = format!("command = [\"sh\", \"-c\", '''{script}''', \"sh\", \"{{target}}\", \"{{options}}\"]");
        Client::defined(&host, "tmpfs", &format!("types = [\"script\"]\n{types}\n{more}\n{command}\n"))
    };
    for (call, named) in [
        ("mount -i -t 9p -o trans=unix /srv/socket $1", "\"trans\" to 9p"),
        ("mount -i -t 9p -o trans=fd,rfdno=0,wfdno=1 x $1", "\"trans\" to 9p"),
        ("mount -i -t 9p -o version=9p2000.L x $1", "\"trans\" to 9p"),
        ("mount -i -t ceph -o name=admin,key=client.admin 127.0.0.1:1:/ $1", "\"key\" to ceph"),
        ("mount -i -t cifs -o ip=127.0.0.1,cruid=0 //127.0.0.1/x $1", "\"cruid\" to cifs"),
        ("mount -i -t tmpfs -o nosuchoption x $1", "\"nosuchoption\" to tmpfs"),
        ("mount -i -t tmpfs \"$(printf 'a\\nb')\" $1", "control characters"),
    ] {
        let ran = Request::new(&client(call, ""), "script", "none", &target).sandboxed(&host).exits(32);
        ran.says("broker: ").says(named);
    }
    assert!(listener.accept().is_err(), "somebody connected to a socket of the host");
    // With the caller's word, to the letter; and with the definition's.
    let call = "mount -i -t tmpfs -o uid=7 x $1";
    let owned = |options: &str, more: &str| Request::new(&client(call, more), "script", "none", &target).options(options).sandboxed(&host);
    owned("", "").exits(32).says("\"uid\" to tmpfs").says("kernel_options");
    owned("uid=8", "").exits(32).says("\"uid\" to tmpfs");
    for (options, more) in [("uid=7", ""), ("", "kernel_options = { tmpfs = [\"uid=7\"] }")] {
        owned(options, more).succeeds();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&target).expect("it is mounted")), 7);
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    host.assert_nothing_left();
}
