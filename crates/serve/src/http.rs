//! `/healthz` and `/metrics` over HTTP, for whoever may reach the address.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use shorefast_worker::{Answer, Operation};
use tokio::net::{TcpListener, TcpStream};

use crate::metrics::Metrics;
use crate::operations::Operations;

/// `list` asks no filesystem anything.
const TO_LIST: Duration = Duration::from_secs(5);
/// For a caller that says nothing.
const TO_ASK: Duration = Duration::from_secs(10);

pub(crate) async fn serve(listener: TcpListener, operations: Operations) {
    loop {
        match listener.accept().await {
            Ok((connection, _)) => drop(tokio::spawn(answer_all(connection, operations.clone()))),
            // Out of descriptors: they come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer_all(connection: TcpStream, operations: Operations) {
    let service = service_fn(|request: Request<Incoming>| {
        let operations = operations.clone();
        async move { Ok::<_, Infallible>(answer(&request, &operations).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(TO_ASK).max_buf_size(16 << 10);
    // An error is the caller's.
    let _ = server.serve_connection(TokioIo::new(connection), service).await;
}

async fn answer(request: &Request<Incoming>, operations: &Operations) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => response(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        (&Method::GET, "/metrics") => {
            let listed = operations.ask(Operation::List, Vec::new(), Instant::now() + TO_LIST, ()).await;
            if let Ok(Answer::Listed(listing)) = listed.result {
                operations.metrics.set_mounts(&listing);
            }
            operations.count_stuck();
            response(StatusCode::OK, Metrics::TYPE, operations.metrics.text())
        }
        _ => response(StatusCode::NOT_FOUND, "text/plain", "there are /healthz and /metrics\n".to_owned()),
    }
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
