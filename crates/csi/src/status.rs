//! In: a worker's failure. Out: a gRPC status. Decided by the failure's kind, never by its text.

use shorefast_engine::difference::Difference;
use shorefast_engine::error::{Failure, Kind, Step};
use tonic::{Code, Status};

/// kubelet writes the text into the pod's events, which hold a kilobyte.
const LONGEST: usize = 1000;

pub fn of(failure: &Failure) -> Status {
    Status::new(code(failure), text(failure))
}

/// kubelet takes Cancelled, DeadlineExceeded, Unavailable, ResourceExhausted and Aborted for "perhaps mounted", and everything else for
/// "certainly not".
fn code(failure: &Failure) -> Code {
    match failure.kind {
        // A type that no client serves, a definition that is not there: what was asked for cannot be.
        Kind::NotFound if failure.step == Step::Plan => Code::InvalidArgument,
        Kind::Usage => Code::InvalidArgument,
        Kind::NotFound => Code::NotFound,
        Kind::AlreadySame => Code::Ok,
        Kind::AlreadyDifferent => Code::AlreadyExists,
        Kind::Busy => Code::Aborted,
        Kind::Denied => Code::PermissionDenied,
        Kind::Credentials => Code::Unauthenticated,
        Kind::Deadline => Code::DeadlineExceeded,
        Kind::Cancelled => Code::Cancelled,
        Kind::Unavailable | Kind::ImageUnavailable => Code::Unavailable,
        Kind::Unsupported => Code::FailedPrecondition,
        Kind::Privilege | Kind::Client | Kind::Failed | Kind::Internal => Code::Internal,
    }
}

fn text(failure: &Failure) -> String {
    let mut text = failure.message.clone();
    for line in failure.refused.iter().chain(&failure.helper) {
        text.push_str("; ");
        text.push_str(line);
    }
    let hint = failure.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    // The hint is what helps most.
    let room = LONGEST.saturating_sub(hint.len());
    if text.len() > room {
        let end = (0..=room.saturating_sub(3)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text + &hint
}

/// Whether a mount that is there counts as the one asked for. A client's definition and image may change while its volumes live.
pub fn is_same(failure: &Failure) -> bool {
    let is_later = |difference: &Difference| matches!(difference, Difference::Client | Difference::Image);
    failure.kind == Kind::AlreadySame || failure.kind == Kind::AlreadyDifferent && failure.differs.iter().all(is_later)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind, message: &str) -> Failure {
        Failure {
            step: Step::Serve,
            kind,
            message: message.to_owned(),
            hint: Some("do this".to_owned()),
            helper: vec!["the helper's line".to_owned()],
            refused: Vec::new(),
            differs: Vec::new(),
        }
    }

    #[test]
    fn a_text_fits_into_an_event_and_keeps_its_hint() {
        let status = of(&failure(Kind::Client, "it failed"));
        assert_eq!(status.message(), "it failed; the helper's line (hint: do this)");
        let status = of(&failure(Kind::Client, &"ü".repeat(2000)));
        assert!(status.message().len() <= LONGEST + 3 && status.message().ends_with("… (hint: do this)"), "{}", status.message());
    }

    #[test]
    fn what_may_be_mounted_has_no_final_code() {
        for kind in [Kind::Deadline, Kind::Cancelled, Kind::Busy] {
            let code = of(&failure(kind, "")).code();
            assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled | Code::Aborted), "{kind:?} {code:?}");
        }
    }
}
