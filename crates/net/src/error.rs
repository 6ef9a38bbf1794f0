use std::io;
use std::path::PathBuf;
use std::time::Duration;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Addresses in errors contain neither logins nor queries: see `request::shown`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("address {text:?}: {problem}")]
    Address { text: String, problem: &'static str },
    #[error("{text:?} is not a hash of the form sha256:HEX")]
    Hash { text: String },
    #[error("cannot read certificates from {path:?}")]
    Certificates { path: PathBuf, source: Source },
    #[error("this machine has no CA certificates to verify servers with")]
    NoCertificates,
    #[error("proxy {variable}: not an address of a proxy")]
    Proxy { variable: &'static str },
    #[error("plain HTTP to {host} is not allowed")]
    PlainHttp { host: String },
    #[error("{url}: cannot follow its redirection: {problem}")]
    Redirect { url: String, problem: &'static str },
    #[error("cannot find the address of {host}: {problem}")]
    Name { host: String, problem: String },
    #[error("cannot reach {url}")]
    Connect { url: String, source: Source },
    #[error("cannot complete the TLS handshake with {url}")]
    Tls { url: String, source: Source },
    /// What it answered is no TLS.
    #[error("{url}: the server does not speak TLS")]
    NotTls { url: String },
    #[error("{url}: the connection broke")]
    Broken { url: String, source: Source },
    #[error("{url}: too little data arrived within {after:?}")]
    Stalled { url: String, after: Duration },
    #[error("{url}: the server answered {status}{}", explained(.said))]
    Status { url: String, status: u16, said: String },
    #[error("{url}: the answer is larger than {limit} bytes")]
    TooLarge { url: String, limit: u64 },
    #[error("{url}: wrong length: expected {expected} bytes, got {found}")]
    WrongSize { url: String, expected: u64, found: u64 },
    #[error("{url}: wrong checksum: expected {expected}, got {found}")]
    WrongHash { url: String, expected: String, found: String },
    #[error("no source for {what}")]
    NoSource { what: String },
    #[error("stopped: another download failed")]
    Stopped,
    #[error("cannot write {path:?}")]
    File { path: PathBuf, source: io::Error },
}

impl Error {
    /// A retry may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Name { .. } | Self::Connect { .. } | Self::Broken { .. } | Self::Stalled { .. } => true,
            Self::Status { status, .. } => is_transient(*status),
            _ => false,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Certificates { .. } => Some("a file of CA certificates is in PEM format"),
            Self::NoCertificates => Some("install ca-certificates, or name a file of CA certificates"),
            Self::Proxy { .. } => Some("a proxy looks like http://host:port or socks5://host:port"),
            Self::PlainHttp { .. } => {
                Some("use https://, or allow plain HTTP for this host: plain_http = true in its table in /etc/shorefast/registries.toml")
            }
            Self::Name { .. } => Some("check the name, /etc/resolv.conf and /etc/hosts"),
            Self::Connect { .. } => Some("check the address, the network and the proxy variables (https_proxy, no_proxy)"),
            Self::Tls { .. } => Some(
                "if the certificate is from a CA of your own, name its file: ca = \"FILE\" in the host's table in /etc/shorefast/registries.toml",
            ),
            Self::NotTls { .. } => Some(
                "does it speak plain HTTP? a registry that may: plain_http = true in its table in /etc/shorefast/registries.toml; an archive: http://",
            ),
            Self::Status { status: 401 | 403, .. } => Some("check the credentials for this server"),
            Self::Status { status: 404, .. } => Some("check the name"),
            Self::WrongSize { .. } | Self::WrongHash { .. } => {
                Some("the server, or something between it and this host, changes the data; none of it was used")
            }
            Self::File { .. } => Some("check the free space and the permissions"),
            _ => None,
        }
    }
}

pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

fn explained(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}
