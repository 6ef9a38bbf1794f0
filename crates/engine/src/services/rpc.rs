//! The subset of ONC RPC that is needed to check whether a service answers, and to read and repair rpcbind's list (RFC 5531, RFC 1833).

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub const RPCBIND: u32 = 100_000;
const RPCBIND_PORT: u16 = 111;

/// All servers asked are on this host.
const PATIENCE: Duration = Duration::from_millis(500);

/// An entry of rpcbind's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    pub program: u32,
    pub version: u32,
    pub network: String,
    pub address: String,
    pub owner: String,
}

/// Whether the program answers on this host, ours or the host's.
pub fn answers(program: u32) -> bool {
    let port = if program == RPCBIND { Ok(RPCBIND_PORT) } else { port_of(program) };
    let version = if program == RPCBIND { 2 } else { 1 };
    port.is_ok_and(|port| port != 0 && call_udp(port, &Call { program, version, procedure: 0, arguments: &[] }).is_ok())
}

fn port_of(program: u32) -> Result<u16> {
    const GETPORT: u32 = 3;
    const UDP: u32 = 17;
    let arguments = words(&[program, 1, UDP, 0]);
    let reply = call_udp(RPCBIND_PORT, &Call { program: RPCBIND, version: 2, procedure: GETPORT, arguments: &arguments })?;
    let port = Reader(&reply).word()?;
    u16::try_from(port).map_err(|_| garbled())
}

/// Everything that is registered with the rpcbind behind this socket.
pub fn registrations(socket: &Path) -> Result<Vec<Registration>> {
    const DUMP: u32 = 4;
    let reply = call_unix(socket, DUMP, &[])?;
    let mut reader = Reader(&reply);
    let mut list = Vec::new();
    while reader.word()? != 0 {
        list.push(Registration {
            program: reader.word()?,
            version: reader.word()?,
            network: reader.text()?,
            address: reader.text()?,
            owner: reader.text()?,
        });
    }
    Ok(list)
}

pub fn register(socket: &Path, registration: &Registration) -> Result<()> {
    const SET: u32 = 1;
    call_unix(socket, SET, &registration.written()).map(drop)
}

/// Removes every entry of a program from the list.
pub fn unregister(socket: &Path, program: u32) -> Result<()> {
    const UNSET: u32 = 2;
    for line in registrations(socket)?.into_iter().filter(|line| line.program == program) {
        call_unix(socket, UNSET, &line.written())?;
    }
    Ok(())
}

impl Registration {
    fn written(&self) -> Vec<u8> {
        [words(&[self.program, self.version]), text(&self.network), text(&self.address), text(&self.owner)].concat()
    }
}

struct Call<'a> {
    program: u32,
    version: u32,
    procedure: u32,
    arguments: &'a [u8],
}

/// Our sockets are not shared, so one transaction id is enough.
const ID: u32 = 0x5f52_5043;

impl Call<'_> {
    fn written(&self) -> Vec<u8> {
        let (call, rpc_version, no_credentials) = (0, 2, [0; 4]);
        let head = words(&[ID, call, rpc_version, self.program, self.version, self.procedure]);
        [head.as_slice(), &words(&no_credentials), self.arguments].concat()
    }
}

fn call_udp(port: u16, call: &Call<'_>) -> Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&call.written())?;
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer)?;
    accepted(&buffer[..length])
}

/// To rpcbind, version 4, as root of this host.
fn call_unix(socket: &Path, procedure: u32, arguments: &[u8]) -> Result<Vec<u8>> {
    /// Enough for the list of a host with hundreds of programs.
    const LIMIT: u32 = 1 << 20;
    const LAST: u32 = 1 << 31;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let message = Call { program: RPCBIND, version: 4, procedure, arguments }.written();
    stream.write_all(&[words(&[LAST | message.len() as u32]), message].concat())?;
    let mut reply = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let length = mark & !LAST;
        if length > LIMIT || reply.len() > LIMIT as usize {
            return Err(garbled());
        }
        let mut part = vec![0; length as usize];
        stream.read_exact(&mut part)?;
        reply.append(&mut part);
        if mark & LAST != 0 {
            return accepted(&reply);
        }
    }
}

/// The result that follows the header of a reply, if the reply is to our call and accepted.
fn accepted(reply: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader(reply);
    let (id, kind, status, _flavour) = (reader.word()?, reader.word()?, reader.word()?, reader.word()?);
    reader.opaque()?;
    let result = reader.word()?;
    if (id, kind, status, result) == (ID, 1, 0, 0) { Ok(reader.0.to_vec()) } else { Err(garbled()) }
}

fn garbled() -> Error {
    Error::new(ErrorKind::InvalidData, "the RPC reply is a rejection or malformed")
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let padding = text.len().next_multiple_of(4) - text.len();
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes(), &[0; 3][..padding]].concat()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Result<u32> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*first))
    }

    fn opaque(&mut self) -> Result<&'a [u8]> {
        let length = self.word()? as usize;
        let padded = length.checked_next_multiple_of(4).filter(|padded| *padded <= self.0.len()).ok_or_else(garbled)?;
        let (bytes, rest) = self.0.split_at(padded);
        self.0 = rest;
        Ok(&bytes[..length])
    }

    fn text(&mut self) -> Result<String> {
        String::from_utf8(self.opaque()?.to_vec()).map_err(|_| garbled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let line =
            Registration { program: 100_024, version: 1, network: "udp".into(), address: "0.0.0.0.3.5".into(), owner: String::new() };
        let bytes = line.written();
        let mut reader = Reader(&bytes);
        assert_eq!((reader.word().unwrap(), reader.word().unwrap()), (100_024, 1));
        assert_eq!(
            (reader.text().unwrap(), reader.text().unwrap(), reader.text().unwrap()),
            ("udp".into(), "0.0.0.0.3.5".into(), String::new())
        );
        assert!(reader.word().is_err());
    }

    #[test]
    fn a_reply_must_be_ours_and_good() {
        let good = words(&[ID, 1, 0, 0, 0, 0, 7]);
        assert_eq!(accepted(&good).unwrap(), words(&[7]));
        for bad in [
            words(&[ID + 1, 1, 0, 0, 0, 0]),
            words(&[ID, 1, 1, 0, 0, 0]),
            words(&[ID, 1, 0, 0, 0, 2]),
            words(&[ID, 1, 0, 0, 400, 0]),
            vec![1, 2],
        ] {
            assert!(accepted(&bad).is_err());
        }
    }
}
