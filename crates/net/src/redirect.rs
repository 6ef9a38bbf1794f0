//! In: a Location header. Out: the address it means, and whether credentials may be sent there.

use url::Url;

use crate::error::Error;
use crate::request::shown;

/// More hops than any registry or archive needs.
pub(crate) const LIMIT: usize = 8;

pub(crate) fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Resolves `location` relative to `from`.
pub(crate) fn target(from: &Url, location: Option<&str>) -> Result<Url, Error> {
    let wrong = |problem| Error::Redirect { url: shown(from), problem };
    let location = location.ok_or_else(|| wrong("it names no address"))?;
    let mut to = from.join(location).map_err(|_| wrong("it leads to no address"))?;
    if !matches!(to.scheme(), "http" | "https") || to.host_str().is_none_or(str::is_empty) {
        return Err(wrong("it does not lead to an HTTP address"));
    }
    // Drop a login that the server puts into the address.
    to.set_username("").and_then(|()| to.set_password(None)).map_err(|()| wrong("it leads to no host"))?;
    to.set_fragment(None);
    Ok(to)
}

/// Credentials stay with the server they were meant for: same scheme, host and port.
pub(crate) fn keeps_credentials(from: &Url, to: &Url) -> bool {
    from.origin() == to.origin()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn leads_where_the_server_says() {
        let from = url("https://a.example/v2/x?q=1");
        for (location, to) in [
            ("/v2/y", "https://a.example/v2/y"),
            ("y", "https://a.example/v2/y"),
            ("https://cdn.example/y?sig=1#f", "https://cdn.example/y?sig=1"),
            ("//cdn.example/y", "https://cdn.example/y"),
            ("https://u:p@cdn.example/y", "https://cdn.example/y"),
        ] {
            assert_eq!(target(&from, Some(location)).unwrap().as_str(), to, "{location}");
        }
        for location in [None, Some("file:///etc/passwd"), Some("https://[")] {
            assert!(target(&from, location).is_err(), "{location:?}");
        }
    }

    #[test]
    fn credentials_go_to_no_other_host() {
        let from = url("https://a.example/x");
        for (to, keeps) in [
            ("https://a.example/y", true),
            ("https://a.example:443/y", true),
            ("https://a.example:8443/y", false),
            ("http://a.example/y", false),
            ("https://b.a.example/y", false),
            ("https://a.example.evil/y", false),
        ] {
            assert_eq!(keeps_credentials(&from, &url(to)), keeps, "{to}");
        }
    }
}
