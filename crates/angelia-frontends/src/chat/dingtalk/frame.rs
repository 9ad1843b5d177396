//! Frames of the stream, and their acknowledgements. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

/// The topic of messages to the robot.
pub(super) const MESSAGE_TOPIC: &str = "/v1.0/im/bot/messages/get";
/// The topic of button presses on cards.
pub(super) const CARD_TOPIC: &str = "/v1.0/card/instances/callback";

/// A frame from the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamFrame {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub headers: FrameHeaders,
    /// JSON in a string.
    #[serde(default)]
    pub data: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameHeaders {
    #[serde(default)]
    pub topic: String,
    #[serde(default)]
    pub message_id: String,
}

impl StreamFrame {
    /// Parses a frame.
    pub fn parse(text: &str) -> Option<Self> {
        // Reject arrays: serde would read one as the fields in order.
        let is_object = text.trim_start().starts_with('{');
        serde_json::from_str(text).ok().filter(|_| is_object)
    }

    /// Returns the frame that acknowledges this one.
    pub(super) fn acknowledgement(&self) -> String {
        let data = match self.kind.as_str() {
            "CALLBACK" => json!({"response": {}}).to_string(),
            // A ping gets its data back.
            _ => self.data.clone(),
        };
        json!({
            "code": 200,
            "headers": {"contentType": "application/json", "messageId": self.headers.message_id},
            "message": "OK",
            "data": data,
        })
        .to_string()
    }

    /// Returns whether the server will deliver nothing more on this socket.
    pub(super) fn is_disconnect(&self) -> bool {
        self.kind == "SYSTEM" && self.headers.topic == "disconnect"
    }

    /// Parses the frame's data.
    pub(super) fn read_data(&self) -> Option<Value> {
        serde_json::from_str(&self.data).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_its_frame() {
        let ping = r#"{"specVersion":"1.0","type":"SYSTEM","headers":{"topic":"ping","messageId":"m1"},"data":"{\"opaque\":\"x\"}"}"#;
        let ping = StreamFrame::parse(ping).unwrap();
        let answer: Value = serde_json::from_str(&ping.acknowledgement()).unwrap();
        assert_eq!(answer["headers"]["messageId"], "m1");
        assert_eq!((answer["code"].as_i64(), &answer["data"]), (Some(200), &json!(ping.data)));
        let callback = StreamFrame { kind: "CALLBACK".into(), ..ping };
        let answer: Value = serde_json::from_str(&callback.acknowledgement()).unwrap();
        assert_eq!(answer["data"], r#"{"response":{}}"#);
        assert_eq!(StreamFrame::parse("[]"), None);
        assert_eq!(StreamFrame::parse("?"), None);
    }
}
