//! `shorefast client …`: lists, shows and checks client definitions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shorefast_engine::Error;
use shorefast_engine::client::{self, Client, Origin};
use shorefast_engine::configuration::{self, Configuration, Sources};
use shorefast_engine::definition::Layer;
use shorefast_engine::mode::Mode;

use crate::front::places::Places;
use crate::front::{candidates, client_new, conformance, examples, table};
use crate::report;

#[derive(Debug, Args)]
pub struct ClientArguments {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Show all clients, in the order in which a type is looked up
    #[command(after_long_help = examples::OF_CLIENTS)]
    List {
        /// A JSON array of {name, types, mode, image, from}
        #[arg(long)]
        json: bool,
    },
    /// Show one definition, with the origin of each key
    #[command(after_long_help = examples::OF_CLIENT_SHOW)]
    Show {
        /// A JSON object of {name, from, keys}, each key with {value, from}
        #[arg(long)]
        json: bool,
        /// Only a line that mounts something, to start from
        #[arg(long, conflicts_with = "json")]
        example: bool,
        /// A client's name, or a filesystem type
        #[arg(add = candidates::client_names())]
        name: String,
    },
    /// Write a commented definition to the standard output
    #[command(after_long_help = examples::OF_CLIENT_NEW)]
    New(client_new::NewArguments),
    /// Try a definition: mount, read, write, privileges, memory, unmount, kill; prints a report
    #[command(after_long_help = examples::OF_CLIENT_TEST)]
    Test(conformance::TestArguments),
    /// Check definitions without using them
    #[command(after_long_help = examples::OF_CHECK)]
    Check {
        /// Client files, or directories of them, including ConfigMaps
        #[arg(value_name = "FILE", required = true)]
        paths: Vec<PathBuf>,
    },
}

pub fn run(arguments: ClientArguments, places: &Places) -> Result<ExitCode, Error> {
    match arguments.command {
        ClientCommand::List { json } => return list(&places.configuration()?, json),
        ClientCommand::Show { json, example, name } => {
            let client = client::either(&name, &places.configuration()?)?;
            report::print(&match (json, example) {
                (true, _) => format!("{:#}\n", to_json(&client)),
                (_, true) => example_of(&client),
                _ => to_toml(&client),
            });
        }
        ClientCommand::New(arguments) => client_new::run(&arguments)?,
        ClientCommand::Test(arguments) => return conformance::run(&arguments, places),
        ClientCommand::Check { paths } => return Ok(check(&paths)),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(configuration: &Configuration, json: bool) -> Result<ExitCode, Error> {
    let (clients, broken): (Vec<_>, Vec<_>) = client::all(configuration).into_iter().partition(Result::is_ok);
    let clients: Vec<_> = clients.into_iter().flatten().collect();
    let image = |client: &Client| client.definition.image.clone();
    if json {
        let row = |client: &Client| {
            let definition = &client.definition;
            json!({ "name": client.name, "types": definition.types, "mode": definition.mode.unwrap_or(Mode::Container), "image": image(client), "from": client.origin.to_string() })
        };
        report::print(&format!("{:#}\n", Value::from(clients.iter().map(row).collect::<Vec<_>>())));
    } else {
        let mut lines = vec![["NAME", "TYPES", "IMAGE", "FROM"].map(str::to_owned)];
        lines.extend(clients.iter().map(|client| {
            let image = image(client).unwrap_or_else(|| "-".to_owned());
            [client.name.clone(), client.definition.types.join(","), image, client.origin.to_string()]
        }));
        report::print(&table::table(&lines));
    }
    // Valid definitions are shown; an invalid one decides the exit code.
    let code = configuration.problems.first().map_or(ExitCode::SUCCESS, |problem| ExitCode::from(report::exit_code(problem.kind())));
    Ok(broken.into_iter().filter_map(Result::err).fold(code, |_, error| report::failure(&error)))
}

fn check(paths: &[PathBuf]) -> ExitCode {
    let mut result = ExitCode::SUCCESS;
    for path in paths {
        for checked in checks(path) {
            match checked.and_then(|client| has_good_image(&client).and_then(|()| leaves_no_doubt(&client)).map(|()| client)) {
                Ok(client) => report::print(&format!("{}: good ({})\n", client.origin, client.definition.types.join(", "))),
                Err(error) => result = report::failure(&error),
            }
        }
    }
    result
}

/// A file, or each client of a directory of files.
fn checks(path: &Path) -> Vec<Result<Client, Error>> {
    if !path.is_dir() {
        return vec![client::check(path)];
    }
    let sources = Sources { directories: vec![path.to_owned()], ..Sources::default() };
    match configuration::read(&sources) {
        Ok(configuration) => configuration.names().into_iter().map(|name| client::named(name, &configuration)).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn has_good_image(client: &Client) -> Result<(), Error> {
    let image = client.definition.image.as_ref().map(|image| image.parse::<shorefast_image::Reference>());
    image.transpose().map(drop).map_err(Error::Image)
}

fn leaves_no_doubt(client: &Client) -> Result<(), Error> {
    let doubts = client.definition.doubts();
    let file = || client.origin.0.last().map(ToString::to_string).unwrap_or_default().into();
    if doubts.is_empty() { Ok(()) } else { Err(Error::Definition { file: file(), problem: doubts.join("\n") }) }
}

/// Where the definition has none: how its first type is mounted at all.
fn example_of(client: &Client) -> String {
    let usual = || format!("shorefast mount -t {} -o OPTIONS SOURCE /mnt\n", client.definition.types[0]);
    client.definition.example.clone().unwrap_or_else(usual)
}

fn to_json(client: &Client) -> Value {
    let keys: serde_json::Map<_, _> =
        keys(client).into_iter().map(|Key { name, value, from }| (name, json!({ "value": value, "from": from }))).collect();
    json!({ "name": client.name, "from": client.origin.to_string(), "keys": keys })
}

/// A definition as a client file, with comments that name the origin of each key.
fn to_toml(client: &Client) -> String {
    let line = |Key { name, value, from }: Key| match toml::Value::try_from(&value) {
        Ok(value) => format!("{name} = {value}  # {from}\n"),
        Err(_) => String::new(),
    };
    let lines: String = keys(client).into_iter().map(line).collect();
    format!("# client {}: {}\n{lines}", client.name, client.origin)
}

/// A top-level key with its effective value.
struct Key {
    name: String,
    value: Value,
    from: String,
}

fn keys(client: &Client) -> Vec<Key> {
    let whole = client.written.iter().fold(Layer::default(), |below, one| one.layer.clone().over(below));
    let Ok(Value::Object(whole)) = serde_json::to_value(whole) else { return Vec::new() };
    let layers: Vec<_> = client.written.iter().map(|one| (&one.by, serde_json::to_value(&one.layer).unwrap_or_default())).collect();
    let authors = |name: &str| {
        let says = |layer: &Value| layer.get(name).is_some_and(|value| !value.is_null());
        Origin(layers.iter().filter(|(_, layer)| says(layer)).map(|(by, _)| (*by).clone()).collect())
    };
    let filled = whole.into_iter().filter(|(_, value)| !value.is_null());
    filled.map(|(name, value)| Key { from: authors(&name).to_string(), value: without_nulls(value), name }).collect()
}

/// TOML has no null: a missing value is left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(entries.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}
