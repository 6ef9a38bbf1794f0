//! Debian packages: a list of names in, verified archives of files out, in unpacking order.
//!
//! [`lock::make`] chooses the packages, [`Lock::fetch`] downloads them, and [`ahead::in_order`] passes on their files, of which those that
//! [`rules::keeps`] accepts are unpacked over [`skeleton::layer`]; [`finish::layer`] comes last. No script of a package ever runs.

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
pub mod built_in;
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
pub mod architecture;

pub use architecture::Architecture;
pub use deb::Deb;
pub use error::Error;
pub use lock::Lock;
pub use sources::{Machine, Wishes};
pub use spec::Spec;
pub use supply::{Network, Supply};
