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
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
