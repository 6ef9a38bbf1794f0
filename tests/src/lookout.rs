//! Looks at all that any user of the machine can read of processes, all the time, for words that must not be there.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Until it is asked what it saw.
#[derive(Debug)]
pub struct Lookout {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Where a word was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// `file of process (name): text`
    pub places: BTreeSet<String>,
    /// How often all processes were looked at: a lookout that slept has seen nothing.
    pub rounds: u32,
}

impl Lookout {
    /// `except`: the process whose own command line the test has chosen.
    pub fn start(word: &str, except: Option<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, word) = (Arc::clone(&stop), word.to_owned());
        let look = move || {
            let mut seen = Seen::default();
            while !told.load(Ordering::Relaxed) {
                look_once(&word, except, &mut seen.places);
                seen.rounds += 1;
            }
            seen
        };
        Self { stop, thread: std::thread::spawn(look) }
    }

    pub fn finish(self) -> Seen {
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
