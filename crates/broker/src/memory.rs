//! In: addresses in the client's memory. Out: a copy of the arguments, made once.
//!
//! A client may have mapped a file of any filesystem that it sees, and a page fault on it waits for its server, possibly forever. So the
//! copy is made by a process that can be abandoned (`sys::bounded_call`): neither the deadline nor a signal waits for it.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

/// Time limit for reading a service's memory: it sees no filesystem but its sandbox's.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The memory of a thread that waits for our answer.
#[derive(Debug)]
pub struct Memory {
    tid: i32,
    deadline: Instant,
}

impl Memory {
    /// The caller must check that the thread still waits after the last copy: only then was it this thread's memory.
    pub fn of(tid: i32, deadline: Instant) -> Self {
        Self { tid, deadline }
    }

    /// NUL-terminated strings of less than `limit` bytes, without their terminators. `Err`: none could be copied.
    pub fn strings<const N: usize>(&self, addresses: [u64; N], limit: usize) -> Result<[Result<Vec<u8>, Errno>; N], Errno> {
        arrived(bounded_call::strings_of(self.tid, addresses, limit, self.deadline))
    }

    /// Exactly `length` bytes.
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        arrived(bounded_call::bytes_of(self.tid, address, length, self.deadline))
    }
}

fn arrived<T>(call: Bounded<T>) -> Result<T, Errno> {
    match call {
        Bounded::Done(value) => Ok(value),
        // Root may read every process's memory, unless the kernel forbids it to all (kernel.yama.ptrace_scope=3).
        Bounded::Failed(error) if matches!(error.errno(), Errno::PERM | Errno::ACCESS) => Err(Errno::ACCESS),
        Bounded::Failed(_) => Err(Errno::FAULT),
        Bounded::TimedOut => Err(Errno::TIMEDOUT),
    }
}
