//! A host in, findings out: what is missing here, and what to do about it.
//!
//! Nothing is changed, no filesystem except those of our own directories is accessed, and every wait has a deadline: a hung mount of another program
//! cannot block it. Each check collects facts in a few lines, and then judges them: that part is pure.

pub mod examine;
pub mod client;
pub mod archive;
pub mod kubelet;
pub mod names;
pub mod propagation;
pub mod crowd;
pub mod cgroups;
pub mod fuse;
pub mod modules;
pub mod clock;
pub mod kernel;
pub mod places;
pub mod records;
pub mod subject;
pub mod finding;

pub use examine::examine;
pub use finding::{Finding, Verdict};
pub use subject::Subject;
