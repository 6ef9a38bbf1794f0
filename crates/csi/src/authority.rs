//! A filter on an accepted HTTP/2 connection. gRPC clients from before 2022 (kubelet before 1.26) and some of today's send the socket's path
//! as `:authority`, which no authority may look like, and the h2 crate resets such requests. In: the bytes of a client. Out: the same, but
//! every block of headers is written anew, with `localhost` for the authority, and in a form that needs no table of earlier ones.
//!
//! The client may be anybody who can open the socket: sizes are bounded, and what we do not understand ends the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use loona_hpack::Decoder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
/// Nobody may send larger frames unless we allow it, which we do not.
const FRAME: usize = 16 << 10;
/// All frames of one block of headers together.
const BLOCK: usize = 16 << 10;
/// The same decoded: references to the table may make it larger.
const HEADERS: usize = 64 << 10;
/// HTTP/2's default size of that table; we do not change it.
const TABLE: usize = 4096;

const TYPE_HEADERS: u8 = 1;
const TYPE_PUSH_PROMISE: u8 = 5;
const TYPE_CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Bytes in, bytes out; knows nothing of connections.
pub struct Filter {
    preface_left: usize,
    decoder: Decoder<'static>,
    /// A block of headers that has begun.
    block: Option<Block>,
}

struct Block {
    stream: u32,
    end_stream: u8,
    bytes: BytesMut,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Filter").finish_non_exhaustive()
    }
}

impl Default for Filter {
    fn default() -> Self {
        let mut decoder = Decoder::new();
        decoder.set_max_allowed_table_size(TABLE);
        Self { preface_left: PREFACE, decoder, block: None }
    }
}

impl Filter {
    /// Moves everything that is complete from `input` to `output`.
    pub fn pass(&mut self, input: &mut BytesMut, output: &mut BytesMut) -> io::Result<()> {
        let preface = self.preface_left.min(input.len());
        output.extend_from_slice(&input.split_to(preface));
        self.preface_left -= preface;
        while self.preface_left == 0
            && let Some((head, payload)) = take_frame(input)?
        {
            self.frame(head, payload, output)?;
        }
        Ok(())
    }

    fn frame(&mut self, head: Head, payload: BytesMut, output: &mut BytesMut) -> io::Result<()> {
        match (head.kind, self.block.take()) {
            (TYPE_HEADERS, None) => self.fragment(
                Block { stream: head.stream, end_stream: head.flags & END_STREAM, bytes: BytesMut::new() },
                &headers_of(&head, payload)?,
                head.flags,
                output,
            ),
            (TYPE_CONTINUATION, Some(block)) if block.stream == head.stream => self.fragment(block, &payload, head.flags, output),
            // Between the frames of a block there are no others. A client never promises.
            (_, Some(_)) | (TYPE_CONTINUATION | TYPE_PUSH_PROMISE, None) => Err(malformed("frames in the wrong order")),
            (_, None) => {
                write_head(output, head, payload.len());
                output.extend_from_slice(&payload);
                Ok(())
            }
        }
    }

    fn fragment(&mut self, mut block: Block, bytes: &[u8], flags: u8, output: &mut BytesMut) -> io::Result<()> {
        if block.bytes.len() + bytes.len() > BLOCK {
            return Err(malformed("too many headers"));
        }
        block.bytes.extend_from_slice(bytes);
        if flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(());
        }
        let headers = self.rewrite(&block.bytes)?;
        write_headers(&block, &headers, output);
        Ok(())
    }

    /// The block again, each header as a literal.
    fn rewrite(&mut self, block: &[u8]) -> io::Result<BytesMut> {
        let mut headers = BytesMut::new();
        let decoded = self.decoder.decode_with_cb(block, |name, value| {
            if headers.len() <= HEADERS {
                let value = if &*name == b":authority" { &b"localhost"[..] } else { &value[..] };
                // A literal that is not to be remembered, with its name.
                headers.put_u8(0);
                put_text(&mut headers, &name);
                put_text(&mut headers, value);
            }
        });
        decoded.map_err(|_| malformed("headers that cannot be decoded"))?;
        if headers.len() > HEADERS { Err(malformed("too many headers")) } else { Ok(headers) }
    }
}

#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// `None`: not complete yet.
fn take_frame(input: &mut BytesMut) -> io::Result<Option<(Head, BytesMut)>> {
    let Some(head) = input.get(..FRAME_HEAD) else { return Ok(None) };
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    if length > FRAME {
        return Err(malformed("a frame that is too large"));
    }
    if input.len() < FRAME_HEAD + length {
        return Ok(None);
    }
    let (kind, flags) = (head[3], head[4]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    input.advance(FRAME_HEAD);
    Ok(Some((Head { kind, flags, stream }, input.split_to(length))))
}

/// Without padding and priority.
fn headers_of(head: &Head, mut payload: BytesMut) -> io::Result<BytesMut> {
    let short = || malformed("a frame that is too short");
    let mut padding = 0;
    if head.flags & PADDED != 0 {
        padding = usize::from(payload.try_get_u8().map_err(|_| short())?);
    }
    if head.flags & PRIORITY != 0 {
        if payload.len() < 5 {
            return Err(short());
        }
        payload.advance(5);
    }
    let length = payload.len().checked_sub(padding).ok_or_else(short)?;
    payload.truncate(length);
    Ok(payload)
}

fn write_headers(block: &Block, headers: &[u8], output: &mut BytesMut) {
    let mut chunks = headers.chunks(FRAME).peekable();
    let mut kind = TYPE_HEADERS;
    let mut flags = block.end_stream;
    loop {
        let chunk = chunks.next().unwrap_or_default();
        let is_last = chunks.peek().is_none();
        flags |= if is_last { END_HEADERS } else { 0 };
        write_head(output, Head { kind, flags, stream: block.stream }, chunk.len());
        output.extend_from_slice(chunk);
        if is_last {
            return;
        }
        (kind, flags) = (TYPE_CONTINUATION, 0);
    }
}

fn write_head(output: &mut BytesMut, head: Head, length: usize) {
    output.put_uint(length as u64, 3);
    output.put_u8(head.kind);
    output.put_u8(head.flags);
    output.put_u32(head.stream);
}

/// HPACK's string without Huffman's code: its length in seven bits and as many bytes as it takes, then itself.
fn put_text(output: &mut BytesMut, text: &[u8]) {
    const PREFIX: usize = 0x7f;
    if text.len() < PREFIX {
        output.put_u8(text.len() as u8);
    } else {
        output.put_u8(PREFIX as u8);
        let mut rest = text.len() - PREFIX;
        while rest >= 0x80 {
            output.put_u8(rest as u8 & 0x7f | 0x80);
            rest >>= 7;
        }
        output.put_u8(rest as u8);
    }
    output.extend_from_slice(text);
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A connection, read through a [`Filter`].
#[derive(Debug)]
pub struct Filtered<S> {
    connection: S,
    filter: Filter,
    input: BytesMut,
    output: BytesMut,
}

impl<S> Filtered<S> {
    pub fn new(connection: S) -> Self {
        Self { connection, filter: Filter::default(), input: BytesMut::new(), output: BytesMut::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Filtered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.output.is_empty() {
            let mut chunk = [0; 4096];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.connection).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.input.extend_from_slice(read.filled());
            this.filter.pass(&mut this.input, &mut this.output)?;
        }
        let count = this.output.len().min(buffer.remaining());
        buffer.put_slice(&this.output.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Filtered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        write_head(&mut out, Head { kind, flags, stream }, payload.len());
        out.extend_from_slice(payload);
        out.to_vec()
    }

    /// Everything at once, or byte by byte.
    fn passed(bytes: &[u8], at_once: usize) -> io::Result<Vec<(u8, u8, Vec<u8>)>> {
        let (mut filter, mut input, mut output) = (Filter::default(), BytesMut::new(), BytesMut::new());
        for chunk in [&[b'P'; PREFACE][..], bytes].concat().chunks(at_once) {
            input.extend_from_slice(chunk);
            filter.pass(&mut input, &mut output)?;
        }
        assert_eq!(&output.split_to(PREFACE)[..], [b'P'; PREFACE]);
        let mut frames = Vec::new();
        while let Some((head, payload)) = take_frame(&mut output).unwrap() {
            frames.push((head.kind, head.flags, payload.to_vec()));
        }
        Ok(frames)
    }

    fn decoded(payload: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Decoder::new().decode(payload).unwrap().into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    const AUTHORITY: u8 = 1;

    /// `:authority` by its number in HPACK's table, remembered for later; then by that memory.
    #[test]
    fn the_authority_is_replaced_wherever_it_comes_from() {
        let path = b"/var/lib/kubelet/plugins/x.sock";
        let first = [&[0x40 | AUTHORITY, path.len() as u8][..], path, &[0x83]].concat();
        let padded = [&[3, 0, 0, 0, 0, 0][..], &first, &[0; 3]].concat();
        let bytes = [
            frame(TYPE_HEADERS, END_HEADERS | PADDED | PRIORITY, 1, &padded),
            frame(0, 1, 1, b"data"),
            frame(TYPE_HEADERS, END_STREAM, 3, &[]),
            frame(TYPE_CONTINUATION, END_HEADERS, 3, &[0x80 | 62]),
        ]
        .concat();
        for at_once in [1, 7, bytes.len() + PREFACE] {
            let frames = passed(&bytes, at_once).unwrap();
            assert_eq!(frames.len(), 3);
            let local = (":authority".to_owned(), "localhost".to_owned());
            assert_eq!((frames[0].0, frames[0].1), (TYPE_HEADERS, END_HEADERS));
            assert_eq!(decoded(&frames[0].2), [local.clone(), (":method".to_owned(), "POST".to_owned())]);
            assert_eq!(frames[1], (0, 1, b"data".to_vec()));
            assert_eq!((frames[2].0, frames[2].1), (TYPE_HEADERS, END_HEADERS | END_STREAM));
            assert_eq!(decoded(&frames[2].2), [local]);
        }
    }

    #[test]
    fn long_values_arrive_whole() {
        for length in [126, 127, 128, 300, 9000] {
            let value = "v".repeat(length);
            let mut block = BytesMut::new();
            block.put_u8(0);
            put_text(&mut block, b"name");
            put_text(&mut block, value.as_bytes());
            let frames = passed(&frame(TYPE_HEADERS, END_HEADERS, 1, &block), 100).unwrap();
            assert_eq!(decoded(&frames[0].2), [("name".to_owned(), value)]);
        }
    }

    #[test]
    fn what_is_wrong_ends_the_connection() {
        let bomb = {
            let mut block = BytesMut::new();
            block.put_u8(0x40);
            put_text(&mut block, b"n");
            put_text(&mut block, &[b'v'; 3900]);
            block.extend_from_slice(&[0x80 | 62; 8000]);
            block
        };
        let rows: [(&str, Vec<u8>); 8] = [
            ("a large frame", frame(0, 0, 1, &[0; FRAME + 1])),
            ("a promise", frame(TYPE_PUSH_PROMISE, END_HEADERS, 1, &[])),
            ("a continuation of nothing", frame(TYPE_CONTINUATION, END_HEADERS, 1, &[])),
            ("data among headers", [frame(TYPE_HEADERS, 0, 1, &[0x83]), frame(0, 0, 1, &[])].concat()),
            ("another stream's continuation", [frame(TYPE_HEADERS, 0, 1, &[]), frame(TYPE_CONTINUATION, 4, 3, &[])].concat()),
            ("more padding than frame", frame(TYPE_HEADERS, END_HEADERS | PADDED, 1, &[9, 0])),
            ("a table that is too large", frame(TYPE_HEADERS, END_HEADERS, 1, &[0x3f, 0xff, 0xff, 0x03, 0x83])),
            ("a block that grows", frame(TYPE_HEADERS, END_HEADERS, 1, &bomb)),
        ];
        for (name, bytes) in rows {
            assert!(passed(&bytes, bytes.len() + PREFACE).is_err(), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes: Vec<u8>, kind in 0u8..10, flags: u8) {
            let whole = [frame(kind, flags, 1, &bytes), frame(TYPE_CONTINUATION, END_HEADERS, 1, &bytes), bytes.clone()].concat();
            if let Ok(frames) = passed(&whole, 13) {
                proptest::prop_assert!(frames.iter().map(|frame| frame.2.len()).sum::<usize>() <= HEADERS * 3);
            }
        }
    }
}
