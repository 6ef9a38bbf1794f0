//! Copying arguments out of the client's memory, once.

use rustix::io::Errno;
use shorefast_sys as sys;

const PAGE: u64 = 4096;

/// The memory of a thread that waits for our answer.
#[derive(Debug)]
pub struct Memory {
    tid: i32,
}

impl Memory {
    /// The caller must check that the thread still waits after the last copy: only then was it
    /// this thread's memory.
    pub fn of(tid: i32) -> Self {
        Self { tid }
    }

    /// A NUL-terminated string of less than `limit` bytes, without its terminator.
    pub fn string(&self, address: u64, limit: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            let at = address.checked_add(bytes.len() as u64).ok_or(Errno::FAULT)?;
            // Page by page: the next one may not be mapped, and need not be.
            let mut page = [0u8; PAGE as usize];
            let wanted = (PAGE - at % PAGE).min((limit - bytes.len()) as u64) as usize;
            let part = &mut page[..wanted];
            sys::process::read_memory(self.tid, at, part).map_err(|_| Errno::FAULT)?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                bytes.extend_from_slice(&part[..end]);
                return Ok(bytes);
            }
            bytes.extend_from_slice(part);
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Exactly as many bytes.
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        sys::process::read_memory(self.tid, address, &mut bytes).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Like [`Memory::string`]; a NULL pointer is `None`.
    pub fn optional_string(&self, address: u64, limit: usize) -> Result<Option<Vec<u8>>, Errno> {
        if address == 0 { Ok(None) } else { self.string(address, limit).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Memory {
        Memory::of(std::process::id() as i32)
    }

    #[test]
    fn copies_a_string_that_spans_pages() {
        let text = std::ffi::CString::new(vec![b'x'; 3 * PAGE as usize]).unwrap();
        let copy = own().string(text.as_ptr() as u64, 4 * PAGE as usize).unwrap();
        assert_eq!(copy, text.as_bytes());
    }

    #[test]
    fn refuses_what_is_too_long_or_not_there() {
        let text = c"0123456789";
        assert_eq!(own().string(text.as_ptr() as u64, 10), Err(Errno::NAMETOOLONG));
        assert_eq!(own().string(8, 10), Err(Errno::FAULT));
        assert_eq!(own().string(u64::MAX - 2, 10), Err(Errno::FAULT));
        assert_eq!(own().optional_string(0, 10), Ok(None));
    }
}
