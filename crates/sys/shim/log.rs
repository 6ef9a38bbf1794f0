//! The ring file of the client's output (`sys::ring` reads it). In: the pipe that the client prints to, and /dev/log. Out: the newest 64 KiB of both, in
//! the order in which they came. The client writes them, and anything else that it likes: they are bytes for whoever reads the log.

use crate::kernel::{EAGAIN, nr, read, syscall};
use crate::{OUTPUT, RING, SYSLOG};

/// Must agree with `sys::ring`.
const RING_HEADER: u64 = 8;
const RING_BYTES: u64 = 64 * 1024;
const ENDED_SHIFT: u32 = 48;
const MARKS: u64 = 256 * 1024;
const MARK_COUNT: u64 = 256;

/// The longest message of syslog(3): the rest is left out.
const LONGEST: usize = 1024;
/// How many messages of one second go into the ring: its 64 KiB are for the client's output, too.
const MESSAGES_PER_SECOND: u32 = 200;
/// How many are read before this process looks at anything else.
const MESSAGES_AT_ONCE: u32 = 512;
const LEFT_OUT: &[u8] = b"(more than 200 messages to syslog in one second: the rest is left out)\n";

/// What is written to the ring file.
pub(crate) struct Log {
    /// Bytes so far; the upper bits are the server's end.
    total: u64,
    /// The second of the newest mark, and how many there were.
    marked: u64,
    marks: u64,
    /// Whether the newest byte is not the end of a line.
    is_within_a_line: bool,
    /// Messages of syslog(3) in the second `counted`.
    messages: u32,
    counted: u64,
}

impl Log {
    pub(crate) const fn empty() -> Self {
        Self { total: 0, marked: 0, marks: 0, is_within_a_line: false, messages: 0, counted: 0 }
    }

    /// `status`: how the process ended that served the mount.
    pub(crate) fn ended(&mut self, status: i32) {
        // A multiple of the ring's size: it does not change where the next byte goes.
        self.total |= ((status as u64 + 1) & 0xffff) << ENDED_SHIFT;
        self.write_header();
    }

    fn write_header(&self) {
        write_at(&raw const self.total as usize, 8, 0);
    }

    /// For each second in which something is written: when, and what there was before.
    fn mark(&mut self, second: u64) {
        if second != self.marked {
            let mark = [second, self.total & ((1 << ENDED_SHIFT) - 1)];
            write_at(mark.as_ptr() as usize, 16, MARKS + self.marks % MARK_COUNT * 16);
            self.marked = second;
            self.marks += 1;
        }
    }

    fn add(&mut self, bytes: &[u8], second: u64) {
        let Some(last) = bytes.last() else { return };
        self.is_within_a_line = *last != b'\n';
        self.mark(second);
        let mut done = 0u64;
        while done < bytes.len() as u64 {
            let at = (self.total + done) % RING_BYTES;
            let part = (bytes.len() as u64 - done).min(RING_BYTES - at);
            write_at(bytes.as_ptr() as usize + done as usize, part as usize, RING_HEADER + at);
            done += part;
        }
        self.total += done;
        self.write_header();
    }

    /// A line of its own for each message.
    fn add_message(&mut self, message: &[u8]) {
        let second = now();
        if second != self.counted {
            (self.messages, self.counted) = (0, second);
        }
        self.messages = self.messages.saturating_add(1);
        if self.messages > MESSAGES_PER_SECOND + 1 {
            return;
        }
        if self.is_within_a_line {
            self.add(b"\n", second);
        }
        if self.messages > MESSAGES_PER_SECOND {
            return self.add(LEFT_OUT, second);
        }
        self.add(message, second);
        self.add(b"\n", second);
    }
}

fn now() -> u64 {
    const CLOCK_REALTIME: usize = 0;
    let mut now = [0u64; 2];
    syscall(nr::CLOCK_GETTIME, [CLOCK_REALTIME, now.as_mut_ptr() as usize, 0, 0, 0, 0]);
    // SAFETY: a live local; volatile, because the compiler does not know that the kernel wrote to it.
    unsafe { core::ptr::read_volatile(now.as_ptr()) }
}

fn write_at(from: usize, length: usize, at: u64) {
    syscall(nr::PWRITE64, [RING as usize, from, length, at as usize, 0, 0]);
}

/// Copies the pipe's contents into the ring. True: end of file, no writer is left.
pub(crate) fn copy_output(log: &mut Log) -> bool {
    let mut buffer = [0u8; 1024];
    loop {
        let n = read(OUTPUT, &mut buffer);
        if n <= 0 {
            return n == 0;
        }
        let Some(bytes) = buffer.get(..n as usize) else { return true };
        log.add(bytes, now());
    }
}

pub(crate) fn copy_last_words(log: &mut Log) {
    copy_output(log);
    copy_messages(log);
}

/// Copies some of the messages that wait at /dev/log into the ring. read(2) drops descriptors that come with them. An empty one is not
/// the end of anything. False: there is no such socket.
pub(crate) fn copy_messages(log: &mut Log) -> bool {
    let mut buffer = [0u8; LONGEST];
    for _ in 0..MESSAGES_AT_ONCE {
        let n = read(SYSLOG, &mut buffer);
        if n < 0 {
            return n == EAGAIN;
        }
        let message = buffer.get(..n as usize).unwrap_or_default();
        log.add_message(without_end(without_priority(message)));
    }
    true
}

/// syslog(3) puts facility and level before what was said, as in `<30>`.
fn without_priority(message: &[u8]) -> &[u8] {
    let [b'<', rest @ ..] = message else { return message };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits..) {
        Some([b'>', said @ ..]) if (1..=3).contains(&digits) => said,
        _ => message,
    }
}

/// C libraries end messages with a line break, with NUL, or with nothing.
fn without_end(mut message: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | 0] = message {
        message = rest;
    }
    message
}
