//! The binary, as a library so that man pages and completions come from the same definitions.

pub mod front;
pub mod report;
