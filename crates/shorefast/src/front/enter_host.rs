//! `--host-proc` and HOSTPROCPATH: the caller is in a container. In: the arguments. Out: the exit code of the same call on the host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use shorefast_engine::enter_host::{self, Life};

use crate::report;

/// The name that util-linux's and Kubernetes' containers use for this.
pub const VARIABLE: &str = "HOSTPROCPATH";
const FLAG: &str = "--host-proc";

/// `Some`: the call was executed on the host. Runs before everything else: it applies under any name and for every front.
pub fn go(arguments: &[OsString]) -> Option<ExitCode> {
    let variable = std::env::var_os(VARIABLE);
    if variable.is_none() && !arguments.iter().any(|word| word.as_bytes().starts_with(FLAG.as_bytes())) {
        return None;
    }
    let Taken { host_proc, rest } = take(arguments, variable);
    let host_proc = host_proc?;
    let environment = std::env::vars_os().filter(|(name, _)| name != VARIABLE).collect();
    let life = if rest.get(1).is_some_and(|word| word == "serve") { Life::OfTheContainer } else { Life::OneCall };
    match enter_host::go(&host_proc, &rest, environment, life) {
        Ok(ended) => ended.map(|code| ExitCode::from(code.0)),
        Err(error) => Some(report::failure(&error)),
    }
}

struct Taken {
    host_proc: Option<PathBuf>,
    /// The arguments without the flag.
    rest: Vec<OsString>,
}

/// The flag overrides the variable; after `--` there are no flags.
fn take(arguments: &[OsString], variable: Option<OsString>) -> Taken {
    let mut host_proc = variable.filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word.clone());
            rest.extend(words.by_ref().cloned());
        } else if word == FLAG {
            match words.next() {
                Some(path) => host_proc = Some(PathBuf::from(path)),
                // Left to clap, which reports the missing value.
                None => rest.push(word.clone()),
            }
        } else if let Some(path) = word.as_bytes().strip_prefix(b"--host-proc=") {
            host_proc = Some(PathBuf::from(OsStr::from_bytes(path)));
        } else {
            rest.push(word.clone());
        }
    }
    Taken { host_proc, rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row {
        arguments: &'static [&'static str],
        variable: Option<&'static str>,
        host_proc: Option<&'static str>,
        rest: &'static [&'static str],
    }

    #[test]
    fn the_flag_is_taken_out_and_counts_more_than_the_variable() {
        let rows = [
            Row { arguments: &["s", "list"], variable: None, host_proc: None, rest: &["s", "list"] },
            Row { arguments: &["s", "list"], variable: Some("/p"), host_proc: Some("/p"), rest: &["s", "list"] },
            Row { arguments: &["s", "list"], variable: Some(""), host_proc: None, rest: &["s", "list"] },
            Row { arguments: &["s", "--host-proc", "/q", "list"], variable: Some("/p"), host_proc: Some("/q"), rest: &["s", "list"] },
            Row { arguments: &["s", "list", "--host-proc=/q"], variable: None, host_proc: Some("/q"), rest: &["s", "list"] },
            Row { arguments: &["s", "list", "--host-proc"], variable: None, host_proc: None, rest: &["s", "list", "--host-proc"] },
            Row { arguments: &["s", "--", "--host-proc", "/x"], variable: None, host_proc: None, rest: &["s", "--", "--host-proc", "/x"] },
        ];
        for Row { arguments, variable, host_proc, rest } in rows {
            let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
            let taken = take(&arguments, variable.map(OsString::from));
            assert_eq!(taken.host_proc, host_proc.map(PathBuf::from), "{arguments:?}");
            assert_eq!(taken.rest, rest);
        }
    }
}
