//! In: a request. Out: the server's response after redirects; small responses are retried.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::Response;
use ureq::unversioned::transport::DefaultConnector;
use url::Url;

use crate::error::{Error, is_transient};
use crate::names::{Names, NoAddress};
use crate::pace::{Pace, Verdict};
use crate::request::{Request, shown};
use crate::settings::Settings;
use crate::{redirect, retry, tls};

/// Shared by all threads; keeps connections open for the next request.
#[derive(Debug)]
pub struct Client {
    pub(crate) settings: Settings,
    agents: Mutex<BTreeMap<Route, Agent>>,
}

/// Connections of one route share their settings. Created on first use: reading the machine's CAs takes a while.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    scheme: Scheme,
    proxy: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scheme {
    Http,
    Https,
}

/// A small response of a server that was reached. 404 is a response, too.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    url: Url,
    headers: ureq::http::HeaderMap,
}

impl Answer {
    /// Where the server says that the next request should go. Says nothing about whether credentials may go there.
    pub fn location(&self) -> Result<Url, Error> {
        redirect::target(&self.url, self.header("location"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All values of a header that may be repeated.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of a successful response; any other status is an error.
    pub fn success(self) -> Result<Vec<u8>, Error> {
        if self.is_success() {
            return Ok(self.body);
        }
        Err(Error::Status { url: shown(&self.url), status: self.status, said: first_words(&self.body) })
    }
}

impl Client {
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), agents: Mutex::new(BTreeMap::new()) }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Aborts the requests that other threads wait for. Later requests use new connections.
    pub fn interrupt(&self) {
        let agents = std::mem::take(&mut *self.agents.lock().unwrap_or_else(PoisonError::into_inner));
        agents.into_values().for_each(Agent::shutdown);
    }

    /// A small response of at most `limit` bytes: more is an error. Retries where that may help.
    pub fn get(&self, request: &Request, limit: u64) -> Result<Answer, Error> {
        let mut round = 0;
        loop {
            let result = self.get_once(request, limit);
            round += 1;
            let asked_for = match &result {
                Ok(answer) if !is_transient(answer.status) => return result,
                Err(error) if !error.is_transient() => return result,
                Ok(answer) => seconds(answer.header("retry-after")),
                Err(_) => None,
            };
            if round >= self.settings.attempts {
                return result;
            }
            self.pause_after(round - 1, asked_for, &AtomicBool::new(false));
        }
    }

    fn get_once(&self, request: &Request, limit: u64) -> Result<Answer, Error> {
        let (url, response) = self.exchange(request, 0)?;
        self.small(url, response, limit)
    }

    pub(crate) fn small(&self, url: Url, response: Response<ureq::Body>, limit: u64) -> Result<Answer, Error> {
        let (head, body) = response.into_parts();
        let mut reader = body.into_reader();
        let mut content = Vec::new();
        let mut pace = Pace::new(self.settings.stall_timeout, Instant::now());
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let n = reader.read(&mut buffer).map_err(|error| self.failure(&url, error.into()))?;
            if n == 0 {
                return Ok(Answer { status: head.status.as_u16(), body: content, url, headers: head.headers });
            }
            if content.len() as u64 + n as u64 > limit {
                return Err(Error::TooLarge { url: shown(&url), limit });
            }
            content.extend_from_slice(&buffer[..n]);
            if pace.judge(n, Instant::now()) == Verdict::TooSlow {
                return Err(Error::Stalled { url: shown(&url), after: self.settings.stall_timeout });
            }
        }
    }

    /// Sends the request, from byte `from` on, and follows redirects. Credentials are sent only to the host they are for.
    pub(crate) fn exchange(&self, request: &Request, from: u64) -> Result<(Url, Response<ureq::Body>), Error> {
        let mut url = request.url.clone();
        let mut authorization = request.authorization.as_deref();
        for _ in 0..redirect::LIMIT {
            self.settings.plain_http.check(&url)?;
            let agent = self.agent(&url)?;
            let mut builder = ureq::http::Request::builder().uri(url.as_str());
            for accept in &request.accept {
                builder = builder.header("accept", accept);
            }
            if let Some(value) = authorization {
                builder = builder.header("authorization", value);
            }
            if from > 0 {
                builder = builder.header("range", format!("bytes={from}-"));
            }
            let answered = match &request.form {
                None => builder.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
                Some(form) => {
                    let builder = builder.method("POST").header("content-type", "application/x-www-form-urlencoded");
                    builder.body(form.as_str()).map_err(ureq::Error::from).and_then(|request| agent.run(request))
                }
            };
            let response = answered.map_err(|error| self.failure(&url, error))?;
            // The form may contain secrets: it is not sent to another address.
            if request.form.is_some() && redirect::is_redirection(response.status().as_u16()) {
                return Err(Error::Redirect { url: shown(&url), problem: "the form data must not be sent elsewhere" });
            }
            if !redirect::is_redirection(response.status().as_u16()) {
                return Ok((url, response));
            }
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let next = redirect::target(&url, location)?;
            if !redirect::keeps_credentials(&url, &next) {
                authorization = None;
            }
            url = next;
        }
        Err(Error::Redirect { url: shown(&request.url), problem: "it never ends" })
    }

    pub(crate) fn agent(&self, url: &Url) -> Result<Agent, Error> {
        let scheme = if url.scheme() == "https" { Scheme::Https } else { Scheme::Http };
        let route = Route { scheme, proxy: self.settings.proxies.on_the_way_to(url).map(str::to_owned) };
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(&route) {
            return Ok(agent.clone());
        }
        let agent = self.new_agent(&route)?;
        agents.insert(route, agent.clone());
        Ok(agent)
    }

    fn new_agent(&self, route: &Route) -> Result<Agent, Error> {
        let settings = &self.settings;
        let proxy = route.proxy.as_deref().map(ureq::Proxy::new).transpose().map_err(|_| Error::Proxy { variable: "https_proxy" })?;
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("shorefast/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(settings.connect_timeout))
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_send_request(Some(settings.stall_timeout))
            .timeout_recv_response(Some(settings.stall_timeout))
            .timeout_per_read(Some(settings.stall_timeout))
            .timeout_per_write(Some(settings.stall_timeout))
            .max_idle_connections_per_host(8)
            .proxy(proxy);
        // A proxy may itself be reached over TLS.
        if route.scheme == Scheme::Https || route.proxy.as_deref().is_some_and(|proxy| proxy.starts_with("https:")) {
            builder = builder.tls_config(tls::configuration(&settings.ca_files)?);
        }
        Ok(Agent::with_parts(builder.build(), DefaultConnector::new(), Names))
    }

    /// Waits before a caller's own retry; `round` counts from 0.
    pub fn pause_before_retry(&self, round: u32) {
        self.pause_after(round, None, &AtomicBool::new(false));
    }

    pub(crate) fn pause_after(&self, round: u32, asked_for: Option<Duration>, stop: &AtomicBool) {
        const GLANCE: Duration = Duration::from_millis(20);
        let until = Instant::now() + retry::pause(round, self.settings.first_pause, asked_for, retry::any_spread());
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Maps ureq's errors to ours.
    pub(crate) fn failure(&self, url: &Url, error: ureq::Error) -> Error {
        use ureq::{Error as E, Timeout};
        let url = shown(url);
        match error {
            E::Timeout(Timeout::Resolve | Timeout::Connect) => Error::Connect { url, source: Box::new(error) },
            E::Timeout(_) => Error::Stalled { url, after: self.settings.stall_timeout },
            E::Other(other) => match other.downcast::<NoAddress>() {
                Ok(name) => Error::Name { host: name.host, problem: name.problem },
                Err(source) => Error::Broken { url, source },
            },
            E::Rustls(rustls::Error::InvalidMessage(_)) => Error::NotTls { url },
            E::Io(error) if tls_error(&error).is_some_and(|error| matches!(error, rustls::Error::InvalidMessage(_))) => {
                Error::NotTls { url }
            }
            E::Tls(_) | E::Rustls(_) | E::Pem(_) => Error::Tls { url, source: Box::new(error) },
            E::Io(error) if tls_error(&error).is_some() => Error::Tls { url, source: error.into() },
            E::Io(error) if is_no_connection(&error) => Error::Connect { url, source: error.into() },
            E::ConnectProxyFailed(_) | E::ConnectionFailed => Error::Connect { url, source: Box::new(error) },
            E::BadUri(_) | E::Http(_) => Error::Address { text: url, problem: "it is not an address" },
            E::Io(error) => Error::Broken { url, source: error.into() },
            other => Error::Broken { url, source: Box::new(other) },
        }
    }
}

fn tls_error(error: &std::io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn is_no_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Dates, the other form of Retry-After, are ignored; our own pauses apply.
pub(crate) fn seconds(header: Option<&str>) -> Option<Duration> {
    header.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs)
}

/// A server's error text is for display: one short line of it, without control characters.
fn first_words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
    let words: Vec<_> = text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(200).collect()
}

impl std::fmt::Debug for Route {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match (self.scheme, &self.proxy) {
            (Scheme::Http, None) => "http",
            (Scheme::Https, None) => "https",
            (Scheme::Http, Some(_)) => "http through a proxy",
            (Scheme::Https, Some(_)) => "https through a proxy",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_shortened_and_harmless() {
        assert_eq!(first_words(b" a\x1b[2J\n\nb\t"), "a [2J b");
        assert_eq!(first_words(&[b'x'; 5000]).len(), 200);
        assert_eq!(seconds(Some(" 7 ")), Some(Duration::from_secs(7)));
        assert_eq!(seconds(Some("Wed, 21 Oct 2015 07:28:00 GMT")), None);
    }
}
