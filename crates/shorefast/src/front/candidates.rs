//! What a shell can complete a word to: types, clients, images and targets of this host. What cannot be read, such as records without root,
//! has no candidates.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use shorefast_engine::client::{self, Client};
use shorefast_engine::records::Records;
use shorefast_engine::{list, text};
use shorefast_image::Store;

use crate::front::common_words::Common;
use crate::front::places::Places;

/// Set by the scripts, to the name of the shell.
pub const VARIABLE: &str = "SHOREFAST_COMPLETE";

/// The script for a shell; `None`: it is not known.
pub fn script(shell: &str) -> Option<String> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(shell)?;
    shell.write_registration(VARIABLE, "shorefast", "shorefast", "shorefast", &mut script).ok()?;
    String::from_utf8(script).ok()
}

pub fn types() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(clients().into_iter().flat_map(|client| client.definition.types)))
}

pub fn client_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(clients().into_iter().map(|client| client.name)))
}

pub fn images() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let images = Store::at(&places().root).list().unwrap_or_default();
        candidates(images.into_iter().flat_map(|(_, names)| names))
    })
}

/// Where something of ours is mounted.
pub fn targets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mounts = list::all(&Records::at(places().run_dir)).map(|listing| listing.mounts).unwrap_or_default();
        candidates(mounts.iter().map(|mount| mount.target().display().to_string()))
    })
}

fn clients() -> Vec<Client> {
    let configuration = places().installation(shorefast_image::store::Network::Forbidden).configuration();
    configuration.map(|configuration| client::all(&configuration).into_iter().flatten().collect()).unwrap_or_default()
}

/// By environment and defaults: options of the unfinished command line are not looked at.
fn places() -> Places {
    Common::default().finish(|name| std::env::var_os(name)).map(|(places, _)| places).unwrap_or_default()
}

/// A name with control characters could not be typed either.
fn candidates(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    names.filter(|name| text::printable_line(name) == *name).map(CompletionCandidate::new).collect()
}
