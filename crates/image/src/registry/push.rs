//! In: an image to push. Result: the registry has it under a name; blobs that it already has are not sent again.
//!
//! It goes to the registry itself, never to a mirror. If the connection breaks, the upload of a blob is resumed at the offset that the registry
//! reports, if it reports one. The document that has the name, and makes the image visible, comes last.

use std::fs::File;

use shorefast_net::{Error as NetError, Method, Payload, Progress, Silent, Task, Url};

use crate::digest::Digest;
use crate::outgoing::{self, Outgoing, Parcel};
use crate::registry::error::Error;
use crate::registry::session::{Access, Session};
use crate::registry::{Name, Registries};

impl Registries {
    pub fn push(&self, name: &Name, parcel: &Parcel, progress: &dyn Progress) -> Result<Digest, Error> {
        let malformed = |problem: &str| Error::Malformed { image: name.to_string(), problem: problem.to_owned() };
        if name.digest.is_some() {
            return Err(malformed("an image is pushed under a tag; its digest is its own"));
        }
        let session = self.sessions(name, Access::Push).pop().ok_or_else(|| malformed("its registry has no address"))?;
        for Outgoing { layer, config, .. } in &parcel.images {
            let layer = Blob { digest: layer.digest, size: layer.size, content: Content::File(&layer.file) };
            let config = Blob { digest: Digest::of(config), size: config.len() as u64, content: Content::Bytes(config) };
            for blob in [layer, config] {
                blob.push(&session, progress)?;
            }
        }
        for (digest, bytes) in parcel.inner() {
            document(&session, &digest.to_string(), digest, Payload::Bytes { media_type: outgoing::MANIFEST, bytes })?;
        }
        let payload = Payload::Bytes { media_type: parcel.media_type, bytes: &parcel.document };
        document(&session, &name.wanted(), parcel.digest, payload)
    }
}

/// A manifest or index whose parts the registry already has.
fn document(session: &Session, name: &str, digest: Digest, payload: Payload<'_>) -> Result<Digest, Error> {
    let address = session.address(&format!("manifests/{name}"))?;
    let announced = repeated(session, |_| {
        let answer = session.send(&address, Method::Put, payload, &Silent)?;
        let announced = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
        answer.success().map_err(|source| session.not_sent(source))?;
        Ok(announced)
    })?;
    match announced {
        Some(found) if found != digest => Err(Error::WrongDigest { host: session.endpoint.host.clone(), expected: digest, found }),
        _ => Ok(digest),
    }
}

struct Blob<'a> {
    digest: Digest,
    size: u64,
    content: Content<'a>,
}

enum Content<'a> {
    Bytes(&'a [u8]),
    File(&'a File),
}

/// An upload that the registry knows.
struct Begun {
    at: Url,
    /// How much of it the registry has.
    sent: u64,
}

impl Blob<'_> {
    fn push(&self, session: &Session, progress: &dyn Progress) -> Result<(), Error> {
        let address = session.address(&format!("blobs/{}", self.digest))?;
        let status = repeated(session, |_| {
            let answer = session.send(&address, Method::Head, Payload::Nothing, &Silent)?;
            let status = answer.status;
            if status == 404 { Ok(status) } else { answer.success().map(|_| status).map_err(|source| session.not_sent(source)) }
        })?;
        if status != 404 {
            return Ok(());
        }
        let task = progress.begin(&format!("layer {}", self.digest.short()), Some(self.size));
        let mut begun = None;
        repeated(session, |round| {
            if round > 0 {
                begun = begun.take().and_then(|begun| self.taken_up(session, begun));
            }
            self.send(session, &mut begun, task.as_ref())
        })
    }

    fn send(&self, session: &Session, begun: &mut Option<Begun>, task: &dyn Task) -> Result<(), Error> {
        let upload = match begun {
            Some(upload) => upload,
            None => {
                let answer = session.send(&session.address("blobs/uploads/")?, Method::Post, Payload::Nothing, &Silent)?;
                begun.insert(Begun { at: next(session, answer)?, sent: 0 })
            }
        };
        if upload.sent < self.size {
            let payload = match self.content {
                Content::File(file) => Payload::File { file, from: upload.sent, size: self.size },
                Content::Bytes(bytes) => Payload::Bytes { media_type: "application/octet-stream", bytes },
            };
            let answer = session.send(&upload.at, Method::Patch, payload, task)?;
            *upload = Begun { at: next(session, answer)?, sent: self.size };
        }
        let mut last = upload.at.clone();
        last.query_pairs_mut().append_pair("digest", &self.digest.to_string());
        let answer = session.send(&last, Method::Put, Payload::Nothing, &Silent)?;
        answer.success().map(|_| ()).map_err(|source| session.not_sent(source))
    }

    /// Resumes an upload at the offset that the registry reports. `None`: it reports none, or one that we cannot resume from.
    fn taken_up(&self, session: &Session, begun: Begun) -> Option<Begun> {
        let answer = session.get_at(&begun.at).ok().filter(|answer| answer.status == 204)?;
        let sent = answer.header("range").map(has).unwrap_or_default()?;
        let usable = sent <= self.size && (sent == 0 || matches!(self.content, Content::File(_)));
        let at = answer.location().unwrap_or(begun.at);
        usable.then_some(Begun { at, sent })
    }
}

/// `0-99`, sometimes with a unit: the first 100 bytes have arrived. `0-0` means one byte and, in some registries, none.
fn has(range: &str) -> Option<u64> {
    let (first, last) = range.trim_start_matches("bytes=").split_once('-')?;
    let last: u64 = last.trim().parse().ok().filter(|_| first.trim() == "0")?;
    if last == 0 { None } else { last.checked_add(1) }
}

/// The address of the upload's next request.
fn next(session: &Session, answer: shorefast_net::Answer) -> Result<Url, Error> {
    let location = answer.location();
    answer.success().map_err(|source| session.not_sent(source))?;
    location.map_err(|source| session.not_sent(source))
}

/// Retries where that may help; `act` gets the number of the attempt.
fn repeated<T>(session: &Session, mut act: impl FnMut(u32) -> Result<T, Error>) -> Result<T, Error> {
    let mut round = 0;
    loop {
        let result = act(round);
        round += 1;
        let transient = |source: &NetError| source.is_transient();
        match &result {
            Err(Error::Send { source, .. } | Error::Fetch { source, .. })
                if transient(source) && round < session.client.settings().attempts => {}
            _ => return result,
        }
        session.client.pause_before_retry(round - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_says_how_much_is_there() {
        let rows = [
            ("0-99", Some(100)),
            ("bytes=0-5", Some(6)),
            ("0-0", None),
            ("5-9", None),
            ("", None),
            ("0-", None),
            ("0-18446744073709551615", None),
        ];
        for (text, expected) in rows {
            assert_eq!(has(text), expected, "{text:?}");
        }
    }
}
