//! Completion of command lines. A shell asks this program, through a small script (`shorefast completions SHELL`), at every press of the key:
//! so it knows this host's types, clients, images and mounts.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::env::CompleteEnv;

use crate::front::candidates::VARIABLE;
use crate::front::cli::Cli;

/// Answers a shell's question, if this call is one.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let directory = std::env::current_dir().ok();
    let completed = CompleteEnv::with_factory(Cli::command).var(VARIABLE).try_complete(arguments, directory.as_deref());
    match completed {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(error) => {
            // An error while a line is being typed is not shown.
            let _ = error.print();
            Some(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::candidates::script;

    #[test]
    fn every_shell_that_the_help_lists_has_a_script() {
        let cli = Cli::command();
        let command = cli.find_subcommand("completions").unwrap();
        let shells = command.get_arguments().find(|argument| argument.get_id() == "shell").unwrap().get_possible_values();
        assert!(shells.len() >= 3);
        for shell in shells {
            let script = script(shell.get_name()).unwrap();
            assert!(script.contains(VARIABLE), "{script}");
        }
        assert_eq!(script("cmd.exe"), None);
    }
}
