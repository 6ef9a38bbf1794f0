//! A request. Its Debug output contains no secret.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use url::Url;

use crate::error::Error;

#[derive(Clone)]
pub struct Request {
    pub(crate) url: Url,
    pub(crate) accept: Vec<String>,
    pub(crate) authorization: Option<String>,
    /// Sent as a POST instead of a GET: token servers want that.
    pub(crate) form: Option<String>,
}

impl Request {
    /// A user and password in the address become basic authentication and are removed from it.
    pub fn to(mut url: Url) -> Result<Self, Error> {
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(Error::Address { text: shown(&url), problem: "it is not an http:// or https:// address of a host" });
        }
        let password = url.password().unwrap_or_default();
        let login = (!url.username().is_empty()).then(|| (percent_decoded(url.username()), percent_decoded(password)));
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        cleared.map_err(|()| Error::Address { text: shown(&url), problem: "it cannot hold a host" })?;
        url.set_fragment(None);
        let request = Self { url, accept: Vec::new(), authorization: None, form: None };
        Ok(match login {
            Some((user, password)) => request.with_login(&user, &password),
            None => request,
        })
    }

    pub fn parse(text: &str) -> Result<Self, Error> {
        // The text is not repeated: it may hold a password.
        let url = text.parse().map_err(|_| Error::Address { text: String::new(), problem: "it is not an address" })?;
        Self::to(url)
    }

    #[must_use]
    pub fn accepting(mut self, media_types: &[&str]) -> Self {
        self.accept = media_types.iter().map(|&name| name.to_owned()).collect();
        self
    }

    #[must_use]
    pub fn with_login(mut self, user: &str, password: &str) -> Self {
        self.authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))));
        self
    }

    #[must_use]
    pub fn with_bearer(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    #[must_use]
    pub fn with_form(mut self, fields: &[(&str, &str)]) -> Self {
        self.form = Some(url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish());
        self
    }

    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorization = self.authorization.as_ref().map(|_| "…");
        out.debug_struct("Request").field("url", &shown(&self.url)).field("authorization", &authorization).finish_non_exhaustive()
    }
}

/// An address fit for an error: queries hold signatures and tokens.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only without a host, where there is nothing to hide.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_the_address_moves_to_a_header() {
        let request = Request::parse("https://me:p%40ss@host.example/path?token=secret#x").unwrap();
        assert_eq!(request.url().as_str(), "https://host.example/path?token=secret");
        assert_eq!(request.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let request = Request::parse("https://me:hidden@host.example/path?token=hidden").unwrap();
        assert!(!format!("{request:?}").contains("hidden"));
        let error = Request::parse("ftp://me:hidden@host.example/").unwrap_err();
        assert!(!error.to_string().contains("hidden"), "{error}");
    }

    #[test]
    fn only_http_has_hosts_for_us() {
        for text in ["", "host/path", "file:///etc/passwd", "ftp://host/", "http://"] {
            assert!(Request::parse(text).is_err(), "{text}");
        }
    }
}
