//! A wish in, files on the host out; and back to as if nothing had been.
//!
//! What was installed is written down beside the binary, with digests: so we know what is ours, replace only that, and remove only
//! that. Whatever else lies where a file of ours should go belongs to others, and stays.

pub mod install;
pub mod uninstall;
pub mod decide;
pub mod wish;
pub mod unit;
pub mod mount_unit;
pub mod place;
pub mod manifest;
pub mod host;
pub mod error;

pub use error::Error;
pub use host::HostRoot;
pub use wish::Wish;
