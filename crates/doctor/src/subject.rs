//! What is examined.

use std::path::PathBuf;

use shorefast_engine::Error;
use shorefast_engine::configuration::Configuration;
use shorefast_image::Store;

/// A host, and where our files are on it.
#[derive(Debug)]
pub struct Subject {
    /// A filesystem type; None: the host in general, and all definitions.
    pub fstype: Option<String>,
    pub configuration: Result<Configuration, Error>,
    pub run_dir: PathBuf,
    pub root: PathBuf,
    pub images: Store,
}
