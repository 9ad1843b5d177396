//! One HTTP connection to the daemon. No background task drives it; the future that waits for a
//! response also polls the connection.

use std::{
    fmt,
    future::poll_fn,
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::ClientError;

pub(super) type RequestBody = Full<Bytes>;

pub(super) struct DaemonConnection {
    sender: http1::SendRequest<RequestBody>,
    driver: ConnectionDriver,
}

/// The part of a connection that reads and writes; `None` once it has ended.
struct ConnectionDriver(Option<Pin<Box<HttpConnection>>>);

type HttpConnection = http1::Connection<TokioIo<UnixStream>, RequestBody>;

impl ConnectionDriver {
    fn poll_connection(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            && let Poll::Ready(ended) = connection.as_mut().poll(cx)
        {
            if let Err(error) = ended {
                tracing::debug!(%error, "the connection to the daemon ended early");
            }
            self.0 = None;
        }
    }

    /// Waits for `work`, which depends on this connection, while polling the connection.
    async fn drive_until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll_connection(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}

impl DaemonConnection {
    pub(super) async fn open(socket: &Path) -> std::io::Result<Self> {
        let stream = TokioIo::new(UnixStream::connect(socket).await?);
        let (sender, connection) = http1::handshake(stream).await.map_err(std::io::Error::other)?;
        Ok(Self { sender, driver: ConnectionDriver(Some(Box::pin(connection))) })
    }

    /// Returns the connection, unless the daemon has closed it in the meantime.
    pub(super) async fn if_usable(mut self) -> Option<Self> {
        // Poll the connection once, so that it notices a close.
        self.driver.drive_until(std::future::ready(())).await;
        (!self.sender.is_closed()).then_some(self)
    }

    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.driver.drive_until(self.sender.ready()).await?;
        let sent = self.sender.send_request(request);
        Ok(self.driver.drive_until(sent).await?)
    }

    /// Returns the next chunk of a body, or `None` at its end. Cancel safe.
    pub(super) async fn next_chunk(
        &mut self,
        body: &mut Incoming,
    ) -> Option<Result<Bytes, ClientError>> {
        loop {
            match self.driver.drive_until(body.frame()).await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    pub(super) async fn read_body(&mut self, mut body: Incoming) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next_chunk(&mut body).await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }
}

impl fmt::Debug for DaemonConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonConnection")
            .field("closed", &self.sender.is_closed())
            .finish_non_exhaustive()
    }
}
