//! Images: a reference in, a directory with a root filesystem out; and from there into files and registries again.
//!
//! The image is taken to be hostile: an archive may hold any name, link or size. Whatever it contains, it is unpacked below the store's
//! directory, and used only when it is complete.

pub mod store;
pub mod export;
pub mod packaged;
pub mod archive;
pub mod remote;
pub mod source;
pub mod reference;
pub mod error;
pub mod signature;
pub mod registry;
pub mod outgoing;
pub mod pack;
pub mod layers;
pub mod stream;
pub mod compression;
pub mod manifest;
pub mod digest;
pub mod nearest;

pub use digest::Digest;
pub use error::Error;
pub use layers::Limits;
pub use nearest::nearest;
pub use reference::Reference;
pub use shorefast_net::{Progress, Silent, Task};
pub use signature::Keys;
pub use store::Store;
