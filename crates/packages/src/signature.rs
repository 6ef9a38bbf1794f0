//! In: a signed text and a keyring. Out: whether a key of the keyring signed it.
//!
//! The attacker is a mirror, or anything between it and us. Nothing of an archive is trusted before it passed here. The OpenPGP crate
//! checks the mathematics only; which key may sign what, and until when, is decided here:
//! - at least one signature is good, and none that claims a key of the keyring is bad;
//! - the key is bound by its owner's self-signature, made for signing, neither revoked nor expired today;
//! - no signature uses MD5, SHA-1 or RIPEMD.

use std::time::{Duration, SystemTime};

use pgp::composed::{CleartextSignedMessage, Deserializable as _, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{KeyFlags, PublicKey, Signature, SignatureType};
use pgp::types::{KeyDetails, Tag, VerifyingKey};

/// Keys that are trusted for one archive.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    keys: Vec<SignedPublicKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it has no readable signature: {0}")]
    Unreadable(String),
    #[error("it carries no signature")]
    Unsigned,
    #[error("its signature by {0} is wrong: it was changed after signing")]
    Bad(String),
    #[error("it is signed by {0}, which the keyring does not hold")]
    UnknownKey(String),
    #[error("it is signed by {key}, which {why}")]
    Unfit { key: String, why: &'static str },
}

impl Keyring {
    /// Adds the keys of a file, armored or not. Returns how many there were.
    pub fn add(&mut self, content: &[u8]) -> usize {
        let before = self.keys.len();
        if content.trim_ascii_start().starts_with(b"-----BEGIN") {
            if let Ok((keys, _)) = SignedPublicKey::from_armor_many(content) {
                self.keys.extend(keys.flatten());
            }
        } else if let Ok(keys) = SignedPublicKey::from_bytes_many(content) {
            self.keys.extend(keys.flatten());
        }
        self.keys.len() - before
    }

    /// The fingerprint of each primary key, and when it ends. `None`: never, or it is not valid at that time.
    #[cfg(test)]
    pub fn lives(&self, now: SystemTime) -> Vec<(String, Option<SystemTime>)> {
        let end = |owner: &SignedPublicKey| {
            let binding = check_primary(owner, now).ok()?;
            let life = binding.key_expiration_time().filter(|life| life.as_secs() > 0)?;
            Some(SystemTime::from(owner.primary_key.created_at()) + Duration::from_secs(life.as_secs().into()))
        };
        self.keys.iter().map(|owner| (format!("{:X}", owner.primary_key.fingerprint()), end(owner))).collect()
    }

    /// The text in an InRelease file, if a key of the keyring signed it. Anything else in the file is ignored.
    pub fn open_clear_signed(&self, content: &[u8], now: SystemTime) -> Result<String, Problem> {
        let text = std::str::from_utf8(content).map_err(|error| Problem::Unreadable(error.to_string()))?;
        let (message, _) = CleartextSignedMessage::from_string(text).map_err(|error| Problem::Unreadable(error.to_string()))?;
        let signed = message.signed_text();
        self.judge(message.signatures(), signed.as_bytes(), now)?;
        Ok(signed.replace("\r\n", "\n"))
    }

    /// Release and Release.gpg.
    pub fn check_detached(&self, content: &[u8], signature: &[u8], now: SystemTime) -> Result<(), Problem> {
        let unreadable = |error: pgp::errors::Error| Problem::Unreadable(error.to_string());
        let signatures: Result<Vec<_>, _> = if signature.trim_ascii_start().starts_with(b"-----BEGIN") {
            DetachedSignature::from_armor_many(signature).map_err(unreadable)?.0.collect()
        } else {
            DetachedSignature::from_bytes_many(signature).map_err(unreadable)?.collect()
        };
        let signatures: Vec<_> = signatures.map_err(unreadable)?.into_iter().map(|detached| detached.signature).collect();
        self.judge(&signatures, content, now)
    }

    fn judge(&self, signatures: &[Signature], content: &[u8], now: SystemTime) -> Result<(), Problem> {
        let mut verdict = Err(Problem::Unsigned);
        for signature in signatures {
            match self.judge_one(signature, content, now) {
                Ok(()) => verdict = Ok(()),
                Err(problem @ Problem::Bad(_)) => return Err(problem),
                Err(problem) if verdict.is_err() => verdict = Err(problem),
                Err(_) => {}
            }
        }
        verdict
    }

    fn judge_one(&self, signature: &Signature, content: &[u8], now: SystemTime) -> Result<(), Problem> {
        let issuer = issuer(signature);
        let Some(signer) = self.keys.iter().find_map(|owner| Signer::of(signature, owner)) else {
            return Err(Problem::UnknownKey(issuer));
        };
        let unfit = |why| Problem::Unfit { key: issuer.clone(), why };
        if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            return Err(unfit("signed something that is not a file"));
        }
        if !is_strong(signature) {
            return Err(unfit("used a hash that can be forged"));
        }
        if signature.signature_expiration_time().is_some_and(|after| has_passed(signature, after, now)) {
            return Err(unfit("made a signature that has expired"));
        }
        signer.check_fitness(now).map_err(unfit)?;
        let verified = match signer {
            Signer::Primary(owner) => signature.verify(&owner.primary_key, content),
            Signer::Subkey(_, subkey) => signature.verify(&subkey.key, content),
        };
        verified.map_err(|_| Problem::Bad(issuer))
    }
}

/// The key that a signature names as its issuer.
enum Signer<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicKey, &'a SignedPublicSubKey),
}

impl<'a> Signer<'a> {
    fn of(signature: &Signature, owner: &'a SignedPublicKey) -> Option<Self> {
        if is_named(signature, &owner.primary_key) {
            return Some(Self::Primary(owner));
        }
        owner.public_subkeys.iter().find(|subkey| is_named(signature, &subkey.key)).map(|subkey| Self::Subkey(owner, subkey))
    }

    fn check_fitness(&self, now: SystemTime) -> Result<(), &'static str> {
        match self {
            Self::Primary(owner) => {
                let flags = check_primary(owner, now)?.key_flags();
                if flags == KeyFlags::default() || flags.sign() { Ok(()) } else { Err("is not meant for signing") }
            }
            Self::Subkey(owner, subkey) => check_primary(owner, now).and_then(|_| check_subkey(owner, subkey, now)),
        }
    }
}

/// The primary key's self-signature.
fn check_primary(owner: &SignedPublicKey, now: SystemTime) -> Result<&Signature, &'static str> {
    let key = &owner.primary_key;
    if owner.details.revocation_signatures.iter().any(|revocation| revocation.verify_key(key).is_ok()) {
        return Err("was revoked");
    }
    let by_users = owner.details.users.iter().flat_map(|user| {
        let own =
            |signature: &&Signature| signature.is_certification() && signature.verify_certification(key, Tag::UserId, &user.id).is_ok();
        user.signatures.iter().filter(own)
    });
    let direct = owner.details.direct_signatures.iter().filter(|signature| signature.verify_key(key).is_ok());
    // One of each kind: the archive's keys have direct signatures that only name a revoker, and that are newer than the one with the expiry.
    let newest_by_user = by_users.filter(|signature| is_strong_enough_for_oneself(signature)).max_by_key(|signature| signature.created());
    let newest_direct = direct.filter(|signature| is_strong_enough_for_oneself(signature)).max_by_key(|signature| signature.created());
    newest_by_user.into_iter().chain(newest_direct).try_for_each(|signature| check_life(key, signature, now))?;
    newest_by_user.or(newest_direct).ok_or("has no self-signature")
}

fn check_subkey(owner: &SignedPublicKey, subkey: &SignedPublicSubKey, now: SystemTime) -> Result<(), &'static str> {
    let key: &PublicKey = &owner.primary_key;
    let valid = |signature: &&Signature| signature.verify_subkey_binding(key, &subkey.key).is_ok();
    let (revocations, bindings): (Vec<_>, Vec<_>) =
        subkey.signatures.iter().filter(valid).partition(|signature| signature.typ() == Some(SignatureType::SubkeyRevocation));
    if !revocations.is_empty() {
        return Err("was revoked");
    }
    let binding = bindings.into_iter().filter(|signature| is_strong(signature)).max_by_key(|signature| signature.created());
    let binding = binding.ok_or("is not bound to its primary key")?;
    // Without the subkey's back-signature, anyone could claim it as theirs.
    let agreed = binding.embedded_signature().is_some_and(|own| own.verify_primary_key_binding(&subkey.key, key).is_ok());
    if !binding.key_flags().sign() || !agreed {
        return Err("is not meant for signing");
    }
    check_life(&subkey.key, binding, now)
}

fn check_life(key: &impl KeyDetails, binding: &Signature, now: SystemTime) -> Result<(), &'static str> {
    let born = SystemTime::from(key.created_at());
    match binding.key_expiration_time() {
        Some(life) if life.as_secs() > 0 && born + Duration::from_secs(life.as_secs().into()) <= now => Err("has expired"),
        _ => Ok(()),
    }
}

fn has_passed(signature: &Signature, after: pgp::types::Duration, now: SystemTime) -> bool {
    after.as_secs() > 0
        && signature.created().is_none_or(|made| SystemTime::from(made) + Duration::from_secs(after.as_secs().into()) <= now)
}

fn is_named(signature: &Signature, key: &impl VerifyingKey) -> bool {
    match signature.issuer_fingerprint()[..] {
        [] => signature.issuer_key_id().contains(&&key.legacy_key_id()),
        ref fingerprints => fingerprints.contains(&&key.fingerprint()),
    }
}

fn is_strong(signature: &Signature) -> bool {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha224, Sha256, Sha384, Sha512};
    matches!(signature.hash_alg(), Some(Sha224 | Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512))
}

/// Old keys that are still in use have SHA-1 self-signatures. Forging one needs the owner's cooperation, and would gain the owner nothing.
fn is_strong_enough_for_oneself(signature: &Signature) -> bool {
    is_strong(signature) || signature.hash_alg() == Some(HashAlgorithm::Sha1)
}

fn issuer(signature: &Signature) -> String {
    match (signature.issuer_fingerprint().first(), signature.issuer_key_id().first()) {
        (Some(fingerprint), _) => format!("key {fingerprint:X}"),
        (None, Some(id)) => format!("key {id}"),
        (None, None) => "a key it does not name".to_owned(),
    }
}
