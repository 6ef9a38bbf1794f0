//! In: this machine's files. Out: its archives, keys and proxies.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use shorefast_net as net;
use shorefast_trust::Chosen;

use crate::apt;
use crate::error::Error;
use crate::sources::Machine;

/// Where an administrator configures the archives to use.
pub const CONFIGURATION: &str = "/etc/shorefast/packages.toml";

/// `configuration` need not exist. An unreadable file of apt's counts as missing.
pub fn read(configuration: &Path, distribution: &str) -> Result<Machine, Error> {
    read_below(Path::new("/"), configuration, distribution)
}

fn read_below(root: &Path, configuration: &Path, distribution: &str) -> Result<Machine, Error> {
    let configuration = match shorefast_trust::read_to_string(configuration, Chosen::ByPlace) {
        Ok(text) => {
            toml::from_str(&text).map_err(|source| Error::Configuration { path: configuration.to_owned(), source: Box::new(source) })?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Default::default(),
        Err(source) => return Err(Error::Read { path: configuration.to_owned(), source }),
    };
    let directory = root.join("etc/apt");
    let mut entries = apt::one_line_sources(&text(&directory.join("sources.list")));
    for file in files(&directory.join("sources.list.d"), &["list", "sources"]) {
        let is_line = file.extension().is_some_and(|end| end == "list");
        entries.extend(if is_line { apt::one_line_sources(&text(&file)) } else { apt::deb822_sources(&text(&file)) });
    }
    let mut keyrings = files(&directory.join("trusted.gpg.d"), &["gpg", "asc"]);
    let shared = root.join("usr/share/keyrings");
    let usual = ["gpg", "pgp"].map(|end| shared.join(format!("{distribution}-archive-keyring.{end}")));
    keyrings.extend(usual.into_iter().chain([directory.join("trusted.gpg")]).filter(|file| file.is_file()));
    let suite = own_suite(&text(&root.join("etc/os-release")), distribution);
    Ok(Machine { configuration, apt: entries, suite, keyrings })
}

/// The HTTP client for archives: uses the proxies of the environment or else of apt. Plain HTTP is allowed, as everything is signed.
pub fn client() -> Result<net::Client, Error> {
    let directory = Path::new("/etc/apt");
    let files = files(&directory.join("apt.conf.d"), &["conf", ""]);
    let apt: String = files.iter().chain([&directory.join("apt.conf")]).map(|file| text(file)).collect();
    let proxies = net::Proxies::from_variables(|name| std::env::var(name).ok().or_else(|| apt_proxy(&apt, name)));
    let proxies = proxies.map_err(|source| Error::Fetch { what: "packages".to_owned(), source })?;
    Ok(net::Client::new(&net::Settings { proxies, plain_http: net::PlainHttp::Allowed, ..net::Settings::default() }))
}

/// apt's setting in place of an environment variable. "DIRECT" means none, which is the default anyway.
fn apt_proxy(configuration: &str, variable: &str) -> Option<String> {
    let name = match variable {
        "http_proxy" => "Acquire::http::Proxy",
        "https_proxy" => "Acquire::https::Proxy",
        _ => return None,
    };
    apt::setting(configuration, name).filter(|proxy| proxy.contains("://"))
}

fn own_suite(os_release: &str, distribution: &str) -> Option<String> {
    let value =
        |name| os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(|value| value.trim_matches(['"', '\'']));
    if value("ID")? == distribution { value("VERSION_CODENAME").map(str::to_owned) } else { None }
}

fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned() + "\n").unwrap_or_default()
}

/// In apt's order; an empty suffix stands for none.
fn files(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let ending = |path: &PathBuf| endings.contains(&path.extension().and_then(|end| end.to_str()).unwrap_or_default());
    let mut files: Vec<_> = entries.filter(|path| ending(path) && path.is_file()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_machine() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("etc/os-release", "NAME=Debian\nID=debian\nVERSION_CODENAME=\"x\"\n");
        write("etc/apt/sources.list", "deb http://a x main");
        write("etc/apt/sources.list.d/b.sources", "Types: deb\nURIs: http://b\nSuites: x-updates\nComponents: main\n");
        write("etc/apt/sources.list.d/c.list.save", "deb http://c x main\n");
        write("etc/apt/trusted.gpg.d/k.asc", "");
        write("usr/share/keyrings/debian-archive-keyring.gpg", "");
        write("usr/share/keyrings/vendor.gpg", "");
        let machine = read_below(root.path(), &root.path().join("packages.toml"), "debian").unwrap();
        assert_eq!(machine.apt.iter().map(|entry| entry.uris[0].as_str()).collect::<Vec<_>>(), ["http://a", "http://b"]);
        assert_eq!(machine.suite.as_deref(), Some("x"));
        let keyrings: Vec<_> = machine.keyrings.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(keyrings, ["k.asc", "debian-archive-keyring.gpg"]);
        assert_eq!(read_below(root.path(), &root.path().join("packages.toml"), "ubuntu").unwrap().suite, None);
    }

    #[test]
    fn a_mistake_in_the_configuration_is_not_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("packages.toml");
        fs::write(&file, "miror = []\n").unwrap();
        assert!(matches!(read_below(root.path(), &file, "debian"), Err(Error::Configuration { .. })));
    }
}
