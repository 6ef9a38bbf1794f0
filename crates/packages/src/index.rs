//! In: an archive's Packages files. Out: packages, by name and by what they provide.

use std::collections::HashMap;

use crate::control;
use crate::relation::{self, Relation};
use crate::release::is_sha256;
use crate::version;

/// The fields of a package that matter here; the others are four fifths of an index. Part of the name of a cached index: a change of the
/// fields needs a new number.
pub const FORM: u32 = 1;

const FIELDS: [&str; 13] = [
    "Package",
    "Version",
    "Architecture",
    "Essential",
    "Priority",
    "Pre-Depends",
    "Depends",
    "Provides",
    "Conflicts",
    "Breaks",
    "Filename",
    "Size",
    "SHA256",
];

/// The index reduced to [`FIELDS`], each on one line. It is cached, which makes the next lookup ten times cheaper.
pub fn strip(text: &str) -> String {
    let mut slim = String::with_capacity(text.len() / 3);
    for paragraph in control::paragraphs(text) {
        for (name, value) in paragraph.fields().filter(|(name, _)| FIELDS.contains(name)) {
            slim.push_str(name);
            slim.push_str(": ");
            slim.extend(value.chars().map(|symbol| if symbol == '\n' { ' ' } else { symbol }));
            slim.push('\n');
        }
        slim.push('\n');
    }
    slim
}

/// One version of one package.
#[derive(Clone, Debug)]
pub struct Package<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub architecture: &'a str,
    pub priority: Priority,
    pub pre_depends: &'a str,
    pub depends: &'a str,
    pub provides: &'a str,
    pub conflicts: &'a str,
    pub breaks: &'a str,
    /// Relative to the archive's address.
    pub path: &'a str,
    pub size: u64,
    pub sha256: &'a str,
    /// The number of its archive.
    pub archive: usize,
}

/// The packager's ranking, most usual first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Required,
    Important,
    Standard,
    Optional,
    Other,
}

impl<'a> Package<'a> {
    fn parse(paragraph: control::Paragraph<'a>, archive: usize) -> Option<Self> {
        let mut package = Self {
            name: "",
            version: "",
            architecture: "",
            priority: Priority::Other,
            pre_depends: "",
            depends: "",
            provides: "",
            conflicts: "",
            breaks: "",
            path: "",
            size: 0,
            sha256: "",
            archive,
        };
        for (name, value) in paragraph.fields() {
            match name {
                "Package" => package.name = value,
                "Version" => package.version = value,
                "Architecture" => package.architecture = value,
                "Priority" => package.priority = Priority::of(value),
                "Pre-Depends" => package.pre_depends = value,
                "Depends" => package.depends = value,
                "Provides" => package.provides = value,
                "Conflicts" => package.conflicts = value,
                "Breaks" => package.breaks = value,
                "Filename" => package.path = value,
                "Size" => package.size = value.parse().ok()?,
                "SHA256" => package.sha256 = value,
                _ => {}
            }
        }
        let complete = !package.name.is_empty() && !package.version.is_empty() && is_inside(package.path) && is_sha256(package.sha256);
        complete.then_some(package)
    }

    /// Pre-Depends first, as they must be installed before.
    pub fn needs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        relation::groups(self.pre_depends).chain(relation::groups(self.depends))
    }

    /// Whether this package, by its name or a provided name, satisfies the relation.
    pub fn satisfies(&self, relation: &Relation<'_>, native: &str) -> bool {
        let architecture = match relation.architecture {
            None | Some("any" | "native") => true,
            Some(wanted) => wanted == self.architecture || (self.architecture == "all" && wanted == native),
        };
        let by_name = self.name == relation.name && relation.allows(self.version);
        architecture && (by_name || self.provided().any(|provided| relation.allows_provided(&provided)))
    }

    pub fn provided(&self) -> impl Iterator<Item = Relation<'a>> + use<'a> {
        relation::groups(self.provides).filter_map(Relation::parse)
    }
}

impl Priority {
    fn of(text: &str) -> Self {
        match text {
            "required" => Self::Required,
            "important" => Self::Important,
            "standard" => Self::Standard,
            "optional" => Self::Optional,
            _ => Self::Other,
        }
    }
}

/// A pool path becomes part of an address.
pub fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && path.split('/').all(|part| !part.is_empty() && part != "..")
        && !path.contains(|symbol: char| symbol.is_control() || symbol == '\\')
}

/// All packages of all indexes, by name.
#[derive(Debug)]
pub struct Universe<'a> {
    packages: Vec<Package<'a>>,
    /// Newest version first.
    by_name: HashMap<&'a str, Vec<usize>>,
    providers: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Universe<'a> {
    /// From stripped indexes, each with the number of its archive. Packages for other architectures are left out.
    pub fn new(indexes: impl IntoIterator<Item = (usize, &'a str)>, architecture: &str) -> Self {
        let mut packages: Vec<Package<'a>> = Vec::new();
        for (archive, text) in indexes {
            let parsed = control::paragraphs(text).filter_map(|paragraph| Package::parse(paragraph, archive));
            packages.extend(parsed.filter(|package| package.architecture == architecture || package.architecture == "all"));
        }
        let mut by_name: HashMap<_, Vec<usize>> = HashMap::with_capacity(packages.len());
        let mut providers: HashMap<_, Vec<usize>> = HashMap::new();
        for (number, package) in packages.iter().enumerate() {
            by_name.entry(package.name).or_default().push(number);
            for provided in package.provided() {
                providers.entry(provided.name).or_default().push(number);
            }
        }
        for versions in by_name.values_mut().filter(|versions| versions.len() > 1) {
            versions.sort_by(|a, b| version::compare(packages[*b].version, packages[*a].version));
        }
        Self { packages, by_name, providers }
    }

    /// Newest first; of equal versions the one from the archive that was named first.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &Package<'a>> {
        self.by_name.get(name).into_iter().flatten().map(|number| &self.packages[*number])
    }

    /// Packages that provide the name, in a fixed order: by priority, then by name, the newest of each.
    pub fn providers(&self, name: &str) -> Vec<&Package<'a>> {
        let mut found: Vec<_> = self.providers.get(name).into_iter().flatten().map(|number| &self.packages[*number]).collect();
        found.sort_by(|a, b| (a.priority, a.name).cmp(&(b.priority, b.name)).then_with(|| version::compare(b.version, a.version)));
        found.dedup_by_key(|package| package.name);
        found
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.by_name.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn what_is_stripped_reads_the_same() {
        let full = format!(
            "Package: a\nDescription: long\n text\nVersion: 1\nArchitecture: all\nDepends: b,\n c\nFilename: pool/a.deb\nSize: 3\nSHA256: {SUM}\n\n"
        );
        let slim = strip(&full);
        assert!(!slim.contains("Description"));
        let universe = Universe::new([(0, slim.as_str())], "amd64");
        let package = universe.versions("a").next().unwrap();
        assert_eq!(package.needs().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!((package.size, package.sha256, package.path), (3, SUM, "pool/a.deb"));
    }

    #[test]
    fn leaves_out_what_is_not_for_this_machine_or_not_complete() {
        let entry = |name, architecture, path| {
            format!("Package: {name}\nVersion: 1\nArchitecture: {architecture}\nFilename: {path}\nSHA256: {SUM}\n\n")
        };
        let text =
            [entry("a", "arm64", "a.deb"), entry("b", "amd64", "../../b.deb"), entry("c", "amd64", "/c.deb"), entry("d", "all", "d.deb")]
                .concat();
        let universe = Universe::new([(0, text.as_str())], "amd64");
        assert_eq!(universe.names().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn the_newest_version_comes_first() {
        let entry = |version| format!("Package: a\nVersion: {version}\nArchitecture: all\nFilename: a.deb\nSHA256: {SUM}\n\n");
        let (main, security) = (entry("1.0-9"), entry("1.0-10"));
        let universe = Universe::new([(0, main.as_str()), (1, security.as_str())], "amd64");
        assert_eq!(universe.versions("a").map(|package| package.version).collect::<Vec<_>>(), ["1.0-10", "1.0-9"]);
    }
}
