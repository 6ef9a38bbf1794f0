//! Upgrades without drain: under running I/O the binary and the client's image are replaced; nobody notices, and what is mounted
//! next uses the new ones.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use shorefast_tests::load::Load;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, Ran, command};

const PROGRAM: &str = "/srv/node/shorefast";

fn shorefast(arguments: &[&str]) -> Ran {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command::finish(command)
}

fn mount(image: &str, source: &Path, target: &Path) {
    let definition = Client::named("bindfs").definition;
    let words = ["mount", "-t", "bindfs", "--client-file", text(&definition), "--image", image, text(source), text(target)];
    shorefast(&words).succeeds();
}

/// The client is a user without any right.
fn writable(host: &Host, name: &str) -> PathBuf {
    let directory = host.directory(name);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("a test's own directory");
    directory
}

/// Of a mount, the program that its keeper will clean up with.
fn program_of(host: &Host, target: &Path) -> PathBuf {
    let inspected = host.shorefast(&["inspect", "--json", text(target)]).succeeds().json();
    let pid = inspected["keeper"].as_u64().expect("a served mount has a keeper");
    let keeper = Process { pid: u32::try_from(pid).expect("a pid") };
    let descriptors = fs::read_dir(keeper.file("fd")).expect("a keeper has descriptors").filter_map(Result::ok);
    let programs = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    programs.into_iter().find(|path| path.starts_with("/srv/node")).expect("a keeper holds its program")
}

fn work_while(target: &Path, change: impl FnOnce()) {
    let load = Load::start(target.to_owned());
    std::thread::sleep(Duration::from_millis(300));
    change();
    std::thread::sleep(Duration::from_millis(300));
    let done = load.finish();
    println!("{} operations, {} failed", done.operations, done.failed);
    assert_eq!(done.failed, 0, "{done:?}");
    assert!(done.operations > 100, "{done:?}");
}

#[test]
fn the_binary_is_replaced_under_running_io() {
    let Some(host) = Host::new() else { return };
    host.shorefast(&["install", "--kubelet", "--to", "/srv/node"]).succeeds();
    let image = format!("dir:{}", Client::named("bindfs").image_directory().display());
    let (source, old, new) = (writable(&host, "source"), host.directory("old"), host.directory("new"));
    mount(&image, &source, &old);
    // The same program with another digest.
    let newer = host.path("newer");
    fs::copy(host.binary(), &newer).expect("the binary can be copied");
    File::options().append(true).open(&newer).and_then(|mut file| file.write_all(b"newer")).expect("the copy can be changed");
    work_while(&old, || {
        command::run(&[text(&newer), "install", "--kubelet", "--to", "/srv/node"]);
    });
    assert_eq!(fs::metadata(PROGRAM).expect("it is installed").len(), fs::metadata(&newer).expect("it is there").len());
    mount(&image, &source, &new);
    assert!(text(&program_of(&host, &old)).ends_with("(deleted)"), "the old mount keeps its program");
    assert_eq!(program_of(&host, &new), Path::new(PROGRAM), "the new mount has the new one");
    // Also without any program on the host the mounts go on, and end without a trace.
    work_while(&new, || drop(shorefast(&["uninstall", "--to", "/srv/node"]).succeeds()));
    command::run(&["umount", text(&old)]);
    command::run(&["umount", text(&new)]);
    host.assert_nothing_left();
}

#[test]
fn a_client_image_is_replaced_under_running_io() {
    let Some(host) = Host::new() else { return };
    host.shorefast(&["install", "--to", "/srv/node"]).succeeds();
    let first = Client::named("bindfs").image_directory().with_file_name("bindfs.tar");
    let second = host.path("second.tar");
    fs::copy(&first, &second).expect("an archive can be copied");
    fs::write(host.path("added"), "in a newer version").expect("a test's own file");
    command::run(&["tar", "--append", "--file", text(&second), "--directory", "/srv", "added"]);
    let import = |archive: &Path| {
        let words = ["image", "import", &format!("tar:{}", archive.display()), "registry.test/bindfs:stable"];
        shorefast(&words).succeeds().stdout.trim().to_owned()
    };
    let before = import(&first);
    let (source, old, new) = (writable(&host, "source"), host.directory("old"), host.directory("new"));
    mount("registry.test/bindfs:stable", &source, &old);
    let mut after = String::new();
    work_while(&old, || after = import(&second));
    assert_ne!(before, after);
    mount("registry.test/bindfs:stable", &source, &new);
    let digest = |target: &Path| host.shorefast(&["inspect", "--json", text(target)]).succeeds().json()["digest"].clone();
    assert_eq!((digest(&old), digest(&new)), (before.clone().into(), after.into()));
    // What a mount uses stays; when it is gone, so can its image be.
    work_while(&old, || drop(shorefast(&["image", "gc"]).succeeds()));
    shorefast(&["umount", text(&old), text(&new)]).succeeds();
    let collected = shorefast(&["image", "gc", "--json"]).succeeds().json();
    assert!(collected["images"].as_array().is_some_and(|images| images.contains(&before.into())), "{collected}");
    host.assert_nothing_left();
}
