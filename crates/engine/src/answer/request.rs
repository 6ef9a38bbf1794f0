//! A request of the FUSE protocol, as far as it matters to one who does not serve files. In: its bytes. Out: the bytes of an answer.

use rustix::io::Errno;

/// What the kernel asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub operation: u32,
    /// The number that its answer has to have.
    pub unique: u64,
    /// The caller's thread, in the pid namespace of who mounted; 0: the kernel itself, or a process that is not seen there.
    pub thread: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nobody waits for one.
    None,
    Done,
    Failed(Errno),
}

/// `struct fuse_in_header`.
const HEADER: usize = 40;
/// With the data of a write: 1 MiB is the most that a client gets unless the administrator allows more.
pub(crate) const USUAL: usize = (1 << 20) + 4096;
/// The most that fs.fuse.max_pages_limit can allow, and more.
pub(crate) const LARGEST: usize = 1 << 29;
/// A notification of no length: `struct fuse_out_header` with FUSE_NOTIFY_RESEND.
pub(crate) const RESEND: [u8; 16] = header(7, 0);

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const RELEASE: u32 = 18;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const NOTIFY_REPLY: u32 = 41;
const BATCH_FORGET: u32 = 42;

const fn header(code: i32, unique: u64) -> [u8; 16] {
    let (length, code, unique) = (16u32.to_ne_bytes(), code.to_ne_bytes(), unique.to_ne_bytes());
    let mut bytes = [0; 16];
    let mut at = 0;
    while at < 16 {
        bytes[at] = match at {
            0..4 => length[at],
            4..8 => code[at - 4],
            _ => unique[at - 8],
        };
        at += 1;
    }
    bytes
}

impl Request {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let narrow = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_ne_bytes(*bytes));
        let wide = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_ne_bytes(*bytes));
        (bytes.len() >= HEADER).then_some(())?;
        Some(Self { operation: narrow(4)?, unique: wide(8)?, thread: narrow(32)? })
    }

    /// The answer of a server that knows nothing any more. A close(2) fails, too: the client may have died with data that it had
    /// acknowledged. (That of RELEASE is not passed on to anybody.)
    ///
    /// A look-up for mkdir, mknod, symlink or link finds nothing instead: the kernel walks the path again only if the request that
    /// follows, which creates, is stale.
    pub(crate) fn as_stale(&self, is_creating: impl FnOnce() -> bool) -> Reply {
        match self.operation {
            FORGET | BATCH_FORGET | INTERRUPT | NOTIFY_REPLY => Reply::None,
            DESTROY | RELEASE | RELEASEDIR => Reply::Done,
            LOOKUP if is_creating() => Reply::Failed(Errno::NOENT),
            _ => Reply::Failed(Errno::STALE),
        }
    }

    pub(crate) fn encode(&self, reply: Reply) -> Option<[u8; 16]> {
        match reply {
            Reply::None => None,
            Reply::Done => Some(header(0, self.unique)),
            Reply::Failed(errno) => Some(header(-errno.raw_os_error(), self.unique)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_answer() {
        let (none, done, stale) = (Reply::None, Reply::Done, Reply::Failed(Errno::STALE));
        let rows = [
            ("LOOKUP", 1, stale),
            ("FORGET", 2, none),
            ("GETATTR", 3, stale),
            ("MKDIR", 9, stale),
            ("READ", 15, stale),
            ("WRITE", 16, stale),
            ("RELEASE", 18, done),
            ("FLUSH", 25, stale),
            ("RELEASEDIR", 29, done),
            ("INTERRUPT", 36, none),
            ("DESTROY", 38, done),
            ("NOTIFY_REPLY", 41, none),
            ("BATCH_FORGET", 42, none),
            ("one of a later kernel", 4000, stale),
        ];
        for (name, operation, expected) in rows {
            let request = Request { operation, unique: 1, thread: 1 };
            assert_eq!(request.as_stale(|| false), expected, "{name}");
            let creating = if operation == LOOKUP { Reply::Failed(Errno::NOENT) } else { expected };
            assert_eq!(request.as_stale(|| true), creating, "{name}, while creating");
        }
    }

    #[test]
    fn a_request_is_read_and_its_answer_has_its_number() {
        let mut bytes = [0u8; HEADER];
        bytes[4..8].copy_from_slice(&9u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&77u64.to_ne_bytes());
        bytes[32..36].copy_from_slice(&4711u32.to_ne_bytes());
        let request = Request::parse(&bytes).unwrap();
        assert_eq!(request, Request { operation: 9, unique: 77, thread: 4711 });
        assert_eq!(Request::parse(&bytes[1..]), None);
        let answer = request.encode(Reply::Failed(Errno::STALE)).unwrap();
        assert_eq!(answer[..4], 16u32.to_ne_bytes());
        assert_eq!(answer[4..8], (-116i32).to_ne_bytes());
        assert_eq!(answer[8..], 77u64.to_ne_bytes());
        assert_eq!(request.encode(Reply::None), None);
    }
}
