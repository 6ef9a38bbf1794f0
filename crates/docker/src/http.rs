//! HTTP on one connection: one request, one answer, in JSON. Only root can connect, and still the input is not trusted: a proxy may pass
//! on data that a container sent.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use shorefast_engine::text;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::call::{self, Call};
use crate::error::Error;
use crate::messages::Answer;

const TYPE: HeaderValue = HeaderValue::from_static("application/vnd.docker.plugins.v1.1+json");
/// A request has a few hundred bytes.
const LARGEST: usize = 256 << 10;
/// For a caller that sends nothing.
const TO_ASK: Duration = Duration::from_secs(10);

/// `answer` is called for each valid call.
pub async fn serve<C, A, F>(connection: C, answer: A)
where
    C: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Call) -> F,
    F: Future<Output = Result<Answer, Error>>,
{
    let service = service_fn(|request| async { Ok::<_, Infallible>(respond(&answer, request).await) });
    let mut server = http1::Builder::new();
    // A connection per request: none is left open to a server that is replaced.
    server.timer(TokioTimer::new()).header_read_timeout(TO_ASK).max_buf_size(16 << 10).keep_alive(false);
    // Errors here are the caller's. If the caller disconnects, its request is dropped.
    let _ = server.serve_connection(TokioIo::new(connection), service).await;
}

async fn respond<F>(answer: &impl Fn(Call) -> F, request: Request<Incoming>) -> Response<Full<Bytes>>
where
    F: Future<Output = Result<Answer, Error>>,
{
    let answered = match read(request).await {
        Ok(call) => answer(call).await,
        Err(error) => Err(error),
    };
    let (status, answer) = match answered {
        Ok(answer) => (StatusCode::OK, answer),
        // It can contain text from clients, servers and images, and will be printed.
        Err(error) => (status_of(&error), Answer { err: text::printable_line(&error.to_string()).into_owned(), ..Answer::default() }),
    };
    let mut response = Response::new(Full::new(Bytes::from(serde_json::to_vec(&answer).unwrap_or_default())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, TYPE);
    response
}

async fn read(request: Request<Incoming>) -> Result<Call, Error> {
    if request.method() != Method::POST {
        return Err(Error::Malformed(format!("{} instead of POST", request.method())));
    }
    let path = request.uri().path().to_owned();
    let body = tokio::time::timeout(TO_ASK, Limited::new(request.into_body(), LARGEST).collect()).await;
    let body = body.map_err(|_| Error::Malformed("it does not end".to_owned()))?;
    let body = body.map_err(|error| Error::Malformed(error.to_string()))?;
    call::parse(&path, &body.to_bytes())
}

fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::Malformed(_) => StatusCode::BAD_REQUEST,
        Error::UnknownCall(_) => StatusCode::NOT_FOUND,
        // The protocol's only way to say that a call failed: the engine shows the text.
        Error::Name(_)
        | Error::UnknownVolume(_)
        | Error::UnknownOption { .. }
        | Error::MissingOption { .. }
        | Error::Value { .. }
        | Error::Secret { .. }
        | Error::Exists { .. }
        | Error::InUse { .. }
        | Error::Operation { .. }
        | Error::Busy(_)
        | Error::CallerGone
        | Error::State { .. }
        | Error::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorefast_engine::error::{Failure, Kind, Step};

    #[test]
    fn every_error_has_its_status_and_its_text() {
        let text = || "TEXT".to_owned();
        let (bad, unknown, failed) = (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR);
        let rows = [
            (Error::Malformed(text()), bad),
            (Error::UnknownCall(text()), unknown),
            (Error::Name(text()), failed),
            (Error::UnknownVolume(text()), failed),
            (Error::UnknownOption { key: text(), nearest: None, known: &["o"] }, failed),
            (Error::MissingOption { key: "TEXT", example: "o=x" }, failed),
            (Error::Value { key: text() }, failed),
            (Error::Secret { what: text() }, failed),
            (Error::Exists { name: text(), differs: vec!["o".to_owned()] }, failed),
            (Error::InUse { name: text(), users: 1 }, failed),
            (Error::Operation { name: text(), line: text() }, failed),
            (Error::Busy(text()), failed),
            (Error::State { path: "/TEXT".into(), source: std::io::ErrorKind::NotFound.into() }, failed),
            (Error::Internal(text()), failed),
        ];
        for (error, status) in rows {
            assert_eq!(status_of(&error), status, "{error:?}");
            assert!(error.to_string().contains("TEXT"), "{error:?}");
        }
        assert_eq!(status_of(&Error::CallerGone), failed);
    }

    /// The protocol has no codes. So the text has what helps: the volume, the client's words and the hint, whatever kind of failure it was.
    #[test]
    fn a_workers_failure_is_told_in_full() {
        // Serde knows all names.
        let names = serde_json::from_str::<Kind>("\"none of them\"").unwrap_err().to_string();
        let kinds: Vec<Kind> =
            names.split('`').skip(3).step_by(2).map(|name| serde_json::from_str(&format!("\"{name}\"")).unwrap()).collect();
        assert!(kinds.len() > 10 && kinds.contains(&Kind::Credentials));
        for kind in kinds {
            let mut failure = Failure::new(Step::Serve, kind, "it failed".to_owned());
            failure.helper.push("Permission denied (publickey).".to_owned());
            failure.hint = Some("check the key".to_owned());
            let error = Error::of_worker("data", &failure);
            assert_eq!(status_of(&error), StatusCode::INTERNAL_SERVER_ERROR, "{kind:?}");
            assert_eq!(error.to_string(), "volume \"data\": it failed; Permission denied (publickey). (hint: check the key)", "{kind:?}");
        }
    }
}
