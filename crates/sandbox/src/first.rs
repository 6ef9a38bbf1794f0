//! The sandbox's first process, for whoever started it.

use shorefast_sys as sys;
use sys::offshoot::Offshoot;
use sys::process::Child;

use crate::error::Error;

/// Dropped: gone.
#[derive(Debug)]
pub struct FirstProcess(Option<Origin>);

#[derive(Debug)]
enum Origin {
    /// Perhaps still on its way.
    Ours(Offshoot),
    OfContainer(Child),
}

impl FirstProcess {
    pub fn ours(offshoot: Offshoot) -> Self {
        Self(Some(Origin::Ours(offshoot)))
    }

    pub fn of_container(child: Child) -> Self {
        Self(Some(Origin::OfContainer(child)))
    }

    /// Waits until it is there.
    pub fn child(&self) -> Result<&Child, Error> {
        match self.0.as_ref() {
            Some(Origin::Ours(offshoot)) => offshoot.child().map_err(Error::Start),
            Some(Origin::OfContainer(child)) => Ok(child),
            None => Err(Error::Ended),
        }
    }

    /// Before it gets its orders: it is waited for from now on.
    pub fn come_back(&self) -> Result<(), Error> {
        match self.0.as_ref() {
            Some(Origin::Ours(offshoot)) => offshoot.come_back().map_err(Error::Start),
            _ => Ok(()),
        }
    }

    /// For somebody else to end.
    pub fn hand_over(mut self) -> Result<Child, Error> {
        self.child()?;
        match self.0.take() {
            Some(Origin::Ours(offshoot)) => offshoot.into_child().map_err(Error::Start),
            Some(Origin::OfContainer(child)) => Ok(child),
            None => Err(Error::Ended),
        }
    }
}

impl Drop for FirstProcess {
    fn drop(&mut self) {
        match self.0.take() {
            Some(Origin::Ours(offshoot)) => offshoot.end(),
            Some(Origin::OfContainer(child)) => drop(child.kill_and_reap()),
            None => {}
        }
    }
}
