//! Sends and edits messages, and answers presses, within Slack's rates. If Slack refuses the blocks of a
//! message, it is sent as plain text.

use std::time::Duration;

use angelia_core::ports::{
    ButtonPress, OutgoingMessage, RichText, SendError, SendErrorKind, SentMessage, split_thread,
};
use serde_json::{Map, Value, json};

use super::{
    adapter::Slack,
    blocks::{plain_blocks, to_blocks},
    decode::split_press,
    mrkdwn::{escape, escape_start},
    web_api::WebApiError,
};
use crate::chat::send_budget::{Pace, SendBudget, SendRate, too_early};

pub(super) const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A little over a second, because messages may arrive closer together than they were sent.
const CHANNEL_RATES: [SendRate; 1] = [SendRate { count: 1, period: Duration::from_millis(1100) }];

/// The longest text of a new message and of an edit, in bytes after escaping. The blocks have the whole
/// text; this one is for notifications and for clients without blocks.
const MAX_TEXT: usize = 39_000;
const MAX_EDITED_TEXT: usize = 4000;

/// The rates of the methods, which apply to the whole workspace.
#[derive(Debug)]
pub(super) struct SlackBudgets {
    posts: SendBudget,
    updates: SendBudget,
    /// Previews leave room for the edits that must arrive.
    previews: SendBudget,
    pub(super) stream_starts: SendBudget,
    pub(super) stream_appends: SendBudget,
    pub(super) stream_stops: SendBudget,
}

impl SlackBudgets {
    pub(super) fn new() -> Self {
        let per_minute = |count| SendBudget::new(SendRate { count, period: MINUTE });
        Self {
            posts: per_minute(240),
            updates: per_minute(48),
            previews: per_minute(30),
            stream_starts: per_minute(18),
            stream_appends: per_minute(90),
            stream_stops: per_minute(18),
        }
    }
}

/// The destination of a message.
pub(super) struct MessagePlace<'a> {
    pub(super) channel: &'a str,
    pub(super) thread: Option<&'a str>,
}

impl<'a> MessagePlace<'a> {
    pub(super) fn read(chat: &'a str, reply_to: Option<&'a str>) -> Result<Self, SendError> {
        let (channel, thread) = split_thread(chat);
        if channel.is_empty() || !channel.chars().all(|c| c.is_ascii_alphanumeric()) {
            let message = format!("`{channel}` is not the id of a channel in Slack");
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        let is_time = |ts: &&str| ts.chars().all(|c| c.is_ascii_digit() || c == '.');
        Ok(Self { channel, thread: thread.or(reply_to).filter(is_time) })
    }

    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("channel".to_owned(), self.channel.into());
        if let Some(thread) = self.thread {
            fields.insert("thread_ts".to_owned(), thread.into());
        }
        fields
    }
}

impl Slack {
    pub(super) async fn post(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let target = MessagePlace::read(chat, message.reply_to.as_deref())?;
        self.wait_to_post(&target).await;
        let mut fields = target.fields();
        fields.insert("unfurl_links".to_owned(), false.into());
        fields.insert("unfurl_media".to_owned(), false.into());
        fields.insert("text".to_owned(), escape_start(&message.text, MAX_TEXT).into());
        let mut formatted = fields.clone();
        formatted.insert("blocks".to_owned(), blocks_of(message).into());
        let sent = match self.api.call("chat.postMessage", &Value::Object(formatted)).await {
            Err(WebApiError::Refused(refusal)) if refusal.is_about_blocks() => {
                tracing::info!("Slack refused the blocks of a text; it goes as plain text");
                // Without blocks, Slack shows the text itself, which must not be parsed.
                fields.insert("mrkdwn".to_owned(), false.into());
                if !message.buttons.is_empty() {
                    let blocks = plain_blocks(&message.text, &message.buttons);
                    fields.insert("blocks".to_owned(), blocks.into());
                }
                self.wait_to_post(&target).await;
                self.api.call("chat.postMessage", &Value::Object(fields)).await?
            }
            outcome => outcome?,
        };
        Ok(SentMessage { message_id: sent["ts"].as_str().map(Into::into) })
    }

    pub(super) async fn update(
        &self,
        chat: &str,
        sent: &SentMessage,
        new: &OutgoingMessage,
        pace: Pace,
    ) -> Result<(), SendError> {
        let target = MessagePlace::read(chat, None)?;
        let ts = message_id(sent)?;
        self.keep_update_pace(&target, pace).await?;
        let text = escape_start(&new.text, MAX_EDITED_TEXT);
        let fields =
            json!({"channel": target.channel, "ts": ts, "text": text, "blocks": blocks_of(new)});
        match self.api.call("chat.update", &fields).await {
            Ok(_) => Ok(()),
            Err(WebApiError::Refused(refusal)) if refusal.code == "streaming_state_conflict" => {
                // An earlier process left this stream open.
                self.stop_stream(&target, ts, &[]).await?;
                self.keep_update_pace(&target, Pace::Wait).await?;
                Ok(self.api.call("chat.update", &fields).await.map(drop)?)
            }
            Err(WebApiError::Refused(refusal)) if refusal.is_about_blocks() => {
                self.update_plainly(&target, ts, new).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Edits a message whose blocks were refused, if its text alone can be shown.
    async fn update_plainly(
        &self,
        target: &MessagePlace<'_>,
        ts: &str,
        new: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let text = escape(&new.text);
        if text.len() > MAX_EDITED_TEXT {
            let message = "the text is too long for an edit without blocks";
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        tracing::info!("Slack refused the blocks of an edit; it goes as plain text");
        let blocks = match new.buttons.as_slice() {
            [] => Vec::new(),
            buttons => plain_blocks(&new.text, buttons),
        };
        self.keep_update_pace(target, Pace::Wait).await?;
        let fields = json!({"channel": target.channel, "ts": ts, "text": text, "blocks": blocks});
        Ok(self.api.call("chat.update", &fields).await.map(drop)?)
    }

    /// Sends a text that only the person who pressed a button sees.
    pub(super) async fn tell_presser(
        &self,
        press: &ButtonPress,
        text: &str,
    ) -> Result<(), SendError> {
        let Some((chat, user)) = split_press(&press.id) else {
            return Err(SendError::new(SendErrorKind::Refused, "the press does not name its chat"));
        };
        let mut fields = MessagePlace::read(chat, None)?.fields();
        fields.insert("user".to_owned(), user.into());
        fields.insert("text".to_owned(), escape_start(text, MAX_EDITED_TEXT).into());
        Ok(self.api.call("chat.postEphemeral", &Value::Object(fields)).await.map(drop)?)
    }

    pub(super) async fn wait_to_post(&self, target: &MessagePlace<'_>) {
        self.budgets.posts.wait(target.channel, &CHANNEL_RATES).await;
    }

    async fn keep_update_pace(
        &self,
        target: &MessagePlace<'_>,
        pace: Pace,
    ) -> Result<(), SendError> {
        let SlackBudgets { updates, previews, .. } = &self.budgets;
        match pace {
            Pace::Wait => updates.wait(target.channel, &[]).await,
            Pace::Preview => {
                let has_room = previews.try_take(target.channel, &CHANNEL_RATES)
                    && updates.try_take(target.channel, &[]);
                if !has_room {
                    return Err(too_early(SECOND));
                }
            }
        }
        Ok(())
    }
}

fn blocks_of(message: &OutgoingMessage) -> Vec<Value> {
    match &message.rich {
        Some(rich) => to_blocks(rich, &message.buttons),
        None => to_blocks(&RichText::plain(&message.text), &message.buttons),
    }
}

pub(super) fn message_id(sent: &SentMessage) -> Result<&str, SendError> {
    let id = sent.message_id.as_deref();
    id.ok_or_else(|| SendError::new(SendErrorKind::Refused, "the message has no id"))
}
