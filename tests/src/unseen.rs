//! Checks that a mount's secret is invisible: in all processes of the machine while the mount is made, and in all that Shorefast shows of it.

use std::fs;
use std::path::Path;

use crate::command::{Ran, Running};
use crate::lookout::Lookout;
use crate::path::text;
use crate::{Host, mountinfo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCommandLine {
    Clean,
    /// The caller put it there. Its removal is covered by another test.
    HasIt,
}

/// Mounts while every process is watched, then searches all that is shown.
pub fn mounts_unseen(host: &Host, secret: &str, own_command_line: OwnCommandLine, target: &Path, start: impl FnOnce() -> Running) -> Ran {
    let running = start();
    let except = (own_command_line == OwnCommandLine::HasIt).then(|| running.pid());
    let lookout = Lookout::start(secret, except);
    let ran = running.finish().succeeds();
    let shown = all_that_is_shown(host, target);
    let seen = lookout.finish();
    assert!(seen.is_empty(), "{seen:?}");
    assert!(shown.contains(text(target)), "nothing is shown: {shown}");
    assert!(!shown.contains(secret) && !ran.stderr.contains(secret) && !ran.stdout.contains(secret), "{shown}");
    ran
}

/// Everything that the host can show of a mount, as text.
fn all_that_is_shown(host: &Host, target: &Path) -> String {
    let path = text(target);
    let mut text_of_all = String::new();
    for words in [&["list"][..], &["list", "--json"], &["inspect", path], &["inspect", "--json", path], &["logs", path]] {
        let ran = host.shorefast(words).succeeds();
        text_of_all += &(ran.stdout + &ran.stderr);
    }
    let mut open = vec![host.run_directory().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => open.push(entry.path()),
                false => text_of_all += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()),
            }
        }
    }
    text_of_all + &format!("{:?}", mountinfo::at(target))
}
