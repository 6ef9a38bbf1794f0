//! One question by HTTP over a unix socket. The other side is a runtime of the host: trusted, but perhaps stuck or not there.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// What a runtime says at most about all its containers.
const LIMIT: u64 = 16 << 20;
const HEADERS: usize = 64;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// `path` starts with `/` and is percent-encoded.
pub(crate) fn get(socket: &Path, path: &str, deadline: Instant) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    let left = deadline.saturating_duration_since(Instant::now());
    let patience = Some(if left.is_zero() { return Err(ErrorKind::TimedOut.into()) } else { left });
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    // Version 1.0: the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.take(LIMIT).read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = response.parse(bytes).ok()? else { return None };
    Some(Answer { status: response.code?, body: bytes[start..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let answer = parse(b"HTTP/1.0 404 Not Found\r\nContent-Type: application/json\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (404, &b"{}"[..]));
        assert!(parse(b"HTTP/1.0 200 OK\r\nContent-").is_none());
        assert!(parse(b"nonsense").is_none());
    }
}
