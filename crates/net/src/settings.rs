//! How to fetch: trusted CAs, timeouts, proxies.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::error::Error;
use crate::proxy::Proxies;

#[derive(Clone, Debug)]
pub struct Settings {
    /// PEM files of CAs that are trusted in addition to the machine's.
    pub ca_files: Vec<PathBuf>,
    pub plain_http: PlainHttp,
    pub proxies: Proxies,
    /// From the name lookup to the end of the TLS handshake.
    pub connect_timeout: Duration,
    /// How long a server may send (almost) nothing.
    pub stall_timeout: Duration,
    /// How often everything is tried before giving up.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles each time.
    pub first_pause: Duration,
}

impl Settings {
    pub fn from_environment() -> Result<Self, Error> {
        Ok(Self { proxies: Proxies::from_environment()?, ..Self::default() })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            plain_http: PlainHttp::Refused,
            proxies: Proxies::none(),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            attempts: 4,
            first_pause: Duration::from_millis(500),
        }
    }
}

/// Where unencrypted HTTP is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    Refused,
    /// `host` or `host:port`.
    OnlyFrom(BTreeSet<String>),
    /// For data that is signed or hashed end to end, such as Debian's archive.
    Allowed,
}

impl PlainHttp {
    pub(crate) fn check(&self, url: &Url) -> Result<(), Error> {
        let host = url.host_str().unwrap_or_default();
        let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        let allowed = match self {
            _ if url.scheme() == "https" => true,
            Self::Refused => false,
            Self::OnlyFrom(hosts) => hosts.contains(host) || hosts.contains(&with_port),
            Self::Allowed => true,
        };
        if allowed { Ok(()) } else { Err(Error::PlainHttp { host: with_port }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_only_where_configured() {
        let some = PlainHttp::OnlyFrom(["lab.example".to_owned(), "127.0.0.1:5000".to_owned()].into());
        let rows = [
            ("https is always fine", &PlainHttp::Refused, "https://a.example/", true),
            ("refused", &PlainHttp::Refused, "http://a.example/", false),
            ("allowed", &PlainHttp::Allowed, "http://a.example/", true),
            ("a host on any port", &some, "http://lab.example:81/", true),
            ("one port of a host", &some, "http://127.0.0.1:5000/", true),
            ("another port of it", &some, "http://127.0.0.1/", false),
            ("another host", &some, "http://evil.lab.example/", false),
        ];
        for (name, rule, url, fine) in rows {
            assert_eq!(rule.check(&url.parse().unwrap()).is_ok(), fine, "{name}");
        }
    }
}
