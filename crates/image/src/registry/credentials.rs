//! In: docker's config.json and podman's auth.json, which share one format, and the helpers that they name. Out: the login for a registry.
//! Secrets are never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use shorefast_trust::Chosen;

use crate::registry::error::Error;
use crate::registry::helper;
use crate::registry::login::Login;
use crate::registry::name::DOCKER_HUB;

/// Docker Hub's key in docker's configuration and for helpers.
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// The files to search, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    files: Vec<PathBuf>,
}

impl Credentials {
    /// No credentials.
    pub fn none() -> Self {
        Self::default()
    }

    pub fn in_files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { files: files.into_iter().collect() }
    }

    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self::in_files(places(variable, rustix::process::geteuid().as_raw()))
    }

    pub(crate) fn find(&self, host: &str, repository: &str) -> Result<Option<Login>, Error> {
        for path in &self.files {
            let Some(file) = File::read(path)? else { continue };
            let found = match file.entry(host, repository) {
                Some(Entry::Login(login)) => Some(login),
                Some(Entry::Helper(name)) => helper::ask(&name, if host == DOCKER_HUB { HUB_KEY } else { host })?,
                Some(Entry::Broken) => {
                    return Err(Error::Credentials { path: path.clone(), problem: format!("the entry for {host} is not a login") });
                }
                None => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// podman's files, docker's, and one for machines where no user has a home directory.
fn places(variable: impl Fn(&str) -> Option<PathBuf>, uid: u32) -> Vec<PathBuf> {
    let home = variable("HOME");
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let docker = variable("DOCKER_CONFIG").or_else(|| below_home(".docker")).map(|directory| directory.join("config.json"));
    let configuration = variable("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let places = [
        variable("REGISTRY_AUTH_FILE"),
        Some(PathBuf::from("/etc/shorefast/auth.json")),
        variable("XDG_RUNTIME_DIR").map(|directory| directory.join("containers/auth.json")),
        Some(PathBuf::from(format!("/run/containers/{uid}/auth.json"))),
        configuration.map(|directory| directory.join("containers/auth.json")),
        docker,
    ];
    places.into_iter().flatten().collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Stored>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
struct Stored {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Stored(…)")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Login(Login),
    Helper(String),
    Broken,
}

impl File {
    fn read(path: &Path) -> Result<Option<Self>, Error> {
        let wrong = |problem| Error::Credentials { path: path.to_owned(), problem };
        match shorefast_trust::read(path, Chosen::ByCaller) {
            // The parser's message may quote a secret: only the position is reported.
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| wrong(format!("not as docker or podman write it, line {} column {}", error.line(), error.column()))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// A helper for this host, then what the file itself holds for the closest namespace, then the default helper.
    fn entry(&self, host: &str, repository: &str) -> Option<Entry> {
        let helper = |name: &String| Some(Entry::Helper(name.clone())).filter(|_| !name.is_empty());
        let for_host = self.cred_helpers.iter().find(|(key, _)| normal(key) == host);
        if let Some(entry) = for_host.and_then(|(_, name)| helper(name)) {
            return Some(entry);
        }
        let namespaces = namespaces(host, repository);
        let stored = namespaces.iter().find_map(|name| self.auths.iter().find(|(key, stored)| normal(key) == *name && !stored.is_empty()));
        match stored {
            Some((_, stored)) => Some(stored.login().map_or(Entry::Broken, Entry::Login)),
            None => self.creds_store.as_ref().and_then(helper),
        }
    }
}

impl Stored {
    /// With a helper, docker keeps an empty entry to remember the host.
    fn is_empty(&self) -> bool {
        let all = [&self.auth, &self.username, &self.password, &self.identitytoken, &self.registrytoken];
        all.iter().all(|field| field.as_deref().unwrap_or_default().is_empty())
    }

    fn login(&self) -> Option<Login> {
        let filled = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        if let Some(token) = filled(&self.registrytoken) {
            return Some(Login::Token(token));
        }
        if let Some(token) = filled(&self.identitytoken) {
            return Some(Login::Identity(token));
        }
        if let (Some(user), Some(password)) = (filled(&self.username), filled(&self.password)) {
            return Some(Login::Password { user, password });
        }
        let decoded = BASE64_STANDARD.decode(filled(&self.auth)?.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        let (user, password) = text.trim_end_matches('\0').split_once(':')?;
        Some(Login::Password { user: user.to_owned(), password: password.to_owned() })
    }
}

/// `host/a/b`, `host/a`, `host`.
fn namespaces(host: &str, repository: &str) -> Vec<String> {
    let mut name = format!("{host}/{repository}");
    let mut all = vec![name.clone()];
    while let Some(end) = name.rfind('/') {
        name.truncate(end);
        all.push(name.clone());
    }
    all
}

/// Old docker wrote addresses: `https://host/v1/`.
fn normal(key: &str) -> String {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key).trim_end_matches('/');
    let bare = bare.strip_suffix("/v1").or_else(|| bare.strip_suffix("/v2")).unwrap_or(bare);
    match bare {
        "index.docker.io" | "registry-1.docker.io" => DOCKER_HUB.to_owned(),
        _ => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(user: &str) -> Entry {
        Entry::Login(Login::Password { user: user.to_owned(), password: "p:w".to_owned() })
    }

    #[test]
    fn the_closest_entry_counts() {
        let auth = |user: &str| BASE64_STANDARD.encode(format!("{user}:p:w"));
        let text = format!(
            r#"{{"auths": {{
                "lab.example": {{"auth": "{}"}}, "lab.example/team": {{"auth": "{}"}}, "https://index.docker.io/v1/": {{"auth": "{}"}},
                "kept.example": {{}}, "broken.example": {{"auth": "???"}}, "plain.example": {{"username": "plain", "password": "p:w"}},
                "identity.example": {{"auth": "{}", "identitytoken": "t"}}, "token.example": {{"registrytoken": "t"}}
            }}, "credHelpers": {{"helped.example": "pass"}}, "credsStore": "desktop"}}"#,
            auth("host"),
            auth("team"),
            auth("hub"),
            auth("<token>"),
        );
        let file: File = serde_json::from_str(&text).unwrap();
        let helper = |name: &str| Some(Entry::Helper(name.to_owned()));
        let rows = [
            ("lab.example", "x", Some(password("host"))),
            ("lab.example", "team/x", Some(password("team"))),
            ("lab.example", "teams/x", Some(password("host"))),
            ("docker.io", "library/debian", Some(password("hub"))),
            ("plain.example", "x", Some(password("plain"))),
            ("identity.example", "x", Some(Entry::Login(Login::Identity("t".into())))),
            ("token.example", "x", Some(Entry::Login(Login::Token("t".into())))),
            ("broken.example", "x", Some(Entry::Broken)),
            ("helped.example", "x", helper("pass")),
            ("kept.example", "x", helper("desktop")),
            ("lab.example:5000", "x", helper("desktop")),
        ];
        for (host, repository, expected) in rows {
            assert_eq!(file.entry(host, repository), expected, "{host}/{repository}");
        }
        assert_eq!(File::default().entry("lab.example", "x"), None);
    }

    #[test]
    fn podman_and_docker_are_asked_where_they_keep_things() {
        let variables = [("HOME", "/home/me"), ("XDG_RUNTIME_DIR", "/run/user/7"), ("REGISTRY_AUTH_FILE", "/first.json")];
        let found = places(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()), 7);
        let expected = [
            "/first.json",
            "/etc/shorefast/auth.json",
            "/run/user/7/containers/auth.json",
            "/run/containers/7/auth.json",
            "/home/me/.config/containers/auth.json",
            "/home/me/.docker/config.json",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        let homeless = places(|_| None, 0);
        assert_eq!(homeless, ["/etc/shorefast/auth.json", "/run/containers/0/auth.json"].map(PathBuf::from));
    }

    #[test]
    fn a_broken_file_is_told_without_its_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        let credentials = Credentials::in_files([directory.path().join("absent.json"), path.clone()]);
        for text in [
            r#"{"auths": {"a.example": {"auth": "c2VjcmV0"}"#,
            r#"{"auths": "c2VjcmV0"}"#,
            r#"{"auths": {"a.example": {"auth": "c2VjcmV0"}}}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            let error = credentials.find("a.example", "x").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("c2VjcmV0"), "{error:?}");
        }
        assert!(!format!("{:?}", Login::Token("c2VjcmV0".into())).contains("c2VjcmV0"));
    }
}
