//! Sends messages, edits, reactions and files. Each message has a transaction id, so that a repetition arrives
//! only once. Nothing that an agent writes ever pings anybody.
//!
//! Each server has its own rate limits. Synapse lets a person send ten events at once, and then one every five
//! seconds. Previews use at most half of that, and after a refusal everything pauses.

use std::{path::Path, time::Duration};

use angelia_core::ports::{
    ButtonPress, InboundFile, OutgoingFile, OutgoingMessage, RichText, SendError, SendErrorKind,
    SentMessage, split_thread,
};
use reqwest::Method;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use super::{
    adapter::Matrix,
    buttons::CHOICES,
    html::{is_plain, to_html},
};
use crate::chat::{
    bearer_api::{ApiRequest, BearerError},
    outgoing_file::read_outgoing_file,
    reaction_choices::{emojis, encode_choices, push_choices},
    send_budget::{Pace, SendRate, too_early},
};

/// One preview every five seconds, with a few more at the beginning.
pub(super) const PREVIEW_RATE: SendRate = SendRate { count: 5, period: Duration::from_secs(25) };

/// The longest pause that a message waits for. After that, the caller retries.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// The pause after a refusal that does not name one.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);

/// How long the typing indicator stays, unless it is renewed.
const TYPING_TIME: Duration = Duration::from_secs(6);

const MAX_FILE_BYTES: u64 = 100 << 20;
const UPLOAD_TIME: Duration = Duration::from_mins(3);

impl Matrix {
    /// Waits until the server accepts messages again. A preview fails instead of waiting, because the next one
    /// is newer anyway.
    async fn keep_pace(&self, pace: Pace) -> Result<(), SendError> {
        let now = Instant::now();
        let pause = self.paused_until.lock().filter(|until| *until > now);
        match (pace, pause) {
            (Pace::Wait, Some(until)) if until - now > MAX_PAUSE => Err(server_pause(until - now)),
            (Pace::Wait, Some(until)) => {
                sleep_until(until).await;
                Ok(())
            }
            (Pace::Wait, None) => Ok(()),
            (Pace::Preview, Some(until)) => Err(server_pause(until - now)),
            (Pace::Preview, None) if self.preview_budget.try_take("", &[]) => Ok(()),
            (Pace::Preview, None) => Err(too_early(Duration::from_secs(1))),
        }
    }

    /// Sends an event with a transaction id, and returns the id of the event.
    async fn put_event(
        &self,
        room: &str,
        kind: &str,
        transaction: &str,
        content: &Value,
    ) -> Result<Value, BearerError> {
        let path = ["rooms", room, "send", kind, transaction];
        let sent = self.api.call(&ApiRequest::new(Method::PUT, &path), content).await;
        if let Err(BearerError::Refused(refusal)) = &sent
            && refusal.status == 429
        {
            let pause = refusal.pause.unwrap_or(DEFAULT_PAUSE);
            *self.paused_until.lock() = Some(Instant::now() + pause);
        }
        sent
    }

    async fn put_message(
        &self,
        room: &str,
        transaction: &str,
        content: Map<String, Value>,
    ) -> Result<SentMessage, SendError> {
        let content = Value::Object(content);
        let sent = self.put_event(room, "m.room.message", transaction, &content).await?;
        Ok(SentMessage { message_id: sent["event_id"].as_str().map(Into::into) })
    }

    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
        pace: Pace,
    ) -> Result<SentMessage, SendError> {
        let (room, thread) = room_of(chat)?;
        let mut content = message_content(message);
        if let Some(relation) = relation(thread, message.reply_to.as_deref()) {
            content.insert("m.relates_to".to_owned(), relation);
        }
        self.keep_pace(pace).await?;
        let sent = self.put_message(room, &self.transaction(&message.id), content).await?;
        self.offer_choices(room, &sent, message).await;
        Ok(sent)
    }

    pub(super) async fn edit_message(
        &self,
        chat: &str,
        sent: &SentMessage,
        new: &OutgoingMessage,
        pace: Pace,
    ) -> Result<(), SendError> {
        let (room, _) = room_of(chat)?;
        let Some(id) = sent.message_id.as_deref() else {
            return Err(SendError::new(SendErrorKind::Refused, "the message has no id"));
        };
        let new_content = message_content(new);
        // Clients without support for edits show this text.
        let body = format!("* {}", new_content["body"].as_str().unwrap_or_default());
        let mut content = Map::new();
        content.insert("msgtype".to_owned(), "m.text".into());
        content.insert("body".to_owned(), body.into());
        content.insert("m.mentions".to_owned(), json!({}));
        content.insert("m.new_content".to_owned(), new_content.into());
        let relation = json!({"rel_type": "m.replace", "event_id": id});
        content.insert("m.relates_to".to_owned(), relation);
        self.keep_pace(pace).await?;
        // Always a new transaction: an edit may return to an earlier text, and repeating one does
        // no harm.
        self.put_message(room, &self.transaction(""), content).await?;
        self.offer_choices(room, sent, new).await;
        Ok(())
    }

    /// Reacts with the emojis of a message's choices, so that people only need to click them. The text explains
    /// them, so people can add a missing one by hand.
    async fn offer_choices(&self, room: &str, sent: &SentMessage, message: &OutgoingMessage) {
        let Some(id) = sent.message_id.as_deref() else { return };
        for emoji in emojis(&message.buttons) {
            let relation = json!({"rel_type": "m.annotation", "event_id": id, "key": emoji});
            let content = json!({"m.relates_to": relation});
            let transaction = digest(&format!("{id} {emoji}"));
            match self.put_event(room, "m.reaction", &transaction, &content).await {
                Ok(_) => {}
                Err(BearerError::Refused(refusal)) if refusal.code == "M_DUPLICATE_ANNOTATION" => {}
                Err(error) => {
                    let error = SendError::from(error);
                    tracing::info!(%error, "a choice has no reaction to press");
                    return;
                }
            }
        }
    }

    /// Sends a notice to a room or thread, only once per `key`.
    pub(super) async fn send_notice(
        &self,
        chat: &str,
        text: &str,
        key: &str,
    ) -> Result<(), SendError> {
        let (room, thread) = room_of(chat)?;
        let mut content = text_content("m.notice", &RichText::plain(text));
        if let Some(relation) = relation(thread, None) {
            content.insert("m.relates_to".to_owned(), relation);
        }
        self.keep_pace(Pace::Wait).await?;
        self.put_message(room, &digest(key), content).await?;
        Ok(())
    }

    /// Answers a press. A room has no private messages, so the notice names the person.
    pub(super) async fn tell_presser(
        &self,
        press: &ButtonPress,
        text: &str,
    ) -> Result<(), SendError> {
        let mut parts = press.id.splitn(3, ' ');
        let (Some(chat), Some(card), Some(person)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(SendError::new(SendErrorKind::Refused, "the press is not from Matrix"));
        };
        // Repeated presses by the same person get the same answer only once.
        self.send_notice(chat, &format!("{person}: {text}"), &format!("{card} {person} {text}"))
            .await
    }

    pub(super) async fn show_typing(&self, chat: &str) -> Result<(), SendError> {
        let (room, _) = room_of(chat)?;
        let bot = self.identity().await.map_err(|error| {
            let not_sent = SendError::new(SendErrorKind::NotSent, error.message);
            SendError { retry_after: error.retry_after, ..not_sent }
        })?;
        let request = ApiRequest::new(Method::PUT, &["rooms", room, "typing", &bot.id]);
        let time = u64::try_from(TYPING_TIME.as_millis()).unwrap_or(u64::MAX);
        self.api.call(&request, &json!({"typing": true, "timeout": time})).await?;
        Ok(())
    }

    pub(super) async fn upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let (room, thread) = room_of(chat)?;
        let bytes = read_outgoing_file(file, "Matrix", MAX_FILE_BYTES).await?;
        let size = bytes.len();
        let (kind, media_type) = kind_of(&file.name);
        let request = ApiRequest::at(Method::POST, &["_matrix", "media", "v3", "upload"]);
        let request = request.with("filename", &*file.name).wait(UPLOAD_TIME);
        let stored = match self.api.upload(&request, media_type, bytes).await {
            // Nobody sees the file before a message names it, so nothing has arrived.
            Err(BearerError::Transport(error)) => {
                return Err(SendError { kind: SendErrorKind::NotSent, ..error });
            }
            stored => stored?,
        };
        let Some(address) = stored["content_uri"].as_str() else {
            let message = "the homeserver does not say where the file is";
            return Err(SendError::new(SendErrorKind::NotSent, message));
        };
        let mut content = Map::new();
        content.insert("msgtype".to_owned(), kind.into());
        content.insert("body".to_owned(), (*file.name).into());
        content.insert("filename".to_owned(), (*file.name).into());
        content.insert("url".to_owned(), address.into());
        content.insert("info".to_owned(), json!({"mimetype": media_type, "size": size}));
        content.insert("m.mentions".to_owned(), json!({}));
        if let Some(relation) = relation(thread, None) {
            content.insert("m.relates_to".to_owned(), relation);
        }
        self.keep_pace(Pace::Wait).await?;
        self.put_message(room, &self.transaction(&file.id), content).await
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        let refused = |message: String| SendError::new(SendErrorKind::Refused, message);
        if file.size.is_some_and(|size| size > limit) {
            return Err(refused(format!("{} has more than {limit} bytes", file.name)));
        }
        let address = file.id.strip_prefix("mxc://").and_then(|rest| rest.split_once('/'));
        let is_plain = |text: &str| !text.is_empty() && !text.contains('/') && text != "..";
        let Some((server, id)) = address.filter(|(server, id)| is_plain(server) && is_plain(id))
        else {
            return Err(refused(format!("{} has no Matrix address", file.name)));
        };
        let path = ["_matrix", "client", "v1", "media", "download", server, id];
        let request = ApiRequest::at(Method::GET, &path).wait(UPLOAD_TIME);
        match self.api.download(&request, limit).await {
            // Servers before version 1.11 serve files elsewhere.
            Err(BearerError::Refused(refusal)) if refusal.code == "M_UNRECOGNIZED" => {
                let path = ["_matrix", "media", "v3", "download", server, id];
                let request = ApiRequest::at(Method::GET, &path).wait(UPLOAD_TIME);
                Ok(self.api.download(&request, limit).await?)
            }
            fetched => Ok(fetched?),
        }
    }

    /// Returns the transaction id of a message: the same at every attempt, or a new one if the message has no
    /// id.
    fn transaction(&self, id: &str) -> String {
        match id {
            "" => self.clock.fresh_uuid().simple().to_string(),
            id => digest(id),
        }
    }
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// Returns the error for a message while the homeserver asks for a pause.
fn server_pause(wait: Duration) -> SendError {
    let error = SendError::new(SendErrorKind::NotSent, "the homeserver wants a pause");
    SendError { retry_after: Some(wait), ..error }
}

/// Returns the room and the thread of an address.
fn room_of(chat: &str) -> Result<(&str, Option<&str>), SendError> {
    let (room, thread) = split_thread(chat);
    if room.starts_with('!') && room.len() > 1 {
        return Ok((room, thread));
    }
    let message = format!("`{room}` is not the id of a room in Matrix; it begins with `!`");
    Err(SendError::new(SendErrorKind::Refused, message))
}

/// Returns how a message relates to others: in a thread, or as a reply.
fn relation(thread: Option<&str>, reply_to: Option<&str>) -> Option<Value> {
    let reply = reply_to.or(thread)?;
    let mut relation = json!({"m.in_reply_to": {"event_id": reply}});
    if let Some(thread) = thread {
        relation["rel_type"] = "m.thread".into();
        relation["event_id"] = thread.into();
        // If nothing is answered, the reply is only a fallback for clients without threads.
        relation["is_falling_back"] = reply_to.is_none().into();
    }
    Some(relation)
}

/// Returns the content of a message, including its choices.
fn message_content(message: &OutgoingMessage) -> Map<String, Value> {
    let mut text = message.rich.clone().unwrap_or_else(|| RichText::plain(&message.text));
    push_choices(&mut text, &message.buttons);
    let mut content = text_content("m.text", &text);
    if !message.buttons.is_empty() {
        content.insert(CHOICES.to_owned(), encode_choices(&message.buttons));
    }
    content
}

/// Returns the content of a message with this text. It mentions nobody.
pub(super) fn text_content(kind: &str, text: &RichText) -> Map<String, Value> {
    let mut content = Map::new();
    content.insert("msgtype".to_owned(), kind.into());
    content.insert("body".to_owned(), text.visible_text().into());
    if !is_plain(text) {
        content.insert("format".to_owned(), "org.matrix.custom.html".into());
        content.insert("formatted_body".to_owned(), to_html(text).into());
    }
    content.insert("m.mentions".to_owned(), json!({}));
    content
}

/// Returns the message type for a file, and its media type.
fn kind_of(name: &str) -> (&'static str, &'static str) {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" => ("m.image", "image/png"),
        "jpg" | "jpeg" => ("m.image", "image/jpeg"),
        "gif" => ("m.image", "image/gif"),
        "webp" => ("m.image", "image/webp"),
        "txt" | "md" | "log" => ("m.file", "text/plain"),
        "pdf" => ("m.file", "application/pdf"),
        _ => ("m.file", "application/octet-stream"),
    }
}
