//! Detects that the client has disconnected. Without this, the MCP library would work for seconds
//! on requests whose answers nobody reads any more.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A reader that cancels a token at the end of its input or on an error.
pub(super) struct EofReader<R> {
    pub(super) input: R,
    pub(super) ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for EofReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.input).poll_read(cx, into);
        let is_end = match &read {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => into.filled().len() == before && into.remaining() > 0,
            Poll::Ready(Err(_)) => true,
        };
        if is_end {
            self.ended.cancel();
        }
        read
    }
}
