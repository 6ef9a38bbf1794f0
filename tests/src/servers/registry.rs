//! An image registry: Debian's docker-registry, as open, as closed and as protected as a test wants it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::Server;
use crate::{Host, command};

pub const USER: &str = "puller";
pub const PASSWORD: &str = "pull:me";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Plain,
    /// With a certificate of a CA that nobody knows: see [`Registry::ca`].
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Anybody,
    /// Only [`USER`] with [`PASSWORD`].
    Login,
}

#[derive(Debug)]
pub struct Registry {
    pub address: SocketAddr,
    pub ca: PathBuf,
    /// Where it keeps everything.
    pub storage: PathBuf,
    access: Access,
    _server: Server,
}

impl Registry {
    pub fn start(host: &Host, port: u16, transport: Transport, access: Access) -> Self {
        let directory = host.directory(format!("registry-{port}"));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let storage = directory.join("storage");
        let mut configuration = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp:\n  addr: {address}\n",
            storage.display()
        );
        if transport == Transport::Tls {
            certify(&directory);
            let path = |name: &str| directory.join(name).display().to_string();
            configuration += &format!("  tls: {{certificate: {}, key: {}}}\n", path("cert.pem"), path("key.pem"));
        }
        if access == Access::Login {
            let line = command::run(&["htpasswd", "-Bbn", USER, PASSWORD]).stdout;
            fs::write(directory.join("htpasswd"), line).expect("cannot write the password file");
            configuration += &format!("auth: {{htpasswd: {{realm: tests, path: {}}}}}\n", directory.join("htpasswd").display());
        }
        let file = directory.join("config.yml");
        fs::write(&file, configuration).expect("cannot write the registry's configuration");
        let file = file.to_str().expect("our own paths are text");
        let server = Server::start(host, &format!("registry-{port}"), &["docker-registry", "serve", file]);
        let server = server.wait_until_it_answers(host, address);
        Self { address, ca: directory.join("ca.pem"), storage, access, _server: server }
    }

    /// `127.0.0.1:PORT/NAME`
    pub fn name(&self, image: &str) -> String {
        format!("{}/{image}", self.address)
    }

    /// Pushes an image out of a layout, as skopeo does it.
    pub fn push(&self, layout: &Path, tag: &str, image: &str) {
        let (from, to) = (format!("oci:{}:{tag}", layout.display()), format!("docker://{}", self.name(image)));
        let login = format!("{USER}:{PASSWORD}");
        let mut words = vec!["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"];
        if self.access == Access::Login {
            words.extend(["--dest-creds", &login]);
        }
        words.extend([from.as_str(), to.as_str()]);
        command::run(&words);
    }
}

/// A CA, and a certificate of it for this machine.
fn certify(directory: &Path) {
    let path = |name: &str| directory.join(name).display().to_string();
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("cannot write the certificate's names");
    let openssl = |arguments: &str| {
        let with_paths: Vec<_> = arguments.split(' ').map(|word| word.strip_prefix('@').map_or(word.to_owned(), path)).collect();
        let words: Vec<_> = std::iter::once("openssl").chain(with_paths.iter().map(String::as_str)).collect();
        command::run(&words);
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout @ca.key -out @ca.pem -days 2 -subj /CN=Test-CA");
    openssl("req -newkey rsa:2048 -nodes -keyout @key.pem -out @request.pem -subj /CN=localhost");
    openssl("x509 -req -in @request.pem -CA @ca.pem -CAkey @ca.key -CAcreateserial -days 2 -extfile @names -out @cert.pem");
}
