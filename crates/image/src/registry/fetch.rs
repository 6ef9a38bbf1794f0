//! In: an image's layers. Out: their blobs, downloaded in parallel, and waited for in order.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use shorefast_net::{Download, Error as NetError, Hash, Progress, Size};

use crate::digest::Digest;
use crate::registry::error::Error;
use crate::registry::session::Session;
use crate::registry::{Image, Layer};

/// More connections are not faster, and registries limit them.
const AT_ONCE: usize = 4;

/// Another pull may remove a shared layer between its arrival and our open.
const REMOVED_UNDER_US: usize = 5;

impl Image {
    /// All layers, lowest first. The downloads into `blobs`, several in parallel, start when the first of them is waited for. Partial files
    /// of a failure or a kill are resumed next time; once all have been read, they are removed.
    pub fn fetch(self, blobs: &Path, progress: &Arc<dyn Progress>) -> Vec<Coming> {
        let layers = self.layers.clone();
        let arrivals = Mutex::new(layers.iter().map(|_| Arrival::Awaited).collect());
        let work = Arc::new(Work {
            sessions: self.sessions,
            layers: self.layers,
            blobs: blobs.to_owned(),
            progress: Arc::clone(progress),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            arrivals,
            changed: Condvar::new(),
        });
        let fetching = Arc::new(Fetching { work, threads: OnceLock::new() });
        let coming = |(position, layer)| Coming { layer, position, fetching: Arc::clone(&fetching) };
        layers.into_iter().enumerate().map(coming).collect()
    }
}

/// A layer that is being downloaded.
#[derive(Debug)]
pub struct Coming {
    pub layer: Layer,
    position: usize,
    fetching: Arc<Fetching>,
}

impl Coming {
    /// The layer as distributed, complete and verified.
    pub fn wait(self) -> Result<Blob, Error> {
        let work = &self.fetching.work;
        // If no thread could be started, the waiting thread does the work.
        if self.fetching.threads.get_or_init(|| start(work)).is_empty() {
            work.run();
        }
        let mut arrivals = work.arrivals();
        loop {
            match std::mem::replace(&mut arrivals[self.position], Arrival::Taken) {
                Arrival::Here(file) => {
                    drop(arrivals);
                    return Ok(Blob { file, position: self.position, fetching: self.fetching });
                }
                Arrival::Failed(error) => return Err(error),
                Arrival::Awaited | Arrival::Taken | Arrival::Used if work.stop.load(Ordering::Relaxed) => {
                    // Another layer failed first: return its error.
                    let failure = arrivals.iter_mut().find(|arrival| matches!(arrival, Arrival::Failed(_)));
                    let failure = failure.map(|arrival| std::mem::replace(arrival, Arrival::Taken));
                    let stopped = Error::Fetch { host: work.host(), source: NetError::Stopped };
                    return Err(if let Some(Arrival::Failed(error)) = failure { error } else { stopped });
                }
                other => arrivals[self.position] = other,
            }
            arrivals = work.changed.wait(arrivals).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A layer that has arrived.
#[derive(Debug)]
pub struct Blob {
    file: File,
    position: usize,
    fetching: Arc<Fetching>,
}

impl Read for Blob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.fetching.work.arrivals()[self.position] = Arrival::Used;
        }
        Ok(count)
    }
}

/// Dropped with the last layer: the threads are stopped, and blobs that have been used are removed.
#[derive(Debug)]
struct Fetching {
    work: Arc<Work>,
    threads: OnceLock<Vec<JoinHandle<()>>>,
}

fn start(work: &Arc<Work>) -> Vec<JoinHandle<()>> {
    let one = |_| {
        let work = Arc::clone(work);
        thread::Builder::new().name("fetch".into()).spawn(move || work.run()).ok()
    };
    (0..AT_ONCE.min(work.layers.len())).map_while(one).collect()
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.work.stop.store(true, Ordering::Relaxed);
        let all_used = self.work.arrivals().iter().all(|arrival| matches!(arrival, Arrival::Used));
        if !all_used {
            self.work.sessions.iter().for_each(|session| session.client.interrupt());
        }
        for thread in self.threads.take().into_iter().flatten() {
            let _ = thread.join();
        }
        if all_used {
            // Other users of a blob have it open; later ones can fetch it again.
            self.work.layers.iter().for_each(|layer| drop(fs::remove_file(self.work.place(layer))));
        }
    }
}

#[derive(Debug)]
enum Arrival {
    Awaited,
    Here(File),
    Failed(Error),
    Taken,
    Used,
}

/// State shared by the threads.
struct Work {
    sessions: Vec<Session>,
    layers: Vec<Layer>,
    blobs: PathBuf,
    progress: Arc<dyn Progress>,
    next: AtomicUsize,
    stop: AtomicBool,
    arrivals: Mutex<Vec<Arrival>>,
    changed: Condvar,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Work").field("layers", &self.layers).field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

impl Work {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(layer) = self.layers.get(position) else { return };
            let result = self.fetch_and_open(layer);
            let mut arrivals = self.arrivals();
            // Only the first failure is reported; the downloads that it stopped have no error of their own.
            match result {
                Ok(file) => arrivals[position] = Arrival::Here(file),
                Err(error) if !self.stop.swap(true, Ordering::Relaxed) => arrivals[position] = Arrival::Failed(error),
                Err(_) => {}
            }
            self.changed.notify_all();
        }
    }

    fn fetch_and_open(&self, layer: &Layer) -> Result<File, Error> {
        let path = self.place(layer);
        let unusable = |source| Error::Fetch { host: self.host(), source: NetError::File { path: path.clone(), source } };
        fs::create_dir_all(&self.blobs).map_err(unusable)?;
        for _ in 0..REMOVED_UNDER_US {
            self.fetch(layer, &path)?;
            match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => return result.map_err(unusable),
            }
        }
        Err(unusable(io::ErrorKind::NotFound.into()))
    }

    fn fetch(&self, layer: &Layer, to: &Path) -> Result<(), Error> {
        let mut last = None;
        for session in &self.sessions {
            match self.fetch_from(session, layer, to) {
                Ok(()) => return Ok(()),
                // Our disk, or the failure of another download: another endpoint does not help.
                Err(error @ Error::Fetch { source: NetError::File { .. } | NetError::Stopped, .. }) => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(Error::Fetch { host: self.host(), source: NetError::NoSource { what: layer.digest.to_string() } }))
    }

    fn fetch_from(&self, session: &Session, layer: &Layer, to: &Path) -> Result<(), Error> {
        session.introduce()?;
        let what = format!("layer {}", &layer.digest.hex()[..12]);
        let attempt = || {
            let sources = [session.request(&format!("blobs/{}", layer.digest))?];
            let item = Download { what: &what, sources: &sources, to, size: Size::Exactly(layer.size), hash: Some(hash(layer.digest)) };
            Ok(session.client.download_unless(&item, self.progress.as_ref(), &self.stop))
        };
        match attempt()? {
            // A token that expired while layers were waiting for their turn.
            Err(NetError::Status { status: 401, .. }) => {
                session.forget();
                attempt()?
            }
            result => result,
        }
        .map_err(|source| session.failed(source))
    }

    /// Named by its digest: shared between images, and between pulls.
    fn place(&self, layer: &Layer) -> PathBuf {
        self.blobs.join(layer.digest.hex())
    }

    fn host(&self) -> String {
        self.sessions.first().map(|session| session.endpoint.host.clone()).unwrap_or_default()
    }

    fn arrivals(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(digest: Digest) -> Hash {
    digest.to_string().parse().expect("a digest is a hash")
}
