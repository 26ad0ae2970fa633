//! One client's connection: HTTP/2 with windows and frames for tensors.

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::limits;
use super::metered::{Meter, Metered};

/// The only call whose messages carry tensors to the sidecar.
const PUT: &str = "/sealane.door.v1.Door/Put";

/// Serves calls until the client leaves; after `leave`, until its last call ends.
pub(super) async fn serve(stream: UnixStream, calls: Router, leave: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let put = request.uri().path() == PUT;
        let meter = if put { Meter::put() } else { Meter::small() };
        calls.clone().call(request.map(|body| Metered::new(body, meter)))
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.adaptive_window(false)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_frame_size(limits::FRAME_BYTES_MAX)
        .max_send_buf_size(limits::SEND_BUFFER_BYTES)
        .max_concurrent_streams(limits::CALLS_PER_CLIENT_MAX)
        .max_header_list_size(limits::HEADER_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = leave.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients that are killed, and those that do not speak HTTP/2.
        tracing::debug!(%error, "a gRPC connection broke");
    }
}
