//! Records of mounts that cannot be read.

use std::path::Path;

use shorefast_engine::records::Records;

use crate::finding::Finding;

/// `None`: nothing to report.
pub fn check(run_dir: &Path) -> Option<Finding> {
    let records = Records::at(run_dir);
    let unreadable = records.scan().map(|scan| scan.unreadable.into_iter().map(|one| one.path).collect()).unwrap_or_default();
    judge(unreadable, records.aside())
}

fn judge(unreadable: Vec<std::path::PathBuf>, aside: Vec<std::path::PathBuf>) -> Option<Finding> {
    let names = |paths: &[std::path::PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if !unreadable.is_empty() {
        let finding = format!("{} cannot be read as a record of a mount", names(&unreadable));
        return Some(Finding::warning("records", finding, "`shorefast reconcile` moves it away, and recovers the record of a live mount"));
    }
    let finding = || format!("{} could not be read as a record and was moved there by `shorefast reconcile`", names(&aside));
    (!aside.is_empty()).then(|| Finding::warning("records", finding(), "look at it, then remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named() {
        let path = || vec!["/run/shorefast/m0001.json".into()];
        assert_eq!(judge(Vec::new(), Vec::new()), None);
        for finding in [judge(path(), Vec::new()), judge(Vec::new(), path())] {
            assert!(finding.is_some_and(|finding| finding.finding.contains("m0001.json")));
        }
    }
}
