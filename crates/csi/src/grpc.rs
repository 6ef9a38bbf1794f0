//! gRPC on one connection: tonic's codec over hyper's HTTP/2, which answers to any authority.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use shorefast_serve::Ending;
use tokio::net::UnixStream;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use crate::authority::Filtered;

/// Requests at the same time on one connection.
const STREAMS: u32 = 2048;
/// A request of CSI has a few kilobytes.
const MESSAGE: usize = 1 << 20;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Until the connection ends, or the server: then with the answers to what was asked. A request whose caller resets it is dropped.
pub(crate) async fn serve(connection: UnixStream, mut ending: Ending, answer: impl Fn(Request<Incoming>) -> Answering) {
    let service = service_fn(|request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let mut server = http2::Builder::new(TokioExecutor::new());
    server.max_concurrent_streams(STREAMS);
    let mut serving = pin!(server.serve_connection(TokioIo::new(Filtered::new(connection)), service));
    // An error is the caller's.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = ending.begun() => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

/// One message in, one out.
pub(crate) async fn unary<In, Out, Done>(request: Request<Incoming>, call: impl FnOnce(In) -> Done) -> Response<Body>
where
    In: Message + Default + 'static,
    Out: Message + 'static,
    Done: Future<Output = Result<Out, Status>> + Send + 'static,
{
    Grpc::new(ProstCodec::<Out, In>::default()).max_decoding_message_size(MESSAGE).unary(Once(Some(call)), request).await
}

/// What tonic calls, once.
struct Once<Call>(Option<Call>);

impl<In, Out, Call, Done> UnaryService<In> for Once<Call>
where
    Call: FnOnce(In) -> Done,
    Done: Future<Output = Result<Out, Status>> + Send + 'static,
{
    type Response = Out;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Out>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<In>) -> Self::Future {
        match self.0.take() {
            Some(call) => {
                let done = call(request.into_inner());
                Box::pin(async { done.await.map(tonic::Response::new) })
            }
            None => Box::pin(async { Err(Status::internal("a request was answered before")) }),
        }
    }
}

/// For a caller that sets no deadline; kubelet's is two minutes.
const USUAL: Duration = Duration::from_secs(120);
const LONGEST: Duration = Duration::from_secs(600);

/// From `grpc-timeout`: at most eight digits and a unit.
pub(crate) fn deadline(headers: &HeaderMap) -> Instant {
    let timeout = headers.get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
    Instant::now() + timeout.unwrap_or(USUAL).min(LONGEST)
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let unit = text.bytes().last()?;
    let number = text.get(..text.len() - 1).filter(|digits| digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        let rows = [
            ("2M", Some(120_000)),
            ("99999999m", Some(99_999_999)),
            ("1S", Some(1000)),
            ("123456789m", None),
            ("5", None),
            ("", None),
            ("-1S", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_timeout(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }
}
