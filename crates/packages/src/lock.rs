//! In: a spec and archives. Out: exactly which packages an image is made of, and where they are, as a file that can be replayed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::archive;
use crate::deb::{self, Deb};
use crate::error::Error;
use crate::index::{Universe, is_inside};
use crate::release::is_sha256;
use crate::resolve;
use crate::rules;
use crate::sources::{self, Machine, Wishes};
use crate::spec::Spec;
use crate::supply::{Supply, Wanted};

const FORM: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The format version of this file.
    form: u32,
    /// The packages as requested.
    pub packages: String,
    pub architecture: String,
    rules: u32,
    /// Of the resulting image.
    pub digest: String,
    archive: Vec<Place>,
    /// In unpacking order.
    package: Vec<Pin>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    mirrors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    name: String,
    version: String,
    /// The number of its archive.
    archive: usize,
    path: String,
    size: u64,
    sha256: String,
}

/// Reads the archives and resolves. Downloads their indexes, but no packages.
pub fn make(spec: &Spec, wishes: &Wishes, machine: &Machine, supply: &Supply<'_>) -> Result<Lock, Error> {
    let sources = sources::choose(spec, wishes, machine)?;
    let suite = sources[0].suite.clone();
    let architecture = wishes.architecture.unwrap_or_else(Architecture::native).name;
    let archives = archive::open_all(&sources, architecture, supply, SystemTime::now())?;
    if archives.is_empty() {
        return Err(Error::NoArchive { suite });
    }
    let texts = archives.iter().enumerate().flat_map(|(number, archive)| archive.indexes.iter().map(move |text| (number, text.as_str())));
    let universe = Universe::new(texts, architecture);
    let wanted: BTreeSet<&str> = spec.packages.iter().map(String::as_str).chain(rules::BASE).collect();
    let chosen = resolve::resolve(&universe, &wanted, architecture).map_err(|source| Error::Resolve { suite: suite.clone(), source })?;
    let package = chosen.into_iter().map(|package| Pin {
        name: package.name.to_owned(),
        version: package.version.to_owned(),
        archive: package.archive,
        path: package.path.to_owned(),
        size: package.size,
        sha256: package.sha256.to_owned(),
    });
    let mut lock = Lock {
        form: FORM,
        packages: Spec { suite: Some(suite), ..spec.clone() }.to_string(),
        architecture: architecture.to_owned(),
        rules: rules::VERSION,
        digest: String::new(),
        archive: archives.iter().map(|archive| Place { mirrors: archive.mirrors.clone() }).collect(),
        package: package.collect(),
    };
    lock.digest = lock.computed_digest();
    Ok(lock)
}

impl Lock {
    /// Downloads packages that are not in the cache. In unpacking order; see [`crate::ahead`].
    pub fn fetch(&self, supply: &Supply<'_>) -> Result<Vec<Deb>, Error> {
        let wanted: Vec<_> = self.package.iter().map(|pin| self.wanted(pin)).collect();
        let files = supply.files(&wanted)?;
        Ok(wanted
            .into_iter()
            .zip(files)
            .map(|(wanted, file)| Deb { name: wanted.name, file, size: wanted.size, sha256: wanted.sha256 })
            .collect())
    }

    fn wanted(&self, pin: &Pin) -> Wanted {
        let mirrors = self.archive.get(pin.archive).map(|place| &place.mirrors[..]).unwrap_or_default();
        Wanted {
            name: format!("{} {}", pin.name, pin.version),
            urls: mirrors.iter().map(|mirror| format!("{mirror}/{}", pin.path)).collect(),
            size: pin.size,
            sha256: pin.sha256.clone(),
        }
    }

    /// Other mirrors for the same packages, tried first.
    pub fn prefer_mirrors(&mut self, mirrors: &[String]) {
        for place in &mut self.archive {
            place.mirrors.splice(0..0, mirrors.iter().map(|mirror| mirror.trim_end_matches('/').to_owned()));
        }
    }

    /// Names and versions.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.package.iter().map(|pin| (pin.name.as_str(), pin.version.as_str()))
    }

    /// The same, and whether it comes from Debian's archive of security updates, whose pool is told by its path.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.package.iter().map(|pin| (pin.name.as_str(), pin.version.as_str(), pin.path.starts_with("pool/updates/")))
    }

    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("names and numbers can be written")
    }

    /// `path` is for the error.
    pub fn from_text(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Lock { path: path.to_owned(), problem };
        let lock: Self = toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
        lock.check().map_err(|problem| wrong(problem.to_owned()))?;
        Ok(lock)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.form != FORM {
            return Err("another version of Shorefast wrote it");
        }
        if self.rules != rules::VERSION {
            return Err("it was made under other rules of what goes into an image: build again without it");
        }
        let is_known = self.architecture.parse().is_ok_and(|known: Architecture| known.name == self.architecture);
        if !is_known && self.architecture != Architecture::native().name {
            return Err("it is for another kind of machine");
        }
        let sound = |pin: &Pin| is_sha256(&pin.sha256) && is_inside(&pin.path) && self.archive.get(pin.archive).is_some();
        if !self.package.iter().all(sound) {
            return Err("a package has no usable path, checksum or archive");
        }
        if self.digest != self.computed_digest() {
            return Err("its packages do not give the digest that it states");
        }
        Ok(())
    }

    /// Over everything that the image depends on, and nothing else: not over names, mirrors or dates.
    fn computed_digest(&self) -> String {
        let mut text = format!("shorefast packages, rules {}\n{}\n", self.rules, self.architecture);
        for pin in &self.package {
            text.push_str(&pin.sha256);
            text.push('\n');
        }
        format!("sha256:{}", deb::sha256_of(&mut text.as_bytes()).expect("a slice can be read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        let pin = Pin { name: "ab".into(), version: "1".into(), archive: 0, path: "pool/ab.deb".into(), size: 1, sha256: "0".repeat(64) };
        let mut lock = Lock {
            form: FORM,
            packages: "packages:debian/x?ab".into(),
            architecture: Architecture::native().name.into(),
            rules: rules::VERSION,
            digest: String::new(),
            archive: vec![Place { mirrors: vec!["http://m/debian".into()] }],
            package: vec![pin],
        };
        lock.digest = lock.computed_digest();
        lock
    }

    #[test]
    fn reads_what_it_writes() {
        let lock = lock();
        assert_eq!(Lock::from_text(&lock.to_text(), Path::new("x")).unwrap(), lock);
    }

    #[test]
    fn the_digest_is_of_the_content_only() {
        let one = lock();
        let mut other = lock();
        other.prefer_mirrors(&["http://n/".to_owned()]);
        other.packages.push_str(",cd");
        assert_eq!(other.computed_digest(), one.digest);
        assert_eq!(other.wanted(&other.package[0]).urls, ["http://n/pool/ab.deb", "http://m/debian/pool/ab.deb"]);
        other.package[0].sha256 = "1".repeat(64);
        assert_ne!(other.computed_digest(), one.digest);
    }

    #[test]
    fn refuses_what_was_tampered_with() {
        type Change = fn(&mut Lock);
        let changes: [(&str, Change); 6] = [
            ("checksum", |lock| lock.package[0].sha256 = "1".repeat(64)),
            ("no checksum", |lock| lock.package[0].sha256 = "../../x".into()),
            ("path", |lock| lock.package[0].path = "../x".into()),
            ("archive", |lock| lock.package[0].archive = 7),
            ("form", |lock| lock.form = 99),
            ("machine", |lock| lock.architecture = "vax".into()),
        ];
        for (name, change) in changes {
            let mut lock = lock();
            change(&mut lock);
            assert!(Lock::from_text(&lock.to_text(), Path::new("x")).is_err(), "{name}");
        }
    }
}
