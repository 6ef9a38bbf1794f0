//! An image registry: Debian's docker-registry, with the access control that a test needs.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{Server, certificate, tokens};
use crate::{Host, command};

pub const USER: &str = "puller";
pub const PASSWORD: &str = "pull:me";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Plain,
    /// With a certificate of a CA that no program trusts by default: see [`Registry::ca`].
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Anybody,
    /// Only [`USER`] with [`PASSWORD`].
    Login,
    /// Only with a token of this test's [`tokens::Tokens`], which is at this address.
    Token(SocketAddr),
}

#[derive(Debug)]
pub struct Registry {
    pub address: SocketAddr,
    pub ca: PathBuf,
    /// Its data directory.
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
            certificate::certify(&directory);
            let path = |name: &str| directory.join(name).display().to_string();
            configuration += &format!("  tls: {{certificate: {}, key: {}}}\n", path("cert.pem"), path("key.pem"));
        }
        configuration += &doorkeeper(host, &directory, access);
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
        if self.access != Access::Anybody {
            words.extend(["--dest-creds", &login]);
        }
        words.extend([from.as_str(), to.as_str()]);
        command::run(&words);
    }
}

/// The part of the configuration that controls access.
fn doorkeeper(host: &Host, directory: &Path, access: Access) -> String {
    match access {
        Access::Anybody => String::new(),
        Access::Login => {
            let file = directory.join("htpasswd");
            let line = command::run(&["htpasswd", "-Bbn", USER, PASSWORD]).stdout;
            fs::write(&file, line).expect("cannot write the password file");
            format!("auth: {{htpasswd: {{realm: tests, path: {}}}}}\n", file.display())
        }
        Access::Token(server) => {
            let (issuer, service, root) = (tokens::ISSUER, tokens::SERVICE, tokens::root(host));
            let names = format!("realm: \"http://{server}/token\", service: {service}, issuer: {issuer}");
            format!("auth: {{token: {{{names}, rootcertbundle: {}}}}}\n", root.display())
        }
    }
}
