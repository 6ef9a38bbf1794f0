//! A token server, like those of large registries: with a login it gives a signed token for the requested access, and without one a token for
//! reading repositories below `public/`. It refuses like they do, too: for other repositories, an anonymous token allows nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::certificate;
use super::registry::{PASSWORD, USER};
use crate::{Host, command};

/// Its name in tokens, and the service that they are for.
pub const ISSUER: &str = "tokens-of-the-tests";
pub const SERVICE: &str = "registry-of-the-tests";
/// Stands for a password that the user entered elsewhere.
pub const IDENTITY: &str = "identity-token";
pub const PUBLIC: &str = "public/";

const DIRECTORY: &str = "tokens";

/// The certificate that a registry has to trust.
pub(super) fn root(host: &Host) -> PathBuf {
    host.path(DIRECTORY).join("ca.pem")
}

#[derive(Debug)]
pub struct Tokens {
    pub address: SocketAddr,
    given: Arc<Mutex<Vec<Given>>>,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// The user who got a token, and what it was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub to: Asker,
    pub scope: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Anybody,
    Password,
    Identity,
}

impl Tokens {
    pub fn start(host: &Host) -> Self {
        let directory = host.directory(DIRECTORY);
        certificate::certify(&directory);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (given, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, end) = (Arc::clone(&given), Arc::clone(&over));
        // One after the other: speed does not matter here.
        let accepting = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                // A client that hangs up gets no answer.
                drop(serve(client, &directory, &log));
            }
        });
        Self { address, given, over, accepting: Some(accepting) }
    }

    /// The tokens that were given since the last call.
    pub fn given(&self) -> Vec<Given> {
        std::mem::take(&mut *self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Tokens {
    /// A thread that does not end keeps the test's network alive.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

/// The content of a request: its parameters, from the address or from a form, and a login.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    parameters: Vec<(String, String)>,
    authorization: Option<String>,
}

fn serve(client: TcpStream, directory: &Path, log: &Mutex<Vec<Given>>) -> std::io::Result<()> {
    let question = read(&mut BufReader::new(&client))?;
    let answer = question.asker().filter(|_| question.parameter("service") == Some(SERVICE)).map(|to| {
        let scope = question.parameter("scope").unwrap_or_default().to_owned();
        let token = sign(&claims(&allowed(to, &scope)), directory);
        log.lock().unwrap_or_else(PoisonError::into_inner).push(Given { to, scope });
        json!({ "token": token, "expires_in": 300 }).to_string()
    });
    let (status, body) = answer.map_or(("401 Unauthorized", String::new()), |body| ("200 OK", body));
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    (&client).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}

fn read(client: &mut BufReader<impl std::io::Read>) -> std::io::Result<Question> {
    let mut line = String::new();
    client.read_line(&mut line)?;
    let mut query = line.split(' ').nth(1).and_then(|address| address.split_once('?')).map_or("", |(_, query)| query).to_owned();
    let (mut authorization, mut length) = (None, 0);
    loop {
        line.clear();
        if client.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => authorization = Some(value.to_owned()),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    if length > 0 {
        query.clear();
        client.take(length).read_to_string(&mut query)?;
    }
    Ok(Question { parameters: parameters(&query), authorization })
}

fn parameters(query: &str) -> Vec<(String, String)> {
    let plain = |text: &str| text.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
    query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (plain(name), plain(value))).collect()
}

impl Question {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// None: a wrong login.
    fn asker(&self) -> Option<Asker> {
        let login = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
        match (self.parameter("refresh_token"), &self.authorization) {
            (Some(token), None) => (token == IDENTITY).then_some(Asker::Identity),
            (None, Some(shown)) => (*shown == login).then_some(Asker::Password),
            (None, None) => Some(Asker::Anybody),
            (Some(_), Some(_)) => None,
        }
    }
}

/// `repository:NAME:ACTION,ACTION`
fn allowed(to: Asker, scope: &str) -> Value {
    let words: Vec<_> = scope.split(':').collect();
    let ["repository", name, actions] = words[..] else { return json!([]) };
    let mut actions: Vec<_> = actions.split(',').collect();
    if to == Asker::Anybody {
        actions.retain(|action| *action == "pull" && name.starts_with(PUBLIC));
    }
    json!([{ "type": "repository", "name": name, "actions": actions }])
}

fn claims(access: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right").as_secs();
    json!({
        "iss": ISSUER, "aud": SERVICE, "sub": "", "jti": now.to_string(), "access": access,
        "iat": now, "nbf": now - 10, "exp": now + 300,
    })
}

/// A JSON Web Token that contains the certificate of its signer.
fn sign(claims: &Value, directory: &Path) -> String {
    let pem = std::fs::read_to_string(directory.join("cert.pem")).expect("the certificate was made");
    let certificate: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let header = json!({ "typ": "JWT", "alg": "RS256", "x5c": [certificate] });
    let signed = [&header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let [content, key, signature] = ["content", "key.pem", "signature"].map(|name| directory.join(name).display().to_string());
    std::fs::write(&content, &signed).expect("the directory is the test's own");
    command::run(&["openssl", "dgst", "-sha256", "-sign", &key, "-out", &signature, &content]);
    let signature = std::fs::read(&signature).expect("openssl wrote it");
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logins_open_what_is_not_public() {
        let actions = |to, scope| allowed(to, scope)[0]["actions"].clone();
        assert_eq!(actions(Asker::Anybody, "repository:public/a:pull,push"), json!(["pull"]));
        assert_eq!(actions(Asker::Anybody, "repository:team/a:pull"), json!([]));
        assert_eq!(actions(Asker::Password, "repository:team/a:pull,push"), json!(["pull", "push"]));
    }

    #[test]
    fn a_wrong_login_is_nobody() {
        let asker = |text: &str| read(&mut BufReader::new(text.as_bytes())).unwrap().asker();
        assert_eq!(asker("GET /token?scope=x HTTP/1.1\r\n\r\n"), Some(Asker::Anybody));
        assert_eq!(asker("GET /token HTTP/1.1\r\nAuthorization: Basic cHVsbGVyOnB1bGw6bWU=\r\n\r\n"), Some(Asker::Password));
        assert_eq!(asker("GET /token HTTP/1.1\r\nAuthorization: Basic eDp5\r\n\r\n"), None);
        let form = format!("grant_type=refresh_token&refresh_token={IDENTITY}");
        assert_eq!(asker(&format!("POST /token HTTP/1.1\r\ncontent-length: {}\r\n\r\n{form}", form.len())), Some(Asker::Identity));
    }
}
