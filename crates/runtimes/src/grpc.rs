//! Calls of a gRPC service over a unix socket: a message in, a message out. One thread, by a deadline.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic_prost::ProstCodec;

/// The longest answer of a service.
const LIMIT: usize = 16 << 20;

pub(crate) struct Channel {
    runtime: Runtime,
    connection: Connection,
    deadline: Instant,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Connection(io::Error),
    /// The service's own status: a number and a text.
    Status(u32, String),
}

pub(crate) const NOT_FOUND: u32 = 5;

impl Channel {
    pub(crate) fn open(socket: &Path, deadline: Instant) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let requests = runtime.block_on(async {
            let connect = async {
                let stream = TokioIo::new(UnixStream::connect(socket).await?);
                let (requests, connection) = http2::handshake(TokioExecutor::new(), stream).await.map_err(io::Error::other)?;
                // It ends with the connection, which ends with this channel.
                tokio::spawn(connection);
                Ok::<_, io::Error>(requests)
            };
            tokio::time::timeout_at(deadline.into(), connect).await?
        })?;
        Ok(Self { runtime, connection: Connection(requests), deadline })
    }

    /// `method`: `/package.Service/Method`.
    pub(crate) fn call<In, Out>(&self, method: &str, headers: &[(&str, &str)], message: In) -> Result<Out, Failure>
    where
        In: prost::Message + 'static,
        Out: prost::Message + Default + 'static,
    {
        let other = |error: &dyn std::error::Error| Failure::Connection(io::Error::other(error.to_string()));
        let path = PathAndQuery::try_from(method).map_err(|error| other(&error))?;
        let mut request = tonic::Request::new(message);
        for (name, value) in headers {
            let name = AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|error| other(&error))?;
            request.metadata_mut().insert(name, AsciiMetadataValue::try_from(*value).map_err(|error| other(&error))?);
        }
        let exchange = async {
            let origin = Uri::from_static("http://localhost");
            let mut client = Grpc::with_origin(self.connection.clone(), origin).max_decoding_message_size(LIMIT);
            client.ready().await.map_err(|error| other(&error))?;
            let answer = client.unary(request, path, ProstCodec::<In, Out>::default()).await;
            answer.map(tonic::Response::into_inner).map_err(|status| failure(&status))
        };
        let bounded = self.runtime.block_on(async { tokio::time::timeout_at(self.deadline.into(), exchange).await });
        bounded.map_err(|_| Failure::Connection(io::ErrorKind::TimedOut.into()))?
    }
}

/// A status with a source is tonic's own, for a connection that failed.
fn failure(status: &Status) -> Failure {
    match status.source() {
        Some(source) => Failure::Connection(io::Error::other(source.to_string())),
        None => Failure::Status(i32::from(status.code()).unsigned_abs(), status.message().to_owned()),
    }
}

/// hyper's connection, as tonic wants it.
#[derive(Clone)]
struct Connection(SendRequest<Body>);

impl GrpcService<Body> for Connection {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
