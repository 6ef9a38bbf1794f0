//! The table of mutants: what each changes, and who should notice.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// What an attacker or a user would gain or lose by it.
    pub(super) what: String,
    pub(super) file: String,
    /// Stands in the file exactly once.
    pub(super) old: String,
    pub(super) new: String,
    pub(super) caught: Caught,
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

    fn try_from(Entry { name, what, file, old, new, test, unit }: Entry) -> Result<Self> {
        let caught = match (test, unit) {
            (Some(filter), None) => Caught::EndToEnd(filter),
            (None, Some(package)) => Caught::Unit(package),
            _ => anyhow::bail!("{name}: either `test` or `unit` says who should notice"),
        };
        ensure!(old != new, "{name} changes nothing");
        Ok(Self { name, what, file, old, new, caught })
    }
}

impl Mutant {
    /// The file's text with the mutant in it.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(&self.old).count();
        ensure!(found == 1, "{}: what it replaces stands {found} times in {}, not once", self.name, self.file);
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
        for mutant in mutants {
            let text = fs::read_to_string(checkout.join(&mutant.file)).unwrap_or_else(|error| panic!("{}: {error}", mutant.file));
            mutant.apply(&text).expect("it fits the source");
        }
    }
}
