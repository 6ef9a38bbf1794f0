//! In: directories of client files (possibly ConfigMaps) and the caller's `--client-image`. Out: definition layers on top of the catalogue.
//! Read once per call, in one go: a concurrent change is seen whole or not at all.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use shorefast_trust::{self as trust, Chosen};

use crate::catalogue;
use crate::definition::{Definition, Layer};
use crate::error::Error;
use crate::last_good::{LastGood, Version};

/// Where an administrator or a vendor puts definitions.
pub const DIRECTORY: &str = "/etc/shorefast/clients.d";

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Directories of client files. Later ones take precedence.
    pub directories: Vec<PathBuf>,
    /// Take precedence over any file.
    pub images: Vec<ClientImage>,
    /// Where the last good state of ConfigMaps is kept.
    pub last_good: Option<PathBuf>,
}

/// `nfs=IMAGE`: the image of one client, by its name or one of its types.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClientImage {
    pub client: String,
    pub image: String,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Configuration {
    /// Highest precedence last; within a directory sorted by name.
    files: Vec<ClientFile>,
    pub images: Vec<ClientImage>,
    pub directories: Vec<PathBuf>,
    /// Directories whose present content is wrong, so that their last good state is in force.
    pub problems: Vec<Error>,
}

#[derive(Debug)]
struct ClientFile {
    /// The client's name.
    name: String,
    path: PathBuf,
    content: io::Result<String>,
}

/// One layer of a definition.
#[derive(Clone, Debug)]
pub struct Written {
    pub by: Author,
    pub layer: Layer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    BuiltIn,
    File(PathBuf),
    /// `--client-image`
    Caller,
}

pub fn read(sources: &Sources) -> Result<Configuration, Error> {
    let mut configuration =
        Configuration { images: sources.images.clone(), directories: sources.directories.clone(), ..Configuration::default() };
    for directory in &sources.directories {
        match Version::of(directory) {
            None => configuration.files.extend(client_files(directory, directory)?),
            Some(version) => configuration.take_map(directory, &version, sources.last_good.as_deref())?,
        }
    }
    Ok(configuration)
}

impl Configuration {
    /// Where a new client file belongs.
    pub fn first_directory(&self) -> PathBuf {
        self.directories.first().cloned().unwrap_or_else(|| DIRECTORY.into())
    }

    /// The names of all clients defined in files, highest precedence first.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let mut rest = &self.files[..];
        while let Some(last) = rest.last() {
            let of_one_directory = rest.iter().rposition(|file| file.path.parent() != last.path.parent()).map_or(0, |other| other + 1);
            names.extend(rest[of_one_directory..].iter().map(|file| file.name.as_str()));
            rest = &rest[..of_one_directory];
        }
        let mut once: Vec<&str> = Vec::new();
        for name in names {
            if !once.contains(&name) {
                once.push(name);
            }
        }
        once
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// All layers that files define for a client, highest precedence last.
    pub fn written(&self, name: &str) -> Result<Vec<Written>, Error> {
        self.files.iter().filter(|file| file.name == name).map(ClientFile::parse).collect()
    }

    /// A ConfigMap is valid or invalid as a whole: if any key is wrong, its last good state is used.
    fn take_map(&mut self, directory: &Path, version: &Version, last_good: Option<&Path>) -> Result<(), Error> {
        let memory = last_good.map(|place| LastGood::at(place, directory));
        let now = client_files(&version.snapshot, directory);
        let is_known = memory.as_ref().is_some_and(|memory| memory.is(version));
        let checked = now.and_then(|files| if is_known { Ok(files) } else { self.check(&files).map(|()| files) });
        match (checked, memory) {
            (Ok(files), memory) => {
                let texts = files.iter().filter_map(|file| Some((file.path.clone(), file.content.as_ref().ok()?.as_str())));
                memory.filter(|_| !is_known).inspect(|memory| memory.keep(version, texts));
                self.files.extend(files);
            }
            (Err(problem), memory) => {
                let Some(files) = memory.and_then(|memory| memory.recall()) else { return Err(problem) };
                self.problems.push(Error::LastGoodInForce { directory: directory.to_owned(), problem: Box::new(problem) });
                let file = |(path, text): (PathBuf, String)| ClientFile { name: client_of(&path, &text), path, content: Ok(text) };
                self.files.extend(files.into_iter().map(file));
            }
        }
        Ok(())
    }

    /// Whether all files, layered over those of lower precedence, make complete definitions.
    fn check(&self, files: &[ClientFile]) -> Result<(), Error> {
        for file in files {
            let mut written: Vec<_> = built_in(&file.name).into_iter().collect();
            written.extend(self.written(&file.name)?);
            written.push(file.parse()?);
            complete(&written)?;
        }
        Ok(())
    }
}

impl ClientFile {
    fn parse(&self) -> Result<Written, Error> {
        let again = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        let unreadable = |error: &io::Error| Error::DefinitionUnreadable { file: self.path.clone(), source: again(error) };
        let text = self.content.as_ref().map_err(unreadable)?;
        let layer = Layer::parse(text).map_err(|problem| Error::Definition { file: self.path.clone(), problem })?;
        Ok(Written { by: Author::File(self.path.clone()), layer })
    }
}

/// One file at any path: the client's name, and its layer.
pub fn of_file(path: &Path) -> Result<(String, Written), Error> {
    let file = ClientFile { name: stem(path), path: path.to_owned(), content: trust::read_to_string(path, Chosen::ByCaller) };
    let written = file.parse()?;
    Ok((file.name, written))
}

/// The catalogue's layer for a client.
pub fn built_in(name: &str) -> Option<Written> {
    catalogue::named(name).map(|layer| Written { by: Author::BuiltIn, layer })
}

/// Merges the layers, the last on top.
pub fn whole(written: &[Written]) -> Layer {
    written.iter().fold(Layer::default(), |below, one| one.layer.clone().over(below))
}

pub fn complete(written: &[Written]) -> Result<Definition, Error> {
    let file = written.iter().rev().find_map(|one| if let Author::File(path) = &one.by { Some(path.clone()) } else { None });
    whole(written).complete().map_err(|problem| Error::Definition { file: file.unwrap_or_else(|| "built in".into()), problem })
}

/// `snapshot`: where the files are read; `directory`: the path shown to users.
fn client_files(snapshot: &Path, directory: &Path) -> Result<Vec<ClientFile>, Error> {
    let unreadable = |source| Error::DefinitionUnreadable { file: directory.to_owned(), source };
    let entries = match std::fs::read_dir(snapshot) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
    names.sort();
    let checked = trust::Directory::check(snapshot).map_err(unreadable)?;
    let file = |name: &OsStr| ClientFile { name: stem(Path::new(name)), path: directory.join(name), content: checked.read_to_string(name) };
    let mut files: Vec<_> =
        names.iter().filter(|name| Path::new(name).extension().is_some_and(|end| end == "toml")).map(|name| file(name)).collect();
    files.extend(short_form(&checked, directory)?);
    Ok(files)
}

/// The two keys of the short form of a ConfigMap, which only maps a type to an image.
const PLUGIN: &str = "volume-plugin";
const IMAGE: &str = "docker-container";

fn short_form(snapshot: &trust::Directory, directory: &Path) -> Result<Option<ClientFile>, Error> {
    let value = |key: &str| match snapshot.read_to_string(key) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::DefinitionUnreadable { file: directory.join(key), source }),
    };
    let lacks = |present: &str, missing: &str| {
        let problem = format!("key `{missing}` is missing beside `{present}`");
        Err(Error::Definition { file: directory.join(present), problem })
    };
    match (value(PLUGIN)?, value(IMAGE)?) {
        (None, None) => Ok(None),
        (Some(_), None) => lacks(PLUGIN, IMAGE),
        (None, Some(_)) => lacks(IMAGE, PLUGIN),
        (Some(plugin), Some(image)) => {
            let text = definition_of(&plugin, &image);
            Ok(Some(ClientFile { name: client_of_type(&plugin), path: directory.join(IMAGE), content: Ok(text) }))
        }
    }
}

/// Expands the short form. The first line is for [`client_of`].
fn definition_of(plugin: &str, image: &str) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned());
    let types = if catalogue::mentioning(plugin).next().is_some() || catalogue::named(plugin).is_some() {
        String::new()
    } else {
        format!("types = [{}]\n", quoted(plugin))
    };
    format!("# {PLUGIN}: {plugin}\n{types}image = {}\n", quoted(image))
}

/// A client file's name is the client's name; in the short form, the text holds it.
fn client_of(path: &Path, text: &str) -> String {
    let plugin = text.lines().next().and_then(|line| line.strip_prefix(&format!("# {PLUGIN}: ")));
    plugin.filter(|_| path.file_name() == Some(OsStr::new(IMAGE))).map_or_else(|| stem(path), client_of_type)
}

/// The built-in client for a type, or a client named after the type.
fn client_of_type(plugin: &str) -> String {
    let listed = || catalogue::mentioning(plugin).next().map(str::to_owned);
    if catalogue::named(plugin).is_some() { plugin.to_owned() } else { listed().unwrap_or_else(|| plugin.to_owned()) }
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl fmt::Display for Author {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => write!(out, "the built-in one"),
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Caller => write!(out, "--client-image"),
        }
    }
}

impl std::str::FromStr for ClientImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((client, image)) if !client.is_empty() && !image.is_empty() => {
                Ok(Self { client: client.to_owned(), image: image.to_owned() })
            }
            _ => Err("write CLIENT=IMAGE, such as nfs=registry.example/nfs:1".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as kubelet makes it from a ConfigMap.
    struct Map {
        directory: tempfile::TempDir,
        memory: tempfile::TempDir,
    }

    impl Map {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), memory: tempfile::tempdir().unwrap() }
        }

        fn update(&self, version: &str, keys: &[(&str, &str)]) {
            let place = self.directory.path();
            std::fs::create_dir(place.join(version)).unwrap();
            keys.iter().for_each(|(key, value)| std::fs::write(place.join(version).join(key), value).unwrap());
            std::os::unix::fs::symlink(version, place.join("..data_tmp")).unwrap();
            std::fs::rename(place.join("..data_tmp"), place.join("..data")).unwrap();
        }

        fn read(&self) -> Result<Configuration, Error> {
            let directories = vec![self.directory.path().to_owned()];
            read(&Sources { directories, last_good: Some(self.memory.path().to_owned()), ..Sources::default() })
        }

        fn image(&self, client: &str) -> Option<String> {
            let written = self.read().unwrap().written(client).unwrap();
            written.last()?.layer.image.clone()
        }
    }

    #[test]
    fn a_map_is_read_anew_and_its_last_good_state_stays_in_force() {
        let map = Map::new();
        map.update("..1", &[("nfs.toml", "image = \"dir:/1\"")]);
        assert_eq!(map.image("nfs").as_deref(), Some("dir:/1"));
        map.update("..2", &[("nfs.toml", "image = \"dir:/2\""), ("ceph.toml", "image = \"dir:/c\"")]);
        assert_eq!((map.image("nfs").as_deref(), map.image("ceph").as_deref()), (Some("dir:/2"), Some("dir:/c")));
        map.update("..3", &[("nfs.toml", "image = \"dir:/3\""), ("ceph.toml", "imagee = 1")]);
        assert_eq!((map.image("nfs").as_deref(), map.image("ceph").as_deref()), (Some("dir:/2"), Some("dir:/c")), "all of it or nothing");
        let problem = map.read().unwrap().problems[0].to_string();
        assert!(problem.contains("last good"), "{problem}");
        map.update("..4", &[("nfs.toml", "image = \"dir:/4\"")]);
        assert_eq!((map.image("nfs").as_deref(), map.image("ceph")), (Some("dir:/4"), None));
        assert!(map.read().unwrap().problems.is_empty());
    }

    #[test]
    fn a_map_that_never_was_good_is_an_error() {
        let map = Map::new();
        map.update("..1", &[("nfs.toml", "image = 1")]);
        assert!(matches!(map.read(), Err(Error::Definition { file, .. }) if file.ends_with("nfs.toml")));
    }

    #[test]
    fn the_short_form_names_the_image_of_a_type() {
        let map = Map::new();
        map.update("..1", &[("volume-plugin", "nfs\n"), ("docker-container", "k8io/nfs:latest\n")]);
        assert_eq!(map.image("nfs").as_deref(), Some("k8io/nfs:latest"));
        map.update("..2", &[("volume-plugin", "nfs")]);
        assert_eq!(map.image("nfs").as_deref(), Some("k8io/nfs:latest"), "the last good one, also of the short form");
        map.update("..3", &[("volume-plugin", "fuse.sshfs"), ("docker-container", "x/sshfs")]);
        assert_eq!(map.image("sshfs").as_deref(), Some("x/sshfs"), "a type of a built-in client");
        map.update("..4", &[("volume-plugin", "mine"), ("docker-container", "x/mine")]);
        let written = map.read().unwrap().written("mine").unwrap();
        assert_eq!(complete(&written).unwrap().types, ["mine"], "a type that nobody knows");
    }

    #[test]
    fn an_image_for_a_client_has_two_sides() {
        let parsed: Result<ClientImage, _> = "nfs=registry.example/nfs:1?a=b".parse();
        assert_eq!(parsed.map(|image| (image.client, image.image)), Ok(("nfs".into(), "registry.example/nfs:1?a=b".into())));
        for text in ["", "nfs", "nfs=", "=x"] {
            assert!(text.parse::<ClientImage>().is_err(), "{text}");
        }
    }
}
