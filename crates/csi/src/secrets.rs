//! In: the secrets of a call. Out: the same as files in memory, for a worker.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use shorefast_engine::secret::TOKEN;
use tonic::Status;

/// Secrets of one volume.
const MOST_SECRETS: usize = 32;
/// The tokens of the pod's service account: by audience, as JSON. Among the attributes, or among the secrets (Kubernetes 1.35).
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Without the tokens of a pod: they are not for a client that several pods share.
pub(crate) fn of_volume(secrets: &HashMap<String, String>) -> HashMap<String, String> {
    secrets.iter().filter(|(name, _)| *name != TOKENS).map(|(name, secret)| (name.clone(), secret.clone())).collect()
}

/// With its tokens, for a volume that is the pod's alone.
pub(crate) fn of_pod(secrets: &HashMap<String, String>, context: &HashMap<String, String>) -> Result<HashMap<String, String>, Status> {
    let mut all = of_volume(secrets);
    if let Some(tokens) = secrets.get(TOKENS).or_else(|| context.get(TOKENS)).filter(|tokens| !tokens.is_empty()) {
        // What is wrong with it is not told: it may be part of a token.
        let wrong = || Status::invalid_argument(format!("{TOKENS} is no JSON of tokens by audience"));
        let tokens: HashMap<String, serde_json::Value> = serde_json::from_str(tokens).map_err(|_| wrong())?;
        for (audience, status) in tokens {
            let token = status["token"].as_str().ok_or_else(wrong)?;
            all.insert(format!("{TOKEN}{audience}"), token.to_owned());
        }
    }
    Ok(all)
}

/// Their names, and files without a name.
pub(crate) fn hand_over(secrets: &HashMap<String, String>) -> Result<(Vec<String>, Vec<OwnedFd>), Status> {
    if secrets.len() > MOST_SECRETS {
        return Err(Status::invalid_argument(format!("more than {MOST_SECRETS} secrets")));
    }
    let failed = |error: std::io::Error| Status::resource_exhausted(format!("no memory for a secret: {error}"));
    let (mut names, mut descriptors) = (Vec::new(), Vec::new());
    for (name, secret) in secrets {
        let memory = rustix::fs::memfd_create("secret", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut memory = File::from(memory);
        memory.write_all(secret.as_bytes()).and_then(|()| memory.rewind()).map_err(failed)?;
        names.push(name.clone());
        descriptors.push(memory.into());
    }
    Ok((names, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_for_one_pod() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let tokens = r#"{"a":{"token":"t1","expirationTimestamp":"x"},"":{"token":"t2"}}"#;
        let secrets: HashMap<_, _> = map(&[("password", "p"), (TOKENS, tokens)]);
        assert_eq!(of_volume(&secrets), map(&[("password", "p")]));
        let expected = map(&[("password", "p"), ("serviceAccount.token/a", "t1"), ("serviceAccount.token/", "t2")]);
        assert_eq!(of_pod(&secrets, &HashMap::new()).unwrap(), expected);
        assert_eq!(of_pod(&map(&[("password", "p")]), &map(&[(TOKENS, tokens)])).unwrap(), expected);
        for wrong in ["x", "[]", r#"{"a":"t-secret"}"#, r#"{"a":{"token":7}}"#] {
            let status = of_pod(&HashMap::new(), &map(&[(TOKENS, wrong)])).unwrap_err();
            assert!(status.code() == tonic::Code::InvalidArgument && !status.message().contains("t-secret"), "{status}");
        }
    }
}
