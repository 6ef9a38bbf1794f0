//! In: package files. Out: their decompressed content, in order, ahead of the unpacker.
//!
//! Unpacking goes package by package, so that the result is deterministic. Decompressing takes most of the time and is independent: each
//! CPU works on a different package, at most a few megabytes ahead.

use std::io::{self, Read};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::deb::{Deb, Problem};
use crate::error::Error;

const PIECE: usize = 128 * 1024;
/// Chunks that are queued for the unpacker, per package.
const AHEAD: usize = 48;

/// Passes every package's files, as a plain tar archive, to `unpack`, in order.
pub fn in_order<E: From<Error>>(debs: &[Deb], mut unpack: impl FnMut(&Deb, &mut dyn Read) -> Result<(), E>) -> Result<(), E> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(debs.len());
    let (senders, receivers): (Vec<_>, Vec<_>) = debs.iter().map(|_| sync_channel(AHEAD)).unzip();
    // Workers take packages in order: the one that is being unpacked always has its worker.
    let work = Mutex::new(debs.iter().zip(senders));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = work.lock().ok().and_then(|mut work| work.next());
                    let Some((deb, sender)) = next else { return };
                    decompress(deb, &sender);
                }
            });
        }
        let mut one = |deb: &Deb, receiver| {
            let mut pieces = Pieces { receiver, piece: Vec::new(), at: 0, failure: None };
            let result = unpack(deb, &mut pieces);
            // A read error is the cause of the unpack error, so it takes precedence.
            pieces.failure.map_or(result, |error| Err(error.into()))
        };
        let result = debs.iter().zip(receivers).try_for_each(|(deb, receiver)| one(deb, receiver));
        if result.is_err() {
            // The remaining packages are not needed.
            let _ = work.lock().map(|mut work| work.by_ref().for_each(drop));
        }
        result
    })
}

fn decompress(deb: &Deb, pieces: &SyncSender<Result<Vec<u8>, Error>>) {
    let failed = |source| Error::Deb { package: deb.name.clone(), source };
    let mut data = match deb.data() {
        Ok(data) => data,
        Err(problem) => return drop(pieces.send(Err(failed(problem)))),
    };
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let result = data.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        let piece = match result {
            Ok(0) => return,
            Ok(_) => Ok(piece),
            Err(error) => Err(failed(Problem::Read(deb.file.clone(), error))),
        };
        let is_last = piece.is_err();
        // The receiver is gone: the unpacker failed.
        if pieces.send(piece).is_err() || is_last {
            return;
        }
    }
}

struct Pieces {
    receiver: Receiver<Result<Vec<u8>, Error>>,
    piece: Vec<u8>,
    at: usize,
    failure: Option<Error>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            match self.receiver.recv() {
                Ok(Ok(piece)) => (self.piece, self.at) = (piece, 0),
                Ok(Err(error)) => {
                    self.failure = Some(error);
                    return Err(io::Error::other("the package cannot be read"));
                }
                // The worker is done.
                Err(_) => return Ok(0),
            }
        }
        let n = buffer.len().min(self.piece.len() - self.at);
        buffer[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
