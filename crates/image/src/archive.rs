//! Images in files: OCI layouts, in a directory or in an archive, the output of `docker save` and `podman save`, and plain root
//! filesystems.
//!
//! In: a reference to a file. Out: a [`Source`]. The file is not trusted: every part is verified against the digest that named it, from the
//! manifest down.

mod docker;
mod layout;
mod files;

use std::fs::File;
use std::path::Path;

use crate::archive::files::Files;
use crate::error::Error;
use crate::layers::Rules;
use crate::reference::Reference;
use crate::source::{Blob, Layer, Source};
use crate::stream::Expected;

/// `scratch`: where a compressed archive may be expanded, in an unnamed file. `None`: the reference names no file that holds an image.
pub fn open(reference: &Reference, scratch: &Path) -> Result<Option<Source>, Error> {
    let name = reference.to_string();
    match reference {
        Reference::Layout { path, tag } => layout::open(Files::in_directory(path), &name, tag.as_deref()).map(Some),
        Reference::LayoutArchive { path, tag } => layout::open(Files::in_archive(path, scratch)?, &name, tag.as_deref()).map(Some),
        Reference::DockerArchive { path, tag } => docker::open(Files::in_archive(path, scratch)?, &name, tag.as_deref()).map(Some),
        Reference::Tar(path) => tar(path, name).map(Some),
        Reference::Registry(_) | Reference::Directory(_) | Reference::Packages(_) => Ok(None),
    }
}

fn tar(path: &Path, name: String) -> Result<Source, Error> {
    let file = File::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let layer = Layer::new(Rules::Plain, Expected::default(), move || Ok(Box::new(file) as Blob));
    Ok(Source::of_layers(name, None, vec![layer]))
}
