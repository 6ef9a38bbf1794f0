//! In: the client's calls, or its mount table. Out: its mount, made by the broker or, for a trusted client, by the client itself.

use std::os::fd::BorrowedFd;

use shorefast_broker::{Broker, By, Mounted, Refusal, SelfMountObserver, ServicesFailed};

use crate::error::Error;

#[derive(Debug)]
pub enum MountSource<'a> {
    Broker(Broker<'a>),
    Client(SelfMountObserver<'a>),
}

impl MountSource<'_> {
    /// Readable when a call is pending. `None`: the client mounts without calling us.
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Broker(broker) => Some(broker.listener()),
            Self::Client(_) => None,
        }
    }

    /// Handles what has happened: a pending call, or a mount that a trusted client made by itself.
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

    /// Detaches the mount inside the client's namespace: a copy there would outlive the host's umount. The client's helper no longer needs
    /// it.
    pub fn hide(&self) -> Result<(), Error> {
        match self {
            Self::Broker(broker) => broker.hide(),
            Self::Client(observer) => observer.hide(),
        }
        .map_err(Error::Broker)
    }

    /// Takes no more calls of the client.
    pub fn into_mounted(self) -> Option<Mounted> {
        match self {
            Self::Broker(broker) => broker.into_mounted(),
            Self::Client(observer) => observer.into_mounted(),
        }
    }

    /// The calls that were not performed, oldest first.
    pub fn refused(&self) -> Vec<Refusal> {
        match self {
            Self::Broker(broker) => broker.refused().to_vec(),
            Self::Client(_) => Vec::new(),
        }
    }

    /// Whether a call waited for a server that does not answer.
    pub fn met_silence(&self) -> bool {
        match self {
            Self::Broker(broker) => broker.refused().iter().any(|refusal| refusal.by == By::Silence),
            Self::Client(_) => false,
        }
    }

    /// Why services that the client needs do not run.
    pub fn services_failed(&self) -> Option<&ServicesFailed> {
        match self {
            Self::Broker(broker) => broker.services_failed(),
            Self::Client(_) => None,
        }
    }
}
