//! How a process ended, for a message.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// `None`: killed by a signal.
    pub fn code(self) -> Option<i32> {
        libc::WIFEXITED(self.0).then(|| libc::WEXITSTATUS(self.0))
    }

    pub fn signal(self) -> Option<i32> {
        libc::WIFSIGNALED(self.0).then(|| libc::WTERMSIG(self.0))
    }

    pub fn is_success(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for WaitStatus {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code() {
            Some(code) => write!(out, "exit status {code}"),
            None => write!(out, "killed by signal {}", libc::WTERMSIG(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_how_it_ended() {
        let shown = [0, 0x100, 0x2000, 9].map(|status| WaitStatus(status).to_string());
        assert_eq!(shown, ["exit status 0", "exit status 1", "exit status 32", "killed by signal 9"]);
        assert!(WaitStatus(0).is_success() && !WaitStatus(9).is_success() && !WaitStatus(0x100).is_success());
    }
}
