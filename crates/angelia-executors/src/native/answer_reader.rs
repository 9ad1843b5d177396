//! Reads one answer from its bytes, with two timeouts: any byte shows that the connection is alive,
//! but only the model's output shows that the model is working. An answer that breaks off is
//! described completely, so that a single notice can explain what happened.
//!
//! The bytes can come from any source, so that tests can check the timeouts on paused time.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::provider::{AnswerDecoder, AnswerPart, ProviderError, ProviderEvent};

/// Longer answers are aborted, so that a server that never stops cannot fill the memory. The limit
/// is high because frames are many times longer than the text in them.
const MAX_ANSWER_BYTES: u64 = 512 * 1024 * 1024;

/// The same limit for an answer that is a single document, which is buffered completely.
const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;

/// The source of an answer's bytes.
pub trait ByteSource: Send {
    /// Returns the next bytes, or `None` at the end. The error is the chain of causes, outermost
    /// first. Must be cancel-safe.
    fn next_bytes(&mut self) -> impl Future<Output = Result<Option<Bytes>, Vec<String>>> + Send;
}

/// How long an answer may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerClocks {
    /// Before the model's first output.
    pub first_event: Duration,
    /// Between two outputs of the model.
    pub silence: Duration,
    /// Between any two reads.
    pub connection: Duration,
}

/// The facts about an answer that are known before its first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerHead {
    pub status: u16,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The answer is a single JSON document, not a stream of frames.
    pub is_document: bool,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer ended with a stop reason.
    Whole,
    /// The provider reported an error inside the answer.
    Failed(ProviderError, StreamDrop),
    /// The answer broke off.
    Dropped(StreamDrop),
}

/// Everything that is known about an answer that broke off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamDrop {
    pub status: u16,
    pub request_id: Option<String>,
    /// The provider's id of the answer.
    pub provider_id: Option<String>,
    pub bytes: u64,
    pub frames: u64,
    /// From the request to the first byte of the answer.
    pub ttfb: Option<Duration>,
    pub elapsed: Duration,
    /// Why the answer broke off, outermost cause first.
    pub cause: Vec<String>,
    /// The model was writing a tool call, which is discarded.
    pub in_tool_call: bool,
    /// Part of the answer's text was already shown.
    pub has_shown_text: bool,
}

/// Reads one answer. Events come in batches, one per read. If the answer breaks off, the last batch
/// contains the text shown so far as a complete part, but no unfinished tool call.
#[derive(Debug)]
pub struct AnswerReader<S> {
    source: S,
    /// `None` once the answer has ended.
    decoder: Option<AnswerDecoder>,
    progress: Progress,
    document: Vec<u8>,
    cause: Vec<String>,
}

impl<S: ByteSource> AnswerReader<S> {
    pub fn new(source: S, decoder: AnswerDecoder, head: AnswerHead, clocks: AnswerClocks) -> Self {
        let progress = Progress::new(head, clocks, Instant::now());
        let (document, cause) = (Vec::new(), Vec::new());
        Self { source, decoder: Some(decoder), progress, document, cause }
    }

    /// Returns the next events, or `None` once the answer has ended (see [`Self::finish`]).
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<ProviderEvent>> {
        loop {
            let decoder = self.decoder.as_mut()?;
            if decoder.has_ended() {
                return self.end(Vec::new());
            }
            let (deadline, clock) = self.progress.next_deadline();
            let read = timeout_at(deadline, self.source.next_bytes()).await;
            let bytes = match read {
                Err(_) => return self.end(vec![clock.to_owned()]),
                Ok(Err(cause)) => return self.end(cause),
                Ok(Ok(None)) => {
                    return self.end(vec!["the stream ended without its last frame".to_owned()]);
                }
                Ok(Ok(Some(bytes))) => bytes,
            };
            self.progress.count_bytes(bytes.len(), Instant::now());
            if self.progress.is_too_long() {
                self.document.clear();
                return self.end(vec!["the answer is too long".to_owned()]);
            }
            if self.progress.is_document {
                self.document.extend_from_slice(&bytes);
                continue;
            }
            let mut events = Vec::new();
            let frames = decoder.feed(&bytes, &mut events);
            self.progress.count_events(frames, &events, Instant::now());
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    /// Ends the answer and returns its last events.
    fn end(&mut self, cause: Vec<String>) -> Option<Vec<ProviderEvent>> {
        let mut decoder = self.decoder.take()?;
        let mut events = Vec::new();
        if self.progress.is_document {
            decoder.decode_document(&String::from_utf8_lossy(&self.document), &mut events);
        }
        decoder.end(&mut events);
        self.progress.count_events(0, &events, Instant::now());
        self.cause = cause;
        (!events.is_empty()).then_some(events)
    }

    /// Returns how the answer ended.
    pub fn finish(self) -> AnswerOutcome {
        self.progress.finish(self.cause, Instant::now())
    }
}

/// What is known about the answer so far.
#[derive(Debug)]
struct Progress {
    clocks: AnswerClocks,
    begun: Instant,
    last_bytes: Instant,
    last_words: Instant,
    has_spoken: bool,
    has_stopped: bool,
    error: Option<ProviderError>,
    is_document: bool,
    /// Completed when the answer ends.
    known: StreamDrop,
}

impl Progress {
    fn new(head: AnswerHead, clocks: AnswerClocks, now: Instant) -> Self {
        let AnswerHead { status, request_id, is_document } = head;
        let known = StreamDrop { status, request_id, ..StreamDrop::default() };
        Self {
            clocks,
            begun: now,
            last_bytes: now,
            last_words: now,
            has_spoken: false,
            has_stopped: false,
            error: None,
            is_document,
            known,
        }
    }

    /// Returns the next deadline, and the cause to report if it passes.
    fn next_deadline(&self) -> (Instant, &'static str) {
        let words = if self.has_spoken {
            (self.last_words + self.clocks.silence, "the model said nothing for too long")
        } else {
            (self.last_words + self.clocks.first_event, "the model did not begin in time")
        };
        let connection =
            (self.last_bytes + self.clocks.connection, "the connection was silent for too long");
        if connection.0 < words.0 { connection } else { words }
    }

    fn count_bytes(&mut self, bytes: usize, now: Instant) {
        self.last_bytes = now;
        let known = &mut self.known;
        known.bytes += bytes as u64;
        known.ttfb.get_or_insert(now - self.begun);
    }

    fn is_too_long(&self) -> bool {
        let limit = if self.is_document { MAX_DOCUMENT_BYTES } else { MAX_ANSWER_BYTES };
        self.known.bytes > limit
    }

    fn count_events(&mut self, frames: usize, events: &[ProviderEvent], now: Instant) {
        let known = &mut self.known;
        known.frames += frames as u64;
        for event in events {
            match event {
                ProviderEvent::Begin { id, .. } => {
                    known.provider_id = id.as_deref().map(str::to_owned);
                }
                ProviderEvent::TextDelta(_) => known.has_shown_text = true,
                ProviderEvent::CallBegin { .. } => known.in_tool_call = true,
                ProviderEvent::Part(AnswerPart::Call(_)) => known.in_tool_call = false,
                ProviderEvent::Stop(_) => self.has_stopped = true,
                ProviderEvent::Error(error) => self.error = Some(error.clone()),
                ProviderEvent::KeepAlive
                | ProviderEvent::ReasoningDelta(_)
                | ProviderEvent::Part(_)
                | ProviderEvent::Usage(_)
                | ProviderEvent::Unknown { .. } => {}
            }
        }
        // Pieces of a tool call are frames without events, but they are output of the model too.
        let keep_alives = events.iter().filter(|event| matches!(event, ProviderEvent::KeepAlive));
        if frames > keep_alives.count() {
            self.has_spoken = true;
            self.last_words = now;
        }
    }

    fn finish(self, cause: Vec<String>, now: Instant) -> AnswerOutcome {
        let elapsed = now - self.begun;
        let drop = StreamDrop { elapsed, cause, ..self.known };
        match self.error {
            Some(error) => AnswerOutcome::Failed(error, drop),
            None if self.has_stopped => AnswerOutcome::Whole,
            None => AnswerOutcome::Dropped(drop),
        }
    }
}
