//! The preview of an answer while the agent writes it: the latest words, and the running tool. It is updated
//! no more often than the platform allows, and always with the newest text. The final answer either replaces
//! it or arrives as a separate message.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::TurnTranscript,
    model::{EventKind, ToolId, TurnEvent, TurnId},
    ports::{
        BlockKind, Channel, LengthLimit, OutgoingMessage, RichBlock, RichText, SendError,
        SendErrorKind, SentMessage, Span, SpanStyle, StreamMeans,
    },
};
use tokio::time::Instant;

use crate::chat::{
    delivery_parts::rich_message,
    formatting::{parse_markdown, split_to_fit},
};

/// How often the typing indicator is sent while there is no preview to show.
const TYPING_INTERVAL: Duration = Duration::from_secs(4);

/// How long before a draft disappears it is shown again.
const DRAFT_MARGIN: Duration = Duration::from_secs(10);

/// The space reserved for the line about tools.
const TOOL_LINE: usize = 160;

/// Appended to a stream that ends before its answer is complete.
const GOES_ON: &str = "(the answer follows)";

pub(super) struct LiveAnswer {
    adapter: Arc<dyn Channel>,
    chat: Arc<str>,
    turn: TurnId,
    reply_to: Option<Arc<str>>,
    transcript: TurnTranscript,
    /// The running tools, each with its line of text.
    open_tools: Vec<(ToolId, String)>,
    tool_count: usize,
    shown: Option<RichText>,
    /// The message that shows the preview.
    pub(super) preview: Option<SentMessage>,
    next_at: Instant,
    shown_at: Instant,
    begun_at: Instant,
    typing_at: Option<Instant>,
    /// Set when the platform rejects previews.
    is_off: bool,
}

impl LiveAnswer {
    pub(super) fn new(
        adapter: Arc<dyn Channel>,
        chat: Arc<str>,
        turn: TurnId,
        reply_to: Option<Arc<str>>,
        preview: Option<SentMessage>,
    ) -> Self {
        let now = Instant::now();
        Self {
            adapter,
            chat,
            turn,
            reply_to,
            transcript: TurnTranscript::default(),
            open_tools: Vec::new(),
            tool_count: 0,
            shown: None,
            preview,
            next_at: now,
            shown_at: now,
            begun_at: now,
            typing_at: None,
            is_off: false,
        }
    }

    /// Returns how often the preview may change.
    pub(super) fn interval(&self) -> Duration {
        match self.adapter.stream_means(&self.chat) {
            StreamMeans::Edit { interval }
            | StreamMeans::Stream { interval, .. }
            | StreamMeans::Draft { interval, .. } => interval,
            StreamMeans::None => TYPING_INTERVAL,
        }
    }

    pub(super) fn apply(&mut self, event: &TurnEvent) {
        self.transcript.apply(event.seq, &event.kind);
        match &event.kind {
            EventKind::ToolCall(call) => {
                self.tool_count += 1;
                let line =
                    format!("{} {}", call.name, call.title.lines().next().unwrap_or_default());
                self.open_tools.push((call.id.clone(), line));
            }
            EventKind::ToolResult(result) => self.open_tools.retain(|(id, _)| *id != result.id),
            _ => {}
        }
    }

    /// Shows the current text if it is new and an update is due. Returns the id of the preview
    /// message when it has just been created.
    pub(super) async fn refresh(&mut self) -> Option<Arc<str>> {
        let now = Instant::now();
        let text = self.compose();
        let means = self.adapter.stream_means(&self.chat);
        if self.is_off || text.is_empty() || means == StreamMeans::None {
            self.show_typing(now).await;
            return None;
        }
        let expires = match means {
            StreamMeans::Draft { lifetime, .. } => {
                now.duration_since(self.shown_at) + DRAFT_MARGIN > lifetime
            }
            StreamMeans::Stream { lifetime, .. } => {
                if self.preview.is_some() && now.duration_since(self.begun_at) > lifetime {
                    self.end_early(&text).await;
                    return None;
                }
                false
            }
            StreamMeans::Edit { .. } | StreamMeans::None => false,
        };
        let is_new = self.shown.as_ref() != Some(&text);
        if now < self.next_at || !(is_new || expires) {
            return None;
        }
        let had_preview = self.preview.is_some();
        let outcome = match means {
            StreamMeans::Draft { .. } => {
                let draft = self.turn.as_uuid().as_u64_pair().1;
                self.adapter.show_draft(&self.chat, draft, &text).await
            }
            _ => self.write_preview(&text).await,
        };
        match outcome {
            Ok(()) => {
                self.shown = Some(text);
                self.shown_at = Instant::now();
            }
            Err(error) => self.note_failure(&error),
        }
        let sent = self.preview.as_ref().filter(|_| !had_preview)?;
        sent.message_id.clone()
    }

    async fn write_preview(&mut self, text: &RichText) -> Result<(), SendError> {
        let message = OutgoingMessage {
            id: format!("preview-{}", self.turn).into(),
            reply_to: self.reply_to.clone(),
            // The line about the running tool.
            passing_blocks: usize::from(!self.open_tools.is_empty()),
            ..rich_message(text.clone())
        };
        if let Some(sent) = &self.preview {
            return self.adapter.update_stream(&self.chat, sent, &message).await;
        }
        let sent = self.adapter.begin_stream(&self.chat, &message).await?;
        self.begun_at = Instant::now();
        // Without an id, the message cannot be edited into the answer later.
        self.is_off = sent.message_id.is_none();
        self.preview = Some(sent).filter(|sent| sent.message_id.is_some());
        Ok(())
    }

    /// Ends a stream that the platform would soon close. The answer follows as a separate message.
    async fn end_early(&mut self, text: &RichText) {
        self.is_off = true;
        let Some(sent) = self.preview.take() else { return };
        let mut text = text.clone();
        let spans = vec![Span { text: GOES_ON.to_owned(), style: SpanStyle::default() }];
        text.blocks.push(RichBlock { kind: BlockKind::Text, spans, has_gap: true });
        let message =
            OutgoingMessage { id: format!("preview-{}", self.turn).into(), ..rich_message(text) };
        if let Err(error) = self.adapter.end_stream(&self.chat, &sent, &message).await {
            tracing::info!(%error, "a stream was not ended before its time");
        }
    }

    /// Does not retry: the next preview or the answer itself comes soon.
    fn note_failure(&mut self, error: &SendError) {
        match error.kind {
            SendErrorKind::NotSent => {
                let pause = error.retry_after.unwrap_or_else(|| self.interval() * 2);
                self.next_at = Instant::now() + pause;
            }
            SendErrorKind::Refused | SendErrorKind::Unknown => {
                tracing::debug!(%error, "the answer is not shown while it is written");
                self.is_off = true;
            }
        }
    }

    async fn show_typing(&mut self, now: Instant) {
        let is_due = self.typing_at.is_none_or(|at| now >= at + TYPING_INTERVAL);
        if is_due && self.adapter.capabilities().typing {
            self.typing_at = Some(now);
            if let Err(error) = self.adapter.typing(&self.chat).await {
                tracing::debug!(%error, "typing is not shown");
            }
        }
    }

    /// Returns the end of the answer so far and a line about tools.
    fn compose(&self) -> RichText {
        let answer = parse_markdown(&self.transcript.answer());
        let limit = self.adapter.capabilities().max_length;
        let mut text = match limit {
            Some(LengthLimit { max, unit }) => {
                let room = LengthLimit { max: max.saturating_sub(TOOL_LINE * 2), unit };
                let measure = |part: &RichText| self.adapter.written_length(part);
                split_to_fit(&answer, room, &measure).pop().unwrap_or_default()
            }
            None => answer,
        };
        if let Some((_, line)) = self.open_tools.last() {
            let number = match self.tool_count {
                1 => String::new(),
                count => format!(" ({count})"),
            };
            let line: String = line.chars().take(TOOL_LINE).collect();
            let style = SpanStyle { italic: true, ..SpanStyle::default() };
            let spans = vec![Span { text: format!("⚙ {line}{number}"), style }];
            text.blocks.push(RichBlock { kind: BlockKind::Text, spans, has_gap: true });
        }
        text
    }
}
