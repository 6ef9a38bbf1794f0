//! A gRPC client on a unix socket.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct Channel {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
}

/// A code that is not OK, and its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub u32, pub String);

pub type Answer<Out> = Result<Out, Refused>;

impl Channel {
    pub fn open(socket: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Opened through its directory: its path may be longer than a socket address allows.
        let directory = File::open(socket.parent().expect("a directory")).expect("the socket's directory");
        let short = format!("/proc/self/fd/{}/{}", directory.as_raw_fd(), socket.file_name().expect("a name").display());
        let requests = runtime.block_on(async {
            let stream = UnixStream::connect(&short).await.unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
            let (requests, connection) = h2::client::handshake(stream).await.expect("the server speaks HTTP/2");
            tokio::spawn(connection);
            requests
        });
        Self { runtime, requests }
    }

    pub fn call<Out: Message + Default + 'static>(&self, method: &str, message: &impl Message) -> Answer<Out> {
        let call = self.begin(method, message, None);
        self.end(call)
    }

    pub fn begin<Out: Message + Default + 'static>(
        &self,
        method: &str,
        message: &impl Message,
        timeout: Option<&str>,
    ) -> JoinHandle<Answer<Out>> {
        let mut request =
            Request::post(format!("http://localhost{method}")).header("content-type", "application/grpc").header("te", "trailers");
        if let Some(timeout) = timeout {
            request = request.header("grpc-timeout", timeout);
        }
        let request = request.body(()).expect("a request");
        let mut bytes = BytesMut::new();
        bytes.put_u8(0);
        bytes.put_u32(message.encoded_len() as u32);
        message.encode(&mut bytes).expect("room for the message");
        self.runtime.spawn(exchange(self.requests.clone(), request, bytes.freeze()))
    }

    pub fn end<Out>(&self, call: JoinHandle<Answer<Out>>) -> Answer<Out> {
        self.runtime.block_on(call).expect("the exchange does not panic")
    }

    /// Calls in progress continue.
    pub fn pass_time(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }
}

async fn exchange<Out: Message + Default>(requests: SendRequest<Bytes>, request: Request<()>, message: Bytes) -> Answer<Out> {
    let broken = |error: h2::Error| Refused(14, error.to_string());
    let mut requests = requests.ready().await.map_err(broken)?;
    let (response, mut stream) = requests.send_request(request, false).map_err(broken)?;
    stream.send_data(message, true).map_err(broken)?;
    let (head, mut body) = response.await.map_err(broken)?.into_parts();
    check(&head.headers)?;
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.data().await {
        bytes.extend_from_slice(&chunk.map_err(broken)?);
    }
    if let Some(trailers) = body.trailers().await.map_err(broken)? {
        check(&trailers)?;
    }
    Ok(Out::decode(&bytes[5..]).expect("a message of this type"))
}

fn check(headers: &HeaderMap) -> Answer<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    match text("grpc-status").as_str() {
        "" | "0" => Ok(()),
        code => {
            let said = percent_encoding::percent_decode_str(&text("grpc-message")).decode_utf8_lossy().into_owned();
            Err(Refused(code.parse().expect("a code is a number"), said))
        }
    }
}
