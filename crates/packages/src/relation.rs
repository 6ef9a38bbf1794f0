//! In: the fields Depends, Provides, Conflicts. Out: relations between packages.

use std::cmp::Ordering;
use std::fmt;

use crate::version;

/// A package name, optionally with a version constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation<'a> {
    pub name: &'a str,
    /// The qualifier after a colon: `any`, or an architecture.
    pub architecture: Option<&'a str>,
    pub version: Option<(Operator, &'a str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Earlier,
    EarlierOrEqual,
    Equal,
    LaterOrEqual,
    Later,
}

/// The groups of a dependency field; one alternative of each must be satisfied.
pub fn groups(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').map(str::trim).filter(|group| !group.is_empty())
}

/// The alternatives of a group, in the packager's order of preference. Unparsable ones are never satisfied.
pub fn alternatives(group: &str) -> impl Iterator<Item = Relation<'_>> {
    group.split('|').filter_map(Relation::parse)
}

impl<'a> Relation<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let end = text.find([' ', '\t', '\n', '(', '[', '<']).unwrap_or(text.len());
        let (full_name, rest) = text.split_at(end);
        let (name, architecture) = match full_name.split_once(':') {
            Some((name, architecture)) => (name, Some(architecture)),
            None => (full_name, None),
        };
        let version = match rest.trim().strip_prefix('(') {
            Some(rest) => Some(parse_constraint(rest.split_once(')')?.0)?),
            None => None,
        };
        (!name.is_empty()).then_some(Self { name, architecture, version })
    }

    pub fn allows(&self, version: &str) -> bool {
        self.version.is_none_or(|(operator, wanted)| operator.holds(version::compare(version, wanted)))
    }

    /// Whether a package that provides `provided` satisfies this. Provided without a version, it satisfies no version constraint.
    pub fn allows_provided(&self, provided: &Relation<'_>) -> bool {
        provided.name == self.name
            && match (self.version, provided.version) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some((operator, wanted)), Some((_, version))) => operator.holds(version::compare(version, wanted)),
            }
    }
}

fn parse_constraint(text: &str) -> Option<(Operator, &str)> {
    let text = text.trim();
    let end = text.find(|symbol| !matches!(symbol, '<' | '>' | '='))?;
    let (operator, version) = text.split_at(end);
    let operator = match operator {
        "<<" => Operator::Earlier,
        "<=" | "<" => Operator::EarlierOrEqual,
        "=" => Operator::Equal,
        ">=" | ">" => Operator::LaterOrEqual,
        ">>" => Operator::Later,
        _ => return None,
    };
    Some((operator, version.trim()))
}

impl Operator {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Earlier => order.is_lt(),
            Self::EarlierOrEqual => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::LaterOrEqual => order.is_ge(),
            Self::Later => order.is_gt(),
        }
    }
}

impl fmt::Display for Relation<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)?;
        if let Some(architecture) = self.architecture {
            write!(out, ":{architecture}")?;
        }
        match self.version {
            Some((operator, version)) => write!(out, " ({} {version})", operator.symbol()),
            None => Ok(()),
        }
    }
}

impl Operator {
    fn symbol(self) -> &'static str {
        match self {
            Self::Earlier => "<<",
            Self::EarlierOrEqual => "<=",
            Self::Equal => "=",
            Self::LaterOrEqual => ">=",
            Self::Later => ">>",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_packages_write() {
        let groups: Vec<Vec<_>> = groups("libc6 (>= 2.34), debconf (>= 0.5) | debconf-2.0, python3:any,\n a(=1)")
            .map(|group| alternatives(group).map(|relation| relation.to_string()).collect())
            .collect();
        assert_eq!(groups, [vec!["libc6 (>= 2.34)"], vec!["debconf (>= 0.5)", "debconf-2.0"], vec!["python3:any"], vec!["a (= 1)"]]);
    }

    #[test]
    fn versions_bound_what_will_do() {
        let table = [
            ("a", "1", true),
            ("a (>= 2)", "1", false),
            ("a (>= 2)", "2~rc1", false),
            ("a (>= 2~)", "2~rc1", true),
            ("a (<< 2)", "1:1", false),
            ("a (= 2-1)", "2-1", true),
            ("a (>> 2)", "2", false),
            ("a (<= 2)", "2", true),
        ];
        for (relation, version, will_do) in table {
            assert_eq!(Relation::parse(relation).unwrap().allows(version), will_do, "{relation} {version}");
        }
    }

    #[test]
    fn a_provided_name_has_only_the_version_it_says() {
        let table =
            [("a", "a", true), ("a (>= 1)", "a", false), ("a (>= 1)", "a (= 2)", true), ("a (>= 3)", "a (= 2)", false), ("b", "a", false)];
        for (wanted, provided, will_do) in table {
            let provided = Relation::parse(provided).unwrap();
            assert_eq!(Relation::parse(wanted).unwrap().allows_provided(&provided), will_do, "{wanted} {provided}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        for text in ["", "a (>= 1", "a (~ 1)", "(>= 1)", "a ()"] {
            assert_eq!(Relation::parse(text), None, "{text:?}");
        }
    }
}
