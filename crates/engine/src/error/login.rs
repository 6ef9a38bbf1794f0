//! In: what a client said last. Out: whether its server refused the login. Clients exit with the same status whatever the reason is, so that only
//! their words tell, and callers that try again (kubelet) should know that this needs a person. A client that says so without need is told the same.

use shorefast_broker as broker;

use crate::error::Diagnostics;

/// In small letters, each with whose words they are.
const REFUSED: [&str; 26] = [
    // ssh, and so sshfs: with the methods that were tried. Without them it may be a file.
    "permission denied (publickey",
    "permission denied (password",
    "permission denied (keyboard-interactive",
    "permission denied (gssapi",
    "permission denied (hostbased",
    "permission denied, please try again",
    "too many authentication failures",
    // mount.cifs: EACCES, ENOKEY, EKEYEXPIRED, EKEYREVOKED, EKEYREJECTED.
    "mount error(13)",
    "mount error(126)",
    "mount error(127)",
    "mount error(128)",
    "mount error(129)",
    // Samba.
    "logon_failure",
    // mount.ceph, ceph-fuse.
    "mount error 13 = permission denied",
    "mount failed with (13) permission denied",
    "handle_auth_bad_method",
    // s3fs, rclone and other clients of S3.
    "invalid credentials",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "establish security credentials",
    // rclone.
    "ssh: unable to authenticate",
    "invalid_grant",
    // davfs2, and what HTTP servers say.
    "could not authenticate to server",
    "401 unauthorized",
    // FTP.
    "access denied: 530",
    // GlusterFS and others.
    "authentication failed",
];

impl Diagnostics {
    pub(crate) fn is_login_refused(&self) -> bool {
        // What a rule of ours forbade never reached the server.
        let is_ours = self.refused.iter().any(|refusal| matches!(refusal.by, broker::By::Policy(_)));
        !is_ours && self.helper.iter().any(|line| is_refusal(line))
    }
}

fn is_refusal(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    REFUSED.iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Failure, Kind};

    #[test]
    fn a_refused_login_is_told_from_other_failures() {
        let rows = [
            ("root@127.0.0.1: Permission denied (publickey).", true),
            ("me@host: Permission denied (publickey,password,keyboard-interactive).", true),
            ("Permission denied, please try again.", true),
            ("mount error(13): Permission denied", true),
            ("mount error(126): Required key not available", true),
            ("mount error(2): No such file or directory", false),
            ("mount error(112): Host is down", false),
            ("mount error 13 = Permission denied", true),
            ("ceph mount failed with (13) Permission denied", true),
            ("s3fs: invalid credentials(host=http://127.0.0.1:9000) - result of checking service.", true),
            ("s3fs: could not determine how to establish security credentials.", true),
            ("NT_STATUS_LOGON_FAILURE", true),
            ("couldn't connect SSH: ssh: handshake failed: ssh: unable to authenticate, attempted methods [none password]", true),
            ("Could not authenticate to server: rejected Basic challenge", true),
            ("fuse: failed to open /dev/fuse: Permission denied", false),
            ("open(\"x\"): Permission denied (os error 13)", false),
            ("read: Connection reset by peer", false),
            ("Host key verification failed.", false),
            ("ssh: connect to host 127.0.0.1 port 2222: Connection refused", false),
        ];
        for (line, is_refused) in rows {
            let said = || Diagnostics { helper: vec![line.to_owned(), "another line".to_owned()], refused: Vec::new() };
            let of_helper = Failure::from(&Error::Helper { status: "exit status 1".to_owned(), code: Some(1), said: said() });
            let of_daemon = Failure::from(&Error::ClientEnded { said: said() });
            let expected = if is_refused { [Kind::Credentials; 2] } else { [Kind::Client, Kind::Unavailable] };
            assert_eq!([of_helper.kind, of_daemon.kind], expected, "{line}");
            assert_eq!(of_helper.hint.is_some_and(|hint| hint.contains("login")), is_refused, "{line}");
            assert!(of_helper.helper[0] == line, "{line}");
        }
    }
}
