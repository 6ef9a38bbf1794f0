//! How a client ended: the same for a crash, for an unmount, and for the story of a mount that is gone.

use std::fmt;

use serde::{Deserialize, Serialize};
use shorefast_sandbox::cgroup::OutOfMemory;

use crate::wait_status::WaitStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientEnd {
    /// Of the process that served the mount. `None`: all processes of its sandbox were killed, and nobody saw how.
    pub status: Option<WaitStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

impl ClientEnd {
    /// A client that ended by itself, or by a signal other than SIGKILL, was not killed for want of memory: another process of its sandbox was.
    pub fn new(status: Option<WaitStatus>, out_of_memory: Option<OutOfMemory>) -> Self {
        let may_be = status.is_none_or(|status| status.signal() == Some(libc::SIGKILL));
        Self { status, out_of_memory: out_of_memory.filter(|_| may_be) }
    }

    /// `ends_with`: exit statuses other than 0 with which the client ends when all is well.
    pub fn is_well(&self, ends_with: &[i32]) -> bool {
        self.status.is_some_and(|status| status.is_success() || status.code().is_some_and(|code| ends_with.contains(&code)))
    }
}

impl fmt::Display for ClientEnd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(out, "{status}")?,
            None => write!(out, "killed with its sandbox")?,
        }
        match self.out_of_memory {
            Some(OutOfMemory { limit_bytes: Some(limit) }) => write!(out, ": out of memory, of which it may use {} MiB", limit >> 20),
            Some(OutOfMemory { limit_bytes: None }) => write!(out, ": the host was out of memory"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_how_and_why() {
        let limited = Some(OutOfMemory { limit_bytes: Some(64 << 20) });
        let rows = [
            (Some(0), None, "exit status 0", true),
            (Some(0x300), None, "exit status 3", true),
            (Some(0x100), None, "exit status 1", false),
            (Some(9), None, "killed by signal 9", false),
            (Some(9), limited, "killed by signal 9: out of memory, of which it may use 64 MiB", false),
            (Some(9), Some(OutOfMemory { limit_bytes: None }), "killed by signal 9: the host was out of memory", false),
            (None, limited, "killed with its sandbox: out of memory, of which it may use 64 MiB", false),
            // Another of its processes was killed for it.
            (Some(0x100), limited, "exit status 1", false),
            (Some(6), limited, "killed by signal 6", false),
        ];
        for (status, out_of_memory, text, is_well) in rows {
            let end = ClientEnd::new(status.map(WaitStatus), out_of_memory);
            assert_eq!((end.to_string().as_str(), end.is_well(&[3])), (text, is_well));
        }
    }

    #[test]
    fn ends_of_earlier_builds_are_read() {
        let end: ClientEnd = serde_json::from_str("{\"status\":9}").unwrap();
        assert_eq!(end, ClientEnd { status: Some(WaitStatus(9)), out_of_memory: None });
        assert_eq!(serde_json::to_string(&end).unwrap(), "{\"status\":9}");
    }
}
