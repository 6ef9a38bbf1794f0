//! The usual arguments of a mount, parsed without clap: building clap's command definition takes as long as building a root filesystem.
//! Anything unusual, valid or not, is left to clap.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use lexopt::Arg::{Long, Short, Value};

use crate::front::mount_words::MountArguments;
use crate::front::places::Places;
use crate::front::timeout::Timeout;

/// Environment variables that influence a mount, under any front.
pub const VARIABLES: [&str; 7] = [
    "SHOREFAST_CLIENTS",
    "SHOREFAST_CLIENT_IMAGE",
    "SHOREFAST_MAX_IMAGE_ENTRIES",
    "SHOREFAST_MAX_IMAGE_SIZE",
    "SHOREFAST_ROOT",
    "SHOREFAST_RUN",
    "SHOREFAST_TIMEOUT",
];

/// `[--root DIR] [--run-dir DIR] mount [-t TYPE] [-o OPTIONS]… [--image REF] [--client-file FILE] [--timeout TIME] SOURCE TARGET`,
/// and none of the [`VARIABLES`].
pub fn mount(arguments: &[OsString]) -> Option<(Places, MountArguments)> {
    if is_said_elsewhere() {
        return None;
    }
    let (mut mount, mut words) = (MountArguments::default(), Vec::new());
    let (mut root, mut run_dir, mut timeout) = (None, None, None);
    let mut reader = lexopt::Parser::from_iter(arguments);
    while let Some(argument) = reader.next().ok()? {
        match argument {
            Long("root") if root.is_none() => root = Some(value(&mut reader)?.into()),
            Long("run-dir") if run_dir.is_none() => run_dir = Some(value(&mut reader)?.into()),
            Value(word) if !word.is_empty() => words.push(word),
            // All others belong to the command and come after it.
            _ if words.is_empty() => return None,
            Short('t') | Long("type") if mount.fstype.is_none() => mount.fstype = Some(value(&mut reader)?.into_string().ok()?),
            Short('o') | Long("options") => mount.options.push(value(&mut reader)?.into_string().ok()?),
            Long("image") if mount.image.is_none() => mount.image = Some(value(&mut reader)?.into_string().ok()?),
            Long("client-file") if mount.client_file.is_none() => mount.client_file = Some(value(&mut reader)?.into()),
            Long("timeout") if timeout.is_none() => timeout = Some(Timeout::read(value(&mut reader)?.to_str()?)?),
            _ => return None,
        }
    }
    let [command, source, target] = <[OsString; 3]>::try_from(words).ok()?;
    if command != "mount" {
        return None;
    }
    (mount.source, mount.target, mount.timeout) = (source, target.into(), timeout.unwrap_or_default());
    let usual = Places::default();
    Some((Places { root: root.unwrap_or(usual.root), run_dir: run_dir.unwrap_or(usual.run_dir), ..usual }, mount))
}

pub fn is_said_elsewhere() -> bool {
    VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
}

/// A value that looks like an option is left to clap.
pub fn value(reader: &mut lexopt::Parser) -> Option<OsString> {
    let is_usual = |value: &OsStr| !value.is_empty() && !value.as_bytes().starts_with(b"-");
    reader.value().ok().filter(|value| is_usual(value))
}

/// Each row: whether the fast parser accepts it, and the arguments.
#[cfg(test)]
pub fn reads_what_clap_reads<W: clap::Parser + std::fmt::Debug>(usual: impl Fn(&[OsString]) -> Option<W>, rows: &[(bool, &str)]) {
    for (is_short, line) in rows {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let short = usual(&words).map(|words| format!("{words:?}"));
        let long = W::try_parse_from(&words).ok().map(|words| format!("{words:?}"));
        assert_eq!(short.is_some(), *is_short, "{line}");
        assert!(short.is_none() || short == long, "{line}: {short:?}, {long:?}");
    }
}
