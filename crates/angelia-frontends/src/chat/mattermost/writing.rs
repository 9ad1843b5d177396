//! Sends messages, edits, reactions and files within the default rates of servers. Nothing that an agent writes
//! ever pings anybody.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{
    BlockKind, ButtonPress, InboundFile, OutgoingFile, OutgoingMessage, RichText, SendError,
    SendErrorKind, SentMessage, split_thread,
};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::{adapter::Mattermost, decode::Post};
use crate::chat::{
    bearer_api::{ApiRequest, BearerError},
    formatting::to_common_markdown,
    multipart::encode_form,
    outgoing_file::read_outgoing_file,
    reaction_choices::{emojis, encode_choices, push_choices},
    send_budget::{Pace, SendRate, too_early},
};

const SECOND: Duration = Duration::from_secs(1);

/// A server with rate limits allows ten requests a second by default.
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 8, period: SECOND };
const CHAT_RATES: [SendRate; 1] = [SendRate { count: 5, period: SECOND }];
const PREVIEW_RATES: [SendRate; 1] = [SendRate { count: 1, period: SECOND }];

/// The property of a post that stores the values of its choices.
const CHOICES: &str = "angelia_choices";

/// The names of the emojis for choices.
const EMOJI_NAMES: [&str; 10] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "keycap_ten"];

/// An invisible character that, after an `@`, keeps a name from being a mention.
const ZERO_WIDTH: char = '\u{200b}';

const MAX_FILE_BYTES: u64 = 100 << 20;
const UPLOAD_TIME: Duration = Duration::from_mins(3);

/// How many answers to presses are remembered.
const MAX_PRESS_ANSWERS: usize = 200;

impl Mattermost {
    /// Waits until the chat's rates allow a message. A preview fails instead of waiting, because the next one
    /// is newer anyway.
    async fn keep_pace(&self, channel: &str, pace: Pace) -> Result<(), SendError> {
        match pace {
            Pace::Wait => self.budget.wait(channel, &CHAT_RATES).await,
            Pace::Preview => {
                let has_room = self.preview_budget.try_take(channel, &PREVIEW_RATES)
                    && self.budget.try_take(channel, &CHAT_RATES);
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
        let mut fields = target(chat);
        fields.extend(message_fields(message));
        self.keep_pace(channel, pace).await?;
        let sent = self.create_post(fields).await?;
        self.offer_choices(&sent, message).await;
        Ok(sent)
    }

    async fn create_post(&self, fields: Map<String, Value>) -> Result<SentMessage, SendError> {
        let request = ApiRequest::new(Method::POST, &["posts"]);
        let sent = self.api.call(&request, &Value::Object(fields)).await?;
        Ok(SentMessage { message_id: sent["id"].as_str().map(Into::into) })
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
        let fields = Value::Object(message_fields(new));
        self.keep_pace(channel, pace).await?;
        let request = ApiRequest::new(Method::PUT, &["posts", id, "patch"]);
        self.api.call(&request, &fields).await?;
        self.offer_choices(sent, new).await;
        Ok(())
    }

    /// Reacts with the emojis of a message's choices, so that people only need to click them. The text explains
    /// them, so people can add a missing one by hand.
    async fn offer_choices(&self, sent: &SentMessage, message: &OutgoingMessage) {
        let Some(id) = sent.message_id.as_deref() else { return };
        let count = emojis(&message.buttons).count();
        if count == 0 {
            return;
        }
        let Ok(bot) = self.identity().await else { return };
        for name in EMOJI_NAMES.iter().take(count) {
            let reaction = json!({"user_id": &*bot.id, "post_id": id, "emoji_name": name});
            self.budget.wait(id, &CHAT_RATES).await;
            let request = ApiRequest::new(Method::POST, &["reactions"]);
            if let Err(error) = self.api.call(&request, &reaction).await {
                let error = SendError::from(error);
                tracing::info!(%error, "a choice has no reaction to press");
                return;
            }
        }
    }

    /// Answers a press. Bots cannot send a message that only one person sees, so the answer is a post. Repeated
    /// presses get the same answer only once.
    pub(super) async fn tell_presser(
        &self,
        press: &ButtonPress,
        text: &str,
    ) -> Result<(), SendError> {
        let chat = press.id.split(' ').next().unwrap_or_default();
        let channel = channel_of(chat)?;
        let key = format!("{} {text}", press.id);
        {
            let mut answers = self.press_answers.lock();
            if answers.contains(&key) {
                return Ok(());
            }
            if answers.len() >= MAX_PRESS_ANSWERS {
                answers.pop_front();
            }
            answers.push_back(key);
        }
        let mut fields = target(chat);
        fields.insert("message".to_owned(), to_markdown(&RichText::plain(text)).into());
        self.keep_pace(channel, Pace::Wait).await?;
        self.create_post(fields).await?;
        Ok(())
    }

    pub(super) async fn show_typing(&self, chat: &str) -> Result<(), SendError> {
        let channel = channel_of(chat)?;
        let thread = split_thread(chat).1.unwrap_or_default();
        let request = ApiRequest::new(Method::POST, &["users", "me", "typing"]);
        self.api.call(&request, &json!({"channel_id": channel, "parent_id": thread})).await?;
        Ok(())
    }

    pub(super) async fn upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let channel = channel_of(chat)?;
        let bytes = read_outgoing_file(file, "Mattermost", MAX_FILE_BYTES).await?;
        let boundary = format!("angelia-{}", self.clock.fresh_uuid().simple());
        let fields = [("channel_id", channel.to_owned())];
        let (content_type, body) = encode_form(&boundary, &fields, ("files", &file.name, &bytes));
        let request = ApiRequest::new(Method::POST, &["files"]).wait(UPLOAD_TIME);
        self.keep_pace(channel, Pace::Wait).await?;
        let stored = match self.api.upload(&request, &content_type, body).await {
            // Nobody sees the file before a post names it, so nothing has arrived.
            Err(BearerError::Transport(error)) => {
                return Err(SendError { kind: SendErrorKind::NotSent, ..error });
            }
            stored => stored?,
        };
        let Some(id) = stored["file_infos"][0]["id"].as_str() else {
            let message = "Mattermost returned no id for the file";
            return Err(SendError::new(SendErrorKind::NotSent, message));
        };
        let mut fields = target(chat);
        fields.insert("message".to_owned(), "".into());
        fields.insert("file_ids".to_owned(), json!([id]));
        self.keep_pace(channel, Pace::Wait).await?;
        self.create_post(fields).await
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        if file.size.is_some_and(|size| size > limit) {
            let message = format!("{} has more than {limit} bytes", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        if !is_id(&file.id) {
            let message = format!("{} has no Mattermost id", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        let request = ApiRequest::get(&["files", &file.id]).wait(UPLOAD_TIME);
        Ok(self.api.download(&request, limit).await?)
    }
}

/// Returns the text as Mattermost Markdown, without mentions.
pub fn to_markdown(text: &RichText) -> String {
    let mut text = text.clone();
    for block in &mut text.blocks {
        // Code cannot mention anybody, and people may copy it, so it stays unchanged.
        if matches!(block.kind, BlockKind::Code { .. }) {
            continue;
        }
        for span in block.spans.iter_mut().filter(|span| !span.style.code) {
            span.text = without_mentions(&span.text);
        }
    }
    to_common_markdown(&text)
}

fn without_mentions(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        let is_inside = kept.chars().next_back().is_some_and(char::is_alphanumeric);
        kept.push(c);
        if c == '@' && !is_inside {
            kept.push(ZERO_WIDTH);
        }
    }
    kept
}

/// Returns the meaning of a reaction to a post. Only the bot's own posts have choices.
pub(super) fn read_choice(post: &Post, bot: &str, emoji: &str) -> Option<Arc<str>> {
    let index = EMOJI_NAMES.iter().position(|name| *name == emoji)?;
    let choice = post.props[CHOICES].get(index).filter(|_| *post.user_id == *bot)?;
    choice.as_str().map(Into::into)
}

/// Returns the fields that messages and edits share.
fn message_fields(message: &OutgoingMessage) -> Map<String, Value> {
    let mut text = message.rich.clone().unwrap_or_else(|| RichText::plain(&message.text));
    push_choices(&mut text, &message.buttons);
    let mut fields = Map::new();
    fields.insert("message".to_owned(), to_markdown(&text).into());
    if !message.buttons.is_empty() {
        let choices = encode_choices(&message.buttons);
        fields.insert("props".to_owned(), json!({CHOICES: choices}));
    }
    fields
}

/// Returns the fields that name a channel and a thread.
fn target(chat: &str) -> Map<String, Value> {
    let (channel, thread) = split_thread(chat);
    let mut fields = Map::new();
    fields.insert("channel_id".to_owned(), channel.into());
    if let Some(thread) = thread {
        fields.insert("root_id".to_owned(), thread.into());
    }
    fields
}

/// Returns the channel of an address.
fn channel_of(chat: &str) -> Result<&str, SendError> {
    let (channel, thread) = split_thread(chat);
    if is_id(channel) && thread.is_none_or(is_id) {
        return Ok(channel);
    }
    let message = format!("`{chat}` is not the id of a channel in Mattermost");
    Err(SendError::new(SendErrorKind::Refused, message))
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}
