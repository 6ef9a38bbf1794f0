//! Continuously reads everything that any user of the machine can read about processes, and searches it for words that must not be there.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Runs until it is asked for its findings.
#[derive(Debug)]
pub struct Lookout {
    stop: Arc<AtomicBool>,
    /// Where the word was seen: `file of process (name): text`
    thread: JoinHandle<BTreeSet<String>>,
}

/// A lookout that did not run has seen nothing.
const ROUNDS: u32 = 3;

impl Lookout {
    /// `except`: the process whose own command line the test has chosen.
    pub fn start(word: &str, except: Option<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, word) = (Arc::clone(&stop), word.to_owned());
        let look = move || {
            let (mut places, mut rounds) = (BTreeSet::new(), 0);
            while rounds < ROUNDS || !told.load(Ordering::Relaxed) {
                look_once(&word, except, &mut places);
                rounds += 1;
            }
            places
        };
        Self { stop, thread: std::thread::spawn(look) }
    }

    /// It has checked every process more than once since it was started.
    pub fn finish(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a lookout does not panic")
    }
}

fn look_once(word: &str, except: Option<u32>, places: &mut BTreeSet<String>) {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id() && Some(*pid) != except) {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            if bytes.windows(word.len()).any(|part| part == word.as_bytes()) {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                places.insert(format!("{file} of {pid} ({}): {}", name.trim(), String::from_utf8_lossy(&bytes).replace('\0', " ")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[test]
    fn a_word_is_seen_wherever_it_stands() {
        let word = format!("lookout-{}", std::process::id());
        let mut commands = [Command::new("sleep"), Command::new("sleep")];
        commands[0].arg0(&word).arg("60");
        commands[1].env("WORD", &word).arg("60");
        for (mut command, file) in commands.into_iter().zip(["cmdline", "environ"]) {
            let mut child = command.spawn().expect("sleep can be started");
            // The kernel lets us continue before the arguments are in place.
            let line = format!("/proc/{}/cmdline", child.id());
            crate::wait::until("a program has its arguments", || fs::read(&line).ok().filter(|line| !line.is_empty()));
            let [seen, not_seen] = [None, Some(child.id())].map(|except| Lookout::start(&word, except).finish());
            child.kill().and_then(|()| child.wait()).expect("a child can be ended");
            assert!(seen.len() == 1 && seen.iter().all(|place| place.starts_with(file)), "{seen:?}");
            assert!(not_seen.is_empty(), "{not_seen:?}");
        }
    }
}
