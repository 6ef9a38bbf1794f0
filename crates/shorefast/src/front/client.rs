//! `shorefast client …`: which definitions there are, and what they come to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shorefast_engine::Error;
use shorefast_engine::client::{self, Client, Origin, Written};
use shorefast_engine::definition::Layer;
use shorefast_engine::mode::Mode;

use crate::front::show;
use crate::report;

#[derive(Debug, Args)]
pub struct ClientArguments {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Show all clients, in the order in which a type is looked up
    List {
        /// A JSON array of {name, types, mode, image, from}
        #[arg(long)]
        json: bool,
    },
    /// Show one definition, each key with where it comes from
    Show {
        #[arg(long)]
        json: bool,
        /// A client's name, or a filesystem type
        name: String,
    },
    /// Check definitions without using them
    Check {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

pub fn run(arguments: ClientArguments, directory: &Path) -> Result<ExitCode, Error> {
    match arguments.command {
        ClientCommand::List { json } => return list(directory, json),
        ClientCommand::Show { json, name } => {
            // A file that cannot be used is worth more words than a type that is not found.
            let by_type = |error: Error| match error {
                Error::UnknownClient { .. } => client::by_type(&name, directory),
                other => Err(other),
            };
            let client = client::named(&name, directory).or_else(by_type)?;
            show::print(&if json { format!("{:#}\n", to_json(&client)) } else { to_toml(&client) });
        }
        ClientCommand::Check { files } => return Ok(check(&files)),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(directory: &Path, json: bool) -> Result<ExitCode, Error> {
    let (clients, broken): (Vec<_>, Vec<_>) = client::all(directory)?.into_iter().partition(Result::is_ok);
    let clients: Vec<_> = clients.into_iter().flatten().collect();
    let image = |client: &Client| client.definition.image.clone();
    if json {
        let row = |client: &Client| {
            let definition = &client.definition;
            json!({ "name": client.name, "types": definition.types, "mode": definition.mode.unwrap_or(Mode::Container), "image": image(client), "from": client.origin.to_string() })
        };
        show::print(&format!("{:#}\n", Value::from(clients.iter().map(row).collect::<Vec<_>>())));
    } else {
        let mut lines = vec![["NAME", "TYPES", "IMAGE", "FROM"].map(str::to_owned)];
        lines.extend(clients.iter().map(|client| {
            let image = image(client).unwrap_or_else(|| "-".to_owned());
            [client.name.clone(), client.definition.types.join(","), image, client.origin.to_string()]
        }));
        show::print(&show::table(&lines));
    }
    // What is good is shown; what is not decides the exit code.
    Ok(broken.into_iter().filter_map(Result::err).fold(ExitCode::SUCCESS, |_, error| report::failure(&error)))
}

fn check(files: &[PathBuf]) -> ExitCode {
    let mut result = ExitCode::SUCCESS;
    for file in files {
        match client::check(file) {
            Ok(client) => {
                let image = client.definition.image.as_ref().map(|image| image.parse::<shorefast_image::Reference>()).transpose();
                match image {
                    Ok(_) => show::print(&format!("{}: good ({})\n", file.display(), client.definition.types.join(", "))),
                    Err(error) => result = report::failure(&Error::Image(error)),
                }
            }
            Err(error) => result = report::failure(&error),
        }
    }
    result
}

fn to_json(client: &Client) -> Value {
    let keys: serde_json::Map<_, _> =
        keys(client).into_iter().map(|Key { name, value, from }| (name, json!({ "value": value, "from": from }))).collect();
    json!({ "name": client.name, "from": client.origin.to_string(), "keys": keys })
}

/// A definition that can be put into a file, with comments that say where each key comes from.
fn to_toml(client: &Client) -> String {
    let line = |Key { name, value, from }: Key| match toml::Value::try_from(&value) {
        Ok(value) => format!("{name} = {value}  # {from}\n"),
        Err(_) => String::new(),
    };
    let lines: String = keys(client).into_iter().map(line).collect();
    format!("# client {}: {}\n{lines}", client.name, client.origin)
}

/// A top-level key as it counts.
struct Key {
    name: String,
    value: Value,
    from: String,
}

fn keys(client: &Client) -> Vec<Key> {
    let Written { file, built_in } = &client.written;
    let written = |layer: &Option<Layer>| layer.as_ref().and_then(|layer| serde_json::to_value(layer).ok()).unwrap_or_default();
    let (in_file, below) = (written(file), written(built_in));
    let whole = file.clone().unwrap_or_default().over(built_in.clone().unwrap_or_default());
    let Ok(Value::Object(whole)) = serde_json::to_value(whole) else { return Vec::new() };
    let has = |layer: &Value, name: &str| layer.get(name).is_some_and(|value| !value.is_null());
    let from = |name: &str| match (&client.origin, has(&in_file, name), has(&below, name)) {
        (Origin::File(path) | Origin::FileOverBuiltIn(path), true, false) => path.display().to_string(),
        (Origin::FileOverBuiltIn(path), true, true) => format!("{}, over the built-in one", path.display()),
        _ => "built in".to_owned(),
    };
    let filled = whole.into_iter().filter(|(_, value)| !value.is_null());
    filled.map(|(name, value)| Key { from: from(&name), value: without_nulls(value), name }).collect()
}

/// TOML has no null: what is not said is not there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(entries.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}
