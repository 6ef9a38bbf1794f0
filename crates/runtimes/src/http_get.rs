//! One question by HTTP over a unix socket. The other side is a runtime of the host: trusted, but perhaps stuck or not there.

use std::io;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Builder;

/// The longest answer of a runtime about all its containers.
const LIMIT: usize = 16 << 20;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// `path` starts with `/` and is percent-encoded.
pub(crate) fn get(socket: &Path, path: &str, deadline: Instant) -> io::Result<Answer> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async { tokio::time::timeout_at(deadline.into(), ask(socket, path)).await? })
}

async fn ask(socket: &Path, path: &str) -> io::Result<Answer> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut requests, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
    // It ends with the connection, which ends with this call.
    tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, "localhost").header(header::ACCEPT, "application/json");
    let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let response = requests.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LIMIT).collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    /// The result of `get` for a server with this answer.
    fn asked(name: &str, patience: Duration, answer: impl FnOnce(&mut UnixStream) + Send + 'static) -> io::Result<Answer> {
        let socket = std::env::temp_dir().join(format!("http-get-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&socket).expect("a socket can be made");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            let length = stream.read(&mut [0; 4096]).expect("a question");
            assert!(length > 0);
            answer(&mut stream);
        });
        let result = get(&socket, "/containers/json", Instant::now() + patience);
        std::fs::remove_file(&socket).expect("our own socket");
        server.join().expect("it ends when the client is gone");
        result
    }

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let minute = Duration::from_secs(60);
        let say = |text: &'static [u8]| move |stream: &mut UnixStream| stream.write_all(text).expect("the client reads");
        let answer = asked("whole", minute, say(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")).expect("an answer");
        assert_eq!((answer.status, &answer.body[..]), (404, &b"{}"[..]));
        let pieces = say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n");
        assert_eq!(&asked("pieces", minute, pieces).expect("an answer").body[..], b"{}");
        assert!(asked("half", minute, say(b"HTTP/1.1 200 OK\r\nContent-")).is_err());
        assert!(asked("nonsense", minute, say(b"nonsense\r\n\r\n")).is_err());
    }

    /// Sends data all the time, and never completes the answer.
    #[test]
    fn who_dawdles_is_not_waited_for() {
        let answer = asked("slow", Duration::from_millis(100), |stream| {
            let mut text = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
            while stream.write_all(&text).is_ok() {
                text = b"x".to_vec();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
    }
}
