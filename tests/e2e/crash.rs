//! SIGKILL between any two steps: each target has a working mount or none, and whoever comes next leaves nothing of the rest.
//!
//! The binary that dies where it is told to is a build of its own:
//! `cargo xtask test` builds with the feature `kill-points`

#[path = "crash/aftermath.rs"]
mod aftermath;
#[path = "crash/soak.rs"]
mod soak;

use std::path::PathBuf;
use std::process::Command;

use shorefast_engine::kill_point::Point;
use shorefast_tests::client::{Request, Way};
use shorefast_tests::command::Running;
use shorefast_tests::skip::skip;
use shorefast_tests::{Client, Host, wait};

use aftermath::{Found, Recovery};

/// Every kind of thing that can be left behind: the client has control groups too.
const LIMITS: &str = "limits = { memory = \"256M\", pids = 64, cpu = 1.0 }";

#[test]
fn reconcile_cleans_up_after_a_client_killed_at_any_step() {
    killed_at_every_point("bindfs", "", Recovery::Reconcile);
}

#[test]
fn reconcile_cleans_up_after_a_kernel_filesystem_killed_at_any_step() {
    killed_at_every_point("tmpfs", "", Recovery::Reconcile);
}

#[test]
fn reconcile_cleans_up_after_a_client_among_the_hosts_processes_killed_at_any_step() {
    killed_at_every_point("bindfs", "namespaces = { pid = \"host\" }", Recovery::Reconcile);
}

#[test]
fn reconcile_cleans_up_after_a_client_with_all_rights_killed_at_any_step() {
    killed_at_every_point("bindfs", "mode = \"chroot\"", Recovery::Reconcile);
}

#[test]
fn reconcile_cleans_up_after_a_client_that_mounts_a_kernel_filesystem_by_itself_killed_at_any_step() {
    killed_at_every_point("tmpfs", "mode = \"chroot\"", Recovery::Reconcile);
}

#[test]
fn the_next_mount_cleans_up_after_a_client_killed_at_any_step() {
    killed_at_every_point("bindfs", "", Recovery::NextMount);
}

#[test]
fn the_next_mount_cleans_up_after_a_kernel_filesystem_killed_at_any_step() {
    killed_at_every_point("tmpfs", "", Recovery::NextMount);
}

#[test]
fn an_image_whose_unpacking_was_killed_is_unpacked_again() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", aftermath::source(&host), host.directory("target"));
    kill_while_unpacking(&host, &request);
    request.mount(&host, ARCHIVE).succeeds();
    aftermath::unmount_if_working(&request.target);
    aftermath::assert_nothing_left(&host);
    assert_eq!(half_unpacked(), [""; 0].map(PathBuf::from));
}

#[test]
fn reconcile_removes_an_image_whose_unpacking_was_killed() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", aftermath::source(&host), host.directory("target"));
    kill_while_unpacking(&host, &request);
    Recovery::Reconcile.run(&host);
    assert_eq!(half_unpacked(), [""; 0].map(PathBuf::from));
}

const ARCHIVE: Way = Way::Archive("bindfs.tar");

fn kill_while_unpacking(host: &Host, request: &Request<'_>) {
    let mut mount = host.start(&request.arguments(ARCHIVE, &[]));
    wait::until("the image to be unpacked", || (!half_unpacked().is_empty()).then_some(()));
    mount.kill();
    assert_eq!(mount.finish().code, None, "it was faster than the kill");
}

fn half_unpacked() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/var/lib/shorefast/rootfs").into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

fn killed_at_every_point(name: &'static str, keys: &str, recovery: Recovery) {
    let Some(host) = Host::new() else { return };
    let binary = kill_points_binary();
    if !binary.exists() {
        return skip(&format!("{} is not built", binary.display()));
    }
    let client = aftermath::client(&host, name, &format!("{keys}\n{LIMITS}"));
    let (source, target) = (aftermath::source(&host), host.directory("target"));
    let request = Request::new(&client, name, source, &target);
    for point in Point::of_mount() {
        println!("killed at {}", point.name());
        let mut mount = Command::new(&binary);
        mount.args(request.arguments(Way::Directory, &[])).env("SHOREFAST_KILL_AT", point.name());
        let ran = Running::start(mount).finish();
        assert_eq!(ran.code, None, "not killed; it said {}", ran.stderr);

        assert!(is_attached(*point) || aftermath::settled(&target) == Found::Nothing, "nobody may see a mount that is not served yet");
        recovery.run(&host);
        let found = aftermath::settled(&target);
        assert!(*point != Point::RecordFinished || found == Found::Working, "the mount was complete");
        assert!(is_attached(*point) || found == Found::Nothing);
        aftermath::unmount_if_working(&target);
        aftermath::assert_nothing_left(&host);
    }
}

fn is_attached(point: Point) -> bool {
    let place = |wanted: Point| Point::of_mount().iter().position(|point| *point == wanted);
    place(point) >= place(Point::Attached)
}

fn kill_points_binary() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its own path");
    // target/PROFILE/deps/TEST-HASH
    program.ancestors().nth(3).expect("test programs are below the target directory").join("kill-points/debug/shorefast")
}
