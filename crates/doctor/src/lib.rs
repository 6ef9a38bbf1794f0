//! A host in, findings out: what is missing here, and what to do about it.
//!
//! Nothing is changed, no filesystem but our own directories is asked anything, and every wait has a deadline: a hung mount of
//! somebody else's is none of our business. Each check looks, in a few lines, and then judges what it saw: that part is pure.

pub mod examine;
pub mod client;
pub mod kubelet;
pub mod names;
pub mod propagation;
pub mod crowd;
pub mod cgroups;
pub mod fuse;
pub mod kernel;
pub mod places;
pub mod records;
pub mod subject;
pub mod finding;

pub use examine::examine;
pub use finding::{Finding, Verdict};
pub use subject::Subject;
