//! In: a host name. Out: its addresses, resolved without libc: in a static binary its resolver loads plug-ins of another libc. /etc/hosts
//! and /etc/resolv.conf are read; other sources of nsswitch.conf are not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::Resolver as Dns;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// More addresses of a host than this are of no use.
const ENOUGH: usize = 16;

#[derive(Debug)]
pub(crate) struct Names;

/// Passed through ureq's errors unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct NoAddress {
    pub(crate) host: String,
    pub(crate) problem: String,
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, _: &ureq::config::Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let no_address = |problem| ureq::Error::Other(Box::new(NoAddress { host: host.to_owned(), problem }));
        let mut found = self.empty();
        let patience = timeout.not_zero().map_or(Duration::from_secs(30), |limit| *limit);
        for address in addresses(host, patience).map_err(no_address)?.into_iter().take(ENOUGH) {
            found.push(SocketAddr::new(address, port));
        }
        if found.is_empty() { Err(no_address("it has none".to_owned())) } else { Ok(found) }
    }
}

fn addresses(host: &str, patience: Duration) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    if is_local(host) {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut builder = Dns::builder_tokio().map_err(|error| error.to_string())?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        let dns = builder.build().map_err(|error| error.to_string())?;
        match tokio::time::timeout(patience, dns.lookup_ip(host)).await {
            Ok(Ok(found)) => Ok(found.iter().collect()),
            Ok(Err(error)) => Err(in_words(&error)),
            Err(_) => Err(format!("no name server answered within {patience:?}")),
        }
    })
}

/// The library's own text for the usual case is a dump of its structures.
fn in_words(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(NoRecords { response_code: ResponseCode::NXDomain, .. })) => {
            "there is no such name".to_owned()
        }
        NetError::Dns(DnsError::NoRecordsFound(NoRecords { response_code: ResponseCode::NoError, .. })) => "it has no address".to_owned(),
        NetError::Dns(DnsError::NoRecordsFound(NoRecords { response_code, .. })) => format!("the name server answered {response_code}"),
        NetError::Timeout => "no name server answered".to_owned(),
        NetError::NoConnections => "no name server can be reached".to_owned(),
        NetError::Io(error) => format!("no name server can be reached: {error}"),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the name server answered {code}"),
        _ => "the name server did not answer with an address".to_owned(),
    }
}

/// RFC 6761: such a name never leaves the machine.
fn is_local(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_the_local_host_need_no_name_server() {
        let quick = Duration::from_millis(1);
        assert_eq!(addresses("192.0.2.7", quick).unwrap(), [IpAddr::from([192, 0, 2, 7])]);
        assert_eq!(addresses("::1", quick).unwrap(), [IpAddr::from(Ipv6Addr::LOCALHOST)]);
        for name in ["localhost", "LOCALHOST.", "a.localhost"] {
            assert_eq!(addresses(name, quick).unwrap()[0], IpAddr::from([127, 0, 0, 1]), "{name}");
        }
    }

    /// libc's resolver is the oracle: a test is not a static binary.
    #[test]
    fn the_hosts_file_is_read() {
        use std::net::ToSocketAddrs as _;
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        let entries = hosts.lines().filter(|line| !line.trim_start().starts_with('#'));
        let names = entries.filter_map(|line| line.split_whitespace().nth(1)).filter(|name| !is_local(name));
        for name in names {
            let expected: Vec<IpAddr> = (name, 0).to_socket_addrs().unwrap().map(|address| address.ip()).collect();
            let found = addresses(name, Duration::from_secs(5)).unwrap();
            assert!(found.iter().any(|address| expected.contains(address)), "{name}: {found:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_is_an_error_within_the_deadline() {
        let before = std::time::Instant::now();
        let problem = addresses("no-such-host.invalid", Duration::from_millis(1500)).unwrap_err();
        assert!(!problem.contains('{') && !problem.contains("Query"), "{problem}");
        assert!(before.elapsed() < Duration::from_secs(3));
    }
}
