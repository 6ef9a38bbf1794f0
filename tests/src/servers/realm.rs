//! A Kerberos realm on the machine of the NFS server (realm.sh): Debian's krb5-kdc, a key for the server, and one for the test's host.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::servers::nfsd::{self, Nfsd};

/// The server's name there.
pub const SERVER: &str = "server.shorefast.test";
const CLIENT: &str = "client.shorefast.test";

pub const PROFILE: &str = "/etc/krb5.conf";
pub const KEYTAB: &str = "/etc/krb5.keytab";

#[derive(Debug)]
pub struct Realm {
    pub server: Nfsd,
    directory: PathBuf,
}

impl Realm {
    pub fn start(host: &Host) -> Self {
        let directory = host.directory("realm");
        leave();
        let server = Nfsd::start_in_realm(host, &directory);
        let name = rustix::system::uname();
        let hosts =
            format!("127.0.0.1 localhost\n{} {SERVER}\n{} {CLIENT} {}\n", nfsd::ADDRESS, nfsd::CLIENT, name.nodename().to_string_lossy());
        fs::write("/etc/hosts", hosts).expect("/etc is the test's own");
        Self { server, directory }
    }

    /// The test's host gets its key. The realm's configuration is in two files, as on some distributions.
    pub fn join(&self) {
        fs::create_dir_all("/etc/krb5.conf.d").expect("/etc is the test's own");
        fs::copy(self.directory.join("krb5.conf"), "/etc/krb5.conf.d/realm.conf").expect("/etc is the test's own");
        fs::write(PROFILE, "includedir /etc/krb5.conf.d\n").expect("/etc is the test's own");
        fs::write(KEYTAB, self.keytab()).expect("/etc is the test's own");
        fs::set_permissions(KEYTAB, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("/etc is the test's own");
    }

    fn keytab(&self) -> Vec<u8> {
        fs::read(self.directory.join("client.keytab")).expect("the realm has keys")
    }

    /// The keys that only rpc.gssd may see.
    pub fn key(&self) -> Vec<u8> {
        // The key of 32 bytes is followed by its version, in 4 bytes.
        let keytab = self.keytab();
        keytab[keytab.len() - 36..keytab.len() - 4].to_vec()
    }
}

/// The machine's own configuration, if it has one.
pub fn leave() {
    for path in [PROFILE, KEYTAB].map(Path::new) {
        if path.exists() {
            fs::remove_file(path).expect("/etc is the test's own");
        }
    }
}
