//! In: a notification and a copy of the client's memory. Out: a decoded mount(2) or umount2(2) call.

use rustix::io::Errno;
use shorefast_sys::seccomp::Notification;

use crate::error::Refusal;
use crate::memory::Memory;

/// The kernel's limits: PATH_MAX for strings, one page for data.
const LIMIT: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Mount(MountCall),
    Umount { target: Vec<u8>, flags: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountCall {
    pub source: Vec<u8>,
    pub target: Vec<u8>,
    pub fstype: String,
    pub flags: u64,
    pub data: Vec<u8>,
}

pub fn decode(notification: &Notification, memory: &Memory) -> Result<Call, Refusal> {
    let [first, second, third, fourth, fifth, _] = notification.arguments;
    match notification.number {
        libc::SYS_mount => {
            let [source, target, fstype, data] = copy(memory, [first, second, third, fifth])?;
            let (source, target, fstype, data) = (optional(first, source)?, target?, optional(third, fstype)?, optional(fifth, data)?);
            let fstype = String::from_utf8(fstype);
            let fstype = fstype.map_err(|_| Refusal::policy(Errno::NODEV, "the filesystem type is not text"))?;
            Ok(Call::Mount(MountCall { source, target, fstype, flags: fourth, data }))
        }
        libc::SYS_umount2 => {
            let [target] = copy(memory, [first])?;
            Ok(Call::Umount { target: target?, flags: second })
        }
        number => Err(Refusal::policy(Errno::NOSYS, format!("system call {number} is not brokered"))),
    }
}

fn copy<const N: usize>(memory: &Memory, addresses: [u64; N]) -> Result<[Result<Vec<u8>, Refusal>; N], Refusal> {
    let strings = memory.strings(addresses, LIMIT).map_err(unreadable)?;
    Ok(strings.map(|string| string.map_err(unreadable)))
}

/// A NULL pointer is an empty string.
fn optional(address: u64, string: Result<Vec<u8>, Refusal>) -> Result<Vec<u8>, Refusal> {
    if address == 0 { Ok(Vec::new()) } else { string }
}

fn unreadable(errno: Errno) -> Refusal {
    if errno == Errno::TIMEDOUT {
        return Refusal::policy(errno, "the client's arguments are in memory that could not be read in time");
    }
    if errno == Errno::ACCESS {
        return Refusal::no_tracing();
    }
    Refusal::policy(errno, "the client passed a pointer that cannot be read as a string")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn notification(number: libc::c_long, arguments: [u64; 6]) -> Notification {
        Notification { id: 1, tid: 1, number, arguments }
    }

    fn decode_own(number: libc::c_long, arguments: [u64; 6]) -> Result<Call, Refusal> {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        decode(&notification(number, arguments), &Memory::of(std::process::id() as i32, deadline))
    }

    fn at(text: &CStr) -> u64 {
        text.as_ptr() as u64
    }

    #[test]
    fn decodes_a_mount_without_source_and_data() {
        let call = decode_own(libc::SYS_mount, [0, at(c"/mnt"), at(c"tmpfs"), 7, 0, 0]).unwrap();
        let expected = MountCall { source: vec![], target: b"/mnt".to_vec(), fstype: "tmpfs".into(), flags: 7, data: vec![] };
        assert_eq!(call, Call::Mount(expected));
    }

    #[test]
    fn refuses_bad_pointers_and_other_calls() {
        assert_eq!(decode_own(libc::SYS_mount, [0, 1, 0, 0, 0, 0]).unwrap_err().errno, Errno::FAULT);
        assert_eq!(decode_own(libc::SYS_mount, [0, at(c"/"), at(c"\xff"), 0, 0, 0]).unwrap_err().errno, Errno::NODEV);
        assert_eq!(decode_own(libc::SYS_reboot, [0; 6]).unwrap_err().errno, Errno::NOSYS);
    }
}
