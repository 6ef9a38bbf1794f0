//! A server that does what a test tells it to: cut, stall, lie, redirect. Not a model of HTTP, a real
//! socket with the bytes that a broken server would send.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What arrived, header names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first byte that a range request asks for.
    pub(crate) fn from(&self) -> usize {
        self.header("range").and_then(|value| value.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()).unwrap_or(0)
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// `answer` gets the number of the request, from 0, and what was asked; the connection closes after it.
    pub(crate) fn start(answer: impl Fn(usize, &Received, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&received));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || {
                    let mut stream = stream;
                    let Some(request) = receive(&stream) else { return };
                    let number = {
                        let mut log = log.lock().expect("no test panics in here");
                        log.push(request.clone());
                        log.len() - 1
                    };
                    answer(number, &request, &mut stream);
                });
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics in here").clone()
    }
}

fn receive(stream: &TcpStream) -> Option<Received> {
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next()?.ok()?;
    let mut headers = Vec::new();
    for header in lines {
        let header = header.ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(Received { line, headers })
}

/// An answer with its true length.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    let _ = stream.write_all(body);
}

/// The rest of `data` as asked for, but at most `most` bytes of it before the connection closes.
pub(crate) fn reply_part(stream: &mut TcpStream, request: &Received, data: &[u8], most: usize) {
    let from = request.from();
    let rest = &data[from..];
    let head = match from {
        0 => "200 OK\r\n".to_owned(),
        _ => format!("206 Partial Content\r\ncontent-range: bytes {from}-{}/{}\r\n", data.len() - 1, data.len()),
    };
    let _ = write!(stream, "HTTP/1.1 {head}connection: close\r\ncontent-length: {}\r\n\r\n", rest.len());
    let _ = stream.write_all(&rest[..most.min(rest.len())]);
}
