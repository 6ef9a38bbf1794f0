//! What somebody who is no administrator may not ask for. In: the options and the client's definition. Out: a refusal, or nothing.

use crate::definition::{Definition, Guests, Source};
use crate::error::Error;
use crate::options::{Item, Options};

pub(crate) fn check(options: &Options, client: &str, definition: &Definition) -> Result<(), Error> {
    let refused = |what: String| Err(Error::NotForGuests { what });
    if definition.guests == Guests::Refused {
        return refused(format!("the definition of client {client:?} says so"));
    }
    if definition.source == Source::Path {
        return refused(format!("the source of client {client:?} is a path of the host"));
    }
    if let Some(item) = options.items.iter().find(|item| host_file(item, definition).is_some()) {
        return refused(format!("option {:?} names a file of the host; a Secret with a key of this name can hold its content", item.name));
    }
    Ok(())
}

/// The file of the host that this option names. Devices are the sandbox's: UserKnownHostsFile=/dev/null means just that.
pub(crate) fn host_file<'a>(item: &'a Item, definition: &Definition) -> Option<&'a str> {
    let path = item.value.as_deref().map(|value| value.trim_matches('"')).unwrap_or_default();
    let is_file = definition.files.contains(&item.name) && path.starts_with('/') && !path.starts_with("/dev/");
    is_file.then_some(path)
}
