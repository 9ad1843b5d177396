//! Decodes the bytes of an answer in any of the APIs into events. The events do not depend on how
//! the bytes are split into reads.

use std::sync::Arc;

use angelia_wire::sse::{SseDecoder, SseEvent};
use bytes::BufMut as _;

use super::{
    Api, ProviderEvent, chat::ChatDecoder, frame_json::unknown_frame, messages::MessagesDecoder,
    responses::ResponsesDecoder,
};

/// The maximum size of a frame; the arguments of a tool may be large.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Decodes one answer.
#[derive(Debug)]
pub struct AnswerDecoder {
    frames: SseDecoder,
    dialect: Dialect,
}

#[derive(Debug)]
enum Dialect {
    Messages(MessagesDecoder),
    Chat(ChatDecoder),
    Responses(ResponsesDecoder),
}

impl AnswerDecoder {
    /// `place` distinguishes this answer from the others in its conversation. It is part of the ids
    /// that are made up for calls without one.
    pub fn new(api: Api, place: u64) -> Self {
        let dialect = match api {
            Api::Messages => Dialect::Messages(MessagesDecoder::new(place)),
            Api::Chat => Dialect::Chat(ChatDecoder::new(place)),
            Api::Responses => Dialect::Responses(ResponsesDecoder::new(place)),
        };
        Self { frames: SseDecoder::new(MAX_FRAME_BYTES), dialect }
    }

    /// Decodes the next bytes of a streamed answer. Returns the number of frames in them.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<ProviderEvent>) -> usize {
        let mut frames = 0;
        // The buffer has limited room, but always some.
        let mut rest = bytes;
        while !rest.is_empty() {
            let buffer = self.frames.buffer();
            let taken = rest.len().min(buffer.remaining_mut());
            buffer.put_slice(&rest[..taken]);
            rest = &rest[taken..];
            while let Some(frame) = self.frames.next() {
                frames += 1;
                match frame {
                    Ok(frame) => self.decode_frame(&frame, out),
                    Err(too_long) => {
                        out.push(unknown_frame("frame_too_long", &too_long.to_string()));
                    }
                }
            }
        }
        frames
    }

    /// Decodes an answer that is a single JSON document, from a server that does not stream.
    pub fn decode_document(&mut self, body: &str, out: &mut Vec<ProviderEvent>) {
        match &mut self.dialect {
            Dialect::Messages(decoder) => decoder.decode_document(body, out),
            Dialect::Chat(decoder) => decoder.decode_document(body, out),
            Dialect::Responses(decoder) => decoder.decode_document(body, out),
        }
    }

    /// Returns whether the last frame has arrived, so that nothing more needs to be read.
    pub fn has_ended(&self) -> bool {
        match &self.dialect {
            Dialect::Messages(decoder) => decoder.has_ended(),
            Dialect::Chat(decoder) => decoder.has_ended(),
            Dialect::Responses(decoder) => decoder.has_ended(),
        }
    }

    /// Ends the answer. Text that was shown becomes a complete part, and a call that was cut off is
    /// discarded. If the answer was cut off, there is no [`ProviderEvent::Stop`].
    pub fn end(self, out: &mut Vec<ProviderEvent>) {
        match self.dialect {
            Dialect::Messages(decoder) => decoder.end(out),
            Dialect::Chat(decoder) => decoder.end(out),
            Dialect::Responses(decoder) => decoder.end(out),
        }
    }

    fn decode_frame(&mut self, frame: &SseEvent, out: &mut Vec<ProviderEvent>) {
        match &mut self.dialect {
            Dialect::Messages(decoder) => decoder.decode_frame(&frame.name, &frame.data, out),
            Dialect::Chat(decoder) => decoder.decode_frame(&frame.data, out),
            Dialect::Responses(decoder) => decoder.decode_frame(&frame.name, &frame.data, out),
        }
    }
}

/// Returns an id for a call that has none. The same place and number always give the same id.
pub(super) fn made_call_id(place: u64, number: usize) -> Arc<str> {
    format!("call_{place}_{number}").into()
}
