//! Where packages for images come from, and whether that answers. In: the packages of the clients' images. Out: one finding per suite.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shorefast_image::Reference;
use shorefast_image::packaged::{self, PackagesError, Spec};
use shorefast_image::store::Network;

use crate::finding::Finding;

/// An archive that takes longer is useless to a user who waits for a mount.
const PATIENCE: Duration = Duration::from_secs(5);

/// `images`: as definitions name them. All suites at once, so that the time is one archive's.
pub fn check<'a>(images: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let specs = images.filter_map(|image| {
        let Ok(Reference::Packages(text)) = image.parse() else { return None };
        let spec: Spec = text.parse().ok()?;
        Some(((spec.distribution.clone(), spec.suite.clone()), spec))
    });
    let distinct: BTreeMap<_, Spec> = specs.collect();
    let asked: Vec<_> = distinct.into_values().map(ask).collect();
    asked
        .into_iter()
        .map(|asked| asked.map_or_else(|error| wrong(&error), |(name, answer)| judge(&name, answer.recv_timeout(PATIENCE).ok())))
        .collect()
}

type Asked = (String, mpsc::Receiver<Result<(), PackagesError>>);

/// By a thread that ends with this process, if nothing answers.
fn ask(spec: Spec) -> Result<Asked, PackagesError> {
    let origin = packaged::origin(&spec)?;
    let (sender, answer) = mpsc::channel();
    let name = origin.to_string();
    thread::spawn(move || sender.send(origin.reach(Network::Allowed)));
    Ok((name, answer))
}

const SUBJECT: &str = "archive";
const REMEDY: &str =
    "name a mirror that can be reached in /etc/shorefast/packages.toml: mirrors = [\"http://…\"]; images that are here can be used";

fn wrong(error: &PackagesError) -> Finding {
    Finding::warning(SUBJECT, chain(error), error.hint().unwrap_or(REMEDY))
}

/// `None`: no answer in time.
fn judge(archive: &str, answer: Option<Result<(), PackagesError>>) -> Finding {
    match answer {
        Some(Ok(())) => Finding::good(SUBJECT, format!("packages come from {archive}: it answers")),
        Some(Err(error)) => {
            let finding = format!("packages come from {archive}: {}", chain(&error));
            Finding::warning(SUBJECT, finding, error.hint().unwrap_or(REMEDY))
        }
        None => {
            let finding = format!("packages come from {archive}: no answer within {} s", PATIENCE.as_secs());
            Finding::warning(SUBJECT, finding, REMEDY)
        }
    }
}

fn chain(error: &PackagesError) -> String {
    shorefast_engine::error::chain(error, |cause| cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn what_does_not_answer_is_named_with_a_remedy() {
        assert_eq!(judge("a", Some(Ok(()))).verdict, Verdict::Good);
        let offline = PackagesError::Offline { what: "it".to_owned() };
        for finding in [judge("a", Some(Err(offline))), wrong(&PackagesError::NoSuite), judge("a", None)] {
            assert!(finding.verdict == Verdict::Warning && finding.remedy.is_some(), "{finding:?}");
        }
    }
}
