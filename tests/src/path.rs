//! Paths that a test has chosen itself.

use std::path::Path;

/// For a command line.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("our own paths are text")
}
