//! In: an error. Out: a message for the user (the source chain once, then the hint) and an exit code.

use std::error::Error as StdError;
use std::io::Write as _;
use std::process::ExitCode;

use shorefast_engine::error::Failure;
use shorefast_engine::text::printable;
use shorefast_engine::{Error, Kind, error};

/// mount(8)'s exit codes.
pub fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Usage | Kind::Privilege => 1,
        Kind::Internal => 2,
        _ => 32,
    }
}

/// The only way to stderr: filters control characters out of text that comes from others.
pub fn say(text: &str) {
    // A closed stderr is not our error.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// The only way to stdout, for texts of whole lines.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(printable(text).as_bytes());
}

pub fn failure(error: &Error) -> ExitCode {
    say(&text(error));
    ExitCode::from(exit_code(error.kind()))
}

/// The same for one that came from another process.
pub fn failure_of_worker(failure: &Failure) -> ExitCode {
    let lines = failure.refused.iter().map(|line| format!("\n  broker: {line}"));
    let lines: String = lines.chain(failure.helper.iter().map(|line| format!("\n  helper: {line}"))).collect();
    let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    say(&format!("shorefast: {}{lines}{hint}", failure.message));
    ExitCode::from(exit_code(failure.kind))
}

/// For callers of a client's helper: the client's output and exit code, as if it were installed. Where the failure is ours, the message
/// says so.
pub fn failure_of_client(error: &Error) -> ExitCode {
    match error {
        Error::Helper { code: Some(code), said, .. } if said.refused.is_empty() && !said.helper.is_empty() => {
            said.helper.iter().for_each(|line| say(line));
            ExitCode::from(u8::try_from(*code).unwrap_or(exit_code(Kind::Failed)))
        }
        _ => failure(error),
    }
}

/// Warnings: the call continues.
pub fn warnings(errors: &[Error]) {
    errors.iter().for_each(|error| say(&text(error)));
}

pub fn text(error: &Error) -> String {
    chain(error, error.hint())
}

/// The same for errors other than the engine's.
pub fn chain(error: &dyn StdError, hint: Option<String>) -> String {
    let mut text = format!("shorefast: {}", error::chain(error, set_off));
    if let Some(hint) = hint {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

/// Indents all lines after the first, so that text from others cannot pass for a hint or for another error of ours.
fn set_off(error: &dyn StdError) -> String {
    let text = error.to_string();
    if text.lines().skip(1).all(|line| line.starts_with("  ")) { text } else { text.replace('\n', "\n  ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorefast_broker::{By, Refusal, Rule};
    use shorefast_engine::error::Diagnostics;

    #[test]
    fn an_error_names_step_cause_and_way_out() {
        let source = shorefast_sys::Error::new("open(\"/srv/x\")", rustix::io::Errno::NOENT);
        let error = Error::Target { path: "/srv/x".into(), source };
        let expected =
            "shorefast: cannot mount at \"/srv/x\": open(\"/srv/x\"): ENOENT (No such file or directory)\nhint: create the directory first";
        assert_eq!(text(&error), expected);
        assert_eq!(exit_code(error.kind()), 32);
    }

    #[test]
    fn what_others_wrote_does_not_pass_for_ours() {
        let refusal = Refusal { errno: rustix::io::Errno::PERM, reason: "c\nshorefast: d".into(), by: By::Policy(Rule::Fixed) };
        let said = Diagnostics { helper: vec!["a\nhint: b\u{1b}[2J".into()], refused: vec![refusal] };
        let error = text(&Error::NothingMounted { said });
        let starts: Vec<_> = error.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        // The hint is ours, for a client that mounts nothing.
        assert_eq!(starts, ["shorefast:", "", "", "hint:"], "{error:?}");
        assert!(!error.contains("\nhint: b") && !error.contains('\u{1b}'), "{error:?}");
        let error = text(&Error::Service { name: "x".into(), problem: "it said\nhint: run this\n\nshorefast: done".into() });
        assert!(error.lines().skip(1).all(|line| line.starts_with("  ") || line.is_empty()), "{error:?}");
    }
}
