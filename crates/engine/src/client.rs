//! In: a client name or filesystem type, and the configuration. Out: the client's definition. Keys that files and callers leave out, and
//! types that they do not list, come from the built-in catalogue. No code knows a client by name.

use std::fmt;
use std::path::Path;

use shorefast_image::nearest;

use crate::catalogue;
use crate::configuration::{self, Author, ClientImage, Configuration, Written};
use crate::definition::{Definition, Layer};
use crate::error::{Error, Looked};
use crate::request::ClientChoice;

/// A definition, and the layers it was made from.
#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub origin: Origin,
    pub definition: Definition,
    /// The layers, highest precedence last.
    pub written: Vec<Written>,
}

/// The authors of a definition, highest precedence last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub Vec<Author>);

/// Finds the client for a request.
pub fn find(choice: &ClientChoice, fstype: Option<&str>, configuration: &Configuration) -> Result<Client, Error> {
    let client = match choice {
        ClientChoice::File(file) => load(file, &configuration.images),
        ClientChoice::Named(name) => named(name, configuration),
        ClientChoice::ByType => by_type(fstype.ok_or(Error::NoType)?, configuration),
    }?;
    // An image for a client that does not exist is a typo, even when this call uses another client.
    for image in configuration.images.iter().filter(|image| !client.is(&image.client)) {
        either(&image.client, configuration)?;
    }
    Ok(client)
}

/// The client of this name.
pub fn named(name: &str, configuration: &Configuration) -> Result<Client, Error> {
    let mut written: Vec<_> = configuration::built_in(name).into_iter().collect();
    written.extend(configuration.written(name)?);
    if written.is_empty() {
        let near = nearest(name, configuration.names().into_iter().chain(catalogue::names())).map(str::to_owned);
        return Err(Error::UnknownClient { name: name.to_owned(), near, looked: looked(configuration) });
    }
    assemble(name, written, &configuration.images)
}

/// The first client that lists the type: files first, in order of precedence; then the catalogue.
pub fn by_type(fstype: &str, configuration: &Configuration) -> Result<Client, Error> {
    let in_files = configuration.names();
    let built_in = catalogue::mentioning(fstype).filter(|name| !in_files.contains(name));
    for name in in_files.iter().copied().chain(built_in) {
        let client = named(name, configuration)?;
        if client.lists(fstype) {
            return Ok(client);
        }
    }
    let types: Vec<_> = all(configuration).into_iter().flatten().flat_map(|client| client.definition.types).collect();
    let near = nearest(fstype, types.iter().map(String::as_str)).map(str::to_owned);
    Err(Error::UnknownType { fstype: fstype.to_owned(), near, looked: looked(configuration) })
}

fn looked(configuration: &Configuration) -> Box<Looked> {
    Box::new(Looked { at: configuration.paths(), directory: configuration.first_directory() })
}

/// The client of this name, or else the one for this type.
pub fn either(name: &str, configuration: &Configuration) -> Result<Client, Error> {
    match named(name, configuration) {
        // A client file that cannot be used is the more useful error than an unknown name.
        Err(Error::UnknownClient { name, near, looked }) => by_type(&name, configuration).map_err(|other| {
            // What was meant may be a type.
            let type_meant = if let Error::UnknownType { near, .. } = other { near } else { None };
            Error::UnknownClient { near: near.or(type_meant), name, looked }
        }),
        client => client,
    }
}

/// All clients, in the order in which a type is looked up. A file that cannot be used is an error in its place.
pub fn all(configuration: &Configuration) -> Vec<Result<Client, Error>> {
    let in_files = configuration.names();
    let others = catalogue::names().filter(|name| !in_files.contains(name));
    in_files.iter().copied().chain(others).map(|name| named(name, configuration)).collect()
}

/// A definition that is not layered over a built-in one.
pub fn load(file: &Path, images: &[ClientImage]) -> Result<Client, Error> {
    let (name, written) = configuration::of_file(file)?;
    assemble(&name, vec![written], images)
}

/// A definition as it would be used from a directory of definitions.
pub fn check(file: &Path) -> Result<Client, Error> {
    let (name, written) = configuration::of_file(file)?;
    assemble(&name, configuration::built_in(&name).into_iter().chain([written]).collect(), &[])
}

fn assemble(name: &str, mut written: Vec<Written>, images: &[ClientImage]) -> Result<Client, Error> {
    let definition = configuration::complete(&written)?;
    let mut client = Client { name: name.to_owned(), origin: Origin(Vec::new()), definition, written: Vec::new() };
    // The last image given for a client wins.
    if let Some(image) = images.iter().rfind(|image| client.is(&image.client)) {
        client.definition.image = Some(image.image.clone());
        written.push(Written { by: Author::Caller, layer: Layer { image: Some(image.image.clone()), ..Layer::default() } });
    }
    client.origin = Origin(written.iter().map(|one| one.by.clone()).collect());
    Ok(Client { written, ..client })
}

impl Client {
    fn lists(&self, fstype: &str) -> bool {
        self.definition.types.iter().any(|known| known == fstype)
    }

    fn is(&self, name_or_type: &str) -> bool {
        self.name == name_or_type || self.lists(name_or_type)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut authors = self.0.iter().rev();
        match authors.next() {
            None | Some(Author::BuiltIn) => write!(out, "built in")?,
            Some(author) => write!(out, "{author}")?,
        }
        authors.try_for_each(|author| write!(out, " over {author}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Sources, read};

    fn with_files(directories: &[&[(&str, &str)]]) -> (Vec<tempfile::TempDir>, Configuration) {
        let made: Vec<_> = directories.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        for (directory, files) in made.iter().zip(directories) {
            files.iter().for_each(|(name, text)| std::fs::write(directory.path().join(name), text).unwrap());
        }
        let sources = Sources { directories: made.iter().map(|one| one.path().to_owned()).collect(), ..Sources::default() };
        let configuration = read(&sources).unwrap();
        (made, configuration)
    }

    #[test]
    fn a_type_is_found_in_files_first_and_then_in_the_catalogue() {
        let (_keep, configuration) = with_files(&[&[("mine.toml", "types = [\"sshfs\"]\nimage = \"dir:/mine\"")]]);
        let client = by_type("sshfs", &configuration).unwrap();
        assert_eq!((client.name.as_str(), client.origin), ("mine", Origin(vec![Author::File(configuration.paths()[0].clone())])));
        let client = by_type("fuse.sshfs", &configuration).unwrap();
        assert_eq!((client.name.as_str(), client.origin), ("sshfs", Origin(vec![Author::BuiltIn])));
    }

    #[test]
    fn a_file_with_a_built_in_name_overrides_key_by_key() {
        let (_keep, configuration) = with_files(&[&[("sshfs.toml", "image = \"dir:/mine\"")]]);
        let client = by_type("fuse.sshfs", &configuration).unwrap();
        assert_eq!(client.definition.image.as_deref(), Some("dir:/mine"));
        assert_eq!(client.definition.files, named("sshfs", &Configuration::default()).unwrap().definition.files);
        assert_eq!(client.origin.to_string(), format!("{} over the built-in one", configuration.paths()[0].display()));
        assert!(load(&configuration.paths()[0], &[]).is_err(), "alone, it has no types");
    }

    #[test]
    fn later_directories_and_then_the_callers_images_count_more() {
        let low: &[(&str, &str)] = &[("sshfs.toml", "image = \"dir:/low\"\nmounts = 2"), ("a.toml", "types = [\"x\"]\nimage = \"dir:/a\"")];
        let high: &[(&str, &str)] = &[("sshfs.toml", "image = \"dir:/high\""), ("b.toml", "types = [\"x\"]\nimage = \"dir:/b\"")];
        let (_keep, mut configuration) = with_files(&[low, high]);
        let client = by_type("sshfs", &configuration).unwrap();
        assert_eq!((client.definition.image.as_deref(), client.definition.mounts), (Some("dir:/high"), 2));
        assert_eq!(by_type("x", &configuration).unwrap().name, "b");
        configuration.images = vec!["fuse.sshfs=dir:/flag".parse().unwrap()];
        let client = by_type("sshfs", &configuration).unwrap();
        assert_eq!(client.definition.image.as_deref(), Some("dir:/flag"));
        assert!(client.origin.to_string().starts_with("--client-image over "), "{}", client.origin);
    }

    #[test]
    fn what_nobody_defines_is_unknown() {
        let configuration = Configuration::default();
        assert!(matches!(by_type("nosuch", &configuration), Err(Error::UnknownType { near: None, .. })));
        assert!(matches!(by_type("sshsf", &configuration), Err(Error::UnknownType { near: Some(near), .. }) if near == "sshfs"));
        assert!(matches!(named("quobyte", &configuration), Err(Error::UnknownClient { near: None, .. })));
        assert!(matches!(named("glustefs", &configuration), Err(Error::UnknownClient { near: Some(near), .. }) if near == "glusterfs"));
        assert!(matches!(either("fuse.sshsf", &configuration), Err(Error::UnknownClient { near: Some(near), .. }) if near == "fuse.sshfs"));
        assert!(matches!(named("../sshfs", &configuration), Err(Error::UnknownClient { .. })));
        let (_keep, mut slip) = with_files(&[]);
        slip.images = vec!["nsf=dir:/x".parse().unwrap()];
        assert!(matches!(find(&ClientChoice::ByType, Some("sshfs"), &slip), Err(Error::UnknownClient { name, .. }) if name == "nsf"));
    }
}
