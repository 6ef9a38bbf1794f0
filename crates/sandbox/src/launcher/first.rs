//! Handle to the sandbox's first process. Takes the child that [`crate::launcher::launch`]
//! started, gives out its pid and pidfd, and kills it on drop.

use shorefast_sys as sys;
use sys::one_shot::VmChild;
use sys::process::Child;

use crate::error::Error;

/// The process may not exist yet: [`FirstProcess::child`] waits for it. Dropped: killed and reaped.
#[derive(Debug)]
pub struct FirstProcess(Option<VmChild>);

impl FirstProcess {
    pub fn new(child: VmChild) -> Self {
        Self(Some(child))
    }

    /// Blocks until the process exists.
    pub fn child(&self) -> Result<&Child, Error> {
        self.0.as_ref().ok_or(Error::Ended)?.child().map_err(Error::Start)
    }

    /// Lifts the CPU affinity that kept the process off our CPU. Called before it gets its orders, because from then on
    /// we wait for it.
    pub fn come_back(&self) -> Result<(), Error> {
        self.0.as_ref().ok_or(Error::Ended)?.come_back().map_err(Error::Start)
    }

    /// Gives up the guard: from now on the caller has to end the process.
    pub fn hand_over(mut self) -> Result<Child, Error> {
        self.child()?;
        self.0.take().ok_or(Error::Ended)?.into_child().map_err(Error::Start)
    }
}

impl Drop for FirstProcess {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            child.end();
        }
    }
}
