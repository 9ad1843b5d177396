//! Messages, streams and cards. A stream answers a message with its `req_id`, while that is possible;
//! everything else is a separate message.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{OutgoingMessage, RichText, SendError, SendErrorKind, SentMessage};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    adapter::Wecom,
    card,
    frame::{RESPOND, SEND, SERVER, UPDATE_CARD},
    replies::StreamId,
};
use crate::chat::{
    formatting::{Escapes, write_markdown},
    send_budget::SendRate,
};

/// The platform's limits for one chat.
const CHAT_RATES: [SendRate; 2] = [
    SendRate { count: 30, period: Duration::from_secs(61) },
    SendRate { count: 1000, period: Duration::from_mins(61) },
];
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 20, period: Duration::from_secs(1) };

/// Returns a text as the platform's Markdown.
pub fn to_markdown(text: &RichText) -> String {
    write_markdown(text, Escapes::Backslashes)
}

/// Returns the length of a text as the platform counts it: its bytes in a frame.
pub(super) fn written_length(text: &RichText) -> usize {
    serde_json::to_string(&to_markdown(text)).map_or(0, |json| json.len())
}

fn content_of(message: &OutgoingMessage) -> String {
    message.rich.as_ref().map_or_else(|| message.text.to_string(), to_markdown)
}

fn refused(message: &str) -> SendError {
    SendError::new(SendErrorKind::Refused, message)
}

impl Wecom {
    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        if !message.buttons.is_empty() {
            return self.send_card(chat, message).await;
        }
        let answers = message.reply_to.as_deref();
        let way = answers.and_then(|id| self.replies.lock().take(chat, Some(id), self.clock.now()));
        if let Some(req_id) = way {
            // A stream that ends with its first frame. It does not count against the limits of unprompted
            // messages.
            let body = stream_body(&stream_name(&message.id), &content_of(message), true);
            let session = self.session_to_send().await?;
            match session.request_under(&req_id, RESPOND, &body).await {
                Err(error) if error.kind == SendErrorKind::Refused => {
                    tracing::info!("an answer goes as a message of its own: {error}");
                }
                outcome => return outcome.map(|_| SentMessage::default()),
            }
        }
        self.push_markdown(chat, &content_of(message)).await?;
        // The platform returns no message id.
        Ok(SentMessage::default())
    }

    async fn push_markdown(&self, chat: &str, content: &str) -> Result<(), SendError> {
        self.push(chat, json!({"msgtype": "markdown", "markdown": {"content": content}})).await
    }

    /// Sends a message that answers nothing.
    pub(super) async fn push(&self, chat: &str, mut body: Value) -> Result<(), SendError> {
        self.budget.wait(chat, &CHAT_RATES).await;
        body["chatid"] = chat.into();
        self.session_to_send().await?.request(SEND, &body).await.map(drop)
    }

    /// Sends a card with buttons. Text that does not fit on it is sent before it.
    async fn send_card(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        if !card::fits(&message.text) {
            self.push_markdown(chat, &content_of(message)).await?;
        }
        let task = card::task_id(&message.id);
        let card = card::ask(&task, message);
        self.push(chat, json!({"msgtype": "template_card", "template_card": card})).await?;
        Ok(SentMessage { message_id: Some(task.into()) })
    }

    /// Changes a card. The platform allows this only right after a press.
    pub(super) async fn edit_card(
        &self,
        sent: &SentMessage,
        new: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let task = sent.message_id.as_deref().unwrap_or_default();
        let way = self.replies.lock().press_of(task, self.clock.now());
        let Some(req_id) = way else {
            return Err(refused("a card can only be changed right after a press"));
        };
        let card =
            if new.buttons.is_empty() { card::tell(task, new) } else { card::ask(task, new) };
        let body = json!({"response_type": "update_template_card", "template_card": card});
        let session = self.session_to_send().await?;
        session.request_under(&req_id, UPDATE_CARD, &body).await.map(drop)
    }

    pub(super) async fn begin_stream_of(
        &self,
        chat: &str,
        first: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let now = self.clock.now();
        let session = self.session_to_send().await?;
        let way = self.replies.lock().take(chat, first.reply_to.as_deref(), now);
        let Some(req_id) = way else {
            return Err(refused("the message can no longer be answered with a stream"));
        };
        let id =
            StreamId { req_id: req_id.to_string(), stream: stream_name(&first.id), begun: now };
        let body = stream_body(&id.stream, &content_of(first), false);
        session.request_under(&req_id, RESPOND, &body).await?;
        Ok(SentMessage { message_id: Some(id.to_message_id()) })
    }

    /// Replaces the text of a stream. Checks the deadline itself, because the server may accept frames for an
    /// ended stream.
    pub(super) async fn write_stream(
        &self,
        begun: &SentMessage,
        message: &OutgoingMessage,
        is_last: bool,
    ) -> Result<(), SendError> {
        let message_id = begun.message_id.as_deref().unwrap_or_default();
        let Some(id) = StreamId::parse(message_id) else {
            return Err(refused("this message is not a stream"));
        };
        let content = content_of(message);
        if is_last && self.replies.lock().has_ended(&id.stream, &content) {
            return Ok(());
        }
        if !id.is_open(self.clock.now()) {
            return Err(refused("the stream is over"));
        }
        let body = stream_body(&id.stream, &content, is_last);
        let session = self.session_to_send().await?;
        session.request_under(&id.req_id, RESPOND, &body).await?;
        if is_last {
            self.replies.lock().keep_end(Arc::from(id.stream), content);
        }
        Ok(())
    }

    /// Sends a text to the person who pressed a button, because cards have no place that only this
    /// person sees.
    pub(super) async fn answer_presser(&self, user: &str, text: &str) -> Result<(), SendError> {
        if user.is_empty() {
            return Err(refused(&format!("{SERVER} did not say who pressed the button")));
        }
        self.push_markdown(user, &to_markdown(&RichText::plain(text))).await
    }
}

/// Returns the id of a stream, which is the same for every attempt.
fn stream_name(message: &str) -> String {
    hex::encode(&Sha256::digest(message.as_bytes())[..12])
}

fn stream_body(id: &str, content: &str, is_last: bool) -> Value {
    let stream = json!({"id": id, "finish": is_last, "content": content});
    json!({"msgtype": "stream", "stream": stream})
}
