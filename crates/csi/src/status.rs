//! In: a worker's failure. Out: a gRPC status. Decided by the failure's kind, never by its text.

use shorefast_engine::error::{Failure, Kind, Step};
use tonic::{Code, Status};

/// kubelet writes the text into the pod's events, which hold a kilobyte.
const LONGEST: usize = 1000;

pub fn of(failure: &Failure) -> Status {
    Status::new(code(failure), failure.line(LONGEST))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind) -> Failure {
        let message = String::new();
        Failure { step: Step::Serve, kind, message, hint: None, helper: Vec::new(), refused: Vec::new(), differs: Vec::new() }
    }

    #[test]
    fn what_may_be_mounted_has_no_final_code() {
        for kind in [Kind::Deadline, Kind::Cancelled, Kind::Busy] {
            let code = of(&failure(kind)).code();
            assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled | Code::Aborted), "{kind:?} {code:?}");
        }
    }
}
