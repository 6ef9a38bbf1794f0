//! Images to push and to import, made by umoci: every step is a layer, as in ordinary images.

use std::fs;
use std::path::PathBuf;

use crate::path::text;
use crate::{Host, command};

/// An OCI layout with the images that a test made.
#[derive(Debug)]
pub struct Layout {
    pub path: PathBuf,
    content: PathBuf,
}

impl Layout {
    pub fn new(host: &Host) -> Self {
        let path = host.path("layout");
        command::run(&["umoci", "init", "--layout", text(&path)]);
        Self { path, content: host.directory("layout-content") }
    }

    /// An image with one layer per file: (path in the image, content).
    pub fn image(&self, tag: &str, architecture: &str, files: &[(&str, Vec<u8>)]) {
        let image = format!("{}:{tag}", text(&self.path));
        command::run(&["umoci", "new", "--image", &image]);
        for (number, (path, content)) in files.iter().enumerate() {
            let file = self.content.join(format!("{tag}-{number}"));
            fs::write(&file, content).expect("cannot write a file for a layer");
            command::run(&["umoci", "insert", "--image", &image, text(&file), path]);
        }
        command::run(&["umoci", "config", "--image", &image, "--architecture", architecture, "--os", "linux"]);
    }

    /// An image for this machine with these archives as its layers, lowest first.
    pub fn image_of_archives(&self, tag: &str, archives: &[PathBuf]) {
        let image = format!("{}:{tag}", text(&self.path));
        command::run(&["umoci", "new", "--image", &image]);
        for archive in archives {
            command::run(&["umoci", "raw", "add-layer", "--image", &image, text(archive)]);
        }
    }
}

/// Data that does not compress: a layer of it is as large as its content.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(|| next().to_le_bytes()).flatten().take(length).collect()
}
