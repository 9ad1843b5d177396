//! Frames of the connection. The server answers ours with the same `req_id`; its own frames are callbacks.
//! Pure.

use std::time::Duration;

use angelia_core::ports::{SendError, SendErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const SERVER: &str = "WeCom";

pub(super) const SUBSCRIBE: &str = "aibot_subscribe";
pub(super) const PING: &str = "ping";
pub(super) const RESPOND: &str = "aibot_respond_msg";
pub(super) const UPDATE_CARD: &str = "aibot_respond_update_msg";
pub(super) const SEND: &str = "aibot_send_msg";
pub(super) const UPLOAD_BEGIN: &str = "aibot_upload_media_init";
pub(super) const UPLOAD_PART: &str = "aibot_upload_media_chunk";
pub(super) const UPLOAD_END: &str = "aibot_upload_media_finish";
pub(super) const MESSAGE_CALLBACK: &str = "aibot_msg_callback";
pub(super) const EVENT_CALLBACK: &str = "aibot_event_callback";

/// The error codes for too many messages, overall or in one chat.
const TOO_FAST: [i64; 2] = [45009, 45033];
/// The error code of a busy server.
const BUSY: i64 = -1;

/// The pause after too many messages. The server does not name one.
const LIMIT_PAUSE: Duration = Duration::from_secs(1);

/// A frame from the server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BotFrame {
    pub cmd: String,
    pub headers: FrameHeaders,
    pub errcode: i64,
    pub errmsg: String,
    pub body: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FrameHeaders {
    pub req_id: String,
}

impl BotFrame {
    /// Parses a frame. Returns `None` if it is not one. Drops control characters, which the server does not
    /// escape.
    pub fn parse(text: &str) -> Option<Self> {
        let is_object = text.trim_start().starts_with('{');
        let clean: String =
            text.chars().filter(|c| *c >= ' ' || matches!(c, '\n' | '\t')).collect();
        serde_json::from_str(&clean).ok().filter(|_| is_object)
    }

    /// Returns whether this answers one of our frames.
    pub(super) fn is_answer(&self) -> bool {
        self.cmd != MESSAGE_CALLBACK && self.cmd != EVENT_CALLBACK
    }

    /// Returns the error that an answer reports, if there is one.
    pub(super) fn check(self) -> Result<Self, SendError> {
        let (kind, retry_after) = match self.errcode {
            0 => return Ok(self),
            code if TOO_FAST.contains(&code) => (SendErrorKind::NotSent, Some(LIMIT_PAUSE)),
            BUSY => (SendErrorKind::NotSent, None),
            _ => (SendErrorKind::Refused, None),
        };
        let words: String = self.errmsg.chars().filter(|c| !c.is_control()).take(200).collect();
        let message = format!("{SERVER} refuses it: {words} ({})", self.errcode);
        Err(SendError { retry_after, ..SendError::new(kind, message) })
    }
}

/// Encodes a frame of ours.
pub(super) fn write_frame(cmd: &str, req_id: &str, body: &Value) -> String {
    let mut frame = json!({"cmd": cmd, "headers": {"req_id": req_id}});
    if !body.is_null() {
        frame["body"] = body.clone();
    }
    frame.to_string()
}
