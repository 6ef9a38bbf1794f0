//! Containers as their runtimes describe them.

use std::fmt;

use crate::selector::Runtime;

/// A container that fits, as its runtime describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub runtime: Runtime,
    pub id: String,
    pub name: String,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Running {
        pid: i32,
    },
    /// In the runtime's own word.
    Other(String),
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.get(..12).unwrap_or(&self.id);
        write!(out, "{}:{}", self.runtime, self.name)?;
        if self.name != id && self.name != self.id {
            write!(out, " ({id})")?;
        }
        match &self.state {
            State::Running { .. } => Ok(()),
            State::Other(state) => write!(out, " [{state}]"),
        }
    }
}
