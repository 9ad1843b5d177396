//! Shows an answer while the agent writes it: in threads as a Slack stream, elsewhere as a message that is
//! edited. A stream can only grow, and Slack seals it after some minutes; from then on its message is
//! edited. In the end the stream becomes the answer: it is completed, and edited if its text differs.

use std::{sync::atomic::Ordering, time::Duration};

use angelia_core::ports::{OutgoingMessage, RichText, SendError, SentMessage, split_thread};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    adapter::Slack,
    decode::split_sender,
    stream_text::StreamText,
    web_api::WebApiError,
    writing::{MessagePlace, SECOND, message_id},
};
use crate::chat::send_budget::{Pace, SendRate, too_early};

/// Slack seals a stream about five minutes after it begins.
const STREAM_LIFETIME: Duration = Duration::from_mins(4);

/// The longest text of a stream, in characters.
const MAX_STREAM: usize = 11_500;

const CHANNEL_RATES: [SendRate; 1] = [SendRate { count: 1, period: Duration::from_millis(900) }];

/// How long streams of turns that never ended are remembered.
const MEMORY: Duration = Duration::from_hours(2);

/// The only task of a stream: the running tool.
const TASK: &str = "tool";

/// A message that shows an answer in progress.
#[derive(Clone, Debug)]
pub(super) struct OpenStream {
    begun: Instant,
    /// The text so far, or `None` if the message is edited instead.
    written: Option<String>,
    task: Option<String>,
}

/// How a new text relates to what a stream shows.
enum Growth {
    /// The stream lacks only this text.
    By(String),
    /// The text that the stream shows has changed.
    Differs,
}

impl OpenStream {
    fn new(written: Option<String>, task: Option<String>) -> Self {
        Self { begun: Instant::now(), written, task }
    }

    fn growth(&self, text: &str, may_be_shorter: bool) -> Growth {
        let Some(written) = &self.written else { return Growth::Differs };
        match text.strip_prefix(written.as_str()) {
            Some(more) if text.chars().count() <= MAX_STREAM => Growth::By(more.to_owned()),
            None if may_be_shorter && written.starts_with(text) => Growth::By(String::new()),
            _ => Growth::Differs,
        }
    }

    /// Returns the chunk about the running tool, if it changed.
    fn task_chunk(&self, task: Option<&str>) -> Option<Value> {
        if self.task.as_deref() == task {
            return None;
        }
        let (title, status) = match (task, self.task.as_deref()) {
            (Some(title), _) => (title, "in_progress"),
            (None, Some(title)) => (title, "complete"),
            (None, None) => return None,
        };
        Some(json!({"type": "task_update", "id": TASK, "title": title, "status": status}))
    }
}

impl Slack {
    /// Returns whether an answer in this chat can be a stream: it must be in a thread and for a known
    /// person.
    pub(super) fn has_streams(&self, chat: &str) -> bool {
        split_thread(chat).1.is_some()
            && !self.has_no_streams.load(Ordering::Relaxed)
            && self.recipients.lock().contains_key(chat)
    }

    pub(super) async fn begin(
        &self,
        chat: &str,
        first: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let recipient = self.recipients.lock().get(chat).cloned();
        let bot = self.known_bot();
        if let (Some(recipient), Some(bot), true) = (recipient, bot, self.has_streams(chat)) {
            let (team, user) = split_sender(&recipient, &bot);
            match self.start_stream(chat, first, team, user).await {
                Err(WebApiError::Refused(refusal)) if !refusal.is_limited() => {
                    tracing::info!("Slack refused a stream ({}); it is edits", refusal.code);
                    if refusal.is_unknown_method() {
                        self.has_no_streams.store(true, Ordering::Relaxed);
                    }
                    self.recipients.lock().remove(chat);
                }
                outcome => return Ok(outcome?),
            }
        }
        let sent = self.post(chat, first).await?;
        if let Some(id) = &sent.message_id {
            self.keep_stream(id, OpenStream::new(None, None));
        }
        Ok(sent)
    }

    async fn start_stream(
        &self,
        chat: &str,
        first: &OutgoingMessage,
        team: &str,
        user: &str,
    ) -> Result<SentMessage, WebApiError> {
        let target =
            MessagePlace::read(chat, first.reply_to.as_deref()).map_err(WebApiError::Transport)?;
        let (text, task) = split_message(first);
        let text = StreamText::settled(&text).markdown;
        let nothing = OpenStream::new(Some(String::new()), None);
        let mut chunks: Vec<Value> = nothing.task_chunk(task.as_deref()).into_iter().collect();
        // A text that is already too long continues with edits.
        let text = Some(text).filter(|text| text.chars().count() <= MAX_STREAM).unwrap_or_default();
        chunks.extend(text_chunk(&text));
        let starts = &self.budgets.stream_starts;
        if chunks.is_empty() || !starts.try_take(target.channel, &[]) {
            return Err(WebApiError::Transport(too_early(SECOND)));
        }
        let mut fields = target.fields();
        fields.insert("recipient_team_id".to_owned(), team.into());
        fields.insert("recipient_user_id".to_owned(), user.into());
        fields.insert("chunks".to_owned(), chunks.into());
        let begun = self.api.call("chat.startStream", &Value::Object(fields)).await?;
        let id = begun["ts"].as_str();
        if let Some(id) = id {
            self.keep_stream(id, OpenStream::new(Some(text), task));
        }
        Ok(SentMessage { message_id: id.map(Into::into) })
    }

    pub(super) async fn go_on(
        &self,
        chat: &str,
        begun: &SentMessage,
        so_far: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = message_id(begun)?;
        let stream = self.streams.lock().get(id).cloned();
        let Some(stream) = stream.filter(|stream| stream.written.is_some()) else {
            return self.update(chat, begun, so_far, Pace::Preview).await;
        };
        let target = MessagePlace::read(chat, None)?;
        let (text, task) = split_message(so_far);
        let text = StreamText::settled(&text).markdown;
        let is_old = stream.begun.elapsed() > STREAM_LIFETIME;
        let Growth::By(more) = stream.growth(&text, !is_old) else {
            return self.turn_into_edits(chat, begun, so_far).await;
        };
        if is_old {
            return self.turn_into_edits(chat, begun, so_far).await;
        }
        let mut chunks: Vec<Value> = stream.task_chunk(task.as_deref()).into_iter().collect();
        chunks.extend(text_chunk(&more));
        if chunks.is_empty() {
            return Ok(());
        }
        if !self.budgets.stream_appends.try_take(target.channel, &CHANNEL_RATES) {
            return Err(too_early(SECOND));
        }
        let fields = json!({"channel": target.channel, "ts": id, "chunks": chunks});
        match self.api.call("chat.appendStream", &fields).await {
            Ok(_) => {
                let written = stream.written.map(|written| written + &more);
                let grown = OpenStream { written, task, ..stream };
                self.streams.lock().insert(id.to_owned(), grown);
                Ok(())
            }
            Err(WebApiError::Refused(refusal)) if refusal.is_ended_stream() => {
                self.mark_edited(id);
                self.update(chat, begun, so_far, Pace::Preview).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a stream whose text must change, and continues with edits.
    async fn turn_into_edits(
        &self,
        chat: &str,
        begun: &SentMessage,
        so_far: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = message_id(begun)?;
        self.stop_stream(&MessagePlace::read(chat, None)?, id, &[]).await?;
        self.mark_edited(id);
        self.update(chat, begun, so_far, Pace::Preview).await
    }

    pub(super) async fn end(
        &self,
        chat: &str,
        begun: &SentMessage,
        last: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = message_id(begun)?;
        let target = MessagePlace::read(chat, None)?;
        let stream = self.streams.lock().get(id).cloned();
        let is_edited = stream.as_ref().is_some_and(|stream| stream.written.is_none());
        let mut is_shown = false;
        let mut is_exact = false;
        if !is_edited && target.thread.is_some() {
            let rich = last.rich.clone().unwrap_or_else(|| RichText::plain(&last.text));
            let text = StreamText::whole(&rich);
            is_exact = text.is_exact && last.buttons.is_empty();
            let mut chunks = Vec::new();
            if let Some(stream) = &stream {
                chunks.extend(stream.task_chunk(None));
                if let Growth::By(more) = stream.growth(&text.markdown, false) {
                    chunks.extend(text_chunk(&more));
                    is_shown = true;
                }
            }
            is_shown &= self.stop_stream(&target, id, &chunks).await?;
            self.mark_edited(id);
        }
        if is_shown && is_exact {
            self.streams.lock().remove(id);
            return Ok(());
        }
        let edited = self.update(chat, begun, last, Pace::Wait).await;
        match edited {
            Ok(()) => {}
            // The words are shown; only their formatting is missing.
            Err(error) if is_shown => tracing::info!("a stream was not edited: {error}"),
            Err(error) => return Err(error),
        }
        self.streams.lock().remove(id);
        Ok(())
    }

    /// Ends a stream. Returns `false` if the message was no longer one.
    pub(super) async fn stop_stream(
        &self,
        target: &MessagePlace<'_>,
        id: &str,
        chunks: &[Value],
    ) -> Result<bool, SendError> {
        self.budgets.stream_stops.wait(target.channel, &[]).await;
        let mut fields = json!({"channel": target.channel, "ts": id});
        if !chunks.is_empty() {
            fields["chunks"] = chunks.into();
        }
        match self.api.call("chat.stopStream", &fields).await {
            Ok(_) => Ok(true),
            Err(WebApiError::Refused(refusal)) if !refusal.is_limited() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn keep_stream(&self, id: &str, stream: OpenStream) {
        let mut streams = self.streams.lock();
        streams.retain(|_, stream| stream.begun.elapsed() < MEMORY);
        streams.insert(id.to_owned(), stream);
    }

    fn mark_edited(&self, id: &str) {
        self.keep_stream(id, OpenStream::new(None, None));
    }
}

/// Splits a message into its text and the line about the running tool.
fn split_message(message: &OutgoingMessage) -> (RichText, Option<String>) {
    let mut text = message.rich.clone().unwrap_or_else(|| RichText::plain(&message.text));
    let kept = text.blocks.len().saturating_sub(message.passing_blocks);
    let passing = RichText { blocks: text.blocks.split_off(kept) };
    (text, Some(passing.visible_text()).filter(|line| !line.is_empty()))
}

fn text_chunk(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"type": "markdown_text", "text": text}))
}
