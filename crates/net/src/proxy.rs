//! In: the usual environment variables and an address. Out: the proxy for a request.

use std::net::IpAddr;

use url::{Host, Url};

use crate::error::Error;

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    except: Vec<Exception>,
}

/// An entry of `no_proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    /// The domain itself and its subdomains.
    Domain(String, Option<u16>),
    Network(IpAddr, u8),
}

impl Proxies {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn from_environment() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// Lower case first: curl, apt and Go agree on that.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = |name: &str| variable(name).or_else(|| variable(&name.to_uppercase())).filter(|value| !value.trim().is_empty());
        let proxy = |name: &'static str| set(name).map(|value| address(&value).ok_or(Error::Proxy { variable: name })).transpose();
        let all = proxy("all_proxy")?;
        Ok(Self {
            http: proxy("http_proxy")?.or_else(|| all.clone()),
            https: proxy("https_proxy")?.or(all),
            except: set("no_proxy").map(|list| exceptions(&list)).unwrap_or_default(),
        })
    }

    /// The proxy's address, which may hold a login.
    pub(crate) fn on_the_way_to(&self, url: &Url) -> Option<&str> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let excepted = is_this_machine(url) || self.except.iter().any(|exception| exception.covers(url));
        proxy.as_deref().filter(|_| !excepted)
    }
}

/// Shows whether there are proxies, not which: their addresses may hold passwords.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let there = |proxy: &Option<String>| proxy.as_ref().map(|_| "…");
        out.debug_struct("Proxies").field("http", &there(&self.http)).field("https", &there(&self.https)).finish_non_exhaustive()
    }
}

/// `host:port` means an HTTP proxy.
fn address(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    ureq::Proxy::new(&text).is_ok().then_some(text)
}

/// A proxy elsewhere cannot reach this machine's loopback addresses.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn exceptions(list: &str) -> Vec<Exception> {
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).map(Exception::read).collect()
}

impl Exception {
    fn read(entry: &str) -> Self {
        if entry == "*" {
            return Self::Everything;
        }
        if let Ok(address) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Self::Network(address, width(address));
        }
        if let Some((network, bits)) = entry.split_once('/')
            && let (Ok(address), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u8>())
        {
            return Self::Network(address, bits.min(width(address)));
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => (name, port.parse().ok()),
            _ => (entry, None),
        };
        Self::Domain(name.trim_start_matches('*').trim_matches('.').to_ascii_lowercase(), port)
    }

    fn covers(&self, url: &Url) -> bool {
        match self {
            Self::Everything => true,
            Self::Domain(domain, port) => {
                let host = url.host_str().unwrap_or_default();
                let below = host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                below && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            Self::Network(network, bits) => match url.host() {
                Some(Host::Ipv4(address)) => same_network(*network, address.into(), *bits),
                Some(Host::Ipv6(address)) => same_network(*network, address.into(), *bits),
                _ => false,
            },
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn same_network(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let differing = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from((u32::from(a) ^ u32::from(b)).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => u128::from((u128::from(a) ^ u128::from(b)).leading_zeros()),
        _ => return false,
    };
    differing >= u128::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Result<Proxies, Error> {
        Proxies::from_variables(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let some = proxies(&[("http_proxy", "a.example:3128"), ("HTTPS_PROXY", "http://b.example:3128/")]).unwrap();
        assert_eq!(some.on_the_way_to(&"http://x.example/".parse().unwrap()), Some("http://a.example:3128"));
        assert_eq!(some.on_the_way_to(&"https://x.example/".parse().unwrap()), Some("http://b.example:3128"));
        let all = proxies(&[("all_proxy", "socks5://c.example:1080")]).unwrap();
        assert_eq!(all.on_the_way_to(&"https://x.example/".parse().unwrap()), Some("socks5://c.example:1080"));
        assert_eq!(proxies(&[("https_proxy", " ")]).unwrap(), Proxies::none());
        assert!(proxies(&[("https_proxy", "gopher://x")]).is_err());
    }

    #[test]
    fn exceptions_go_straight() {
        let list = "lab.example,.dot.example *.star.example,port.example:5000,192.0.2.7,10.0.0.0/8,2001:db8::/32";
        let some = proxies(&[("https_proxy", "p.example:1"), ("no_proxy", list)]).unwrap();
        let rows = [
            ("other.example", true),
            ("lab.example", false),
            ("deep.lab.example", false),
            ("notlab.example", true),
            ("x.dot.example", false),
            ("x.star.example", false),
            ("port.example:5000", false),
            ("port.example:5001", true),
            ("192.0.2.7", false),
            ("192.0.2.8", true),
            ("10.200.3.4", false),
            ("11.0.0.1", true),
            ("[2001:db8:1::1]", false),
            ("[2001:db9::1]", true),
            ("localhost:5000", false),
            ("127.0.0.9", false),
            ("[::1]", false),
        ];
        for (host, proxied) in rows {
            let url = format!("https://{host}/").parse().unwrap();
            assert_eq!(some.on_the_way_to(&url).is_some(), proxied, "{host}");
        }
        let none = proxies(&[("https_proxy", "p.example:1"), ("no_proxy", "*")]).unwrap();
        assert_eq!(none.on_the_way_to(&"https://x.example/".parse().unwrap()), None);
    }

    #[test]
    fn a_password_of_a_proxy_is_not_printed() {
        let some = proxies(&[("https_proxy", "http://me:hidden@p.example:1")]).unwrap();
        assert!(!format!("{some:?}").contains("hidden"));
    }
}
