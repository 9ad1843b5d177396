//! Writes an answer as a stream of events, with the final status in the trailer.

use std::convert::Infallible;

use angelia_core::model::{Failure, FailureKind, Usage};
use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue},
};
use futures_util::{Stream, stream};
use hyper::body::Frame;

use super::{AnswerEncoder as _, Dialect, response::STATUS_HEADER};
use crate::http::{
    ErrorKind, HttpError,
    dialect::{
        AnswerChunk, AnswerEnd, BlockKind, StopReason,
        answer::{LiveAnswer, NextChunks},
    },
    sse,
};

pub(super) struct AnswerStream<D: Dialect> {
    answer: LiveAnswer,
    dialect: D,
    /// Created with the first chunk.
    encoder: Option<D::Encoder>,
    first: Option<Vec<AnswerChunk>>,
    block_open: bool,
    state: StreamState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Streaming,
    /// Everything is sent except the trailer with the final status.
    BodySent,
    Over,
}

impl<D: Dialect> AnswerStream<D> {
    pub(super) const fn new(
        answer: LiveAnswer,
        dialect: D,
        first: Option<Vec<AnswerChunk>>,
    ) -> Self {
        let state = StreamState::Streaming;
        Self { answer, dialect, encoder: None, first, block_open: false, state }
    }

    /// Returns the body: a frame for each batch of chunks, and the trailer with the final status.
    pub(super) fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
        stream::unfold(self, |mut this| async move {
            let frame = this.frame().await?;
            Some((Ok(frame), this))
        })
    }

    async fn frame(&mut self) -> Option<Frame<Bytes>> {
        let mut out = Vec::new();
        while self.state == StreamState::Streaming && out.is_empty() {
            match self.first.take() {
                Some(chunks) => self.encode(&chunks, &mut out),
                None => match self.answer.next_chunks(sse::KEEP_ALIVE_INTERVAL).await {
                    Ok(NextChunks::Chunks(chunks)) => self.encode(&chunks, &mut out),
                    Ok(NextChunks::Idle) => out.extend_from_slice(D::keep_alive()),
                    Ok(NextChunks::Over) => self.state = StreamState::BodySent,
                    Err(error) => {
                        self.encode_error(&error, &mut out);
                        self.state = StreamState::BodySent;
                    }
                },
            }
        }
        if !out.is_empty() {
            return Some(Frame::data(out.into()));
        }
        if self.state == StreamState::Over {
            return None;
        }
        self.state = StreamState::Over;
        let mut trailers = HeaderMap::new();
        let status = self.answer.status.unwrap_or("failed");
        trailers.insert(STATUS_HEADER, HeaderValue::from_static(status));
        Some(Frame::trailers(trailers))
    }

    fn encode(&mut self, chunks: &[AnswerChunk], out: &mut Vec<u8>) {
        for chunk in chunks {
            match chunk {
                AnswerChunk::Start(header) => {
                    self.encoder = Some(self.dialect.encoder(header));
                }
                AnswerChunk::Open(_) => self.block_open = true,
                AnswerChunk::Close => self.block_open = false,
                AnswerChunk::More(_) | AnswerChunk::End(_) => {}
            }
            if let Some(encoder) = &mut self.encoder {
                encoder.encode(chunk, out);
            }
        }
    }

    /// Ends a stream with an error. A stream that has begun is never cut off: its events are
    /// completed, and its text reports the error.
    fn encode_error(&mut self, error: &HttpError, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        if self.encoder.is_none() {
            chunks.push(AnswerChunk::Start(self.answer.header()));
        }
        if self.block_open {
            chunks.push(AnswerChunk::Close);
        }
        let kind = match error.kind {
            ErrorKind::Failed(kind) => kind,
            ErrorKind::Busy => FailureKind::RateLimited,
            _ => FailureKind::Invalid,
        };
        let mut failure = Failure::new(kind, error.message.as_str());
        failure.hint = error.hint.as_deref().map(Into::into);
        failure.retry_after = error.retry_after;
        chunks.extend([
            AnswerChunk::Open(BlockKind::Text),
            AnswerChunk::More(format!("[the turn failed: {error}]").into()),
            AnswerChunk::Close,
            AnswerChunk::End(AnswerEnd {
                stop: StopReason::Failed(failure),
                usage: Usage::default(),
                status: "failed",
            }),
        ]);
        self.encode(&chunks, out);
    }
}
