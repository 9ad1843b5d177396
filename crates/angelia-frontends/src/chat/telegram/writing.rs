//! Sends messages, edits, drafts and files within Telegram's rates. If Telegram refuses the formatting of
//! a text, it is sent as plain text.

use std::{sync::atomic::Ordering, time::Duration};

use angelia_core::ports::{
    Button, InboundFile, OutgoingFile, OutgoingMessage, RichText, SendError, SendErrorKind,
    SentMessage, split_thread,
};
use serde_json::{Map, Value, json};

use super::{
    adapter::{Telegram, is_group},
    bot_api::ApiError,
    html::to_html,
};
use crate::chat::{
    multipart::encode_form,
    outgoing_file::read_outgoing_file,
    send_budget::{Pace, SendRate, too_early},
};

const SECOND: Duration = Duration::from_secs(1);
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 30, period: SECOND };
/// A little over a second, because messages may arrive closer together than they were sent.
const CHAT_RATES: [SendRate; 1] = [SendRate { count: 1, period: Duration::from_millis(1100) }];
const GROUP_RATES: [SendRate; 2] =
    [CHAT_RATES[0], SendRate { count: 20, period: Duration::from_mins(1) }];
/// Previews leave room for the group's messages.
const GROUP_PREVIEW_RATES: [SendRate; 1] = [SendRate { count: 10, period: Duration::from_mins(1) }];

/// Buttons with labels up to this length share a row.
const WIDE_LABEL: usize = 20;
const BUTTONS_PER_ROW: usize = 3;

/// Larger pictures are sent as documents.
const MAX_PHOTO_BYTES: usize = 10 << 20;
const MAX_FILE_BYTES: u64 = 50 << 20;

impl Telegram {
    /// Returns the fields that name a chat and its topic.
    pub(super) fn target(&self, chat: &str) -> Result<Map<String, Value>, SendError> {
        let (chat, thread) = split_thread(chat);
        let mut fields = Map::new();
        let id: Value = match chat.parse::<i64>() {
            Ok(id) => self.moved_chats.lock().get(&id).copied().unwrap_or(id).into(),
            Err(_) if chat.starts_with('@') => chat.into(),
            Err(_) => {
                let message = format!("`{chat}` is not the id of a chat in Telegram");
                return Err(SendError::new(SendErrorKind::Refused, message));
            }
        };
        fields.insert("chat_id".to_owned(), id);
        // The topic "General" must not be named.
        if let Some(thread) = thread.and_then(|thread| thread.parse::<i64>().ok())
            && thread != 1
        {
            fields.insert("message_thread_id".to_owned(), thread.into());
        }
        Ok(fields)
    }

    async fn keep_pace(&self, chat: &str, pace: Pace) -> Result<(), SendError> {
        match pace {
            Pace::Wait => self.wait_for_budget(chat).await,
            Pace::Preview => self.take_preview(chat)?,
        }
        Ok(())
    }

    async fn wait_for_budget(&self, chat: &str) {
        self.budget.wait(split_thread(chat).0, rates_of(chat)).await;
    }

    /// Returns an error if a preview would come too early. It does not wait, because the next
    /// preview is newer anyway.
    fn take_preview(&self, chat: &str) -> Result<(), SendError> {
        let chat_id = split_thread(chat).0;
        let has_room = self.draft_budget.try_take(chat_id, preview_rates_of(chat))
            && self.budget.try_take(chat_id, rates_of(chat));
        if has_room { Ok(()) } else { Err(too_early(SECOND)) }
    }

    /// Sends or edits a message, as plain text if the formatted one is refused. The caller has already
    /// waited for the budget.
    async fn write(
        &self,
        method: &str,
        chat: &str,
        message: &OutgoingMessage,
        extra: Value,
    ) -> Result<Value, ApiError> {
        let mut fields = self.target(chat).map_err(ApiError::Transport)?;
        if let Value::Object(extra) = extra {
            fields.extend(extra);
        }
        fields.insert("link_preview_options".to_owned(), json!({"is_disabled": true}));
        let keyboard = json!({"inline_keyboard": keyboard(&message.buttons)});
        if !message.buttons.is_empty() || method == "editMessageText" {
            fields.insert("reply_markup".to_owned(), keyboard);
        }
        let mut formatted = fields.clone();
        if let Some(rich) = &message.rich {
            formatted.insert("text".to_owned(), to_html(rich).into());
            formatted.insert("parse_mode".to_owned(), "HTML".into());
        } else {
            formatted.insert("text".to_owned(), (*message.text).into());
        }
        let refusal = match self.api.call(method, &Value::Object(formatted)).await {
            Err(ApiError::Refused(refusal)) => refusal,
            outcome => return outcome,
        };
        if message.rich.is_some() && refusal.is_about_formatting() {
            tracing::info!("Telegram refused the formatting of a text; it goes as plain text");
            fields.insert("text".to_owned(), (*message.text).into());
        } else if let (Some(new), Some(old)) = (refusal.moved_to(), fields["chat_id"].as_i64()) {
            tracing::warn!(
                "the Telegram group {old} is now {new}; please change its id in config.yaml"
            );
            self.moved_chats.lock().insert(old, new);
            fields.insert("chat_id".to_owned(), new.into());
            fields.insert("text".to_owned(), (*message.text).into());
        } else {
            return Err(ApiError::Refused(refusal));
        }
        self.wait_for_budget(chat).await;
        self.api.call(method, &Value::Object(fields)).await
    }

    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
        pace: Pace,
    ) -> Result<SentMessage, SendError> {
        self.keep_pace(chat, pace).await?;
        let reply = message.reply_to.as_deref().and_then(|id| id.parse::<i64>().ok());
        let extra = reply.map_or_else(|| json!({}), |id| {
            json!({"reply_parameters": {"message_id": id, "allow_sending_without_reply": true}})
        });
        let sent = self.write("sendMessage", chat, message, extra).await?;
        Ok(sent_message(&sent))
    }

    pub(super) async fn edit_message(
        &self,
        chat: &str,
        sent: &SentMessage,
        new: &OutgoingMessage,
        pace: Pace,
    ) -> Result<(), SendError> {
        self.keep_pace(chat, pace).await?;
        let id = sent.message_id.as_deref().and_then(|id| id.parse::<i64>().ok());
        let Some(id) = id else {
            return Err(SendError::new(SendErrorKind::Refused, "the message has no id"));
        };
        match self.write("editMessageText", chat, new, json!({"message_id": id})).await {
            Ok(_) => Ok(()),
            Err(ApiError::Refused(refusal)) if refusal.is_not_modified() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn send_draft(
        &self,
        chat: &str,
        draft: u64,
        text: &RichText,
    ) -> Result<(), SendError> {
        // A draft is not a message, so the answer does not wait for it.
        if !self.draft_budget.try_take(split_thread(chat).0, &CHAT_RATES) {
            return Err(too_early(SECOND));
        }
        let mut fields = self.target(chat)?;
        // Draft ids must be positive and fit into 53 bits.
        fields.insert("draft_id".to_owned(), ((draft >> 12) | 1).into());
        fields.insert("text".to_owned(), to_html(text).into());
        fields.insert("parse_mode".to_owned(), "HTML".into());
        fields.insert("can_stop".to_owned(), true.into());
        match self.api.call("sendMessageDraft", &Value::Object(fields)).await {
            Ok(_) => Ok(()),
            Err(error) => {
                if let ApiError::Refused(refusal) = &error
                    && refusal.is_unknown_method()
                {
                    self.has_no_drafts.store(true, Ordering::Relaxed);
                }
                Err(error.into())
            }
        }
    }

    pub(super) async fn upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let bytes = read_outgoing_file(file, "Telegram", MAX_FILE_BYTES).await?;
        let is_photo = [".png", ".jpg", ".jpeg"].iter().any(|ending| file.name.ends_with(ending))
            && bytes.len() <= MAX_PHOTO_BYTES;
        let (method, field) =
            if is_photo { ("sendPhoto", "photo") } else { ("sendDocument", "document") };
        let fields = self.target(chat)?;
        let fields: Vec<(&str, String)> = fields
            .iter()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name.as_str(), text)
            })
            .collect();
        let boundary = format!("angelia-{}", self.clock.fresh_uuid().simple());
        let (content_type, body) = encode_form(&boundary, &fields, (field, &file.name, &bytes));
        self.wait_for_budget(chat).await;
        let sent = self.api.upload(method, &content_type, body).await?;
        Ok(sent_message(&sent))
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        if file.size.is_some_and(|size| size > limit) {
            let message = format!("{} has more than {limit} bytes", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        let found = self.api.call("getFile", &json!({"file_id": &*file.id})).await?;
        let Some(path) = found["file_path"].as_str() else {
            return Err(SendError::new(
                SendErrorKind::Refused,
                "Telegram has no path for the file",
            ));
        };
        self.api.download(path, limit).await
    }
}

fn preview_rates_of(chat: &str) -> &'static [SendRate] {
    if is_group(chat) { &GROUP_PREVIEW_RATES } else { &CHAT_RATES }
}

fn rates_of(chat: &str) -> &'static [SendRate] {
    if is_group(chat) { &GROUP_RATES } else { &CHAT_RATES }
}

fn keyboard(buttons: &[Button]) -> Vec<Vec<Value>> {
    let is_wide = buttons.iter().any(|button| button.label.chars().count() > WIDE_LABEL);
    let per_row = if is_wide { 1 } else { BUTTONS_PER_ROW };
    let button = |one: &Button| json!({"text": &*one.label, "callback_data": &*one.value});
    buttons.chunks(per_row).map(|row| row.iter().map(button).collect()).collect()
}

fn sent_message(answer: &Value) -> SentMessage {
    let id = answer["message_id"].as_i64();
    SentMessage { message_id: id.map(|id| id.to_string().into()) }
}
