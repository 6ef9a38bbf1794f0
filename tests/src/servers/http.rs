//! As much HTTP as it takes to put an object and to get it back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub(super) fn put(address: SocketAddr, path: &str, content: &[u8]) -> io::Result<()> {
    ask(address, "PUT", path, content).map(drop)
}

pub(super) fn get(address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    ask(address, "GET", path, b"")
}

fn ask(address: SocketAddr, method: &str, path: &str, content: &[u8]) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address)?;
    // HTTP/1.0: the answer ends when the connection does. The server takes any key, but wants to be shown one.
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: AWS any:key\r\n");
    write!(connection, "{head}Content-Length: {}\r\n\r\n", content.len())?;
    connection.write_all(content)?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    body(&answer).ok_or_else(|| io::Error::other(format!("{method} {path}: {}", String::from_utf8_lossy(&answer))))
}

fn body(answer: &[u8]) -> Option<Vec<u8>> {
    let end_of_head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let status = answer.split(|byte| *byte == b' ').nth(1)?;
    (status == b"200").then(|| answer[end_of_head + 4..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn only_status_200_has_a_body() {
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello").as_deref(), Some(&b"hello"[..]));
        assert_eq!(body(b"HTTP/1.0 404 Not Found\r\n\r\nno"), None);
        assert_eq!(body(b""), None);
    }
}
