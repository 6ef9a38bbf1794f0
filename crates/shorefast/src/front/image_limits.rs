//! How large images may be, as options of every command that may get one.

use clap::Args;
use shorefast_image::Limits;

/// How large an image may be. Also for those that a mount gets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct LimitArguments {
    /// Refuse images that are larger, unpacked
    #[arg(long, global = true, value_name = "SIZE", env = "SHOREFAST_MAX_IMAGE_SIZE", default_value = "16G", value_parser = shorefast_engine::definition::parse_size)]
    max_image_size: u64,
    /// Refuse images with more files and directories
    #[arg(long, global = true, value_name = "COUNT", env = "SHOREFAST_MAX_IMAGE_ENTRIES", default_value_t = Limits::default().entries)]
    max_image_entries: u64,
}

impl Default for LimitArguments {
    fn default() -> Self {
        let Limits { bytes, entries, .. } = Limits::default();
        Self { max_image_size: bytes, max_image_entries: entries }
    }
}

impl LimitArguments {
    /// `None`: the default.
    pub fn with(size: Option<u64>, entries: Option<u64>) -> Self {
        let usual = Self::default();
        Self { max_image_size: size.unwrap_or(usual.max_image_size), max_image_entries: entries.unwrap_or(usual.max_image_entries) }
    }

    pub fn limits(&self) -> Limits {
        Limits { bytes: self.max_image_size, entries: self.max_image_entries, ..Limits::default() }
    }
}
