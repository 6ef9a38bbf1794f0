//! In: the options that a client passes to a kernel filesystem. Out: allowed or refused. Unknown options are refused.
//!
//! The kernel acts on options with full privilege: it connects to sockets of the host, uses keys of root's keyrings, and labels files. The
//! client may pass on exactly what the caller or the definition asked for. Beyond that it may pass what its helper finds out or chooses by
//! itself: addresses, versions, passwords, sizes and times. A definition can add to that (`kernel_options`), for example for a vendor's
//! filesystem, of which we know nothing.

use rustix::io::Errno;
use serde::Serialize;

use crate::error::{Refusal, Rule};
use crate::options::Item;

/// Options of one filesystem, as a definition lists them: `key`, `key=value`, or the prefix `key*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extra {
    pub fstype: String,
    pub options: Vec<String>,
}

/// The options asked for. Values can be secrets: not shown by Debug.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Asked(pub Vec<Item>);

impl std::fmt::Debug for Asked {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.iter().map(|item| &item.key)).finish()
    }
}

/// The options that a client of one filesystem may pass by itself.
struct Table {
    types: &'static [&'static str],
    /// `key`, or `key=value` for that value alone.
    own: &'static [&'static str],
    /// Refused even if asked for: descriptor numbers would be the broker's.
    never: &'static [&'static str],
    /// Without these the kernel would choose a default among the host's resources.
    required: &'static [&'static str],
}

/// For every filesystem: flags of its superblock.
const GENERIC: &[&str] = &["ro", "rw", "sync", "async", "dirsync", "lazytime", "nolazytime", "silent"];

#[rustfmt::skip]
const TABLES: &[Table] = &[
    Table {
        types: &["nfs", "nfs4"],
        own: &[
            // What mount.nfs finds out.
            "addr", "clientaddr", "mountaddr", "mounthost", "mountport", "mountproto", "mountvers", "port", "proto", "vers", "nfsvers",
            "minorversion", "v3", "v4", "v4.0", "v4.1", "v4.2", "tcp", "udp", "sec=sys", "sec=null", "sec=none",
            // Sizes, times and caches.
            "rsize", "wsize", "bsize", "timeo", "retrans", "retry", "namlen", "acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo", "ac",
            "noac", "cto", "nocto", "lookupcache", "nconnect", "max_connect", "local_lock", "lock", "nolock", "hard", "soft", "softerr",
            "softreval", "nosoftreval", "intr", "nointr", "posix", "noposix", "acl", "noacl", "rdirplus", "nordirplus", "sharecache",
            "nosharecache", "resvport", "noresvport", "migration", "nomigration", "trunkdiscovery", "notrunkdiscovery", "write", "bg", "fg",
            "sloppy", "fatal_neterrors", "alignwrite", "noalignwrite",
        ],
        never: &[],
        required: &[],
    },
    Table {
        types: &["cifs", "smb3"],
        own: &[
            // What mount.cifs finds out, and what it read from files that it was given.
            "ip", "addr", "unc", "prefixpath", "user", "username", "pass", "password", "password2", "domain", "dom", "workgroup", "guest",
            "domainauto", "ver", "vers", "port", "uid", "gid", "servern", "netbiosname", "srcaddr",
            "sec=none", "sec=ntlm", "sec=ntlmi", "sec=ntlmv2", "sec=ntlmv2i", "sec=ntlmssp", "sec=ntlmsspi", "sign", "seal",
            // Sizes, times, caches, and file attributes.
            "file_mode", "dir_mode", "dirmode", "forceuid", "noforceuid", "forcegid", "noforcegid", "perm", "noperm", "dynperm", "nodynperm",
            "rsize", "wsize", "bsize", "rasize", "esize", "actimeo", "acregmax", "acdirmax", "closetimeo", "echo_interval", "cache",
            "handletimeout", "max_credits", "max_channels", "multichannel", "nomultichannel", "retrans", "hard", "nohard", "soft", "nosoft",
            "serverino", "noserverino", "mapchars", "nomapchars", "mapposix", "nomapposix", "user_xattr", "nouser_xattr", "nocase",
            "ignorecase", "brl", "nobrl", "locallease", "nolease", "strictsync", "nostrictsync", "unix", "nounix", "linux", "nolinux", "posix",
            "noposix", "posixpaths", "noposixpaths", "handlecache", "nohandlecache", "nodfs", "noautotune", "noblocksend", "nosparse",
            "unicode", "nounicode", "tcpnodelay", "intr", "nointr", "acl", "noacl", "noac", "sloppy", "sfu", "nosfu", "mfsymlinks",
            "nomfsymlinks", "rwpidforward", "snapshot", "backupuid", "backupgid", "nodelete", "reparse", "symlink", "nativesocket", "nonativesocket",
        ],
        never: &[],
        required: &[],
    },
    Table {
        types: &["ceph"],
        own: &[
            // What mount.ceph finds out, and the key itself. `key` names a key of root's keyring and is not in this list.
            "name", "secret", "mon_addr", "mds_namespace", "fs", "fsid", "ip", "ms_mode", "noshare", "share",
            // Sizes, times and caches.
            "rsize", "wsize", "rasize", "mount_timeout", "caps_max", "caps_wanted_delay_min", "caps_wanted_delay_max", "readdir_max_entries",
            "readdir_max_bytes", "snapdirname", "dirstat", "nodirstat", "rbytes", "norbytes", "asyncreaddir", "noasyncreaddir", "dcache",
            "nodcache", "ino32", "noino32", "poolperm", "nopoolperm", "quotadf", "noquotadf", "copyfrom", "nocopyfrom", "acl", "noacl",
            "recover_session", "wsync", "nowsync", "pagecache", "nopagecache", "sparseread", "nosparseread", "require_active_mds",
            "norequire_active_mds", "osdtimeout", "osdkeepalivetimeout", "osdkeepalive", "osd_idle_ttl", "osd_request_timeout", "crc", "nocrc",
            "cephx_require_signatures", "nocephx_require_signatures", "cephx_sign_messages", "nocephx_sign_messages", "tcp_nodelay",
            "notcp_nodelay", "abort_on_full", "rxbounce",
        ],
        never: &[],
        required: &[],
    },
    Table {
        types: &["9p"],
        // Other transports reach sockets, descriptors and devices of this host.
        own: &[
            "trans=tcp", "port", "version", "msize", "uname", "aname", "access", "cache", "dfltuid", "dfltgid", "noextend", "nodevmap",
            "noxattr", "ignoreqv", "posixacl", "locktimeout",
        ],
        never: &["rfdno", "wfdno", "trans=fd"],
        required: &["trans"],
    },
    Table {
        types: &["tmpfs"],
        own: &["size", "nr_blocks", "nr_inodes", "mode", "huge", "inode32", "inode64", "noswap"],
        never: &[],
        required: &[],
    },
];

/// Judges the options that a client passes to the kernel.
pub fn judge(fstype: &str, items: &[Item], asked: &Asked, extra: &[Extra]) -> Result<(), Refusal> {
    let table = TABLES.iter().find(|table| table.types.contains(&fstype));
    let refuse = |key: &str, why: &str| {
        Err(Refusal::by_rule(Rule::Option, Errno::INVAL, format!("the client may not pass the option {:?} to {fstype}: {why}", short(key))))
    };
    for item in items {
        if item.key.is_empty() || has_control(item.key.as_bytes()) || item.value.as_deref().is_some_and(has_control) {
            return refuse(&item.key, "it is empty or contains control characters");
        }
        if table.is_some_and(|table| is_listed(item, table.never)) {
            return refuse(&item.key, "its value would refer to a resource of this host");
        }
        let own = table.map(|table| table.own).unwrap_or_default();
        let more = extra.iter().filter(|extra| extra.fstype == fstype).flat_map(|extra| &extra.options);
        if !(is_listed(item, GENERIC) || is_listed(item, own) || more.into_iter().any(|one| matches(item, one)) || asked.0.contains(item)) {
            return refuse(&item.key, "neither the caller nor the client's definition asked for it");
        }
    }
    let required = table.map(|table| table.required).unwrap_or_default();
    match required.iter().find(|key| !items.iter().any(|item| item.key == **key)) {
        Some(key) => Err(Refusal::policy(Errno::INVAL, format!("the client passed no option {key:?} to {fstype}"))),
        None => Ok(()),
    }
}

fn is_listed(item: &Item, list: &[&str]) -> bool {
    list.iter().any(|one| matches(item, one))
}

fn matches(item: &Item, one: &str) -> bool {
    match (one.split_once('='), one.strip_suffix('*')) {
        (Some((key, value)), _) => item.key == key && item.value.as_deref() == Some(value.as_bytes()),
        (None, Some(start)) => item.key.starts_with(start),
        (None, None) => item.key == one,
    }
}

/// ASCII control characters and, in valid text, those of Unicode.
pub fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_control) || std::str::from_utf8(bytes).is_ok_and(|text| text.contains(char::is_control))
}

/// Bounds what a client can write into an error.
fn short(key: &str) -> String {
    key.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::split;

    fn judged(fstype: &str, said: &str, asked: &str) -> Result<(), String> {
        let asked = Asked(split(fstype, asked.as_bytes()));
        let extra = [Extra { fstype: "vendorfs".into(), options: ["cfg", "mode=a", "log*"].map(str::to_owned).to_vec() }];
        judge(fstype, &split(fstype, said.as_bytes()), &asked, &extra).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn what_helpers_say_by_themselves() {
        let rows = [
            ("nfs", "vers=4.2,addr=10.0.0.1,clientaddr=10.0.0.2"),
            ("nfs", "addr=10.0.0.1,vers=3,proto=tcp,mountvers=3,mountproto=udp,mountport=20048,nolock"),
            ("cifs", "ip=10.0.0.1,unc=\\\\host\\share,uid=0,gid=0,user=me,pass=a,,b"),
            ("ceph", "name=admin,secret=AQ==,mon_addr=10.0.0.1:6789"),
            ("tmpfs", "size=1m,mode=777"),
            ("9p", "trans=tcp,port=564,version=9p2000.L"),
            ("vendorfs", "cfg=/x,mode=a,loglevel=3,log,ro"),
        ];
        for (fstype, said) in rows {
            assert_eq!(judged(fstype, said, ""), Ok(()), "{fstype} {said}");
        }
    }

    #[test]
    fn what_only_the_caller_may_ask_for() {
        let rows = [
            ("9p", "trans=unix", "trans"),
            ("9p", "trans=virtio", "trans"),
            ("9p", "trans=tcp,debug=4", "debug"),
            ("ceph", "name=a,key=client.admin", "key"),
            ("cifs", "ip=1,cruid=0", "cruid"),
            ("cifs", "ip=1,sec=krb5", "sec"),
            ("cifs", "ip=1,multiuser", "multiuser"),
            ("nfs", "addr=1,sec=krb5p", "sec"),
            ("nfs", "addr=1,fsc=x", "fsc"),
            ("nfs", "addr=1,xprtsec=tls", "xprtsec"),
            ("nfs", "addr=1,context=system_u:object_r:etc_t:s0", "context"),
            ("tmpfs", "rootcontext=a:b", "rootcontext"),
            ("tmpfs", "fscontext=a:b", "fscontext"),
            ("tmpfs", "defcontext=a:b", "defcontext"),
            ("tmpfs", "mpol=bind:1", "mpol"),
            ("tmpfs", "uid=7", "uid"),
            ("tmpfs", "source=/etc", "source"),
            ("vendorfs", "mode=b", "mode"),
            ("otherfs", "anything", "anything"),
        ];
        for (fstype, said, key) in rows {
            let reason = judged(fstype, said, "").unwrap_err();
            assert!(reason.contains(&format!("{key:?}")) && reason.contains(fstype), "{fstype} {said}: {reason}");
            assert_eq!(judged(fstype, said, said), Ok(()), "{fstype} {said}, asked for");
        }
    }

    #[test]
    fn asked_for_means_the_same_value() {
        for (said, asked) in [("trans=unix", "trans=virtio"), ("trans=tcp,debug=1", "debug=2"), ("trans=tcp,debug", "debug=1")] {
            assert!(judged("9p", said, asked).is_err(), "{said}, {asked}");
        }
        assert!(judged("cifs", "cruid=0,sec=krb5", "cruid=1000,sec=krb5").is_err());
        assert_eq!(judged("nfs", "context=a:b,c", "context=\"a:b\",c"), Ok(()));
    }

    #[test]
    fn what_nobody_may_say() {
        for said in [
            "trans=fd,rfdno=1,wfdno=1",
            "trans=tcp,rfdno=3",
            "trans=fd",
            "",
            "port=1",
            "trans=tcp,uname=\u{1b}[2J",
            "trans=tcp,un\name",
            "=x",
        ] {
            assert!(judged("9p", said, said).is_err(), "{said:?}");
        }
        for said in ["size=1\n", "si\u{9b}ze=1", "size=\u{7f}"] {
            assert!(judged("tmpfs", said, said).is_err(), "{said:?}");
        }
    }
}
