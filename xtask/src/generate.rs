//! `cargo xtask generate`: man pages and completions, from the same definitions as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::CommandFactory as _;
use clap_complete::Shell;
use shorefast::front::cli::Cli;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if what is in the checkout is out of date
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return check();
    }
    for (path, content) in &generate()? {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).context("cannot make a directory")?;
        fs::write(path, content).with_context(|| format!("cannot write {path:?}"))?;
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let files = generate()?;
    let stale: Vec<_> =
        files.iter().filter(|(path, content)| fs::read(path).ok().as_ref() != Some(content)).map(|(path, _)| path).collect();
    if !stale.is_empty() {
        bail!("out of date, run `cargo xtask generate`: {stale:?}");
    }
    Ok(())
}

fn generate() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let command = Cli::command();
    let mut files = Vec::new();
    add_pages(&command, "shorefast", &mut files)?;
    for (shell, name) in [(Shell::Bash, "shorefast.bash"), (Shell::Zsh, "_shorefast"), (Shell::Fish, "shorefast.fish")] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "shorefast", &mut script);
        files.push((PathBuf::from("docs/completions").join(name), script));
    }
    Ok(files)
}

/// One page per command, and those of its own commands.
fn add_pages(command: &clap::Command, name: &str, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    files.push((PathBuf::from(format!("docs/man/{name}.1")), page(command.clone(), name)?));
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        add_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), files)?;
    }
    Ok(())
}

fn page(command: clap::Command, name: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    // Without a date: the same definitions give the same page.
    let command = command.name(name.to_owned()).bin_name(name.replace('-', " "));
    clap_mangen::Man::new(command).date("").render(&mut text).context("cannot render a man page")?;
    Ok(text)
}
