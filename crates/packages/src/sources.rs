//! In: what the caller, the configuration and the machine specify. Out: the archives to read. Pure.

use std::path::PathBuf;

use crate::apt::{Entry, SignedBy};
use crate::architecture::Architecture;
use crate::built_in;
use crate::configuration::Configuration;
use crate::error::Error;
use crate::spec::{Spec, is_suite};

/// One suite of one archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Mirrors of the same archive, tried in this order. The first one identifies it.
    pub mirrors: Vec<String>,
    pub suite: String,
    pub components: Vec<String>,
    pub trust: Trust,
    /// Set for sources from the machine's apt: archives of another origin than the distribution are left out.
    pub only_origin: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    Files(Vec<PathBuf>),
    Key(String),
    /// [`built_in::KEYS`]
    BuiltIn,
}

/// For display: where it is, and which keys are trusted.
impl std::fmt::Display for Source {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}, signed by ", self.mirrors.join(" or "), self.suite)?;
        match &self.trust {
            Trust::Files(files) => {
                let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                write!(out, "keys of {}", names.join(", "))
            }
            Trust::Key(_) => out.write_str("the key in apt's sources"),
            Trust::BuiltIn => out.write_str("Debian's keys that are built in"),
        }
    }
}

/// The caller's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub mirrors: Vec<String>,
    pub keyring: Option<PathBuf>,
    /// The architecture that the image is for; `None`: this machine's.
    pub architecture: Option<Architecture>,
}

/// This machine's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub configuration: Configuration,
    pub apt: Vec<Entry>,
    /// The code name of the running system, if it is a Debian.
    pub suite: Option<String>,
    /// Keys that apt trusts for every archive.
    pub keyrings: Vec<PathBuf>,
}

/// At least one source; the first is of the suite itself.
pub fn choose(spec: &Spec, wishes: &Wishes, machine: &Machine) -> Result<Vec<Source>, Error> {
    let is_known = spec.distribution == built_in::DISTRIBUTION;
    let named = spec.suite.as_deref().or(machine.configuration.suite.as_deref()).or(machine.suite.as_deref());
    let suite = named.or(is_known.then_some(built_in::SUITE)).ok_or(Error::NoSuite)?;
    let mut chosen = if !wishes.mirrors.is_empty() {
        vec![Draft { mirrors: wishes.mirrors.clone(), suite: suite.to_owned(), components: main(), trust: None, only_origin: None }]
    } else {
        let configured = from_configuration(&machine.configuration, suite);
        if configured.is_empty() { from_apt(machine, suite, &spec.distribution) } else { configured }
    };
    if chosen.is_empty() && is_known {
        chosen = of_debian(suite);
    }
    for draft in &mut chosen {
        if let Some(keyring) = &wishes.keyring {
            draft.trust = Some(Trust::Files(vec![keyring.clone()]));
        }
        draft.mirrors.iter_mut().for_each(|mirror| mirror.truncate(mirror.trim_end_matches('/').len()));
    }
    if chosen.is_empty() {
        return Err(Error::NoArchive { suite: suite.to_owned() });
    }
    let last_resort = is_known.then_some(Trust::BuiltIn);
    chosen.into_iter().map(|draft| draft.finish(machine, last_resort.as_ref())).collect()
}

/// A source whose trust is not determined yet.
struct Draft {
    mirrors: Vec<String>,
    suite: String,
    components: Vec<String>,
    trust: Option<Trust>,
    only_origin: Option<String>,
}

impl Draft {
    /// `last_resort`: for a machine that trusts no keys.
    fn finish(self, machine: &Machine, last_resort: Option<&Trust>) -> Result<Source, Error> {
        let name = self.mirrors.first().cloned().unwrap_or_default();
        if !self.mirrors.iter().all(|mirror| is_usable(mirror)) || self.mirrors.is_empty() {
            return Err(Error::Mirror { mirror: name });
        }
        if !is_suite(&self.suite) || !self.components.iter().all(|component| is_suite(component)) || self.components.is_empty() {
            return Err(Error::Mirror { mirror: format!("{name} {}", self.suite) });
        }
        let trust = match self.trust {
            Some(trust) => trust,
            None if machine.keyrings.is_empty() => last_resort.cloned().ok_or(Error::NoKeyring { mirror: name })?,
            None => Trust::Files(machine.keyrings.clone()),
        };
        Ok(Source { mirrors: self.mirrors, suite: self.suite, components: self.components, trust, only_origin: self.only_origin })
    }
}

fn main() -> Vec<String> {
    vec!["main".to_owned()]
}

fn is_usable(mirror: &str) -> bool {
    ["http://", "https://", "file:/"].iter().any(|scheme| mirror.starts_with(scheme))
}

/// Debian's own archive, for a machine that names no other. A rolling suite has neither updates nor security fixes of its own.
fn of_debian(suite: &str) -> Vec<Draft> {
    let archives = built_in::ARCHIVES.into_iter().filter(|(_, pocket)| pocket.is_empty() || !is_rolling(suite));
    let draft = |(mirror, pocket): (&str, &str)| Draft {
        mirrors: vec![mirror.to_owned()],
        suite: format!("{suite}{pocket}"),
        components: main(),
        trust: Some(Trust::BuiltIn),
        only_origin: None,
    };
    archives.map(draft).collect()
}

fn is_rolling(suite: &str) -> bool {
    ["sid", "unstable", "experimental"].contains(&suite)
}

fn from_configuration(configuration: &Configuration, suite: &str) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for archive in configuration.archives() {
        for name in &archive.suites {
            drafts.push(Draft {
                mirrors: archive.mirrors.clone(),
                suite: name.replace("{suite}", suite),
                components: archive.components.clone().unwrap_or_else(main),
                trust: archive.keyring.clone().map(|file| Trust::Files(vec![file])),
                only_origin: None,
            });
        }
    }
    drafts
}

/// The suite with its updates and security fixes. If the machine runs another suite, its mirrors are used for the wanted one.
fn from_apt(machine: &Machine, suite: &str, distribution: &str) -> Vec<Draft> {
    let named_here = collect(machine, suite, suite, distribution);
    match &machine.suite {
        _ if named_here.iter().any(|draft| draft.suite == suite) => named_here,
        Some(own) => collect(machine, own, suite, distribution),
        None => Vec::new(),
    }
}

fn collect(machine: &Machine, here: &str, wanted: &str, distribution: &str) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in &machine.apt {
        for (name, uri) in entry.suites.iter().flat_map(|name| entry.uris.iter().map(move |uri| (name, uri))) {
            let Some(pocket) = name.strip_prefix(here).filter(|pocket| ["", "-updates", "-security", "/updates"].contains(pocket)) else {
                continue;
            };
            if is_usable(uri) && !entry.components.is_empty() {
                drafts.push(Draft {
                    mirrors: vec![uri.clone()],
                    suite: format!("{wanted}{pocket}"),
                    components: entry.components.clone(),
                    trust: match &entry.signed_by {
                        SignedBy::Anybody => None,
                        SignedBy::Files(files) => Some(Trust::Files(files.clone())),
                        SignedBy::Key(key) => Some(Trust::Key(key.clone())),
                    },
                    only_origin: Some(distribution.to_owned()),
                });
            }
        }
    }
    // The suite itself before its pockets; a rolling suite has none.
    drafts.retain(|draft| draft.suite == wanted || !is_rolling(wanted));
    drafts.sort_by_key(|draft| draft.suite.len());
    drafts.dedup_by(|a, b| a.mirrors == b.mirrors && a.suite == b.suite && a.components == b.components);
    drafts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apt;

    const SOURCES: &str = "deb [signed-by=/k.gpg] http://m/debian x main\ndeb [signed-by=/k.gpg] http://m/debian x-updates main\n\
        deb http://m/security x-security main contrib\ndeb http://m/debian x-backports main\ndeb cdrom:[x] x main\ndeb http://other y main\n";

    fn machine() -> Machine {
        Machine { apt: apt::one_line_sources(SOURCES), suite: Some("x".to_owned()), keyrings: vec!["/t.gpg".into()], ..Machine::default() }
    }

    fn shown(spec: &str, wishes: &Wishes, machine: &Machine) -> Result<Vec<String>, String> {
        let sources = choose(&spec.parse().unwrap(), wishes, machine).map_err(|error| error.to_string())?;
        let keys = |trust: &Trust| match trust {
            Trust::Files(files) => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join("+"),
            Trust::Key(_) => "key".to_owned(),
            Trust::BuiltIn => "built-in".to_owned(),
        };
        Ok(sources
            .iter()
            .map(|source| format!("{} {} {} {}", source.mirrors.join("|"), source.suite, source.components.join(","), keys(&source.trust)))
            .collect())
    }

    #[test]
    fn takes_the_machines_own_sources() {
        let expected =
            ["http://m/debian x main /k.gpg", "http://m/debian x-updates main /k.gpg", "http://m/security x-security main,contrib /t.gpg"];
        assert_eq!(shown("debian?ab", &Wishes::default(), &machine()).unwrap(), expected);
        assert_eq!(shown("debian/x?ab", &Wishes::default(), &machine()).unwrap(), expected);
    }

    #[test]
    fn asks_the_machines_mirrors_for_other_suites() {
        assert_eq!(shown("debian/y?ab", &Wishes::default(), &machine()).unwrap(), ["http://other y main /t.gpg"]);
        let expected =
            ["http://m/debian z main /k.gpg", "http://m/debian z-updates main /k.gpg", "http://m/security z-security main,contrib /t.gpg"];
        assert_eq!(shown("debian/z?ab", &Wishes::default(), &machine()).unwrap(), expected);
        assert_eq!(shown("debian/sid?ab", &Wishes::default(), &machine()).unwrap(), ["http://m/debian sid main /k.gpg"]);
    }

    #[test]
    fn the_configuration_comes_before_the_machine_and_the_caller_before_both() {
        let configuration = "suite = \"c\"\nmirrors = [\"http://a/\", \"http://b\"]\nkeyring = \"/c.gpg\"\n\
            [[archive]]\nmirrors = [\"http://s\"]\nsuites = [\"{suite}-security\"]\ncomponents = [\"main\", \"contrib\"]\n";
        let machine = Machine { configuration: toml::from_str(configuration).unwrap(), ..machine() };
        assert_eq!(
            shown("debian?ab", &Wishes::default(), &machine).unwrap(),
            ["http://a|http://b c main /c.gpg", "http://s c-security main,contrib /c.gpg"]
        );
        let wishes = Wishes { mirrors: vec!["http://w/".to_owned()], keyring: Some("/w.gpg".into()), ..Wishes::default() };
        assert_eq!(shown("debian?ab", &wishes, &machine).unwrap(), ["http://w c main /w.gpg"]);
    }

    #[test]
    fn a_machine_with_nothing_uses_debians_own_archive_and_keys() {
        let nothing = Machine::default();
        let expected = [
            "http://deb.debian.org/debian trixie main built-in",
            "http://deb.debian.org/debian trixie-updates main built-in",
            "http://deb.debian.org/debian-security trixie-security main built-in",
        ];
        assert_eq!(shown("debian?ab", &Wishes::default(), &nothing).unwrap(), expected);
        assert_eq!(shown("debian/sid?ab", &Wishes::default(), &nothing).unwrap(), ["http://deb.debian.org/debian sid main built-in"]);
        let pinned = Machine { configuration: toml::from_str("mirrors = [\"http://m/20260101T000000Z\"]").unwrap(), ..Machine::default() };
        assert_eq!(shown("debian/x?ab", &Wishes::default(), &pinned).unwrap(), ["http://m/20260101T000000Z x main built-in"]);
        // The built-in keys are not added to a machine's own keys.
        let own = Machine { apt: Vec::new(), ..machine() };
        assert_eq!(
            shown("debian/x?ab", &Wishes { mirrors: vec!["http://m".to_owned()], ..Wishes::default() }, &own).unwrap(),
            ["http://m x main /t.gpg"]
        );
    }

    #[test]
    fn says_what_is_missing() {
        let nothing = Machine::default();
        let mirror = |mirror: &str| Wishes { mirrors: vec![mirror.to_owned()], ..Wishes::default() };
        let table = [
            ("devuan?ab", Wishes::default(), &nothing, "no suite given"),
            ("devuan/x?ab", Wishes::default(), &nothing, "no archive is configured that has packages of x"),
            ("devuan/x?ab", mirror("http://m"), &nothing, "there is no keyring to check http://m with"),
            ("debian/x?ab", mirror("ftp://m"), &machine(), "\"ftp://m\" is not the address of an archive"),
        ];
        for (spec, wishes, machine, expected) in table {
            assert_eq!(shown(spec, &wishes, machine).unwrap_err(), expected);
        }
    }
}
