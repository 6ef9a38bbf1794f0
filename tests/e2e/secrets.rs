//! A secret reaches its client, and nobody else: not on a command line or in an environment of any process at any moment, not in a
//! record, a log, an error, a plan, or what `list` and `inspect` show.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use shorefast_tests::command::{self, Running};
use shorefast_tests::lookout::Lookout;
use shorefast_tests::path::text;
use shorefast_tests::servers::Sshd;
use shorefast_tests::unseen::{OwnCommandLine, mounts_unseen};
use shorefast_tests::{Client, Host, wait};

/// Each test has its own: another test's may be on that one's command line, at the same moment.
fn secret(of: &str) -> String {
    format!("xyzzy-plugh-{of}")
}

fn arguments(client: &Client, options: &str, more: &[&str], target: &Path) -> Vec<String> {
    let image = format!("dir:{}", client.image_directory().display());
    let fixed = ["mount", "-t", "script", "--client-file", text(&client.definition), "--image", &image];
    let options: &[&str] = if options.is_empty() { &[] } else { &["-o", options] };
    [&fixed[..], options, more, &["--", "none", text(target)]].concat().into_iter().map(str::to_owned).collect()
}

const BY_OPTION: &str = "secret = { from_options = [\"password\"], to_option = \"credentials\", form = \"password={secret}\\n\" }";

/// Mounts only if the file that it is told of holds the secret. It knows that by its sum: its own command line is looked at, too.
fn reader(host: &Host, secret: &str) -> Client {
    let expected = host.file("expected", format!("password={secret}\n"));
    let sum = command::run(&["sha256sum", text(&expected)]).stdout;
    let sum = sum.split(' ').next().expect("a sum");
    let script = format!(
        "case $2 in *password=*) echo on my command line; exit 9;; esac\n\
         file=${{2##*credentials=}}; file=${{file%%,*}}\n\
         case $(stat -c %a:%u $file) in 400:0) ;; *) stat $file; exit 8;; esac\n\
         case $(sha256sum $file) in {sum}*) ;; *) echo not what I expected; exit 7;; esac\n\
         sleep 0.3; mount -t tmpfs none $1"
    );
    let definition = format!(
        "types = ['script']\nkernel_types = ['tmpfs']\n{BY_OPTION}\ncommand = ['sh', '-c', '''{script}''', 'sh', '{{target}}', '{{options}}']\n"
    );
    Client::defined(host, "tmpfs", &definition)
}

#[test]
fn from_a_file() {
    let Some(host) = Host::new() else { return };
    let secret = secret("from_a_file");
    let (client, target) = (reader(&host, &secret), host.directory("target"));
    let file = host.file("password", format!("{secret}\n"));
    let words = arguments(&client, "", &["--secret-file", text(&file)], &target);
    mounts_unseen(&host, &secret, OwnCommandLine::Clean, &target, || host.start(&words));
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn from_a_pipe() {
    let Some(host) = Host::new() else { return };
    let secret = secret("from_a_pipe");
    let (client, target) = (reader(&host, &secret), host.directory("target"));
    for more in [&["--secret-file", "/proc/self/fd/9"][..], &["--secret-fd", "9"]] {
        let words = arguments(&client, "", more, &target);
        mounts_unseen(&host, &secret, OwnCommandLine::Clean, &target, || {
            let pipe = host.path("pipe");
            fs::write(&pipe, &secret).expect("a file can be written");
            let mut shell = Command::new("sh");
            // The shell's own words do not hold it, either.
            shell.args([
                "-c",
                "file=$1; shift; cat $file | { exec 9<&0 </dev/null; exec \"$@\"; }",
                "sh",
                text(&pipe),
                text(host.binary()),
            ]);
            shell.args(&words);
            Running::start(shell)
        });
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    host.assert_nothing_left();
}

#[test]
fn out_of_the_callers_options() {
    let Some(host) = Host::new() else { return };
    let secret = secret("out_of_the_callers_options");
    let (client, target) = (reader(&host, &secret), host.directory("target"));
    let words = arguments(&client, &format!("user=me,password={secret},port=1"), &[], &target);
    mounts_unseen(&host, &secret, OwnCommandLine::HasIt, &target, || host.start(&words));
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

/// kubelet writes passwords there; nobody else should have the time to read them.
#[test]
fn our_own_command_line_is_blotted_out() {
    let Some(host) = Host::new() else { return };
    let secret = secret("our_own_command_line_is_blotted_out");
    let client = Client::script(&host, "sleep 60", BY_OPTION);
    let target = host.directory("target");
    let mut mount = host.start(&arguments(&client, &format!("user=me,password={secret}"), &[], &target));
    host.wait_for_client("sleep");
    let line = fs::read(format!("/proc/{}/cmdline", mount.pid())).expect("it runs");
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("user=me,password=xxxx") && !line.contains(&secret), "{line}");
    let seen = Lookout::start(&secret, None).finish();
    assert!(seen.is_empty(), "{seen:?}");
    mount.kill();
    drop(mount.finish());
    wait::until("the sandbox to end", || host.sandboxed().is_empty().then_some(()));
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

/// A password may begin with a slash, and may be quoted because of a comma.
#[test]
fn a_secret_that_looks_like_a_path_is_one() {
    let Some(host) = Host::new() else { return };
    let secret = format!("/{}", secret("a_secret_that_looks_like_a_path_is_one"));
    let target = host.directory("target");
    let options = format!("user=me,password={secret},pass=\"x,{secret}\"");
    let plan = Client::script(&host, "sleep 60", "");
    let ran = host.shorefast(&arguments(&plan, &options, &["--dry-run"], &target)).succeeds();
    assert!(!ran.stdout.contains(&secret), "{}", ran.stdout);
    let client = Client::script(&host, "sleep 60", BY_OPTION);
    let mut mount = host.start(&arguments(&client, &format!("user=me,password={secret}"), &[], &target));
    host.wait_for_client("sleep");
    let line = fs::read(format!("/proc/{}/cmdline", mount.pid())).expect("it runs");
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("user=me,password=xxxx") && !line.contains(&secret), "{line}");
    mount.kill();
    drop(mount.finish());
    wait::until("the sandbox to end", || host.sandboxed().is_empty().then_some(()));
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn plans_and_errors_do_not_show_it() {
    let Some(host) = Host::new() else { return };
    let secret = secret("plans_and_errors_do_not_show_it");
    let client = Client::script(&host, "cat /shorefast/files/* >/dev/null; echo no luck; exit 3", BY_OPTION);
    let target = host.directory("target");
    let file = host.file("password", &secret);
    for (options, more) in [(format!("password={secret}"), vec![]), (String::new(), vec!["--secret-file", text(&file)])] {
        let ran = host.shorefast(&arguments(&client, &options, &[&more[..], &["--dry-run"]].concat(), &target)).succeeds();
        assert!(ran.stdout.contains("\"secret\"") && !(ran.stdout + &ran.stderr).contains(&secret));
        let ran = host.shorefast(&arguments(&client, &options, &more, &target)).exits(32).says("no luck");
        assert!(!(ran.stdout + &ran.stderr).contains(&secret));
    }
    host.assert_nothing_left();
}

#[test]
fn what_cannot_be_handed_over_is_refused() {
    let Some(host) = Host::new() else { return };
    let secret = secret("what_cannot_be_handed_over_is_refused");
    let target = host.directory("target");
    let file = host.file("password", format!("{secret}\nusername=somebody-else\n"));
    let two_lines = Client::script(&host, "exit 0", BY_OPTION);
    let ran = host.shorefast(&arguments(&two_lines, "", &["--secret-file", text(&file)], &target)).exits(1).says("more than one line");
    assert!(!ran.stderr.contains(&secret));
    let no_way = Client::script(&host, "exit 0", "");
    host.shorefast(&arguments(&no_way, "", &["--secret-file", text(&file)], &target)).exits(1).says("does not say how it gets a secret");
    let missing = Client::script(&host, "exit 0", BY_OPTION);
    host.shorefast(&arguments(&missing, "", &["--secret-file", "/nonexistent"], &target)).exits(32).says("/nonexistent");
    host.assert_nothing_left();
}

/// A caller that promises a secret and does not deliver does not hold us longer than it said.
#[test]
fn a_pipe_that_stays_silent_ends_with_the_deadline() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let fifo = host.path("fifo");
    command::run(&["mkfifo", text(&fifo)]);
    let _writer = fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO can be opened for both");
    let silent = Client::script(&host, "exit 0", BY_OPTION);
    let ran =
        host.shorefast(&arguments(&silent, "", &["--timeout", "1s", "--secret-file", text(&fifo)], &target)).exits(32).says("ETIMEDOUT");
    // Whoever waits for it does so for ever.
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
    host.assert_nothing_left();
}

/// As `passwd` would: this test's own /etc.
fn set_root_password(password: &str) {
    let hash = command::run(&["openssl", "passwd", "-6", password]).stdout;
    let shadow = fs::read_to_string("/etc/shadow").expect("there are accounts");
    let line =
        |line: &str| if line.starts_with("root:") { format!("root:{}:20000:0:99999:7:::\n", hash.trim()) } else { format!("{line}\n") };
    fs::write("/etc/shadow", shadow.lines().map(line).collect::<String>()).expect("/etc is the test's own");
}

/// The built-in sshfs: a key or a password in the same place, told apart by what they are.
#[test]
fn sshfs_takes_a_key_or_a_password() {
    let Some(host) = Host::new() else { return };
    set_root_password("correct horse");
    let server = Sshd::start(&host);
    let client = Client::defined(&host, "sshfs", include_str!("../../crates/engine/catalogue/sshfs.toml"));
    let (image, target) = (format!("dir:{}", client.image_directory().display()), host.directory("target"));
    let mount = |more: &[&str]| {
        let fixed = ["mount", "-t", "sshfs", "--client-file", text(&client.definition), "--image", &image];
        let trust = ["-o", "port=2222,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"];
        host.shorefast(&[&fixed[..], &trust, more, &[&server.source(), text(&target)]].concat())
    };
    let (right, wrong) = (host.file("right", "correct horse\n"), host.file("wrong", "wrong horse\n"));
    let by_option = format!("shorefast-secret={}", right.display());
    for way in [&["--secret-file", text(&right)][..], &["--secret-file", text(&server.key)], &["-o", &by_option]] {
        mount(way).succeeds();
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    mount(&["--secret-file", text(&wrong)]).exits(32).says("Permission denied");
    let lines = host.file("lines", "two\nlines\n");
    mount(&["--secret-file", text(&lines)]).exits(1).says("is more than one line");
    mount(&["--secret-file", text(&right), "-o", &by_option]).exits(1).says("reads one secret, and more were given");
    // A client that can do with nothing but a key, and one that wants a password.
    let only_key = "types = ['script']\nkernel_types = ['tmpfs']\nsecret = { is = 'key', to_option = 'x' }\n";
    let only_password = "types = ['script']\nkernel_types = ['tmpfs']\nsecret = { is = 'password', to_option = 'x' }\n";
    for (keys, file, words) in [
        (only_key, &right, "is no private key, and the client wants one"),
        (only_password, &server.key, "is a private key, and the client wants a password"),
    ] {
        let client = Client::defined(&host, "tmpfs", keys);
        let words_of_call = arguments(&client, "", &["--secret-file", text(file)], &target);
        host.shorefast(&words_of_call).exits(1).says(words);
    }
    host.assert_nothing_left();
}

#[test]
fn a_unit_holds_no_password() {
    let Some(host) = Host::new() else { return };
    let unit = |options: &str| host.shorefast(&["mount", "--unit", "-t", "cifs", "-o", options, "//server/share", "/srv/target"]);
    let refused = unit("username=me,password=hunter2").exits(1).says("shorefast-secret=FILE");
    assert!(!refused.stderr.contains("hunter2") && refused.stdout.is_empty(), "{refused:?}");
    assert!(unit("username=me,shorefast-secret=/root/pw").succeeds().stdout.contains("shorefast-secret=/root/pw"));
}
