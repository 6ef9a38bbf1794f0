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
        Failure {
            step: Step::Serve,
            kind,
            message,
            hint: None,
            helper: vec!["the helper's reason".to_owned()],
            refused: Vec::new(),
            differs: Vec::new(),
        }
    }

    /// kubelet takes some codes for "perhaps mounted"; a scheduler or a person reads the others.
    #[test]
    fn every_kind_has_its_code() {
        let rows = [
            (Kind::Usage, Code::InvalidArgument),
            (Kind::Privilege, Code::Internal),
            (Kind::NotFound, Code::NotFound),
            (Kind::AlreadySame, Code::Ok),
            (Kind::AlreadyDifferent, Code::AlreadyExists),
            (Kind::Busy, Code::Aborted),
            (Kind::Denied, Code::PermissionDenied),
            (Kind::Credentials, Code::Unauthenticated),
            (Kind::Deadline, Code::DeadlineExceeded),
            (Kind::Cancelled, Code::Cancelled),
            (Kind::Unavailable, Code::Unavailable),
            (Kind::ImageUnavailable, Code::Unavailable),
            (Kind::Unsupported, Code::FailedPrecondition),
            (Kind::Client, Code::Internal),
            (Kind::Failed, Code::Internal),
            (Kind::Internal, Code::Internal),
        ];
        for (kind, code) in rows {
            let status = of(&failure(kind));
            assert_eq!(status.code(), code, "{kind:?}");
            // An answer without an error has no text.
            assert!(code == Code::Ok || status.message().contains("the helper's reason"), "{kind:?} {status}");
        }
        let not_found = Failure { step: Step::Plan, ..failure(Kind::NotFound) };
        assert_eq!(of(&not_found).code(), Code::InvalidArgument);
        // Serde knows all names: none is missing above.
        let names = serde_json::from_str::<Kind>("\"none of them\"").unwrap_err().to_string();
        let names: Vec<_> = names.split('`').skip(3).step_by(2).map(|name| format!("\"{name}\"")).collect();
        let tested: Vec<_> = rows.iter().map(|(kind, _)| serde_json::to_string(kind).unwrap()).collect();
        assert_eq!(names, tested);
    }
}
