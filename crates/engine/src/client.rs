//! Clients: which definition is used for what. Files come first, in the order of their names; what they do not say, and types
//! that they do not name, come from the built-in catalogue. No code knows a client by name.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::catalogue;
use crate::definition::{Definition, Layer};
use crate::error::Error;
use crate::request::ClientChoice;

/// Where an administrator or a vendor drops definitions.
pub const DIRECTORY: &str = "/etc/shorefast/clients.d";

/// A definition, and how it came about.
#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub origin: Origin,
    pub definition: Definition,
    /// As written, the file's part and the built-in one.
    pub written: Written,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    File(PathBuf),
    /// A file that overrides keys of the built-in definition of the same name.
    FileOverBuiltIn(PathBuf),
}

#[derive(Clone, Debug, Default)]
pub struct Written {
    pub file: Option<Layer>,
    pub built_in: Option<Layer>,
}

/// Whether what a file leaves out may come from the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    BuiltIn,
    Nothing,
}

/// Finds the client for a request.
pub fn find(choice: &ClientChoice, fstype: Option<&str>, directory: &Path) -> Result<Client, Error> {
    match choice {
        ClientChoice::File(file) => load(file),
        ClientChoice::Named(name) => named(name, directory),
        ClientChoice::ByType => by_type(fstype.ok_or(Error::NoType)?, directory),
    }
}

/// The client of this name.
pub fn named(name: &str, directory: &Path) -> Result<Client, Error> {
    let file = directory.join(format!("{name}.toml"));
    // A name is no path: `../x` is nobody's.
    if file.parent() == Some(directory) && file.is_file() {
        return from_file(&file, Below::BuiltIn);
    }
    match catalogue::named(name) {
        Some(text) => built_in(name, text),
        None => Err(Error::UnknownClient { name: name.to_owned(), looked_at: files(directory)?, directory: directory.to_owned() }),
    }
}

/// The first client that lists the type.
pub fn by_type(fstype: &str, directory: &Path) -> Result<Client, Error> {
    let looked_at = files(directory)?;
    for file in &looked_at {
        let client = from_file(file, Below::BuiltIn)?;
        if client.lists(fstype) {
            return Ok(client);
        }
    }
    for (name, text) in catalogue::mentioning(fstype).filter(|(name, _)| !looked_at.iter().any(|file| stem(file) == *name)) {
        let client = built_in(name, text)?;
        if client.lists(fstype) {
            return Ok(client);
        }
    }
    Err(Error::UnknownType { fstype: fstype.to_owned(), looked_at, directory: directory.to_owned() })
}

/// All clients, in the order in which a type is looked up. A file that cannot be read is an error in its place.
pub fn all(directory: &Path) -> Result<Vec<Result<Client, Error>>, Error> {
    let files = files(directory)?;
    let of_files = files.iter().map(|file| from_file(file, Below::BuiltIn));
    let others = catalogue::ALL.iter().filter(|(name, _)| !files.iter().any(|file| stem(file) == *name));
    Ok(of_files.chain(others.map(|(name, text)| built_in(name, text))).collect())
}

/// A definition that stands alone.
pub fn load(file: &Path) -> Result<Client, Error> {
    from_file(file, Below::Nothing)
}

/// A definition as it would be used from the directory of definitions.
pub fn check(file: &Path) -> Result<Client, Error> {
    from_file(file, Below::BuiltIn)
}

fn from_file(file: &Path, below: Below) -> Result<Client, Error> {
    let wrong = |problem| Error::Definition { file: file.to_owned(), problem };
    let text = std::fs::read_to_string(file).map_err(|source| Error::DefinitionUnreadable { file: file.to_owned(), source })?;
    let layer = Layer::parse(&text).map_err(wrong)?;
    let name = stem(file);
    let below = catalogue::named(&name).filter(|_| below == Below::BuiltIn).map(Layer::parse).transpose().map_err(wrong)?;
    let whole = layer.clone().over(below.clone().unwrap_or_default());
    Ok(Client {
        origin: if below.is_some() { Origin::FileOverBuiltIn(file.to_owned()) } else { Origin::File(file.to_owned()) },
        definition: whole.complete().map_err(wrong)?,
        written: Written { file: Some(layer), built_in: below },
        name,
    })
}

fn built_in(name: &str, text: &str) -> Result<Client, Error> {
    let wrong = |problem| Error::Definition { file: format!("{name} (built in)").into(), problem };
    let layer = Layer::parse(text).map_err(wrong)?;
    let definition = layer.clone().complete().map_err(wrong)?;
    let written = Written { file: None, built_in: Some(layer) };
    Ok(Client { name: name.to_owned(), origin: Origin::BuiltIn, definition, written })
}

impl Client {
    fn lists(&self, fstype: &str) -> bool {
        self.definition.types.iter().any(|known| known == fstype)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => write!(out, "built in"),
            Self::File(file) => write!(out, "{}", file.display()),
            Self::FileOverBuiltIn(file) => write!(out, "{} over the built-in one", file.display()),
        }
    }
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::DefinitionUnreadable { file: directory.to_owned(), source };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files: Vec<_> =
        paths.map_err(unreadable)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(directory.path().join(name), text).unwrap());
        directory
    }

    #[test]
    fn a_type_is_found_in_files_first_and_then_in_the_catalogue() {
        let directory = with_files(&[("mine.toml", "types = [\"sshfs\"]\nimage = \"dir:/mine\"")]);
        let client = by_type("sshfs", directory.path()).unwrap();
        assert_eq!((client.name.as_str(), client.origin), ("mine", Origin::File(directory.path().join("mine.toml"))));
        let client = by_type("fuse.sshfs", directory.path()).unwrap();
        assert_eq!((client.name.as_str(), client.origin), ("sshfs", Origin::BuiltIn));
    }

    #[test]
    fn a_file_with_a_built_in_name_overrides_key_by_key() {
        let directory = with_files(&[("sshfs.toml", "image = \"dir:/mine\"")]);
        let client = by_type("fuse.sshfs", directory.path()).unwrap();
        assert_eq!(client.definition.image.as_deref(), Some("dir:/mine"));
        assert_eq!(client.definition.files, built_in("sshfs", catalogue::named("sshfs").unwrap()).unwrap().definition.files);
        assert!(matches!(client.origin, Origin::FileOverBuiltIn(_)));
        assert!(load(&directory.path().join("sshfs.toml")).is_err(), "alone, it has no types");
    }

    #[test]
    fn what_nobody_defines_is_unknown() {
        let directory = with_files(&[]);
        assert!(matches!(by_type("nosuch", directory.path()), Err(Error::UnknownType { .. })));
        assert!(matches!(named("../sshfs", directory.path()), Err(Error::UnknownClient { .. })));
    }
}
