//! In: requests to one endpoint. Out: responses; answers its challenge once and caches the token.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use shorefast_net::{Answer, Client, Method, Payload, Request, Task, Url};

use crate::registry::challenge::Challenge;
use crate::registry::credentials::Credentials;
use crate::registry::error::Error;
use crate::registry::hosts::{Endpoint, server_of};
use crate::registry::login::Login;

/// The default lifetime of a token without one.
const TOKEN_LIFE: Duration = Duration::from_secs(60);
/// Renew early rather than be refused.
const MARGIN: Duration = Duration::from_secs(10);
const TOKEN_ANSWER: u64 = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) endpoint: Endpoint,
    pub(crate) client: Client,
    credentials: Credentials,
    access: Access,
    state: Mutex<State>,
}

/// What a token has to allow; no more is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

#[derive(Debug, Default)]
struct State {
    acquaintance: Acquaintance,
    challenge: Option<Challenge>,
    permit: Option<Permit>,
}

/// Whether we know the endpoint's authentication scheme.
#[derive(Debug, Default, PartialEq, Eq)]
enum Acquaintance {
    #[default]
    Never,
    Met,
}

/// The authorization sent with every request.
#[derive(Clone)]
enum Permit {
    Password { user: String, password: String },
    Token { text: String, until: Instant },
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Permit(…)")
    }
}

impl Session {
    pub(crate) fn new(endpoint: Endpoint, client: Client, credentials: Credentials, access: Access) -> Self {
        Self { endpoint, client, credentials, access, state: Mutex::default() }
    }

    /// A small response to `path` below the repository, after authentication.
    pub(crate) fn get(&self, path: &str, accept: &[&str], limit: u64) -> Result<Answer, Error> {
        let answer = self.client.get(&self.request(path)?.accepting(accept), limit).map_err(|source| self.failed(source))?;
        self.state().acquaintance = Acquaintance::Met;
        if answer.status != 401 {
            return Ok(answer);
        }
        self.challenged(&answer)?;
        let answer = self.client.get(&self.request(path)?.accepting(accept), limit).map_err(|source| self.failed(source))?;
        if matches!(answer.status, 401 | 403) { Err(self.refused()) } else { Ok(answer) }
    }

    /// Sends data to an address that the registry named, or that is below the repository, after authentication.
    pub(crate) fn send(&self, address: &Url, method: Method, payload: Payload<'_>, task: &dyn Task) -> Result<Answer, Error> {
        let once = || self.client.send(&self.request_to(address)?, method, payload, task).map_err(|source| self.not_sent(source));
        let answer = once()?;
        self.state().acquaintance = Acquaintance::Met;
        if answer.status != 401 {
            return Ok(answer);
        }
        self.challenged(&answer)?;
        let answer = once()?;
        if matches!(answer.status, 401 | 403) { Err(self.refused()) } else { Ok(answer) }
    }

    /// The status of an upload.
    pub(crate) fn get_at(&self, address: &Url) -> Result<Answer, Error> {
        self.client.get(&self.request_to(address)?, TOKEN_ANSWER).map_err(|source| self.failed(source))
    }

    pub(crate) fn address(&self, path: &str) -> Result<Url, Error> {
        self.endpoint.base.join(path).map_err(|_| self.failed(not_an_address(path)))
    }

    /// With the current authorization.
    pub(crate) fn request(&self, path: &str) -> Result<Request, Error> {
        self.request_to(&self.address(path)?)
    }

    /// The authorization is sent to no other server, even if an upload goes to another address.
    fn request_to(&self, address: &Url) -> Result<Request, Error> {
        let request = Request::to(address.clone()).map_err(|source| self.failed(source))?;
        if address.origin() != self.endpoint.base.origin() {
            return Ok(request);
        }
        Ok(match self.permit()? {
            Some(Permit::Password { user, password }) => request.with_login(&user, &password),
            Some(Permit::Token { text, .. }) => request.with_bearer(&text),
            None => request,
        })
    }

    /// The next request asks for a new token. For tokens that were revoked during a download.
    pub(crate) fn forget(&self) {
        self.state().permit = None;
    }

    /// Gets the challenge of an endpoint that has not served a manifest yet, so that blobs can be downloaded from it.
    pub(crate) fn introduce(&self) -> Result<(), Error> {
        if self.state().acquaintance == Acquaintance::Met {
            return Ok(());
        }
        self.get("/v2/", &[], TOKEN_ANSWER).map(|_| ())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self) -> Result<Option<Permit>, Error> {
        let mut state = self.state();
        let Some(challenge) = state.challenge.clone() else {
            return Ok(None);
        };
        let fresh = match &state.permit {
            Some(Permit::Token { until, .. }) => Instant::now() < *until,
            Some(Permit::Password { .. }) => true,
            None => false,
        };
        if !fresh {
            state.permit = Some(self.obtain(&challenge)?);
        }
        Ok(state.permit.clone())
    }

    fn challenged(&self, answer: &Answer) -> Result<(), Error> {
        let challenge = Challenge::among(answer.headers("www-authenticate"));
        let challenge = challenge.ok_or_else(|| Error::Challenge { host: self.endpoint.host.clone() })?;
        *self.state() = State { acquaintance: Acquaintance::Met, challenge: Some(challenge), permit: None };
        Ok(())
    }

    fn obtain(&self, challenge: &Challenge) -> Result<Permit, Error> {
        let login = self.credentials.find(&self.endpoint.host, &self.endpoint.repository)?;
        match (challenge, login) {
            (Challenge::Basic, Some(Login::Password { user, password })) => Ok(Permit::Password { user, password }),
            (_, Some(Login::Token(text))) => Ok(Permit::Token { text, until: Instant::now() + TOKEN_LIFE }),
            (Challenge::Bearer { realm, service, .. }, login) => self.token(realm, service.as_deref(), login),
            (Challenge::Basic, Some(Login::Identity(_))) => Err(self.refused()),
            (Challenge::Basic, None) => Err(self.unknown()),
        }
    }

    /// Also without a login: public images of large registries need a token, which is given to anyone.
    fn token(&self, realm: &Url, service: Option<&str>, login: Option<Login>) -> Result<Permit, Error> {
        let actions = match self.access {
            Access::Pull => "pull",
            Access::Push => "pull,push",
        };
        let scope = format!("repository:{}:{actions}", self.endpoint.repository);
        let known = login.is_some();
        if known && !self.endpoint.trusts_with_login(realm) {
            return Err(Error::TokenServer { host: self.endpoint.host.clone(), server: server_of(realm) });
        }
        let request = match login {
            Some(Login::Identity(token)) => {
                let service = service.unwrap_or_default();
                let form = [
                    ("grant_type", "refresh_token"),
                    ("service", service),
                    ("scope", &scope),
                    ("client_id", "shorefast"),
                    ("refresh_token", &token),
                ];
                Request::to(realm.clone()).map(|request| request.with_form(&form))
            }
            Some(Login::Password { user, password }) => {
                Request::to(Challenge::token_address(realm, service, &scope)).map(|request| request.with_login(&user, &password))
            }
            Some(Login::Token(_)) | None => Request::to(Challenge::token_address(realm, service, &scope)),
        };
        let request = request.map_err(|source| self.failed(source))?;
        let answer = self.client.get(&request, TOKEN_ANSWER).map_err(|source| self.failed(source))?;
        if matches!(answer.status, 400 | 401 | 403) {
            return Err(if known { self.refused() } else { self.unknown() });
        }
        let body = answer.success().map_err(|source| self.failed(source))?;
        read_token(&body).ok_or_else(|| Error::Challenge { host: self.endpoint.host.clone() })
    }

    fn refused(&self) -> Error {
        let Endpoint { host, repository, .. } = self.endpoint.clone();
        // An anonymous token that does not suffice means that a login is required.
        match self.credentials.find(&host, &repository) {
            Ok(None) => Error::NoCredentials { host, repository },
            _ => Error::WrongCredentials { host, repository },
        }
    }

    fn unknown(&self) -> Error {
        Error::NoCredentials { host: self.endpoint.host.clone(), repository: self.endpoint.repository.clone() }
    }

    pub(crate) fn not_sent(&self, source: shorefast_net::Error) -> Error {
        match source {
            shorefast_net::Error::Status { status: 401 | 403, .. } => self.refused(),
            source => Error::Send { host: self.endpoint.host.clone(), source },
        }
    }

    pub(crate) fn failed(&self, source: shorefast_net::Error) -> Error {
        match source {
            shorefast_net::Error::Status { status: 401 | 403, .. } => self.refused(),
            source => Error::Fetch { host: self.endpoint.host.clone(), source },
        }
    }
}

fn not_an_address(path: &str) -> shorefast_net::Error {
    shorefast_net::Error::Address { text: path.to_owned(), problem: "it is not a path" }
}

fn read_token(body: &[u8]) -> Option<Permit> {
    #[derive(Deserialize)]
    struct Token {
        token: Option<String>,
        access_token: Option<String>,
        expires_in: Option<u64>,
    }
    let answer: Token = serde_json::from_slice(body).ok()?;
    let text = answer.token.or(answer.access_token).filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()))?;
    let life = answer.expires_in.map_or(TOKEN_LIFE, |seconds| Duration::from_secs(seconds.clamp(1, 86_400)));
    // A token of a few seconds should be used rather than renewed with every request.
    let margin = MARGIN.min(life / 2);
    Some(Permit::Token { text, until: Instant::now() + life - margin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_under_both_names_and_checked() {
        let text = |body: &str| match read_token(body.as_bytes()) {
            Some(Permit::Token { text, until }) => Some((text, until > Instant::now())),
            _ => None,
        };
        let good = Some(("abc".to_owned(), true));
        for body in [r#"{"token":"abc"}"#, r#"{"access_token":"abc","expires_in":300}"#, r#"{"token":"abc","expires_in":1}"#] {
            assert_eq!(text(body), good, "{body}");
        }
        for body in ["", "{}", r#"{"token":""}"#, r#"{"token":"a\r\nx: y"}"#, r#"{"token":"a","expires_in":-1}"#] {
            assert_eq!(text(body), None, "{body}");
        }
    }
}
