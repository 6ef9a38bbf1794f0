//! In: a definition and the caller's source. Out: which host path the client gets to see, and what the client calls its source.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use shorefast_broker::policy::SourceAlias;
use shorefast_sandbox::spec::SOURCE;

use crate::definition::{Definition, Source, SourceWrites};

#[derive(Debug)]
pub(super) struct Seen {
    /// The host path that the client gets to see at [`SOURCE`].
    pub shown: Option<PathBuf>,
    /// The source, as the client is told.
    pub inside: OsString,
    /// What the mount table calls it instead.
    pub alias: Option<SourceAlias>,
}

pub(super) fn of(definition: &Definition, source: &OsStr) -> Seen {
    match definition.source {
        Source::Remote => Seen { shown: None, inside: source.to_owned(), alias: None },
        Source::Path => path(definition.source_writes, &std::path::absolute(source).unwrap_or_else(|_| PathBuf::from(source))),
    }
}

fn path(writes: Option<SourceWrites>, source: &Path) -> Seen {
    let (shown, inside) = match (writes, source.parent(), source.file_name()) {
        (Some(SourceWrites::Replace), Some(parent), Some(name)) => (parent, Path::new(SOURCE).join(name)),
        _ => (source, PathBuf::from(SOURCE)),
    };
    let inside = inside.into_os_string();
    let alias = SourceAlias { inside: inside.clone().into_vec(), outside: source.as_os_str().to_owned().into_vec() };
    Seen { shown: Some(shown.to_owned()), inside, alias: Some(alias) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_is_seen_in_its_directory() {
        let seen = |writes, source: &str| path(writes, Path::new(source));
        let rows = [
            (None, "/srv/a.tgz", "/srv/a.tgz", "/shorefast/source"),
            (Some(SourceWrites::InPlace), "/srv/a.img", "/srv/a.img", "/shorefast/source"),
            (Some(SourceWrites::Replace), "/srv/a.tgz", "/srv", "/shorefast/source/a.tgz"),
            (Some(SourceWrites::Replace), "/", "/", "/shorefast/source"),
        ];
        for (writes, source, shown, inside) in rows {
            let seen = seen(writes, source);
            assert_eq!((seen.shown.as_deref(), seen.inside.to_str()), (Some(Path::new(shown)), Some(inside)), "{source}");
            let alias = seen.alias.expect("it is a path");
            assert_eq!((alias.inside, alias.outside), (inside.as_bytes().to_vec(), source.as_bytes().to_vec()));
        }
    }
}
