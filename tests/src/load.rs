//! A load that works in a directory without a pause, and counts failed operations.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<Done>>,
}

#[derive(Debug, Default, Clone)]
pub struct Done {
    pub operations: u64,
    pub failed: u64,
    pub first_failure: Option<String>,
}

impl Load {
    /// Writes a file, reads it back, compares, removes; over and over.
    pub fn start(directory: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let worker = std::thread::spawn(move || {
            let mut done = Done::default();
            while !asked.load(Ordering::Relaxed) {
                let content = format!("round {}", done.operations);
                let file = directory.join(format!("load-{}", done.operations % 8));
                let round = || -> std::io::Result<()> {
                    fs::write(&file, &content)?;
                    let read = fs::read_to_string(&file)?;
                    fs::remove_file(&file)?;
                    if read == content { Ok(()) } else { Err(std::io::Error::other(format!("read {read:?}, wrote {content:?}"))) }
                };
                done.operations += 3;
                if let Err(error) = round() {
                    done.failed += 1;
                    done.first_failure.get_or_insert_with(|| format!("operation {}: {error}", done.operations));
                }
            }
            done
        });
        Self { stop, worker: Some(worker) }
    }

    pub fn finish(mut self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.take().expect("it is taken only once").join().expect("it does not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
