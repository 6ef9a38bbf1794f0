//! In: a path from a caller. Out: the same as a place below kubelet's root, or a refusal. Decides by the text alone; that no link on the way
//! leads elsewhere, the worker checks with the kernel.

use std::path::{Component, Path, PathBuf};

use shorefast_engine::publish::Below;
use tonic::Status;

/// The kernel's limit, without the NUL.
const LONGEST: usize = 4095;

pub fn below(root: &Path, field: &str, text: &str) -> Result<Below, Status> {
    let refused = |why: &str| Err(Status::invalid_argument(format!("{field} {text:?} {why}")));
    if text.is_empty() {
        return Err(Status::invalid_argument(format!("{field} is missing")));
    }
    if text.len() > LONGEST || text.contains('\0') {
        return Err(Status::invalid_argument(format!("{field} cannot be a path")));
    }
    let path = Path::new(text);
    let is_plain = path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    // What is iterated over has no `//`, `/./` and trailing `/`.
    if !path.is_absolute() || !is_plain || path.components().collect::<PathBuf>().as_os_str() != path.as_os_str() {
        return refused("is no absolute path without `.`, `..` and needless slashes");
    }
    match path.strip_prefix(root) {
        Ok(inside) if !inside.as_os_str().is_empty() => Ok(Below { root: root.to_owned(), inside: inside.to_owned() }),
        _ => refused(&format!("is not below {}: that is kubelet's root directory (--kubelet-root)", root.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_below_the_root_pass() {
        let long = format!("/k/{}", "x".repeat(300));
        let endless = format!("/k/{}", "x/".repeat(3000));
        let rows = [
            ("/k/pods/a", true),
            (&long, true),
            ("", false),
            ("/k", false),
            ("/k/", false),
            ("/kk/a", false),
            ("/etc/passwd", false),
            ("/k/../etc", false),
            ("/k/a/../b", false),
            ("/k/./a", false),
            ("/k//a", false),
            ("//k/a", false),
            ("/k/a/", false),
            ("k/a", false),
            ("/k/a\0b", false),
            (&endless, false),
        ];
        for (text, expected) in rows {
            assert_eq!(below(Path::new("/k"), "target_path", text).is_ok(), expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_passes_stays_below(text in "(/k)?(/|\\.|a|\\.\\.|\0){0,12}") {
            if let Ok(below) = below(Path::new("/k"), "x", &text) {
                proptest::prop_assert!(below.inside.components().all(|part| matches!(part, Component::Normal(_))));
                proptest::prop_assert_eq!(below.path(), PathBuf::from(text));
            }
        }
    }
}
