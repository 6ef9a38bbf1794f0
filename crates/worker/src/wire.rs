//! Values on a stream socket: the length as eight bytes, then JSON. Descriptors go with the first byte.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;
use shorefast_sys::descriptors;

/// A listing of ten thousand mounts has seven megabytes.
const LIMIT: u64 = 256 << 20;

pub fn send(mut to: &UnixStream, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let length = (bytes.len() as u64).to_le_bytes();
    descriptors::send(to.as_fd(), &length[..1], fds).map_err(|error| Error::from(error.errno()))?;
    to.write_all(&length[1..])?;
    to.write_all(&bytes)
}

pub fn receive<T: DeserializeOwned>(mut from: &UnixStream) -> Result<(T, Vec<OwnedFd>)> {
    let mut length = [0; 8];
    let (count, fds) = descriptors::receive(from.as_fd(), &mut length[..1]).map_err(|error| Error::from(error.errno()))?;
    if count == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    from.read_exact(&mut length[1..])?;
    let length = u64::from_le_bytes(length);
    if length > LIMIT {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((serde_json::from_slice(&bytes)?, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek as _;

    #[test]
    fn values_arrive_with_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let value = "x".repeat(1 << 20);
        let mut file = std::fs::File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        file.write_all(b"hidden").unwrap();
        file.rewind().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| send(&ours, &value, &[file.as_fd()]).unwrap());
            let (arrived, fds): (String, _) = receive(&theirs).unwrap();
            assert!(arrived == value);
            let mut content = String::new();
            std::fs::File::from(fds.into_iter().next().unwrap()).read_to_string(&mut content).unwrap();
            assert_eq!(content, "hidden");
        });
    }

    #[test]
    fn half_a_value_is_none() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(&[200, 0, 0, 0, 0, 0, 0, 0, b'"']).unwrap();
        drop(ours);
        assert_eq!(receive::<String>(&theirs).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(&u64::MAX.to_le_bytes()).unwrap();
        assert_eq!(receive::<String>(&theirs).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
