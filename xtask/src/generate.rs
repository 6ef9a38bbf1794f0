//! `cargo xtask generate`: man pages, completions and the table of errors, from the same definitions as `--help` and the errors themselves.

mod errors;
mod pages;
mod roff;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::CommandFactory as _;
use shorefast::front::candidates;
use shorefast::front::cli::Cli;
use shorefast_engine::client;
use shorefast_engine::configuration::Configuration;
use shorefast_engine::definition::SecretWay;
use shorefast_sandbox::spec::SecretKind;

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

/// One line per client, from the catalogue.
fn examples() -> Result<String> {
    let mut page = "\
# One line per client

Made from the catalogue (`cargo xtask generate`); `shorefast client show NAME --example` prints the same, also for definitions of your own. each line is run by a test (`tests/e2e/catalogue/examples.rs`, `tests/e2e/packages/mounts.rs`) on data or against a server of its own, with
that server's names in place of these; those of ceph, ceph-fuse, cifs and nfs, whose servers or kernels this machine may lack, are run by `cargo xtask e2e-ceph` and by the programs `cifs` and `nfs` of the tests in their own words, and
here only planned. What each client is for is in [CATALOGUE](CATALOGUE.md). The target, `/mnt`, is any empty directory. Every client takes `-o ro`; what goes wrong is in [ERRORS](ERRORS.md), and the client's own words are part of the error.
"
    .to_owned();
    for client in client::all(&Configuration::default()) {
        let client = client.context("a built-in definition is wrong")?;
        let secret = client.definition.secret.as_ref().map(secret_of).unwrap_or_default();
        // The others are in CATALOGUE.
        let Some(example) = client.definition.example else { continue };
        page += &format!("\n## {}\n\nTypes: {}.{secret}\n\n```\n{example}```\n", client.name, client.definition.types.join(", "));
    }
    Ok(page)
}

fn secret_of(way: &SecretWay) -> String {
    let what = match (way.form.kind, &way.form.password_file) {
        (SecretKind::Key, None) => "a private key",
        (SecretKind::Key, Some(_)) => "a private key or a password",
        (SecretKind::Password, _) => "a password",
        (SecretKind::Any, _) => "a file as in the example",
    };
    let options = if way.from_options.is_empty() { String::new() } else { format!(", or of the option {}", way.from_options.join(", ")) };
    format!(" The secret of `--secret-file`{options}: {what}.")
}

fn generate() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = pages::of_commands(&Cli::command())?;
    files.extend(pages::of_files()?);
    for (shell, name) in [("bash", "shorefast.bash"), ("zsh", "_shorefast"), ("fish", "shorefast.fish")] {
        let script = candidates::script(shell).with_context(|| format!("there is no script for {shell}"))?;
        files.push((PathBuf::from("docs/completions").join(name), script.into_bytes()));
    }
    files.push(("docs/EXAMPLES.md".into(), examples()?.into_bytes()));
    files.push(("docs/ERRORS.md".into(), errors::page().into_bytes()));
    Ok(files)
}
