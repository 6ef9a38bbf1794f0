//! In: the wanted packages. Out: all packages needed, in unpacking order.
//!
//! Like apt on an empty system without recommendations: the newest version of each, the first alternative that works, a provider where no
//! package has the name itself. A choice that leads to a dead end is undone and the next one tried (backtracking). The result is
//! deterministic: it depends only on the archives and the wanted packages.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Package, Universe};
use crate::relation::{self, Relation};
use crate::rules;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("there is no package {name}{}", or_rather(.nearest))]
    Unknown { name: String, nearest: Vec<String> },
    #[error("{name} is not a package but provided by several: {}", .providers.join(", "))]
    Ambiguous { name: String, providers: Vec<String> },
    #[error("{} cannot be satisfied: {why}", .chain.join(" → "))]
    Unsatisfied { chain: Vec<String>, why: String },
}

fn or_rather(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!(" (is it {}?)", nearest.join(", ")) }
}

/// Dependencies come before their dependents, except in cycles.
pub fn resolve<'u, 'a>(universe: &'u Universe<'a>, wanted: &BTreeSet<&str>, native: &'u str) -> Result<Vec<&'u Package<'a>>, Problem> {
    let mut choice = Choice { universe, native, chosen: BTreeMap::new() };
    // All wanted packages first: where one of them is an alternative of another's dependency, it is taken.
    let roots = wanted.iter().map(|name| choice.named(name)).collect::<Result<Vec<_>, _>>()?;
    for root in &roots {
        choice.check_conflicts(root, &[])?;
        choice.chosen.insert(root.name, root);
    }
    for root in &roots {
        choice.satisfy(root, &[root.name.to_owned()])?;
    }
    Ok(choice.ordered(&roots))
}

struct Choice<'u, 'a> {
    universe: &'u Universe<'a>,
    native: &'u str,
    chosen: BTreeMap<&'a str, &'u Package<'a>>,
}

impl<'u, 'a> Choice<'u, 'a> {
    fn named(&self, name: &str) -> Result<&'u Package<'a>, Problem> {
        if let Some(package) = self.universe.versions(name).next() {
            return Ok(package);
        }
        match self.universe.providers(name)[..] {
            [] => Err(Problem::Unknown { name: name.to_owned(), nearest: nearest(self.universe, name) }),
            [package] => Ok(package),
            ref several => Err(Problem::Ambiguous {
                name: name.to_owned(),
                providers: several.iter().map(|package| package.name.to_owned()).collect(),
            }),
        }
    }

    /// Chooses a package and its dependencies, or changes nothing.
    fn add(&mut self, package: &'u Package<'a>, chain: &[String]) -> Result<(), Problem> {
        self.check_conflicts(package, chain)?;
        let before = self.chosen.clone();
        self.chosen.insert(package.name, package);
        self.satisfy(package, chain).inspect_err(|_| self.chosen = before)
    }

    fn satisfy(&mut self, package: &Package<'a>, chain: &[String]) -> Result<(), Problem> {
        for group in package.needs() {
            if !is_given(group) && self.satisfier(group).is_none() {
                self.satisfy_group(group, chain)?;
            }
        }
        Ok(())
    }

    fn satisfy_group(&mut self, group: &'a str, chain: &[String]) -> Result<(), Problem> {
        let mut first_failure = None;
        for relation in relation::alternatives(group) {
            for candidate in self.candidates(&relation) {
                let chain: Vec<_> = chain.iter().cloned().chain([candidate.name.to_owned()]).collect();
                match self.add(candidate, &chain) {
                    Ok(()) => return Ok(()),
                    Err(problem) => first_failure = first_failure.or(Some(problem)),
                }
            }
        }
        Err(first_failure.unwrap_or_else(|| {
            let chain = chain.iter().cloned().chain([group.to_owned()]).collect();
            Problem::Unsatisfied { chain, why: self.why_none(group) }
        }))
    }

    fn candidates(&self, relation: &Relation<'_>) -> Vec<&'u Package<'a>> {
        let real = self.universe.versions(relation.name).find(|package| package.satisfies(relation, self.native));
        let provided = self.universe.providers(relation.name).into_iter().filter(|package| package.satisfies(relation, self.native));
        // Only one version of each name can be installed.
        real.into_iter().chain(provided).filter(|package| !self.chosen.contains_key(package.name)).collect()
    }

    /// The chosen package that satisfies a group.
    fn satisfier(&self, group: &str) -> Option<&'u Package<'a>> {
        relation::alternatives(group).find_map(|relation| self.chosen_for(&relation))
    }

    fn chosen_for(&self, relation: &Relation<'_>) -> Option<&'u Package<'a>> {
        let fits = |package: &&&Package<'a>| package.satisfies(relation, self.native);
        self.chosen.get(relation.name).filter(fits).or_else(|| self.chosen.values().find(fits)).copied()
    }

    fn check_conflicts(&self, package: &Package<'a>, chain: &[String]) -> Result<(), Problem> {
        let against = |one: &Package<'a>, other: &Package<'a>| {
            let relations = relation::groups(one.conflicts).chain(relation::groups(one.breaks)).filter_map(Relation::parse);
            one.name != other.name && relations.into_iter().any(|relation| other.satisfies(&relation, self.native))
        };
        match self.chosen.values().find(|other| against(package, other) || against(other, package)) {
            None => Ok(()),
            Some(other) => {
                let chain = if chain.is_empty() { vec![package.name.to_owned()] } else { chain.to_vec() };
                Err(Problem::Unsatisfied { chain, why: format!("{} and {} do not go together", package.name, other.name) })
            }
        }
    }

    fn why_none(&self, group: &str) -> String {
        let offered = relation::alternatives(group).find_map(|relation| {
            let newest = self.universe.versions(relation.name).next()?;
            Some(match self.chosen.get(relation.name) {
                Some(chosen) => format!("{} {} was chosen already", chosen.name, chosen.version),
                None => format!("the archive has {} {}", newest.name, newest.version),
            })
        });
        offered.unwrap_or_else(|| "the archive has no such package".to_owned())
    }

    fn ordered(&self, roots: &[&'u Package<'a>]) -> Vec<&'u Package<'a>> {
        let mut order = Vec::with_capacity(self.chosen.len());
        let mut seen = BTreeSet::new();
        for root in roots {
            self.visit(root, &mut seen, &mut order);
        }
        order
    }

    fn visit(&self, package: &'u Package<'a>, seen: &mut BTreeSet<&'a str>, order: &mut Vec<&'u Package<'a>>) {
        if seen.insert(package.name) {
            for needed in package.needs().filter_map(|group| self.satisfier(group)) {
                self.visit(needed, seen, order);
            }
            order.push(package);
        }
    }
}

fn is_given(group: &str) -> bool {
    relation::alternatives(group).any(|relation| rules::GIVEN.contains(&relation.name))
}

/// Similar names, as suggestions.
fn nearest(universe: &Universe<'_>, name: &str) -> Vec<String> {
    let mut near: Vec<_> = universe
        .names()
        .filter(|other| other.len().abs_diff(name.len()) <= 2)
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, _)| *distance <= 2)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name version; Field: value; …` per package.
    fn index(packages: &[&str]) -> String {
        let sum = "0".repeat(64);
        let entry = |text: &&str| {
            let (head, fields) = text.split_once(';').unwrap_or((text, ""));
            let (name, version) = head.split_once(' ').unwrap();
            let fields: String = fields.split(';').map(|field| format!("{}\n", field.trim())).filter(|field| field != "\n").collect();
            format!(
                "Package: {name}\nVersion: {version}\nArchitecture: amd64\nFilename: pool/{name}.deb\nSize: 1\nSHA256: {sum}\n{fields}\n"
            )
        };
        packages.iter().map(entry).collect()
    }

    fn resolved(packages: &[&str], wanted: &[&str]) -> Result<String, String> {
        let text = index(packages);
        let universe = Universe::new([(0, text.as_str())], "amd64");
        let wanted = wanted.iter().copied().collect();
        let result = resolve(&universe, &wanted, "amd64").map_err(|problem| problem.to_string())?;
        Ok(result.iter().map(|package| package.name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn chooses_like_apt() {
        let table: [(&str, &[&str], &[&str], &str); 13] = [
            ("dependencies first", &["app 1; Depends: lib; Pre-Depends: pre", "lib 1", "pre 1"], &["app"], "pre lib app"),
            ("circles end", &["app 1; Depends: lib", "lib 1; Depends: app"], &["app"], "lib app"),
            ("the first alternative", &["app 1; Depends: x | y", "x 1", "y 1"], &["app"], "x app"),
            ("a later alternative where the first is absent", &["app 1; Depends: x | y", "y 1"], &["app"], "y app"),
            ("a later one where the first leads nowhere", &["app 1; Depends: x | y", "x 1; Depends: gone", "y 1"], &["app"], "y app"),
            ("an alternative that is wanted anyway", &["app 1; Depends: x | y", "x 1", "y 1"], &["app", "y"], "y app"),
            ("a provider", &["app 1; Depends: mta", "exim 1; Provides: mta"], &["app"], "exim app"),
            (
                "the more usual provider",
                &["app 1; Depends: mta", "a 1; Provides: mta; Priority: extra", "b 1; Provides: mta; Priority: standard"],
                &["app"],
                "b app",
            ),
            (
                "a provider of the right version",
                &["app 1; Depends: v (>= 2)", "a 1; Provides: v (= 1)", "b 1; Provides: v (= 2)"],
                &["app"],
                "b app",
            ),
            ("any architecture", &["app 1; Depends: python:any, lib:amd64", "python 1", "lib 1"], &["app"], "python lib app"),
            ("not what conflicts", &["app 1; Depends: x | y, z", "x 1; Conflicts: app", "y 1", "z 1"], &["app"], "y z app"),
            ("nothing for what an image is anyway", &["app 1; Depends: usrmerge | usr-is-merged", "usrmerge 1"], &["app"], "app"),
            ("the newest version", &["app 1; Depends: old", "app 2; Depends: new", "old 1", "new 1"], &["app"], "new app"),
        ];
        for (name, packages, wanted, expected) in table {
            assert_eq!(resolved(packages, wanted).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn says_what_is_missing_and_for_whom() {
        let table: [(&[&str], &[&str], &str); 6] = [
            (&["sshfs 1"], &["shsfs"], "there is no package shsfs (is it sshfs?)"),
            (&["sshfs 1"], &["quite-different"], "there is no package quite-different"),
            (&["a 1; Provides: v", "b 1; Provides: v"], &["v"], "v is not a package but provided by several: a, b"),
            (
                &["app 1; Depends: lib", "lib 1; Depends: gone (>= 2)"],
                &["app"],
                "app → lib → gone (>= 2) cannot be satisfied: the archive has no such package",
            ),
            (&["app 1; Depends: lib (>= 2)", "lib 1"], &["app"], "app → lib (>= 2) cannot be satisfied: the archive has lib 1"),
            (&["app 1; Conflicts: lib", "lib 1"], &["app", "lib"], "lib cannot be satisfied: lib and app do not go together"),
        ];
        for (packages, wanted, expected) in table {
            assert_eq!(resolved(packages, wanted), Err(expected.to_owned()));
        }
    }

    #[test]
    fn the_order_of_the_index_does_not_matter() {
        let packages = ["app 1; Depends: v, w", "a 1; Provides: v", "b 1; Provides: v", "w 1; Depends: a | b"];
        let mut reversed = packages;
        reversed.reverse();
        assert_eq!(resolved(&packages, &["app"]), resolved(&reversed, &["app"]));
    }
}
