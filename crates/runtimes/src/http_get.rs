//! One question by HTTP over a unix socket. The other side is a runtime of the host: trusted, but perhaps stuck or not there.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// What a runtime says at most about all its containers.
const LIMIT: usize = 16 << 20;
const HEADERS: usize = 64;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// `path` starts with `/` and is percent-encoded.
pub(crate) fn get(socket: &Path, path: &str, deadline: Instant) -> io::Result<Answer> {
    let mut stream = connect(socket, deadline)?;
    // Version 1.0: the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")?;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut part)? {
            0 => return parse(&bytes).ok_or_else(|| ErrorKind::InvalidData.into()),
            length if bytes.len() + length > LIMIT => return Err(ErrorKind::FileTooLarge.into()),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
}

/// With a deadline for the connection as well: a server that does not accept it would block the caller.
fn connect(socket: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(left(deadline)?))?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream.into())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
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
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let answer = parse(b"HTTP/1.0 404 Not Found\r\nContent-Type: application/json\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (404, &b"{}"[..]));
        assert!(parse(b"HTTP/1.0 200 OK\r\nContent-").is_none());
        assert!(parse(b"nonsense").is_none());
    }

    /// It says something all the time, and never all of it.
    #[test]
    fn who_dawdles_is_not_waited_for() {
        let directory = std::env::temp_dir().join(format!("http-get-{}", std::process::id()));
        let listener = UnixListener::bind(&directory).expect("a socket can be made");
        let dawdler = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let answer = get(&directory, "/", Instant::now() + Duration::from_millis(100));
        std::fs::remove_file(&directory).expect("our own socket");
        let kind = answer.err().map(|error| error.kind());
        assert!(matches!(kind, Some(ErrorKind::TimedOut | ErrorKind::WouldBlock)), "{kind:?}");
        dawdler.join().expect("it ends when nobody listens");
    }
}
