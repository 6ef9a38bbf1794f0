//! The administrator's settings for registries: `/etc/shorefast/registries.toml`, a table per host.
//!
//! ```toml
//! ["docker.io"]
//! mirrors = ["mirror.example:5000", "mirror.example/hub"]   # asked first, in this order
//!
//! ["mirror.example:5000"]
//! ca = "/etc/ssl/our-ca.pem"      # trusted for this host, besides the machine's CAs
//!
//! ["lab.example:5000"]
//! plain_http = true
//!
//! ["registry.example"]
//! token_servers = ["login.example:8443"]   # get this registry's login, besides the registry itself
//! signed_by = "/etc/shorefast/keys/ours.pub"   # nothing else is taken from it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use shorefast_net::Url;
use shorefast_trust::Chosen;

use crate::registry::error::Error;
use crate::registry::name::{DOCKER_HUB, Name};

pub const FILE: &str = "/etc/shorefast/registries.toml";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hosts(BTreeMap<String, Host>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    #[serde(default)]
    pub mirrors: Vec<String>,
    pub ca: Option<PathBuf>,
    #[serde(default)]
    pub plain_http: bool,
    #[serde(default)]
    pub token_servers: Vec<String>,
    /// Keys of which one must have signed an image of this registry, wherever its bytes come from.
    pub signed_by: Option<PathBuf>,
}

/// Registries whose token server is known to be another host. For all others, the administrator configures it.
const TOKEN_SERVERS: [(&str, &str); 2] = [(DOCKER_HUB, "auth.docker.io"), ("registry.gitlab.com", "gitlab.com")];

/// One place that may have an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The host whose credentials and settings apply.
    pub(crate) host: String,
    pub(crate) repository: String,
    /// Ends with `/v2/REPOSITORY/`.
    pub(crate) base: Url,
    pub(crate) ca: Option<PathBuf>,
    /// `HOST[:PORT]`, besides its own.
    token_servers: Vec<String>,
}

impl Endpoint {
    /// Whether the registry's login may be sent to this server. The registry's word is not enough: it could name any server.
    pub(crate) fn trusts_with_login(&self, realm: &Url) -> bool {
        let server = server_of(realm);
        server == server_of(&self.base) || self.token_servers.contains(&server)
    }
}

/// `HOST`, or `HOST:PORT` where the port is not the default.
pub(crate) fn server_of(address: &Url) -> String {
    let host = address.host_str().unwrap_or_default();
    address.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

impl Hosts {
    /// No file: no rules.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match shorefast_trust::read_to_string(path, Chosen::ByPlace) {
            Ok(text) => Self::parse(&text).map_err(|problem| Error::Hosts { path: path.to_owned(), problem }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::Hosts { path: path.to_owned(), problem: error.to_string() }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let hosts: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for mirror in hosts.0.values().flat_map(|host| &host.mirrors) {
            let server = mirror.split('/').next().unwrap_or_default();
            if server.is_empty()
                || server.contains('@')
                || mirror.contains(['?', '#'])
                || mirror.contains("://")
                || hosts.endpoint(mirror, "x/y").is_none()
            {
                return Err(format!("mirror {mirror:?} is not of the form HOST[:PORT][/PREFIX]"));
            }
        }
        Ok(hosts)
    }

    /// The file of keys that images of this registry must be signed by.
    pub(crate) fn keys(&self, name: &Name) -> Option<&Path> {
        self.0.get(&name.host)?.signed_by.as_deref()
    }

    /// Where to look for an image: mirrors first, the registry itself last.
    pub(crate) fn endpoints(&self, name: &Name) -> Vec<Endpoint> {
        let mirrors = self.0.get(&name.host).map(|host| host.mirrors.as_slice()).unwrap_or_default();
        let places = mirrors.iter().map(String::as_str).chain([name.host.as_str()]);
        places.filter_map(|place| self.endpoint(place, &name.repository)).collect()
    }

    fn endpoint(&self, place: &str, repository: &str) -> Option<Endpoint> {
        let (host, repository) = match place.split_once('/') {
            Some((host, prefix)) => (host, format!("{}/{repository}", prefix.trim_end_matches('/'))),
            None => (place, repository.to_owned()),
        };
        let rules = self.0.get(host).cloned().unwrap_or_default();
        let scheme = if rules.plain_http { "http" } else { "https" };
        let server = if host == DOCKER_HUB { "registry-1.docker.io" } else { host };
        let base: Url = format!("{scheme}://{server}/v2/{repository}/").parse().ok()?;
        let known = TOKEN_SERVERS.iter().filter(|(registry, _)| *registry == host).map(|(_, server)| (*server).to_owned());
        let token_servers = rules.token_servers.into_iter().chain(known).collect();
        Some(Endpoint { host: host.to_owned(), repository, base, ca: rules.ca, token_servers })
    }

    /// The hosts for which plain HTTP is allowed.
    pub(crate) fn plain(&self) -> BTreeSet<String> {
        let plain = self.0.iter().filter(|(_, host)| host.plain_http);
        plain.map(|(name, _)| if name.contains(':') { name.clone() } else { format!("{name}:80") }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        ["docker.io"]
        mirrors = ["mirror.example:5000", "mirror.example/hub/"]
        ["mirror.example:5000"]
        ca = "/etc/ssl/our-ca.pem"
        ["lab.example"]
        plain_http = true
    "#;

    fn bases(hosts: &Hosts, name: &str) -> Vec<String> {
        hosts.endpoints(&name.parse().unwrap()).iter().map(|endpoint| endpoint.base.to_string()).collect()
    }

    #[test]
    fn mirrors_are_asked_first() {
        let hosts = Hosts::parse(TEXT).unwrap();
        let expected = [
            "https://mirror.example:5000/v2/library/debian/",
            "https://mirror.example/v2/hub/library/debian/",
            "https://registry-1.docker.io/v2/library/debian/",
        ];
        assert_eq!(bases(&hosts, "debian"), expected);
        let first = &hosts.endpoints(&"debian".parse().unwrap())[0];
        assert_eq!(first.ca.as_deref(), Some(Path::new("/etc/ssl/our-ca.pem")));
    }

    #[test]
    fn plain_http_only_where_configured() {
        let hosts = Hosts::parse(TEXT).unwrap();
        assert_eq!(bases(&hosts, "lab.example/a"), ["http://lab.example/v2/a/"]);
        assert_eq!(bases(&hosts, "lab.example:5000/a"), ["https://lab.example:5000/v2/a/"], "another port is another server");
        assert_eq!(bases(&Hosts::default(), "localhost:5000/a"), ["https://localhost:5000/v2/a/"]);
        assert_eq!(hosts.plain(), ["lab.example:80".to_owned()].into());
    }

    #[test]
    fn logins_go_to_token_servers_that_are_named() {
        let hosts = Hosts::parse("[\"a.example\"]\ntoken_servers = [\"login.example:8443\"]\n").unwrap();
        let rows = [
            ("a.example/x", "https://a.example/token", true),
            ("a.example/x", "https://login.example:8443/token", true),
            ("a.example/x", "https://login.example/token", false),
            ("a.example/x", "https://a.example:8443/token", false),
            ("a.example/x", "https://a.example.evil.example/token", false),
            ("b.example/x", "https://login.example:8443/token", false),
            ("debian", "https://auth.docker.io/token", true),
            ("debian", "https://registry-1.docker.io/token", true),
            ("debian", "https://gitlab.com/jwt/auth", false),
            ("b.example/x", "https://auth.docker.io/token", false),
            ("registry.gitlab.com/x/y", "https://gitlab.com/jwt/auth", true),
        ];
        for (name, realm, expected) in rows {
            let endpoint = &hosts.endpoints(&name.parse().unwrap())[0];
            assert_eq!(endpoint.trusts_with_login(&realm.parse().unwrap()), expected, "{name}, {realm}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let error = Hosts::parse("[\"a.example\"]\nplain-http = true\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("plain_http"), "{error}");
        for mirror in ["", "/x", "http://x.example", "me@x.example", "x.example?y", "x example"] {
            assert!(Hosts::parse(&format!("[\"a.example\"]\nmirrors = [{mirror:?}]\n")).is_err(), "{mirror:?}");
        }
    }
}
