//! Errors for people: the chain once, then what to do.

use std::error::Error as StdError;
use std::process::ExitCode;

use shorefast_engine::{Error, Kind};

/// mount(8)'s exit codes.
pub fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Usage => 1,
        Kind::System => 2,
        Kind::Mount => 32,
    }
}

pub fn failure(error: &Error) -> ExitCode {
    eprintln!("{}", text(error));
    ExitCode::from(exit_code(error.kind()))
}

/// For whoever called a client's helper: the client's own words and exit code, as if it were installed. Where we had a part in
/// the failure, we say so.
pub fn failure_of_client(error: &Error) -> ExitCode {
    match error {
        Error::Helper { code: Some(code), said, .. } if said.refused.is_empty() && !said.helper.is_empty() => {
            said.helper.iter().for_each(|line| eprintln!("{line}"));
            ExitCode::from(u8::try_from(*code).unwrap_or(exit_code(Kind::Mount)))
        }
        _ => failure(error),
    }
}

/// What is worth knowing although all goes on.
pub fn warnings(errors: &[Error]) {
    errors.iter().for_each(|error| eprintln!("{}", text(error)));
}

pub fn text(error: &Error) -> String {
    chain(error, error.hint())
}

/// The same for errors that no mount has.
pub fn chain(error: &dyn StdError, hint: Option<String>) -> String {
    let mut text = format!("shorefast: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        // A cause that the step's own text already shows is not said twice.
        let line = error.to_string();
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    if let Some(hint) = hint {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_step_cause_and_way_out() {
        let source = shorefast_sys::Error::new("open(\"/srv/x\")", rustix::io::Errno::NOENT);
        let error = Error::Target { path: "/srv/x".into(), source };
        let expected =
            "shorefast: cannot mount at \"/srv/x\": open(\"/srv/x\"): ENOENT (No such file or directory)\nhint: create the directory first";
        assert_eq!(text(&error), expected);
        assert_eq!(exit_code(error.kind()), 32);
    }
}
