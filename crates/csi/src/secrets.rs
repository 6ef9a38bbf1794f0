//! In: the secrets of a call. Out: the same as files in memory, for a worker.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use tonic::Status;

/// Secrets of one volume.
const MOST_SECRETS: usize = 32;
/// The tokens of the pod's service account, which no client of ours asks for.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Their names, and files without a name.
pub(crate) fn hand_over(secrets: &HashMap<String, String>) -> Result<(Vec<String>, Vec<OwnedFd>), Status> {
    if secrets.len() > MOST_SECRETS {
        return Err(Status::invalid_argument(format!("more than {MOST_SECRETS} secrets")));
    }
    let failed = |error: std::io::Error| Status::resource_exhausted(format!("no memory for a secret: {error}"));
    let (mut names, mut descriptors) = (Vec::new(), Vec::new());
    for (name, secret) in secrets.iter().filter(|(name, _)| *name != TOKENS) {
        let memory = rustix::fs::memfd_create("secret", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut memory = File::from(memory);
        memory.write_all(secret.as_bytes()).and_then(|()| memory.rewind()).map_err(failed)?;
        names.push(name.clone());
        descriptors.push(memory.into());
    }
    Ok((names, descriptors))
}
