//! The words of nearly every mount, read without clap: to build the definition of a command line takes as long as to make a root
//! filesystem. Whatever is not usual, right or wrong, is left to the definition.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use lexopt::Arg::{Long, Short, Value};

use crate::front::mount_words::MountArguments;
use crate::front::patience::Patience;
use crate::front::places::Places;

/// `[--root DIR] [--run-dir DIR] mount [-t TYPE] [-o OPTIONS]… [--timeout TIME] SOURCE TARGET`, and nothing in the environment that has a say in it.
pub fn mount(arguments: &[OsString]) -> Option<(Places, MountArguments)> {
    let speaks = |(name, _): (OsString, OsString)| name.as_bytes().starts_with(b"SHOREFAST_");
    if std::env::vars_os().any(speaks) {
        return None;
    }
    let (mut places, mut mount, mut words) = (Places::default(), MountArguments::default(), Vec::new());
    let mut is_limited = false;
    let mut reader = lexopt::Parser::from_iter(arguments);
    while let Some(argument) = reader.next().ok()? {
        match argument {
            Long("root") => places.root = value(&mut reader)?.into(),
            Long("run-dir") => places.run_dir = value(&mut reader)?.into(),
            Short('t') | Long("type") if mount.fstype.is_none() => mount.fstype = Some(value(&mut reader)?.into_string().ok()?),
            Short('o') | Long("options") => mount.options.push(value(&mut reader)?.into_string().ok()?),
            Long("timeout") if !is_limited => {
                mount.patience = Patience::read(value(&mut reader)?.to_str()?)?;
                is_limited = true;
            }
            Value(word) if !word.is_empty() => words.push(word),
            _ => return None,
        }
    }
    let [command, source, target] = <[OsString; 3]>::try_from(words).ok()?;
    if command != "mount" {
        return None;
    }
    (mount.source, mount.target) = (source, target.into());
    Some((places, mount))
}

/// What looks like an option is one, for clap.
fn value(reader: &mut lexopt::Parser) -> Option<OsString> {
    let is_usual = |value: &OsStr| !value.is_empty() && !value.as_bytes().starts_with(b"-");
    reader.value().ok().filter(|value| is_usual(value))
}
