//! argv in, exit code out.

use std::process::ExitCode;

use shorefast::front::called_as::{self, CalledAs};
use shorefast::{front, report};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if called_as::of(arguments.first().map(|name| name.as_os_str()).unwrap_or_default()) == CalledAs::Mounter {
        return front::mounter::run(&arguments);
    }
    // Before clap: children of ours, which should start fast and are nobody else's business.
    if let Some(code) = front::internal::dispatch(&arguments) {
        return code;
    }
    match front::cli::run(arguments) {
        Ok(code) => code,
        Err(error) => report::failure(&error),
    }
}
