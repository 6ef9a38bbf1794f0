//! Clients under test, and the two ways to use them: sandboxed by Shorefast, and natively as the oracle that proves the scenario.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::command;
use crate::{Host, Ran};

/// Where `cargo xtask setup` puts the root filesystems.
pub fn images() -> PathBuf {
    cache().join("images")
}

/// An image store that all tests share: an image that one test builds is there for the others.
pub fn store() -> PathBuf {
    cache().join("store")
}

/// The local archive of the packages that the catalogue names: Debian's current release. `cargo xtask setup` makes it.
pub fn current_packages() -> PathBuf {
    cache().join("debian-trixie")
}

/// A small archive that also has packages for another architecture.
pub fn packages_of_two_architectures() -> PathBuf {
    cache().join("debian-two")
}

/// The same with the other packages that the catalogue names, and with tools that its tests need to make filesystems and to serve files.
pub fn catalogue_packages() -> PathBuf {
    cache().join("debian-catalogue")
}

/// The same for the previous release, which can be named.
pub fn packages() -> PathBuf {
    cache().join("debian")
}

pub fn cache() -> PathBuf {
    std::env::var_os("SHOREFAST_CACHE").map_or_else(|| std::env::home_dir().expect("HOME is set").join(".cache/shorefast"), PathBuf::from)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The client that is installed on this machine runs with all the rights of root.
    Native,
    /// `--image dir:`
    Directory,
    /// The same with `--mode chroot`
    Chroot,
    /// `--image tar:` with this file of the images directory.
    Archive(&'static str),
    /// Neither a definition nor an image is named: both are built in.
    Catalogue,
}

/// A client definition in a file, and the image that has the client.
#[derive(Debug, Clone)]
pub struct Client {
    pub definition: PathBuf,
    image: &'static str,
}

impl Client {
    /// One of tests/clients; its image has the same name.
    pub fn named(name: &'static str) -> Self {
        let definition = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name).with_extension("toml");
        Self { definition, image: name }
    }

    pub fn from_file(definition: PathBuf, image: &'static str) -> Self {
        Self { definition, image }
    }

    /// A definition written for one test, with an image of the set-up.
    pub fn defined(host: &Host, image: &'static str, definition: &str) -> Self {
        Self::from_file(host.file("client.toml", definition), image)
    }

    /// A client whose helper is a shell script: `$1` is the target.
    pub fn script(host: &Host, script: &str, more_keys: &str) -> Self {
        let script = toml::Value::String(script.to_owned());
        let definition = format!(
            "types = [\"script\"]\nkernel_types = [\"tmpfs\", \"fuse.script\"]\n{more_keys}\ncommand = [\"sh\", \"-c\", {script}, \"sh\", \"{{target}}\"]\n"
        );
        Self::defined(host, "tmpfs", &definition)
    }

    pub fn image_directory(&self) -> PathBuf {
        images().join(self.image)
    }
}

/// A type `script` in the host's configuration, whose source is not a path of the host, as for most types.
pub fn define_script(host: &Host, script: &str, more_keys: &str) {
    let script = toml::Value::String(script.to_owned());
    let image = Client::named("tmpfs").image_directory();
    host.define(
        "script",
        &format!(
            "types = [\"script\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\n{more_keys}\ncommand = [\"sh\", \"-c\", {script}, \"sh\", \"{{target}}\", \"{{options}}\"]\n",
            image.display()
        ),
    );
}

/// A request to mount; built by the test, done in any `Way`.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub client: &'a Client,
    pub fstype: &'a str,
    pub source: OsString,
    pub target: PathBuf,
    pub options: OsString,
}

impl<'a> Request<'a> {
    pub fn new(client: &'a Client, fstype: &'a str, source: impl AsRef<OsStr>, target: impl AsRef<Path>) -> Self {
        let (source, target) = (source.as_ref().to_owned(), target.as_ref().to_owned());
        Self { client, fstype, source, target, options: OsString::new() }
    }

    pub fn options(mut self, options: impl AsRef<OsStr>) -> Self {
        self.options = options.as_ref().to_owned();
        self
    }

    #[track_caller]
    pub fn mount(&self, host: &Host, way: Way) -> Ran {
        match way {
            Way::Native => self.mount_natively(),
            Way::Catalogue => {
                host.offer_packages();
                host.shorefast(&self.catalogue_arguments(&[]))
            }
            _ => host.shorefast(&self.arguments(way, &[])),
        }
    }

    /// Sandboxed from a directory, which most tests use.
    #[track_caller]
    pub fn sandboxed(&self, host: &Host) -> Ran {
        self.mount(host, Way::Directory)
    }

    /// Arguments for the binary; `more` goes before source and target.
    pub fn arguments(&self, way: Way, more: &[&str]) -> Vec<OsString> {
        let mut image = OsString::new();
        match way {
            Way::Archive(file) => {
                image.push("tar:");
                image.push(images().join(file));
            }
            Way::Catalogue => return self.catalogue_arguments(more),
            Way::Native | Way::Directory | Way::Chroot => {
                image.push("dir:");
                image.push(self.client.image_directory());
            }
        }
        let mut words: Vec<OsString> = ["mount", "-t", self.fstype].map(OsString::from).into();
        if !self.options.is_empty() {
            words.extend(["-o".into(), self.options.clone()]);
        }
        words.extend(["--client-file".into(), self.client.definition.clone().into(), "--image".into(), image]);
        if way == Way::Chroot {
            words.extend(["--mode", "chroot"].map(OsString::from));
        }
        words.extend(more.iter().map(OsString::from));
        words.extend(["--".into(), self.source.clone(), self.target.clone().into()]);
        words
    }

    /// As a user calls it who knows only the type.
    fn catalogue_arguments(&self, more: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--root".into(), store().into(), "mount".into(), "-t".into(), self.fstype.into()];
        if !self.options.is_empty() {
            words.extend(["-o".into(), self.options.clone()]);
        }
        words.extend(more.iter().map(OsString::from));
        words.extend(["--".into(), self.source.clone(), self.target.clone().into()]);
        words
    }

    /// The definition's command, run by root on the machine itself.
    fn mount_natively(&self) -> Ran {
        let text = fs::read_to_string(&self.client.definition).expect("a client definition can be read");
        let definition: Definition = toml::from_str(&text).expect("a client definition is valid");
        for (path, content) in &definition.provide {
            fs::write(path, content).unwrap_or_else(|error| panic!("cannot provide {path}: {error}"));
        }
        let words = self.fill_in(&definition.command);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(&definition.env);
        command::finish(command)
    }

    fn fill_in(&self, command: &[String]) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for word in command {
            match word.as_str() {
                "{type}" => words.push(self.fstype.into()),
                "{source}" => words.push(self.source.clone()),
                "{target}" => words.push(self.target.clone().into()),
                "{flags}" => {}
                "{options}" if self.options.is_empty() => drop(words.pop()),
                "{options}" => words.push(self.options.clone()),
                _ => words.push(word.into()),
            }
        }
        words
    }
}

/// The part of a definition that the oracle needs.
#[derive(Deserialize)]
struct Definition {
    #[serde(default = "default_command")]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    provide: BTreeMap<String, String>,
}

fn default_command() -> Vec<String> {
    ["mount", "-t", "{type}", "-o", "{options}", "{source}", "{target}"].map(str::to_owned).into()
}
