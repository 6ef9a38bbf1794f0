//! Which function is where in a program.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

pub(super) struct Functions(Vec<Function>);

struct Function {
    place: Range<u64>,
    name: String,
}

impl Functions {
    pub(super) fn of(program: &Path) -> Result<Self> {
        let listed = process::output(Command::new("nm").args(["--print-size", "--numeric-sort", "--defined-only"]).arg(program))?;
        let functions = Self(listed.lines().filter_map(function).collect());
        ensure!(functions.count() > 0, "{} has no symbols", program.display());
        Ok(functions)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// From the first to the last.
    pub(super) fn range(&self) -> Range<u64> {
        let (first, last) = (self.0.first(), self.0.last());
        first.map_or(0, |first| first.place.start)..last.map_or(0, |last| last.place.end)
    }

    /// Those that were executed.
    pub(super) fn named(&self, executed: &BTreeSet<u64>) -> BTreeSet<String> {
        let hot = self.0.iter().filter(|function| executed.range(function.place.clone()).next().is_some());
        hot.map(|function| function.name.clone()).collect()
    }
}

/// A line of nm: place, size, kind and name.
fn function(line: &str) -> Option<Function> {
    let [start, size, kind, name] = line.split_ascii_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let (start, size) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(size, 16).ok()?);
    "tTwW".contains(kind).then(|| Function { place: start..start + size, name: name.to_owned() })
}

/// A name without what differs from build to build: the hashes in a Rust name, and what LLVM adds.
pub(super) fn pattern(name: &str) -> String {
    const HASH: &str = "17h";
    let name = name.split_once(".llvm.").map_or(name, |(name, _)| name);
    match name.rfind(HASH) {
        Some(at) if name.starts_with("_ZN") => format!("{}*", &name[..at + HASH.len()]),
        _ if name.starts_with("_R") => without_crate_hashes(name) + "*",
        _ => name.to_owned(),
    }
}

/// In names of the newer kind a crate is `Cs`, its hash, and `_` before its name.
fn without_crate_hashes(name: &str) -> String {
    const CRATE: &str = "Cs";
    let mut parts = name.split(CRATE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once('_') {
        Some((hash, rest)) if hash.chars().all(|c| c.is_ascii_alphanumeric()) => format!("{text}{CRATE}*_{rest}"),
        _ => format!("{text}{CRATE}{part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_the_build_gave_them() {
        let rows = [
            ("_ZN9shorefast4main17h0123456789abcdefE", "_ZN9shorefast4main17h*"),
            ("_ZN9shorefast4main17h0123456789abcdefE.llvm.123", "_ZN9shorefast4main17h*"),
            ("_RNvNtCsaz6eC2DG7lh_3std2rt7cleanup", "_RNvNtCs*_3std2rt7cleanup*"),
            ("_RNvCs1_3oneCs2_3two", "_RNvCs*_3oneCs*_3two*"),
            ("memcpy", "memcpy"),
        ];
        for (name, expected) in rows {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn what_was_executed_is_found_by_its_place() {
        let lines = "0000000000001000 0000000000000010 T first\n0000000000001010 0000000000000008 t second\n0000000000002000 0000000000000008 D data";
        let functions = Functions(lines.lines().filter_map(function).collect());
        assert_eq!(functions.range(), 0x1000..0x1018);
        let named = |places: &[u64]| functions.named(&places.iter().copied().collect()).into_iter().collect::<Vec<_>>();
        assert_eq!(named(&[0x100f]), ["first"]);
        assert_eq!(named(&[0x1010, 0x1011]), ["second"]);
        assert_eq!(named(&[0x1018]), [""; 0]);
    }
}
