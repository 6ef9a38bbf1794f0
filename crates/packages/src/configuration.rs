//! `/etc/shorefast/packages.toml`: the archives to use, overriding this machine's apt configuration.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Configuration {
    pub suite: Option<String>,
    /// Mirrors of the same archive, tried in this order.
    pub mirrors: Vec<String>,
    pub components: Option<Vec<String>>,
    pub keyring: Option<PathBuf>,
    /// Where one archive is not enough.
    pub archive: Vec<Archive>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    pub mirrors: Vec<String>,
    /// `{suite}` stands for the requested suite.
    #[serde(default = "only_the_suite")]
    pub suites: Vec<String>,
    pub components: Option<Vec<String>>,
    pub keyring: Option<PathBuf>,
}

fn only_the_suite() -> Vec<String> {
    vec!["{suite}".to_owned()]
}

impl Configuration {
    /// All archives; missing keys are taken from the top of the file.
    pub fn archives(&self) -> Vec<Archive> {
        let short = Archive { mirrors: self.mirrors.clone(), suites: only_the_suite(), components: None, keyring: None };
        let all = (!self.mirrors.is_empty()).then_some(short).into_iter().chain(self.archive.iter().cloned());
        all.map(|archive| Archive {
            components: archive.components.or_else(|| self.components.clone()),
            keyring: archive.keyring.or_else(|| self.keyring.clone()),
            ..archive
        })
        .collect()
    }
}
