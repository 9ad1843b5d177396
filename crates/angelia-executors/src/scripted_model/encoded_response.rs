//! An encoded answer, ready to be written, and the answers that all dialects share.

use std::time::Duration;

use serde_json::Value;

#[derive(Debug)]
pub(super) struct EncodedResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: &'static str,
    pub(super) wait: Duration,
    pub(super) body: ResponseBody,
}

#[derive(Debug)]
pub(super) enum ResponseBody {
    /// No response at all, not even a head.
    Never,
    Whole(Vec<u8>),
    /// A chunked body. If the pause is zero, all frames are sent in one write.
    Stream {
        frames: Vec<Vec<u8>>,
        pause: Duration,
        end: StreamEnd,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Complete,
    Hang,
    Reset,
    /// Repeats this frame until the client disconnects.
    Repeat(Vec<u8>),
}

impl EncodedResponse {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::whole(status, "application/json", body.to_string().into_bytes())
    }

    /// Returns an HTML page, as a gateway sends it instead of the API's answer.
    pub(super) fn html() -> Self {
        Self::whole(200, "text/html", b"<html><body>gateway page</body></html>".to_vec())
    }

    pub(super) fn stream(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> Self {
        let body = ResponseBody::Stream { frames, pause, end };
        Self { body, ..Self::whole(200, "text/event-stream; charset=utf-8", Vec::new()) }
    }

    pub(super) fn never() -> Self {
        Self { body: ResponseBody::Never, ..Self::whole(200, "", Vec::new()) }
    }

    fn whole(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        let (headers, wait) = (Vec::new(), Duration::ZERO);
        Self { status, headers, content_type, wait, body: ResponseBody::Whole(body) }
    }
}
