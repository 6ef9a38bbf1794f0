//! Messages larger than a byte, from the launching process to the sandbox's first process: a serde value of any size
//! and a few descriptors go in at [`send`] (launching process) and come out at [`receive`] (first process).

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shorefast_sys as sys;

/// Most messages are shorter. The bytes of a longer one travel in a memfd, which is the first descriptor of the packet.
const PACKET: usize = 2048;

const WHOLE: u8 = b'W';
const ENCLOSED: u8 = b'E';

pub fn send<'a>(to: BorrowedFd<'_>, data: &impl Serialize, descriptors: impl Iterator<Item = &'a OwnedFd>) -> sys::Result<()> {
    let bytes = postcard::to_allocvec(data).expect("plain data has a plain form");
    let enclosure = if bytes.len() < PACKET { None } else { Some(enclose(&bytes)?) };
    let packet = match &enclosure {
        None => [&[WHOLE], &bytes[..]].concat(),
        Some(_) => vec![ENCLOSED],
    };
    let fds: Vec<_> = enclosure.iter().map(|fd| fd.as_fd()).chain(descriptors.map(|fd| fd.as_fd())).collect();
    sys::descriptors::send(to, &packet, &fds)
}

/// Waits for a message. End of file means that the launching process died, and ends this process, too.
pub fn receive<T: DeserializeOwned>(from: BorrowedFd<'_>) -> sys::Result<(T, impl Iterator<Item = OwnedFd>)> {
    let mut packet = [0u8; PACKET];
    let (length, fds) = sys::descriptors::receive(from, &mut packet)?;
    let mut fds = fds.into_iter();
    let wrong = || sys::Error::new("recvmsg(packet)", Errno::PROTO);
    let read = |bytes: &[u8]| postcard::from_bytes(bytes).map_err(|_| wrong());
    let data = match &packet[..length] {
        [] => sys::process::exit_now(1),
        [WHOLE, bytes @ ..] => read(bytes)?,
        [ENCLOSED] => read(&open(fds.next().ok_or_else(wrong)?)?)?,
        _ => return Err(wrong()),
    };
    Ok((data, fds))
}

fn enclose(bytes: &[u8]) -> sys::Result<OwnedFd> {
    let memfd = rustix::fs::memfd_create("shorefast-packet", MemfdFlags::CLOEXEC);
    let mut file = File::from(sys::call(|| "memfd_create(\"shorefast-packet\")".into(), memfd)?);
    sys::call(|| "write(packet)".into(), file.write_all(bytes))?;
    Ok(file.into())
}

fn open(enclosure: OwnedFd) -> sys::Result<Vec<u8>> {
    let mut file = File::from(enclosure);
    let mut bytes = Vec::new();
    sys::call(|| "read(packet)".into(), file.rewind().and_then(|()| file.read_to_end(&mut bytes)))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_length_arrive_with_their_descriptors() {
        let (ours, theirs) = crate::handshake::pair().unwrap();
        for length in [0, 1, PACKET - 8, PACKET, PACKET + 1, 1 << 20] {
            let text: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let fds = [File::open("/dev/null").unwrap().into(), theirs.try_clone().unwrap()];
            send(ours.as_fd(), &text, fds.iter()).unwrap();
            let (arrived, fds) = receive::<Vec<u8>>(theirs.as_fd()).unwrap();
            assert!(arrived == text, "{length} bytes");
            assert_eq!(fds.count(), 2, "{length} bytes");
        }
    }
}
