//! What ends a sandbox, with every process of it: run by the launching process when a mount fails, and by
//! `shorefast __ended` when it is over.

pub mod members;
pub mod user;
pub mod stuck;
