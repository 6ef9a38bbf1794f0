//! An S3 server to test s3fs and rclone against: moto, in a Python environment of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{cache, process};

const REQUIREMENT: &str = "moto[server]==5.2.5";

pub(crate) fn install(cache: &Path) -> Result<()> {
    let place = cache.join("moto");
    cache::build_once(&place, &format!("1 {REQUIREMENT}\n"), |unfinished| {
        // Not a virtual environment: those hold their own path and break when renamed.
        process::run(Command::new("python3").args(["-m", "pip", "install", "--quiet", "--target"]).arg(unfinished).arg(REQUIREMENT))
    })
}
