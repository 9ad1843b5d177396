//! Sends messages, edits and files within the platform's rates. Each message has an id by which the
//! platform recognises repetitions. A refused card is sent again without formatting.

use std::time::Duration;

use angelia_core::ports::{
    InboundFile, OutgoingFile, OutgoingMessage, SendError, SendErrorKind, SentMessage, split_thread,
};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    adapter::Feishu,
    card::{CardText, message_card},
    lookups::plain_id,
    open_api::{ApiRequest, OpenApiError, SERVER},
};
use crate::chat::{
    multipart::encode_form, outgoing_file::read_outgoing_file, send_budget::SendRate,
};

/// The platform allows fifty per second and a thousand per minute.
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 16, period: Duration::from_secs(1) };
/// Five per second. The period is longer, because messages may arrive closer together than they
/// were sent.
pub(super) const CHAT_RATES: [SendRate; 1] =
    [SendRate { count: 5, period: Duration::from_millis(1100) }];

const MAX_IMAGE_BYTES: usize = 10 << 20;
const MAX_FILE_BYTES: u64 = 30 << 20;
const IMAGE_ENDINGS: [&str; 6] = [".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"];

/// A message in the platform's form.
#[derive(Clone, Debug)]
pub(super) struct NewMessage<'a> {
    pub(super) kind: &'a str,
    /// JSON in a string.
    pub(super) content: String,
    /// The same for every attempt.
    pub(super) id: &'a str,
    pub(super) reply_to: Option<&'a str>,
}

impl Feishu {
    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        self.budget.wait(split_thread(chat).0, &CHAT_RATES).await;
        self.send_card(chat, message).await
    }

    /// Like [`Feishu::send_message`], but the caller has already taken the budget.
    pub(super) async fn send_card(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let is_direct = self.lookups.is_direct(split_thread(chat).0);
        let new = |text: CardText| NewMessage {
            kind: "interactive",
            content: message_card(message, is_direct, text),
            id: &message.id,
            reply_to: message.reply_to.as_deref(),
        };
        let id = match self.post(chat, new(CardText::Markdown)).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_content() => {
                tracing::info!("Feishu refused the formatting of a text; it goes as plain text");
                self.budget.wait(split_thread(chat).0, &CHAT_RATES).await;
                self.post(chat, new(CardText::Plain)).await?
            }
            outcome => outcome?,
        };
        Ok(SentMessage { message_id: Some(id.into()) })
    }

    /// Replaces the card of a message. The caller has already taken the budget.
    pub(super) async fn replace_card(
        &self,
        chat: &str,
        id: &str,
        new: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let is_direct = self.lookups.is_direct(split_thread(chat).0);
        let path = format!("im/v1/messages/{}", require_plain(id)?);
        let request = |text: CardText| {
            let content = message_card(new, is_direct, text);
            ApiRequest::new(Method::PATCH, path.clone()).json(&json!({"content": content}))
        };
        match self.api.call(&request(CardText::Markdown)).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_content() => {
                self.card_budget.wait(id, &CHAT_RATES).await;
                self.api.call(&request(CardText::Plain)).await?;
            }
            outcome => drop(outcome?),
        }
        Ok(())
    }

    /// Answers a press with a message next to its card, because the acknowledgement has already
    /// been sent.
    pub(super) async fn answer_card(
        &self,
        card: &str,
        press: &str,
        text: &str,
    ) -> Result<(), SendError> {
        let card = require_plain(card)?;
        let content = json!({"text": text}).to_string();
        let body = json!({
            "msg_type": "text", "content": content, "uuid": repetition_key(&format!("press-{press}")),
        });
        self.budget.wait(card, &CHAT_RATES).await;
        self.api
            .call(&ApiRequest::post(format!("im/v1/messages/{card}/reply")).json(&body))
            .await?;
        Ok(())
    }

    /// Sends a message to a chat, as a reply if it answers a message or belongs to a thread, and
    /// returns its id.
    pub(super) async fn post(
        &self,
        chat: &str,
        message: NewMessage<'_>,
    ) -> Result<String, OpenApiError> {
        let (chat, thread) = split_thread(chat);
        let uuid = repetition_key(message.id);
        let body = json!({"msg_type": message.kind, "content": message.content, "uuid": uuid});
        // A thread accepts only replies. Its first message is always there to reply to.
        let targets = [message.reply_to, thread];
        for target in targets.into_iter().flatten().filter_map(plain_id) {
            let mut body = body.clone();
            body["reply_in_thread"] = thread.is_some().into();
            let request = ApiRequest::post(format!("im/v1/messages/{target}/reply")).json(&body);
            match self.api.call(&request).await {
                Err(OpenApiError::Refused(refusal)) if refusal.is_about_reply() => {}
                outcome => return message_id(&outcome?),
            }
        }
        let mut body = body;
        body["receive_id"] = chat.into();
        let request = ApiRequest::post("im/v1/messages").query("receive_id_type", id_type(chat));
        message_id(&self.api.call(&request.json(&body)).await?)
    }

    pub(super) async fn upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let bytes = read_outgoing_file(file, SERVER, MAX_FILE_BYTES).await?;
        let name = file.name.to_ascii_lowercase();
        let is_image = IMAGE_ENDINGS.iter().any(|ending| name.ends_with(ending))
            && bytes.len() <= MAX_IMAGE_BYTES;
        let boundary = format!("angelia-{}", self.clock.fresh_uuid().simple());
        let (kind, path, fields, field) = if is_image {
            let fields = vec![("image_type", "message".to_owned())];
            ("image", "im/v1/images", fields, "image")
        } else {
            let fields = vec![
                ("file_type", file_type(&name).to_owned()),
                ("file_name", file.name.to_string()),
            ];
            ("file", "im/v1/files", fields, "file")
        };
        let (content_type, form) = encode_form(&boundary, &fields, (field, &file.name, &bytes));
        let answer = self.api.call(&ApiRequest::post(path).form(content_type, form)).await?;
        let key_name = format!("{kind}_key");
        let Some(key) = answer["data"][&key_name].as_str() else {
            let message = format!("{SERVER} gave no key for {}", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        };
        let content = json!({key_name: key}).to_string();
        self.budget.wait(split_thread(chat).0, &CHAT_RATES).await;
        let new = NewMessage { kind, content, id: &file.id, reply_to: None };
        Ok(SentMessage { message_id: Some(self.post(chat, new).await?.into()) })
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        let parts: Vec<&str> = file.id.split('/').filter_map(plain_id).collect();
        let [message, key, resource] = parts.as_slice() else {
            return Err(SendError::new(SendErrorKind::Refused, "the file has no id"));
        };
        let request = ApiRequest::get(format!("im/v1/messages/{message}/resources/{key}"));
        self.api.download(&request.query("type", *resource), limit).await
    }
}

/// Returns the type that the platform needs for previews of some files.
fn file_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "pdf" => "pdf",
        "doc" | "docx" => "doc",
        "xls" | "xlsx" => "xls",
        "ppt" | "pptx" => "ppt",
        _ => "stream",
    }
}

/// Returns the type of an id, which its prefix tells.
fn id_type(chat: &str) -> &'static str {
    match chat.split_once('_').map_or("", |(kind, _)| kind) {
        "oc" => "chat_id",
        "ou" => "open_id",
        "on" => "union_id",
        _ if chat.contains('@') => "email",
        _ => "user_id",
    }
}

/// Derives the key by which the platform recognises repetitions for an hour. It may have at most
/// fifty characters.
fn repetition_key(id: &str) -> String {
    hex::encode(&Sha256::digest(id.as_bytes())[..16])
}

pub(super) fn require_plain(id: &str) -> Result<&str, SendError> {
    let refused = || SendError::new(SendErrorKind::Refused, "the message has no id");
    plain_id(id).ok_or_else(refused)
}

fn message_id(answer: &Value) -> Result<String, OpenApiError> {
    let id = answer["data"]["message_id"].as_str();
    let missing = || {
        let message = format!("{SERVER} did not say the id of the message");
        OpenApiError::Transport(SendError::new(SendErrorKind::Unknown, message))
    };
    id.map(str::to_owned).ok_or_else(missing)
}
