//! The table of mutants: what each changes, and which test should notice.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// What an attacker or a user would gain or lose by it.
    pub(super) what: String,
    /// More than one where either of two protections is enough.
    pub(super) changes: Vec<Change>,
    pub(super) caught: Caught,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) file: String,
    /// Stands in the file exactly once.
    old: String,
    new: String,
}

/// The tests that are run for a mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caught {
    /// A filterset of nextest.
    EndToEnd(String),
    /// All tests of a package, in the mutated source.
    Unit(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutant: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    what: String,
    file: String,
    old: String,
    new: String,
    #[serde(default)]
    also: Vec<Change>,
    test: Option<String>,
    unit: Option<String>,
}

pub(super) fn read() -> Result<Vec<Mutant>> {
    let path = super::table_path();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let File { mutant } = toml::from_str(text)?;
    let mutants: Vec<_> = mutant.into_iter().map(Mutant::try_from).collect::<Result<_>>()?;
    let names: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.name).collect();
    ensure!(names.len() == mutants.len(), "two mutants have one name");
    Ok(mutants)
}

impl TryFrom<Entry> for Mutant {
    type Error = anyhow::Error;

    fn try_from(Entry { name, what, file, old, new, also, test, unit }: Entry) -> Result<Self> {
        let caught = match (test, unit) {
            (Some(filter), None) => Caught::EndToEnd(filter),
            (None, Some(package)) => Caught::Unit(package),
            _ => anyhow::bail!("{name}: either `test` or `unit` says who should notice"),
        };
        let changes: Vec<_> = std::iter::once(Change { file, old, new }).chain(also).collect();
        ensure!(changes.iter().all(|change| change.old != change.new), "{name} changes nothing");
        Ok(Self { name, what, changes, caught })
    }
}

impl Change {
    /// The file's text with the change in it.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(&self.old).count();
        ensure!(found == 1, "{:?} stands {found} times in {}, not once", self.old, self.file);
        Ok(text.replacen(&self.old, &self.new, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Source changes; a mutant that cannot be planted any more tests nothing.
    #[test]
    fn every_mutant_can_be_planted() {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the checkout");
        let text = fs::read_to_string(checkout.join(super::super::table_path())).expect("the table is in the checkout");
        let mutants = parse(&text).expect("the table is valid");
        assert!(mutants.len() >= 40, "{} mutants", mutants.len());
        for change in mutants.iter().flat_map(|mutant| &mutant.changes) {
            let text = fs::read_to_string(checkout.join(&change.file)).unwrap_or_else(|error| panic!("{}: {error}", change.file));
            change.apply(&text).expect("it fits the source");
        }
    }
}
