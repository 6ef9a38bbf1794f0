//! Debian packages: a list of names in, verified archives of files out, in the order to unpack them.
//!
//! [`lock::make`] decides which packages, [`Lock::fetch`] gets them, [`ahead::in_order`] hands out their files, of which those
//! that [`rules::keeps`] go on top of [`skeleton::layer`]; [`finish::layer`] comes last. No script of a package ever runs.

pub mod lock;
pub mod finish;
pub mod loader;
pub mod unpacked;
pub mod skeleton;
pub mod ahead;
pub mod archive;
pub mod supply;
pub mod machine;
pub mod sources;
pub mod error;
pub mod resolve;
pub mod index;
pub mod relation;
pub mod version;
pub mod signature;
pub mod release;
pub mod configuration;
pub mod apt;
pub mod control;
pub mod spec;
pub mod deb;
pub mod rules;

pub use deb::Deb;
pub use error::Error;
pub use lock::Lock;
pub use sources::{Machine, Wishes};
pub use spec::Spec;
pub use supply::{Network, Supply};
