//! What people do in the workspace: write, edit, delete, send files and press buttons.

use serde_json::{Value, json};

use super::{BOT_USER, SentEvent, SlackMessage, SlackServer, TEAM, UploadedFile};

impl SlackServer {
    /// Returns the channel for a person's direct messages.
    pub fn direct_channel(person: &str) -> String {
        format!("D{person}")
    }

    /// Sends an event to the app.
    pub fn push_event(&self, mut event: Value) {
        let mut state = self.lock();
        let id = state.new_id();
        if event.get("event_ts").is_none() {
            event["event_ts"] = event["ts"].clone();
        }
        let payload = json!({
            "token": "t", "team_id": TEAM, "api_app_id": "A1", "type": "event_callback",
            "event_id": format!("Ev{id:06}"), "event_time": 1_700_000_000, "event": event,
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": true}],
        });
        drop(state);
        self.push("events_api", payload);
    }

    /// Sends an envelope with this payload.
    pub fn push(&self, kind: &'static str, payload: Value) {
        let mut state = self.lock();
        let new = SentEvent { kind, payload, envelopes: Vec::new(), is_acknowledged: false };
        state.events.push(new);
        let index = state.events.len() - 1;
        state.deliver(index);
    }

    /// Delivers the last event `times` more times.
    pub fn redeliver(&self, times: usize) {
        let mut state = self.lock();
        let Some(last) = state.events.len().checked_sub(1) else { return };
        for _ in 0..times {
            state.deliver(last);
        }
    }

    /// Simulates a direct message from a person to the bot. Returns the time of the message.
    pub fn say(&self, person: &str, text: &str) -> String {
        self.write(person, text, &json!({}))
    }

    /// Simulates a direct message with further fields from a person to the bot. Returns the time of the
    /// message.
    pub fn write(&self, person: &str, text: &str, extra: &Value) -> String {
        let ts = self.lock().new_ts();
        let mut event = json!({
            "type": "message", "channel": Self::direct_channel(person), "channel_type": "im",
            "user": person, "team": TEAM, "text": text, "ts": ts,
        });
        extend(&mut event, extra);
        self.push_event(event);
        ts
    }

    /// Simulates a message from a person in a channel. A mention of the bot arrives as two events. Returns
    /// the time of the message.
    pub fn write_in_channel(
        &self,
        person: &str,
        channel: &str,
        thread: Option<&str>,
        text: &str,
    ) -> String {
        let ts = self.lock().new_ts();
        let mut event = json!({
            "type": "message", "channel": channel, "channel_type": "channel", "user": person,
            "team": TEAM, "text": text, "ts": ts,
        });
        if let Some(thread) = thread {
            event["thread_ts"] = thread.into();
        }
        if text.contains(&format!("<@{BOT_USER}>")) {
            let mut mention = event.clone();
            mention["type"] = "app_mention".into();
            mention.as_object_mut().unwrap().remove("channel_type");
            self.push_event(mention);
        }
        self.push_event(event);
        ts
    }

    /// Simulates that a person edits a direct message to the bot.
    pub fn edit(&self, person: &str, ts: &str, before: &str, text: &str) {
        let at = self.lock().new_ts();
        let message =
            |text: &str| json!({"type": "message", "user": person, "text": text, "ts": ts});
        let mut changed = message(text);
        changed["edited"] = json!({"user": person, "ts": at});
        self.push_event(json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "ts": at,
            "channel": Self::direct_channel(person), "channel_type": "im",
            "message": changed, "previous_message": message(before),
        }));
    }

    /// Simulates that a person deletes a direct message to the bot.
    pub fn delete(&self, person: &str, ts: &str) {
        let at = self.lock().new_ts();
        self.push_event(json!({
            "type": "message", "subtype": "message_deleted", "hidden": true, "ts": at,
            "deleted_ts": ts, "channel": Self::direct_channel(person), "channel_type": "im",
            "previous_message": {"type": "message", "user": person, "text": "x", "ts": ts},
        }));
    }

    /// Adds a file to the workspace, and returns its id.
    pub fn add_file(&self, name: &str, content: &[u8]) -> String {
        let mut state = self.lock();
        let id = format!("F{:04}", state.new_id());
        let length = content.len();
        let file = UploadedFile { name: name.to_owned(), length, content: Some(content.to_vec()) };
        state.files.insert(id.clone(), file);
        id
    }

    /// Simulates a file from a person to the bot. `has_address` means that the event says where the file is.
    pub fn send_file(&self, person: &str, name: &str, content: &[u8], has_address: bool) {
        let length = content.len();
        let id = self.add_file(name, content);
        let mut fields = json!({"id": id, "name": name, "mimetype": "text/plain", "size": length});
        if has_address {
            fields["url_private_download"] = format!("{}/files-pri/{id}", self.base_url()).into();
        }
        self.write(person, "", &json!({"subtype": "file_share", "files": [fields]}));
    }

    /// Simulates that a person presses a button on a message.
    pub fn press(&self, person: &str, message: &SlackMessage, label: &str) {
        let (_, value) = message.buttons.iter().find(|(text, _)| text == label).unwrap();
        let at = self.lock().new_ts();
        let mut container = json!({
            "type": "message", "message_ts": message.ts, "channel_id": message.channel,
            "is_ephemeral": false,
        });
        if let Some(thread) = &message.thread {
            container["thread_ts"] = thread.as_str().into();
        }
        let address = format!("{}/actions/{at}", self.base_url());
        self.push("interactive", json!({
            "type": "block_actions", "api_app_id": "A1", "token": "t", "trigger_id": format!("{at}.x"),
            "user": {"id": person, "username": format!("name-{person}"), "team_id": TEAM},
            "team": {"id": TEAM, "domain": "fake"}, "channel": {"id": message.channel, "name": "x"},
            "container": container, "response_url": address,
            "message": {"type": "message", "user": BOT_USER, "ts": message.ts, "text": message.text},
            "actions": [{
                "type": "button", "action_id": "choice-0-0", "block_id": "b", "value": value,
                "action_ts": at, "text": {"type": "plain_text", "text": label},
            }],
        }));
    }

    /// Simulates that a person uses a slash command of the app.
    pub fn command(&self, person: &str, channel: &str, command: &str, text: &str) {
        let at = self.lock().new_ts();
        self.push(
            "slash_commands",
            json!({
                "token": "t", "team_id": TEAM, "channel_id": channel, "channel_name": "x",
                "user_id": person, "user_name": format!("name-{person}"), "command": command,
                "text": text, "api_app_id": "A1", "trigger_id": at,
                "response_url": format!("{}/commands/{at}", self.base_url()),
            }),
        );
    }
}

fn extend(event: &mut Value, extra: &Value) {
    let fields = event.as_object_mut().unwrap();
    fields.extend(extra.as_object().unwrap().clone());
}
