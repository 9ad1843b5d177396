//! The listeners. One task accepts connections, and one task serves each of them. They all stop
//! with the daemon's tasks: no new connections are accepted, idle ones are closed, and running
//! requests finish within a grace period.

use std::{io, sync::Arc, time::Duration};

use angelia_core::task::TaskGroup;
use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{ApiState, ConnectionSource, caller_limits::ConnectionCaller, router};
use crate::socket::{AcceptErrors, Peer, TcpPeer};

/// The limit on connections of one listener; further clients wait to be accepted. Each listener has
/// its own limit, so that a flood on the port does not lock the owner's terminal out of the socket.
const MAX_CONNECTIONS: usize = 256;

/// Limits on a request head. Without them, a hostile head could take some hundred kilobytes.
const MAX_HEADERS: usize = 100;
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The time limit for a request head, including the next one on a kept-alive connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit for a TCP client to send a request with a valid key. Without it, strangers could
/// hold all connections.
const IDENTIFICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for running requests when the daemon stops. Meanwhile the engine ends their
/// turns, and the clients see that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves all paths on a TCP port until `tasks` stop. Returns immediately.
pub fn serve_tcp(listener: TcpListener, state: Arc<ApiState>, tasks: &TaskGroup) {
    serve(listener, state, tasks);
}

/// Serves all paths on a Unix socket, for its own user and without a token.
pub fn serve_unix(listener: UnixListener, state: Arc<ApiState>, tasks: &TaskGroup) {
    serve(listener, state, tasks);
}

trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    fn connection_source(stream: &Self::Stream) -> io::Result<ConnectionSource>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Ok(TcpListener::accept(self).await?.0)
    }

    fn connection_source(stream: &TcpStream) -> io::Result<ConnectionSource> {
        // Events are small and must be sent immediately.
        stream.set_nodelay(true)?;
        Ok(ConnectionSource::Tcp(TcpPeer::from_stream(stream)?))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(UnixListener::accept(self).await?.0)
    }

    fn connection_source(stream: &UnixStream) -> io::Result<ConnectionSource> {
        Ok(ConnectionSource::Unix(Peer::from_stream(stream)?))
    }
}

fn serve<L: Listener>(listener: L, state: Arc<ApiState>, tasks: &TaskGroup) {
    let connections = tasks.clone();
    let router = router(state);
    tasks.spawn_until_stopped(accept_connections(listener, router, connections));
}

async fn accept_connections<L: Listener>(listener: L, router: Router, tasks: TaskGroup) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut errors = AcceptErrors::default();
    loop {
        // The semaphore is never closed, so this cannot fail.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                errors.wait_after(&error).await;
                continue;
            }
        };
        let source = match L::connection_source(&stream) {
            Ok(source) => source,
            Err(error) => {
                tracing::debug!(%error, "a connection closed before it was served");
                continue;
            }
        };
        let stop = tasks.stop_token().clone();
        let router = router.clone();
        tasks.spawn(async move {
            serve_connection(stream, source, router, stop).await;
            drop(place);
        });
    }
}

async fn serve_connection<S>(
    stream: S,
    source: ConnectionSource,
    router: Router,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection_caller = ConnectionCaller::default();
    let needs_key = matches!(source, ConnectionSource::Tcp(_));
    let identified = connection_caller.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(source.clone());
        if needs_key {
            request.extensions_mut().insert(connection_caller.clone());
        }
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let unidentified = async {
        tokio::time::sleep(IDENTIFICATION_TIMEOUT).await;
        if !needs_key || identified.is_known() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = unidentified => {
            tracing::debug!("closed a connection that sent no request with a key");
            return;
        }
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(DRAIN_TIMEOUT, connection).await {
                Ok(ended) => ended,
                Err(_too_long) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
