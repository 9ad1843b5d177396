//! The code shared by all dialects. A message is a stream of frames or one document, and each kind
//! of broken answer breaks it in the same way.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::{
    encoded_response::{EncodedResponse, StreamEnd},
    fault::{ApiError, Fault, StreamBreak, WireQuirk},
    reply::{ReplyBlock, ReplyBody, ReplyMessage},
    responder::ReplyContext,
};

/// One API: encodes messages and errors.
pub(super) trait Dialect {
    /// Returns a message as frames.
    fn frames(message: &ReplyMessage, context: &ReplyContext<'_>) -> FramedMessage;

    /// Returns a message as the document that is sent if the client does not want a stream.
    fn document(message: &ReplyMessage, context: &ReplyContext<'_>) -> Value;

    /// Returns the body of an error. Without a message, uses the usual text for this status.
    fn error(status: u16, message: Option<&str>) -> Value;

    /// Returns the status and body of an error that clients recognise by its type or wording.
    fn api_error(error: ApiError) -> (u16, Value);

    /// The status of an overloaded server.
    const OVERLOADED: u16;

    /// Returns the frame that reports an error of this status inside a stream.
    fn error_frame(status: u16, context: &ReplyContext<'_>) -> Vec<u8>;

    /// Returns the name for an event whose data is not JSON; empty where events have no names.
    fn unreadable_event() -> &'static str;

    /// Returns the frame that keeps the connection open while the model is silent.
    fn keep_alive() -> Vec<u8>;
}

/// A message as frames. A frame may hold several events that are sent together.
#[derive(Debug)]
pub(super) struct FramedMessage {
    pub(super) head: Vec<u8>,
    pub(super) blocks: Vec<FramedBlock>,
    pub(super) end: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct FramedBlock {
    pub(super) open: Vec<u8>,
    pub(super) deltas: Vec<Vec<u8>>,
    pub(super) close: Vec<u8>,
}

impl FramedMessage {
    pub(super) fn into_frames(self) -> Vec<Vec<u8>> {
        let mut frames = vec![self.head];
        for block in self.blocks {
            // A block's opening is sent with its first delta, because pauses belong between deltas.
            let mut pending = block.open;
            for delta in block.deltas {
                pending.extend(delta);
                frames.push(std::mem::take(&mut pending));
            }
            pending.extend(block.close);
            frames.push(pending);
        }
        frames.push(self.end);
        // An empty frame would end the chunked body.
        frames.retain(|frame| !frame.is_empty());
        frames
    }

    /// Returns the frames up to the middle of the last block; only the head if there is no block.
    fn into_first_frames(mut self) -> Vec<Vec<u8>> {
        self.end.clear();
        if let Some(last) = self.blocks.last_mut() {
            last.deltas.truncate(last.deltas.len().div_ceil(2));
            last.close.clear();
        }
        self.into_frames()
    }
}

pub(super) fn encode<D: Dialect>(body: &ReplyBody, context: &ReplyContext<'_>) -> EncodedResponse {
    match body {
        ReplyBody::Message(message) => encode_message::<D>(message, context),
        ReplyBody::Status { code, message } => {
            EncodedResponse::json(*code, &D::error(*code, message.as_deref()))
        }
        ReplyBody::Error(error) => {
            let (status, body) = D::api_error(*error);
            EncodedResponse::json(status, &body)
        }
        ReplyBody::Json { code, body } => EncodedResponse::json(*code, body),
        ReplyBody::Fault(fault) => encode_fault::<D>(*fault, context),
    }
}

fn encode_message<D: Dialect>(
    message: &ReplyMessage,
    context: &ReplyContext<'_>,
) -> EncodedResponse {
    let Some(cut) = message.cut else {
        if !context.stream {
            return EncodedResponse::json(200, &D::document(message, context));
        }
        let mut frames = D::frames(message, context).into_frames();
        if let Some(quirk) = message.quirk {
            for frame in &mut frames {
                damage(frame, quirk);
            }
        }
        return EncodedResponse::stream(frames, message.pause, StreamEnd::Complete);
    };
    let mut frames = if context.stream {
        D::frames(message, context).into_first_frames()
    } else {
        vec![br#"{"id":"msg_"#.to_vec()]
    };
    let end = match cut {
        StreamBreak::Hang => StreamEnd::Hang,
        StreamBreak::Reset => StreamEnd::Reset,
        StreamBreak::End => StreamEnd::Complete,
        StreamBreak::KeepAlives => StreamEnd::Repeat(D::keep_alive()),
        StreamBreak::ErrorFrame => {
            frames.push(D::error_frame(D::OVERLOADED, context));
            StreamEnd::Complete
        }
        StreamBreak::RefusedKey => {
            frames.push(D::error_frame(401, context));
            StreamEnd::Complete
        }
    };
    EncodedResponse::stream(frames, message.pause, end)
}

fn encode_fault<D: Dialect>(fault: Fault, context: &ReplyContext<'_>) -> EncodedResponse {
    let text = || vec![ReplyBlock::Text("partial ".to_owned())];
    let call = || {
        let arguments = r#"{"command":"touch cut-call"}"#.to_owned();
        vec![ReplyBlock::RawTool { name: "Bash".to_owned(), arguments }]
    };
    let (blocks, cut) = match fault {
        Fault::HangHeaders => return EncodedResponse::never(),
        Fault::Html => return EncodedResponse::html(),
        Fault::Empty => {
            return EncodedResponse::stream(Vec::new(), Duration::ZERO, StreamEnd::Complete);
        }
        Fault::BadJson => {
            let bad = event(D::unreadable_event(), &"{not json");
            let mut frames = D::frames(&ReplyMessage::default(), context).into_first_frames();
            frames.push(bad);
            return EncodedResponse::stream(frames, Duration::ZERO, StreamEnd::Complete);
        }
        Fault::HangBody => (text(), StreamBreak::Hang),
        Fault::ConnectionReset => (text(), StreamBreak::Reset),
        Fault::MissingStop => (text(), StreamBreak::End),
        Fault::ErrorAfterText => (text(), StreamBreak::ErrorFrame),
        Fault::ErrorEvent => (Vec::new(), StreamBreak::ErrorFrame),
        Fault::KeepAlives => (Vec::new(), StreamBreak::KeepAlives),
        Fault::CutCall => (call(), StreamBreak::Reset),
    };
    let message = ReplyMessage { blocks, cut: Some(cut), ..ReplyMessage::default() };
    encode_message::<D>(&message, context)
}

/// Makes a frame not quite JSON. The encoder writes no spaces outside strings, so every space in
/// the data is text.
fn damage(frame: &mut Vec<u8>, quirk: WireQuirk) {
    let text = String::from_utf8_lossy(frame);
    let damaged = |in_data: &dyn Fn(&str) -> String| {
        let line = |line: &str| match line.strip_prefix("data: ") {
            Some(data) if data.starts_with('{') => format!("data: {}", in_data(data)),
            _ => line.to_owned(),
        };
        text.split('\n').map(line).collect::<Vec<_>>().join("\n").into_bytes()
    };
    *frame = match quirk {
        WireQuirk::RawTab => damaged(&|data| data.replace(' ', "\t")),
        WireQuirk::LoneSurrogate => damaged(&|data| data.replace(' ', "\\ud83d")),
        WireQuirk::NotANumber => damaged(&|data| data.replacen('{', "{\"score\":NaN,", 1)),
        _ => return,
    };
}

/// Encodes one server-sent event. The name is empty in dialects without event names.
pub(super) fn event(name: &str, data: &dyn fmt::Display) -> Vec<u8> {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    format!("{name}data: {data}\n\n").into_bytes()
}
