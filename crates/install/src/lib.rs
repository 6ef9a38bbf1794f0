//! A desired state in, files on the host out; and removal without a trace.
//!
//! Installed files are recorded beside the binary, with digests, so that only those are replaced or removed. Any other file
//! at the path of a file to install belongs to another program, and stays.

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
