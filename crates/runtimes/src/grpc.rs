//! Calls of a gRPC service over a unix socket: a message in, a message out, nothing else of gRPC. One thread, by a deadline.

use std::io;
use std::path::Path;
use std::time::Instant;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// What a service says at most.
const LIMIT: usize = 16 << 20;

pub(crate) struct Channel {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
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
                let stream = UnixStream::connect(socket).await?;
                let (requests, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
                // It ends with the connection, which ends with this channel.
                tokio::spawn(connection);
                Ok::<_, io::Error>(requests)
            };
            tokio::time::timeout_at(deadline.into(), connect).await?
        })?;
        Ok(Self { runtime, requests, deadline })
    }

    /// `method`: `/package.Service/Method`.
    pub(crate) fn call<Out>(&self, method: &str, headers: &[(&str, &str)], message: &impl prost::Message) -> Result<Out, Failure>
    where
        Out: prost::Message + Default,
    {
        let other = |error: &dyn std::error::Error| Failure::Connection(io::Error::other(error.to_string()));
        let mut request =
            Request::post(format!("http://localhost{method}")).header("content-type", "application/grpc").header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).map_err(|error| other(&error))?;
        let exchange = self.exchange(request, framed(message));
        let bounded = self.runtime.block_on(async { tokio::time::timeout_at(self.deadline.into(), exchange).await });
        let body = bounded.map_err(|_| Failure::Connection(io::ErrorKind::TimedOut.into()))??;
        // One byte: whether it is compressed, which we did not request. Four bytes: its length.
        let message = body.get(5..).filter(|_| body[0] == 0).ok_or_else(|| Failure::Connection(io::ErrorKind::InvalidData.into()))?;
        Out::decode(message).map_err(|error| other(&error))
    }

    async fn exchange(&self, request: Request<()>, message: Bytes) -> Result<Bytes, Failure> {
        let broken = |error: h2::Error| Failure::Connection(io::Error::other(error));
        let mut requests = self.requests.clone().ready().await.map_err(broken)?;
        let (response, mut stream) = requests.send_request(request, false).map_err(broken)?;
        stream.send_data(message, true).map_err(broken)?;
        let (head, mut body) = response.await.map_err(broken)?.into_parts();
        check(&head.headers)?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk.map_err(broken)?;
            body.flow_control().release_capacity(chunk.len()).map_err(broken)?;
            if bytes.len() + chunk.len() > LIMIT {
                return Err(Failure::Connection(io::ErrorKind::FileTooLarge.into()));
            }
            bytes.extend_from_slice(&chunk);
        }
        if let Some(trailers) = body.trailers().await.map_err(broken)? {
            check(&trailers)?;
        }
        Ok(bytes.freeze())
    }
}

fn framed(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(5 + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("our questions are short"));
    message.encode(&mut bytes).expect("the buffer has room for it");
    bytes.freeze()
}

/// The status is in the headers of an answer without a message, and otherwise behind the message.
fn check(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status").map(str::parse::<u32>) {
        None | Some(Ok(0)) => Ok(()),
        Some(status) => Err(Failure::Status(status.unwrap_or(2), text("grpc-message").unwrap_or_default().to_owned())),
    }
}
