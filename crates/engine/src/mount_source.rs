//! Who makes the mount: we, when the client calls, or a client that is trusted to do it by itself.

use std::os::fd::BorrowedFd;

use shorefast_broker::{Broker, By, Mounted, Refusal, SelfMountObserver, ServicesFailed};

use crate::error::Error;

#[derive(Debug)]
pub enum MountSource<'a> {
    Broker(Broker<'a>),
    Client(SelfMountObserver<'a>),
}

impl MountSource<'_> {
    /// Readable when a call waits. `None`: nobody calls.
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Broker(broker) => Some(broker.listener()),
            Self::Client(_) => None,
        }
    }

    /// Takes what has happened: a call that waits, or what a client has done without one.
    pub fn advance(&mut self) -> Result<(), Error> {
        match self {
            Self::Broker(broker) => broker.answer_next(),
            Self::Client(observer) => observer.look(),
        }
        .map_err(Error::Broker)
    }

    pub fn mounted(&self) -> Option<&Mounted> {
        match self {
            Self::Broker(broker) => broker.mounted(),
            Self::Client(observer) => observer.mounted(),
        }
    }

    /// Takes the mount out of the client's sight: seen there, it would outlive the host's umount. The client's helper is done with it.
    pub fn hide(&self) -> Result<(), Error> {
        match self {
            Self::Broker(broker) => broker.hide(),
            Self::Client(observer) => observer.hide(),
        }
        .map_err(Error::Broker)
    }

    /// The mount is complete: it lives on without us.
    pub fn keep(self) {
        match self {
            Self::Broker(broker) => broker.keep(),
            Self::Client(observer) => observer.keep(),
        }
    }

    /// What was not performed, oldest first.
    pub fn refused(&self) -> Vec<Refusal> {
        match self {
            Self::Broker(broker) => broker.refused().to_vec(),
            Self::Client(_) => Vec::new(),
        }
    }

    /// Whether a server was asked that does not answer.
    pub fn met_silence(&self) -> bool {
        match self {
            Self::Broker(broker) => broker.refused().iter().any(|refusal| refusal.by == By::Silence),
            Self::Client(_) => false,
        }
    }

    /// Why services do not run that the client needs.
    pub fn services_failed(&self) -> Option<&ServicesFailed> {
        match self {
            Self::Broker(broker) => broker.services_failed(),
            Self::Client(_) => None,
        }
    }
}
