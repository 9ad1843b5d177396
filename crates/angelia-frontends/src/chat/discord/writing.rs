//! Sends messages, edits and files within Discord's rates. Nothing that an agent writes ever pings anybody.

use std::time::Duration;

use angelia_core::ports::{
    Button, InboundFile, OutgoingFile, OutgoingMessage, RichText, SendError, SendErrorKind,
    SentMessage, split_thread,
};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    adapter::{Discord, MAX_LENGTH},
    markdown::to_markdown,
    rest::{RestRoute, SERVER},
};
use crate::chat::{
    multipart::encode_form,
    outgoing_file::read_outgoing_file,
    send_budget::{Pace, SendRate, too_early},
};

const SECOND: Duration = Duration::from_secs(1);

/// Discord allows fifty requests a second, and this budget does not count all of ours.
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 45, period: SECOND };

/// The rate for a channel's messages, and for edits. The period is a little over five seconds, because requests
/// may arrive closer together than they were sent.
const CHANNEL_RATES: [SendRate; 1] = [SendRate { count: 5, period: Duration::from_millis(5300) }];

/// Previews leave room for the answer.
const PREVIEW_RATES: [SendRate; 1] = [SendRate { count: 3, period: Duration::from_millis(5300) }];

const BUTTONS_PER_ROW: usize = 5;
const MAX_LABEL: usize = 80;

/// The largest file that any server accepts. Most servers accept less and say so.
const MAX_FILE_BYTES: u64 = 100 << 20;

/// The maximum length of a nonce.
const NONCE_LENGTH: usize = 25;

impl Discord {
    /// Waits until the channel's rates allow a message. A preview fails instead of waiting, because the next
    /// one is newer anyway.
    async fn keep_pace(
        &self,
        route: &RestRoute,
        counts: &str,
        pace: Pace,
    ) -> Result<(), SendError> {
        match pace {
            Pace::Wait => self.budget.wait(counts, &CHANNEL_RATES).await,
            Pace::Preview => {
                self.api.check_bucket(route)?;
                let has_room = self.preview_budget.try_take(counts, &PREVIEW_RATES)
                    && self.budget.try_take(counts, &CHANNEL_RATES);
                if !has_room {
                    return Err(too_early(SECOND));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
        pace: Pace,
    ) -> Result<SentMessage, SendError> {
        let channel = channel_of(chat)?;
        let mut fields = message_fields(message)?;
        fields["nonce"] = nonce(&message.id).into();
        // Discord does not post a message again if it has the same nonce.
        fields["enforce_nonce"] = true.into();
        if let Some(id) = message.reply_to.as_deref().filter(|id| is_id(id)) {
            fields["message_reference"] = json!({"message_id": id, "fail_if_not_exists": false});
        }
        let route = message_route(channel);
        self.keep_pace(&route, &format!("send {channel}"), pace).await?;
        Ok(sent_message(&self.api.call(&route, &fields).await?))
    }

    pub(super) async fn edit_message(
        &self,
        chat: &str,
        sent: &SentMessage,
        new: &OutgoingMessage,
        pace: Pace,
    ) -> Result<(), SendError> {
        let channel = channel_of(chat)?;
        let Some(id) = sent.message_id.as_deref().filter(|id| is_id(id)) else {
            return Err(SendError::new(SendErrorKind::Refused, "the message has no id"));
        };
        let fields = message_fields(new)?;
        let path = format!("channels/{channel}/messages/{id}");
        let route = RestRoute::new(Method::PATCH, path, "PATCH message", channel);
        self.keep_pace(&route, &format!("edit {channel}"), pace).await?;
        self.api.call(&route, &fields).await?;
        Ok(())
    }

    pub(super) async fn show_typing(&self, chat: &str) -> Result<(), SendError> {
        let channel = channel_of(chat)?;
        let path = format!("channels/{channel}/typing");
        let route = RestRoute::new(Method::POST, path, "POST typing", channel);
        self.api.check_bucket(&route)?;
        self.budget.wait(&format!("typing {channel}"), &[]).await;
        self.api.call(&route, &json!({})).await?;
        Ok(())
    }

    pub(super) async fn upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let channel = channel_of(chat)?;
        let bytes = read_outgoing_file(file, SERVER, MAX_FILE_BYTES).await?;
        let fields = json!({
            "nonce": nonce(&file.id), "enforce_nonce": true, "allowed_mentions": {"parse": []},
        });
        let boundary = format!("angelia-{}", self.clock.fresh_uuid().simple());
        let fields = [("payload_json", fields.to_string())];
        let (content_type, body) =
            encode_form(&boundary, &fields, ("files[0]", &file.name, &bytes));
        let route = message_route(channel);
        self.keep_pace(&route, &format!("send {channel}"), Pace::Wait).await?;
        Ok(sent_message(&self.api.upload(&route, &content_type, body).await?))
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        if file.size.is_some_and(|size| size > limit) {
            let message = format!("{} has more than {limit} bytes", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        self.api.download(&file.id, limit).await
    }
}

fn message_route(channel: &str) -> RestRoute {
    RestRoute::new(Method::POST, format!("channels/{channel}/messages"), "POST messages", channel)
}

/// Returns the channel of an address. A thread is a channel itself.
fn channel_of(chat: &str) -> Result<&str, SendError> {
    let (chat, thread) = split_thread(chat);
    let channel = thread.unwrap_or(chat);
    if is_id(channel) {
        return Ok(channel);
    }
    let message = format!("`{channel}` is not the id of a channel in Discord");
    Err(SendError::new(SendErrorKind::Refused, message))
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// Returns the fields that messages and edits share.
fn message_fields(message: &OutgoingMessage) -> Result<Value, SendError> {
    let content = match &message.rich {
        Some(rich) => to_markdown(rich),
        None => to_markdown(&RichText::plain(&message.text)),
    };
    if MAX_LENGTH.unit.measure(&content) > MAX_LENGTH.max {
        let message =
            format!("Discord accepts no message of more than {} characters", MAX_LENGTH.max);
        return Err(SendError::new(SendErrorKind::Refused, message));
    }
    Ok(json!({
        "content": content,
        "components": button_rows(&message.buttons),
        "allowed_mentions": {"parse": []},
    }))
}

fn button_rows(buttons: &[Button]) -> Vec<Value> {
    let button = |one: &Button| {
        let label: String = one.label.chars().take(MAX_LABEL).collect();
        json!({"type": 2, "style": 2, "label": label, "custom_id": &*one.value})
    };
    let rows = buttons.chunks(BUTTONS_PER_ROW);
    rows.map(|row| json!({"type": 1, "components": row.iter().map(button).collect::<Vec<_>>()}))
        .collect()
}

/// Derives a short nonce that is the same at every attempt.
fn nonce(id: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(id.as_bytes()));
    digest.truncate(NONCE_LENGTH);
    digest
}

fn sent_message(answer: &Value) -> SentMessage {
    SentMessage { message_id: answer["id"].as_str().map(Into::into) }
}
