//! What people do: write, press buttons, and recall messages.

use serde_json::{Value, json};

use super::{APP_ID, BOT_ID, FeishuServer, SeenMessage, SentEvent};

/// The kind of chat in which a person writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind<'a> {
    /// A chat with the bot alone.
    Direct,
    /// The group with this id; `true` if the bot is mentioned.
    Group(&'a str, bool),
}

impl FeishuServer {
    /// Returns the id of the direct chat with a person.
    pub fn direct_chat(person: &str) -> String {
        format!("oc_with_{person}")
    }

    /// Writes to the bot, and returns the message's id.
    pub fn say(&self, person: &str, text: &str) -> String {
        self.write(person, MessageKind::Direct, "text", &json!({"text": text}), &json!({}))
    }

    /// Writes a message of any type, with further fields, and returns its id.
    pub fn write(
        &self,
        person: &str,
        kind: MessageKind<'_>,
        message_type: &str,
        content: &Value,
        extra: &Value,
    ) -> String {
        let id = self.state().fresh_id("om");
        let (chat, chat_type, is_mention) = match kind {
            MessageKind::Direct => (Self::direct_chat(person), "p2p", false),
            MessageKind::Group(chat, is_mention) => (chat.to_owned(), "group", is_mention),
        };
        let mut message = json!({
            "message_id": id, "chat_id": chat, "chat_type": chat_type, "message_type": message_type,
            "content": content.to_string(), "create_time": unix_millis(), "update_time": unix_millis(),
        });
        if is_mention {
            message["mentions"] = json!([{
                "key": "@_user_1", "id": {"open_id": BOT_ID, "union_id": "on_bot", "user_id": ""},
                "name": "Fake Bot", "tenant_key": "tenant",
            }]);
        }
        if let (Some(message), Some(extra)) = (message.as_object_mut(), extra.as_object()) {
            message.extend(extra.clone());
        }
        self.state().said.insert(id.clone(), json!({
            "message_id": id, "msg_type": message_type, "body": {"content": content.to_string()},
            "sender": {"id": person, "id_type": "open_id", "sender_type": "user"},
        }));
        let sender =
            json!({"sender_id": ids_of(person), "sender_type": "user", "tenant_key": "tenant"});
        self.push("im.message.receive_v1", &json!({"sender": sender, "message": message}));
        id
    }

    /// Presses a button, even one that was there only when the message was sent.
    pub fn press(&self, person: &str, message: &SeenMessage, label: &str) {
        let buttons = message.buttons.iter().chain(&message.sent_buttons);
        let (_, value) = buttons.into_iter().find(|(text, _)| text == label).unwrap();
        let mut operator = ids_of(person);
        operator["tenant_key"] = "tenant".into();
        self.push(
            "card.action.trigger",
            &json!({
                "operator": operator, "token": "c-token", "host": "im_message",
                "action": {"value": value, "tag": "button"},
                "context": {"open_message_id": message.id, "open_chat_id": message.chat},
            }),
        );
    }

    /// Recalls a message.
    pub fn recall(&self, chat: &str, message: &str) {
        self.push("im.message.recalled_v1", &json!({
            "message_id": message, "chat_id": chat, "recall_time": unix_millis(), "recall_type": "message_owner",
        }));
    }

    /// Sends an event.
    pub fn push(&self, kind: &str, event: &Value) {
        self.push_parts(kind, event, 1);
    }

    /// Sends an event in this many parts.
    pub fn push_parts(&self, kind: &str, event: &Value, parts: usize) {
        let id = self.state().fresh_id("event");
        let payload = json!({
            "schema": "2.0",
            "header": {
                "event_id": id, "event_type": kind, "create_time": unix_millis(), "token": "",
                "app_id": APP_ID, "tenant_key": "tenant",
            },
            "event": event,
        });
        self.push_payload(payload.to_string().into_bytes(), parts);
    }

    /// Sends arbitrary bytes as an event.
    pub fn push_payload(&self, payload: Vec<u8>, parts: usize) {
        let mut state = self.state();
        let id = state.fresh_id("frame");
        state.events.push(SentEvent { id, payload, parts, sent_at: None, is_acked: false });
        let last = state.events.len() - 1;
        state.deliver(last);
    }

    /// Sends bytes that are not a frame.
    pub fn push_garbage(&self) {
        let state = self.state();
        for socket in &state.sockets {
            socket.send_binary(b"\x08\xff<html>".to_vec());
            socket.send_text("hello?");
        }
    }

    /// Sends the last event again.
    pub fn repeat(&self, times: usize) {
        let mut state = self.state();
        let last = state.events.len() - 1;
        for _ in 0..times {
            state.deliver(last);
        }
    }
}

fn ids_of(person: &str) -> Value {
    json!({"open_id": person, "union_id": format!("on_{person}"), "user_id": ""})
}

fn unix_millis() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_millis().to_string()
}
