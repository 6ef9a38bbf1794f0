//! In: a list of sources, a size and a hash. Out: a verified file; resumes where a connection broke, from any source that has it.

use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use ureq::http::Response;
use url::Url;

use crate::client::{Client, seconds};
use crate::error::Error;
use crate::hash::Hash;
use crate::pace::{Pace, Verdict};
use crate::part::{self, Mismatch, Opened, Origin, Part};
use crate::progress::{Progress, Task};
use crate::request::{Request, shown};

/// An attempt that brought this much resets the count of attempts.
const WORTH_IT: u64 = 256 * 1024;

#[derive(Clone, Debug)]
pub struct Download<'a> {
    /// A description for the user.
    pub what: &'a str,
    /// Where to get it, best first. Each is tried before any is retried.
    pub sources: &'a [Request],
    /// The file, which appears when it is complete and verified. Until then there is `FILE.part` next to it.
    pub to: &'a Path,
    pub size: Size,
    /// Without a hash, a download cannot be resumed, and the caller has to verify.
    pub hash: Option<Hash>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Exactly(u64),
    AtMost(u64),
}

impl Size {
    fn limit(self) -> u64 {
        match self {
            Self::Exactly(size) | Self::AtMost(size) => size,
        }
    }

    fn total(self) -> Option<u64> {
        match self {
            Self::Exactly(size) => Some(size),
            Self::AtMost(_) => None,
        }
    }
}

impl Client {
    /// An existing file is verified, not fetched again: it may or may not have survived a power failure.
    pub fn download(&self, item: &Download<'_>, progress: &dyn Progress) -> Result<(), Error> {
        self.download_unless(item, progress, &AtomicBool::new(false))
    }

    /// Several in parallel. The first permanent failure stops the others; partial files are kept for the next try.
    pub fn download_all(&self, items: &[Download<'_>], at_once: usize, progress: &dyn Progress) -> Result<(), Error> {
        let (next, stop, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
        let work = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.download_unless(item, progress, &stop) {
                    if !stop.swap(true, Ordering::Relaxed) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..at_once.min(items.len()) {
                scope.spawn(work);
            }
            work();
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Returns [`Error::Stopped`] soon after `stop` is set; the partial file is kept for the next try.
    pub fn download_unless(&self, item: &Download<'_>, progress: &dyn Progress, stop: &AtomicBool) -> Result<(), Error> {
        if part::is_whole(item.to, item.size.total(), item.hash)? {
            return Ok(());
        }
        let Opened::Unfinished(mut part) = Part::open(item.to, item.hash, item.size.limit())? else {
            return Ok(());
        };
        let task = progress.begin(item.what, item.size.total());
        let transfer = Transfer { client: self, item, task: task.as_ref(), stop };
        transfer.until_whole(&mut part)?;
        part.finish()
    }
}

struct Transfer<'a> {
    client: &'a Client,
    item: &'a Download<'a>,
    task: &'a dyn Task,
    stop: &'a AtomicBool,
}

/// Whether a source that failed is worth a retry.
enum Failure {
    ForNow(Error, Option<std::time::Duration>),
    ForGood(Error),
    /// Not the source's fault: our disk, or the download was stopped.
    OurOwn(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::File { .. } | Error::Stopped => Self::OurOwn(error),
            _ if error.is_transient() => Self::ForNow(error, None),
            _ => Self::ForGood(error),
        }
    }
}

impl Transfer<'_> {
    fn until_whole(&self, part: &mut Part) -> Result<(), Error> {
        // A kill between the last byte and the rename leaves a complete file.
        if self.item.size.total() == Some(part.written()) && self.item.hash.is_some() && part.mismatch().is_none() {
            return Ok(());
        }
        if part.written() >= self.item.size.limit() {
            part.start_over()?;
        }
        let mut sources: Vec<&Request> = self.item.sources.iter().collect();
        let mut last = Error::NoSource { what: self.item.what.to_owned() };
        let mut round = 0;
        while round < self.client.settings.attempts && !sources.is_empty() {
            let mut asked_for = None;
            let before = part.written();
            let mut still = Vec::new();
            for source in sources {
                match self.once(source, part) {
                    Ok(()) => return Ok(()),
                    Err(Failure::OurOwn(error)) => return Err(error),
                    Err(Failure::ForGood(error)) => last = error,
                    Err(Failure::ForNow(error, pause)) => {
                        (last, asked_for) = (error, pause.max(asked_for));
                        still.push(source);
                    }
                }
            }
            sources = still;
            round = if part.written() >= before + WORTH_IT { 0 } else { round + 1 };
            if round < self.client.settings.attempts && !sources.is_empty() {
                self.client.pause_after(round, asked_for, self.stop);
            }
        }
        Err(last)
    }

    /// One response of one source, to its end.
    fn once(&self, source: &Request, part: &mut Part) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::OurOwn(Error::Stopped));
        }
        let (url, response) = self.client.exchange(source, part.written())?;
        self.take_position(&url, &response, part)?;
        self.copy(&url, response, part)?;
        let Some(Mismatch { expected, found }) = part.mismatch() else {
            return Ok(());
        };
        let error = Error::WrongHash { url: shown(&url), expected: expected.to_string(), found: found.to_string() };
        let origin = part.origin();
        part.start_over()?;
        // Parts of several responses may not fit together: this source alone may still be good.
        Err(if origin == Origin::Several { Failure::ForNow(error, None) } else { Failure::ForGood(error) })
    }

    /// Where the response's bytes belong: after the existing part, or at the beginning.
    fn take_position(&self, url: &Url, response: &Response<ureq::Body>, part: &mut Part) -> Result<(), Failure> {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        match status {
            200 => part.start_over()?,
            206 if header("content-range").and_then(first_byte) == Some(part.written()) => part.goes_on(),
            206 | 416 => {
                // It has another file than the one we have the beginning of, or counts bytes differently.
                part.start_over()?;
                let source = "the server continues elsewhere than asked".into();
                return Err(Failure::ForNow(Error::Broken { url: shown(url), source }, None));
            }
            _ => {
                let error = Error::Status { url: shown(url), status, said: String::new() };
                return Err(if error.is_transient() {
                    Failure::ForNow(error, seconds(header("retry-after")))
                } else {
                    Failure::ForGood(error)
                });
            }
        }
        let announced = header("content-length").and_then(|text| text.parse::<u64>().ok());
        match announced.map(|length| part.written().saturating_add(length)) {
            Some(found) => self.check_size(url, found).map_err(Failure::ForGood),
            None => Ok(()),
        }
    }

    fn copy(&self, url: &Url, response: Response<ureq::Body>, part: &mut Part) -> Result<(), Failure> {
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 256 * 1024];
        let patience = self.client.settings.stall_timeout;
        let mut pace = Pace::new(patience, Instant::now());
        loop {
            let read = reader.read(&mut buffer);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::OurOwn(Error::Stopped));
            }
            let n = read.map_err(|error| self.client.failure(url, error.into()))?;
            if n == 0 {
                break;
            }
            let after = part.written() + n as u64;
            if after > self.item.size.limit() {
                part.start_over()?;
                return Err(Failure::ForGood(self.wrong_size(url, after)));
            }
            part.append(&buffer[..n])?;
            self.task.at(after);
            if pace.judge(n, Instant::now()) == Verdict::TooSlow {
                return Err(Failure::ForNow(Error::Stalled { url: shown(url), after: patience }, None));
            }
        }
        match self.item.size {
            // Truncated without an error: resume.
            Size::Exactly(size) if part.written() < size => {
                Err(Failure::ForNow(Error::Broken { url: shown(url), source: "it ended early".into() }, None))
            }
            _ => Ok(()),
        }
    }

    fn check_size(&self, url: &Url, found: u64) -> Result<(), Error> {
        let fine = match self.item.size {
            Size::Exactly(size) => found == size,
            Size::AtMost(limit) => found <= limit,
        };
        if fine { Ok(()) } else { Err(self.wrong_size(url, found)) }
    }

    fn wrong_size(&self, url: &Url, found: u64) -> Error {
        match self.item.size {
            Size::Exactly(expected) => Error::WrongSize { url: shown(url), expected, found },
            Size::AtMost(limit) => Error::TooLarge { url: shown(url), limit },
        }
    }
}

/// From `bytes 100-199/200`.
fn first_byte(content_range: &str) -> Option<u64> {
    content_range.trim().strip_prefix("bytes")?.trim_start().split('-').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_where_a_part_begins() {
        for (text, expected) in [("bytes 100-199/200", Some(100)), ("bytes 0-0/*", Some(0)), ("bytes */200", None), ("items 1-2/3", None)] {
            assert_eq!(first_byte(text), expected, "{text}");
        }
    }
}
