//! In: a request that carries data. Out: the server's small response.
//!
//! Nothing is retried or sent elsewhere by itself: only the caller knows what may be sent twice.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use ureq::SendBody;

use crate::client::{Answer, Client};
use crate::error::Error;
use crate::progress::Task;
use crate::redirect;
use crate::request::{Request, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Head,
    Post,
    Patch,
    Put,
}

#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    Nothing,
    Bytes {
        media_type: &'a str,
        bytes: &'a [u8],
    },
    /// A file from byte `from` to its end at `size`.
    File {
        file: &'a File,
        from: u64,
        size: u64,
    },
}

/// Responses to an upload are short.
const LONGEST_ANSWER: u64 = 256 * 1024;
/// How often progress is reported.
const STEP: u64 = 256 * 1024;

impl Client {
    pub fn send(&self, request: &Request, method: Method, payload: Payload<'_>, task: &dyn Task) -> Result<Answer, Error> {
        let url = request.url();
        self.settings.plain_http.check(url)?;
        let name = match method {
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Put => "PUT",
        };
        let mut builder = ureq::http::Request::builder().method(name).uri(url.as_str());
        for accept in &request.accept {
            builder = builder.header("accept", accept);
        }
        if let Some(value) = &request.authorization {
            builder = builder.header("authorization", value);
        }
        let agent = self.agent(url)?;
        let answered = match payload {
            Payload::Nothing if method == Method::Head => {
                builder.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
            // A length of zero is said, too: some servers insist.
            Payload::Nothing => builder.body(&[][..]).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
            Payload::Bytes { media_type, bytes } => {
                builder.header("content-type", media_type).body(bytes).map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
            Payload::File { file, from, size } => {
                let mut builder = builder.header("content-type", "application/octet-stream").header("content-length", size - from);
                if from > 0 {
                    builder = builder.header("content-range", format!("{from}-{}", size - 1));
                }
                let mut reader = Reported { file, position: from, size, reported: from, task };
                let body = SendBody::from_reader(&mut reader);
                builder.body(body).map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
        };
        let response = answered.map_err(|error| self.failure(url, error))?;
        if redirect::is_redirection(response.status().as_u16()) {
            return Err(Error::Redirect { url: shown(url), problem: "the data must not be sent elsewhere" });
        }
        self.small(url.clone(), response, LONGEST_ANSWER)
    }
}

/// Reads a file and reports how far it got.
struct Reported<'a> {
    file: &'a File,
    position: u64,
    size: u64,
    reported: u64,
    task: &'a dyn Task,
}

impl Read for Reported<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.position).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.position)?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += count as u64;
        if self.position - self.reported >= STEP || self.position == self.size {
            self.reported = self.position;
            self.task.at(self.position);
        }
        Ok(count)
    }
}
