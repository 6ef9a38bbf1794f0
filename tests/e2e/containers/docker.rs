//! Docker's own command line, as the tests of volumes use it.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::{Ran, command, wait};

pub(crate) fn try_docker(words: &[&str]) -> Ran {
    let mut docker = Command::new("docker");
    docker.args(words);
    command::finish(docker)
}

#[track_caller]
pub(crate) fn docker(words: &[&str]) -> String {
    try_docker(words).succeeds().stdout.trim().to_owned()
}

/// The words that create a volume with these options, but for its name: the same for Docker and Podman.
pub(crate) fn create_words(options: &Value) -> Vec<String> {
    let options = options.as_object().expect("options by name").iter();
    let words = options.flat_map(|(key, value)| ["-o".to_owned(), format!("{key}={}", value.as_str().expect("text"))]);
    ["volume", "create", "--driver", "shorefast"].map(str::to_owned).into_iter().chain(words).collect()
}

#[track_caller]
pub(crate) fn create(name: &str, options: &Value) {
    let words = create_words(options);
    docker(&words.iter().map(String::as_str).chain([name]).collect::<Vec<_>>());
}

#[track_caller]
pub(crate) fn inspect(volume: &str) -> Value {
    serde_json::from_str::<Value>(&docker(&["volume", "inspect", volume])).expect("JSON")[0].clone()
}

/// Runs a shell in a container with a volume.
#[track_caller]
pub(crate) fn shell(volume: &str, script: &str) -> String {
    docker(&["run", "--rm", "--network=host", "-v", &format!("{volume}:/data"), "clients", "sh", "-c", script])
}

/// The processes of this name that the test has caused.
pub(crate) fn processes(name: &str) -> Vec<Process> {
    processes::on_this_network().into_iter().filter(|process| process.status("Name").as_deref() == Some(name)).collect()
}

/// Killed, and gone but for whoever should reap them.
pub(crate) fn kill_all(name: &str) {
    let all = processes(name);
    all.iter().for_each(|process| process.signal(Signal::KILL));
    wait::until("what was killed to end", || all.iter().all(has_ended).then_some(()));
}

fn has_ended(process: &Process) -> bool {
    process.status("State").is_none_or(|state| state.starts_with('Z'))
}
