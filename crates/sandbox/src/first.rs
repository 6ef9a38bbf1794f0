//! The sandbox's first process, for whoever started it.

use shorefast_sys as sys;
use sys::process::Child;
use sys::vm_child::VmChild;

use crate::error::Error;

/// Perhaps still on its way. Dropped: gone.
#[derive(Debug)]
pub struct FirstProcess(Option<VmChild>);

impl FirstProcess {
    pub fn new(child: VmChild) -> Self {
        Self(Some(child))
    }

    /// Waits until it is there.
    pub fn child(&self) -> Result<&Child, Error> {
        self.0.as_ref().ok_or(Error::Ended)?.child().map_err(Error::Start)
    }

    /// Before it gets its orders: it is waited for from now on.
    pub fn come_back(&self) -> Result<(), Error> {
        self.0.as_ref().ok_or(Error::Ended)?.come_back().map_err(Error::Start)
    }

    /// For somebody else to end.
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
