//! Somebody who has a file and a directory open, and works with them without a pause.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use shorefast_tests::wait;

#[derive(Debug)]
pub(crate) struct Keeping {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    worker: Option<JoinHandle<std::io::Result<()>>>,
}

impl Keeping {
    pub(crate) fn start(directory: &Path) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let path = directory.join("kept");
        let kept = File::options().read(true).write(true).create(true).truncate(false).open(&path).expect("it is served");
        let directory = File::open(directory).expect("it is served");
        let (asked, counted) = (Arc::clone(&stop), Arc::clone(&rounds));
        // What one client has removed, another one may remember for a while, as from machine to machine.
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let own = NAMES.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            while !asked.load(Ordering::Relaxed) {
                round(&kept, &directory, counted.load(Ordering::Relaxed), own)?;
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_micros(500));
            }
            kept.sync_all()
        };
        let keeping = Self { stop, rounds, worker: Some(std::thread::spawn(work)) };
        keeping.does_something();
        keeping
    }

    fn does_something(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        wait::until("work with what is open", || {
            let has_ended = self.worker.as_ref().is_none_or(JoinHandle::is_finished);
            (has_ended || self.rounds.load(Ordering::Relaxed) > before + 2).then_some(())
        });
    }

    /// Works on for a while, and then closes both.
    #[track_caller]
    pub(crate) fn finish_unharmed(mut self) {
        self.does_something();
        self.stop.store(true, Ordering::Relaxed);
        let result = self.worker.take().map(|worker| worker.join().expect("it does not panic"));
        assert!(matches!(result, Some(Ok(()))), "after {} rounds: {result:?}", self.rounds.load(Ordering::Relaxed));
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn round(kept: &File, directory: &File, number: u64, own: u64) -> std::io::Result<()> {
    let wrong = |what: &str| Err(std::io::Error::other(what.to_owned()));
    let (written, mut read) = (number.to_le_bytes(), [0; 8]);
    kept.write_all_at(&written, 8 * (number % 100))?;
    kept.read_exact_at(&mut read, 8 * (number % 100))?;
    if read != written {
        return wrong("other bytes than were written");
    }
    let name = format!("by-descriptor-{own}-{number}");
    let file = rustix::fs::openat(directory, &name, OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    rustix::io::write(&file, b"hello")?;
    drop(file);
    rustix::fs::unlinkat(directory, &name, rustix::fs::AtFlags::empty())?;
    if fs::metadata(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(kept)))?.len() == 0 {
        return wrong("what was written is not there");
    }
    Ok(())
}
