//! `shorefast client new`: a commented definition from a few flags, or from answers at a terminal.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use shorefast_engine::{Error, definition};

use crate::report;

#[derive(Debug, Args)]
pub struct NewArguments {
    /// The name of the client: the definition's file is NAME.toml
    pub name: String,
    /// Where the client comes from, as in `image =`; asked for at a terminal
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// Filesystem types, as in `mount -t`; default: the name
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// What the kernel calls the mount; default: any FUSE
    #[arg(long = "kernel-type", value_name = "TYPE")]
    kernel_types: Vec<String>,
    /// The source is a file or directory of this host
    #[arg(long)]
    path: bool,
    /// The client stays in the foreground
    #[arg(long)]
    foreground: bool,
    /// The client reads its secret from this file, below /etc, /root, /run, /tmp or /var
    #[arg(long, value_name = "FILE")]
    secret_at: Option<String>,
    /// The option that tells the client where the file with its secret is
    #[arg(long, value_name = "OPTION", conflicts_with = "secret_at")]
    secret_option: Option<String>,
    /// The program and its arguments, with {source}, {target} and {options}; default: NAME {source} {target} -o {options}
    #[arg(last = true, value_name = "WORD")]
    command: Vec<String>,
}

pub fn run(arguments: &NewArguments) -> Result<(), Error> {
    let image = match &arguments.image {
        Some(image) => image.clone(),
        None => ask("image (such as registry.example/clients/mine:1, or packages:debian/trixie?NAME)")
            .ok_or_else(|| Error::NoImage { client: arguments.name.clone() })?,
    };
    let text = written(arguments, &image);
    // What is printed can be used: a flag that makes no sense is told here, with the line that it became.
    let wrong = |problem: String| Error::Definition { file: format!("{}.toml", arguments.name).into(), problem };
    definition::parse(&text).map_err(wrong)?;
    image.parse::<shorefast_image::Reference>()?;
    report::print(&text);
    Ok(())
}

fn ask(what: &str) -> Option<String> {
    if !io::stdin().is_terminal() {
        return None;
    }
    report::say(&format!("{what}: "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn written(arguments: &NewArguments, image: &str) -> String {
    let NewArguments { name, types, kernel_types, path, foreground, secret_at, secret_option, command, .. } = arguments;
    let list = |words: &[String]| format!("[{}]", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "));
    let or = |words: &[String], default: &[&str]| {
        if words.is_empty() { default.iter().map(|word| (*word).to_owned()).collect() } else { words.to_vec() }
    };
    let types: Vec<String> = or(types, &[name.as_str()]);
    let command: Vec<String> = or(command, &[name.as_str(), "{source}", "{target}", "-o", "{options}"]);
    let kernel_types: Vec<String> = or(kernel_types, &["fuse"]);
    let line = |wanted: bool, text: &str| if wanted { format!("{text}\n") } else { format!("# {text}\n") };
    let secret = match (secret_at, secret_option) {
        (Some(file), _) => format!("secret = {{ to_file = {file:?} }}\n"),
        (None, Some(option)) => format!("secret = {{ to_option = {option:?} }}\n"),
        (None, None) => "# secret = { to_file = \"/run/secret\" }\n".to_owned(),
    };
    [
        format!(
            "# Put this into /etc/shorefast/clients.d/{name}.toml. docs/CLIENTS.md has all keys; `shorefast client test` tries it.\n\n"
        ),
        "# Filesystem types, as in `mount -t`.\n".to_owned(),
        format!("types = {}\n", list(&types)),
        "# Where the client comes from. A digest (NAME@sha256:…) gives every host the same bytes.\n".to_owned(),
        format!("image = {image:?}\n"),
        "# The program in the image and its arguments. Without options, the pair `-o {options}` goes.\n".to_owned(),
        format!("command = {}\n", list(&command)),
        "# What it may mount: exact types of the kernel; \"fuse\" stands for every FUSE filesystem.\n".to_owned(),
        format!("kernel_types = {}\n", list(&kernel_types)),
        "# The source is a file or directory of the host, and the client sees that and nothing else of it.\n".to_owned(),
        line(*path, "source = \"path\""),
        "# The program serves the mount itself instead of leaving a daemon behind.\n".to_owned(),
        line(*foreground, "daemon = \"foreground\""),
        "# How it gets a secret: in a file of its own, never as an argument.\n".to_owned(),
        secret,
        "# Options whose value names a file of the host, of which the client gets a copy.\n# files = [\"config\"]\n".to_owned(),
        "# Options that it always gets.\n# options = [\"allow_other\"]\n".to_owned(),
        "# For the client as a whole.\n# limits = { memory = \"512M\", pids = 64 }\n".to_owned(),
    ]
    .concat()
}
