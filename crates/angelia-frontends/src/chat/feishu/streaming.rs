//! A card that grows while the agent writes the answer. Each request that changes it carries a sequence number
//! that must increase, even across a restart of this process. The number is therefore the time since the card
//! began, in milliseconds; the card's id contains its start time.

use std::{sync::atomic::Ordering, time::Duration};

use angelia_core::ports::{OutgoingMessage, SendError, SendErrorKind, SentMessage, split_thread};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    adapter::Feishu,
    card::{CardText, TEXT_ELEMENT, ended_settings, markdown_of, message_card, streaming_card},
    open_api::{ApiRequest, OpenApiError, SERVER},
    writing::{CHAT_RATES, NewMessage, require_plain},
};
use crate::chat::send_budget::{SendRate, too_early};

/// Ten per second.
const CARD_RATES: [SendRate; 1] = [SendRate { count: 10, period: Duration::from_millis(1100) }];

/// The pause after a preview that came too early.
const PREVIEW_PAUSE: Duration = Duration::from_millis(500);

/// How often the message with the card is sent while it is unclear whether it arrived.
const BEGIN_ATTEMPTS: usize = 3;

/// Added to a sequence number that was too old, which happens when the clock was set back.
const SEQUENCE_JUMP: i64 = 3_600_000;

const MAX_KNOWN_CARDS: usize = 1000;

/// The id of a message of ours: `MESSAGE`, or `MESSAGE/CARD/BEGIN` if it has a growing card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentId {
    pub(super) message: String,
    pub(super) card: Option<GrowingCard>,
}

/// What this process knows about a growing card.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CardState {
    sequence: i64,
    /// Whether the platform has ended its growth.
    is_closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrowingCard {
    id: String,
    /// Milliseconds since 1970.
    begun_at: i64,
}

impl SentId {
    pub(super) fn parse(sent: &SentMessage) -> Result<Self, SendError> {
        let text = sent.message_id.as_deref().unwrap_or_default();
        let parts: Vec<&str> = text.split('/').collect();
        let card = match parts.as_slice() {
            [_] => None,
            [_, card, begun] => {
                let begun_at = begun.parse().unwrap_or_default();
                Some(GrowingCard { id: require_plain(card)?.to_owned(), begun_at })
            }
            _ => return Err(SendError::new(SendErrorKind::Refused, "the message has no id")),
        };
        let message = require_plain(parts.first().copied().unwrap_or_default())?.to_owned();
        Ok(Self { message, card })
    }

    fn write(&self) -> SentMessage {
        let text = match &self.card {
            Some(card) => format!("{}/{}/{}", self.message, card.id, card.begun_at),
            None => self.message.clone(),
        };
        SentMessage { message_id: Some(text.into()) }
    }
}

impl Feishu {
    pub(super) async fn begin_card(
        &self,
        chat: &str,
        first: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        if !self.budget.try_take(split_thread(chat).0, &CHAT_RATES) {
            return Err(too_early(PREVIEW_PAUSE));
        }
        if self.has_no_streams.load(Ordering::Relaxed) {
            return self.send_card(chat, first).await;
        }
        let begun_at = self.clock.now().as_millisecond();
        let body = json!({"type": "card_json", "data": streaming_card(first)});
        let made = match self.api.call(&ApiRequest::post("cardkit/v1/cards").json(&body)).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_missing_scope() => {
                tracing::warn!(
                    "answers are edited instead of streamed; the app lacks the scope cardkit:card:write"
                );
                self.has_no_streams.store(true, Ordering::Relaxed);
                return self.send_card(chat, first).await;
            }
            outcome => outcome?,
        };
        let Some(card) = made["data"]["card_id"].as_str() else {
            let message = format!("{SERVER} did not say the id of the card");
            return Err(SendError::new(SendErrorKind::Refused, message));
        };
        let content = json!({"type": "card", "data": {"card_id": card}}).to_string();
        let new = NewMessage {
            kind: "interactive",
            content,
            id: &first.id,
            reply_to: first.reply_to.as_deref(),
        };
        let message = self.post_surely(chat, new).await?;
        let card = Some(GrowingCard { id: card.to_owned(), begun_at });
        Ok(SentId { message, card }.write())
    }

    /// Sends a message, and repeats it while it is unclear whether it arrived: otherwise a card could stay open
    /// forever. The platform recognises repetitions.
    async fn post_surely(&self, chat: &str, new: NewMessage<'_>) -> Result<String, SendError> {
        for _ in 1..BEGIN_ATTEMPTS {
            match self.post(chat, new.clone()).await.map_err(SendError::from) {
                Err(error) if error.kind == SendErrorKind::Unknown => {}
                outcome => return outcome,
            }
        }
        Ok(self.post(chat, new).await?)
    }

    pub(super) async fn grow_card(
        &self,
        chat: &str,
        begun: &SentMessage,
        so_far: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = SentId::parse(begun)?;
        let Some(card) = &id.card else {
            if !self.card_budget.try_take(&id.message, &CHAT_RATES) {
                return Err(too_early(PREVIEW_PAUSE));
            }
            return self.replace_card(chat, &id.message, so_far).await;
        };
        if !self.card_budget.try_take(&card.id, &CARD_RATES) {
            return Err(too_early(PREVIEW_PAUSE));
        }
        // The platform ends a stream after a quiet period, but the card can still be replaced.
        if !self.put_text(card, so_far).await? {
            self.put_card(card, so_far, CardText::Markdown).await?;
        }
        Ok(())
    }

    /// Writes the last text and ends the growth. If the message has no growing card, replaces its card.
    /// Idempotent.
    pub(super) async fn end_card(
        &self,
        chat: &str,
        begun: &SentMessage,
        last: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = SentId::parse(begun)?;
        let Some(card) = &id.card else {
            self.card_budget.wait(&id.message, &CHAT_RATES).await;
            return self.replace_card(chat, &id.message, last).await;
        };
        self.card_budget.wait(&card.id, &CARD_RATES).await;
        let is_written = match self.put_text(card, last).await {
            Ok(is_written) => is_written,
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_content() => false,
            Err(error) => return Err(error.into()),
        };
        self.card_budget.wait(&card.id, &CARD_RATES).await;
        if is_written {
            let path = format!("cardkit/v1/cards/{}/settings", card.id);
            let settings = json!({"settings": ended_settings(last)});
            match self.change_card(card, Method::PATCH, path, settings).await {
                Err(OpenApiError::Refused(refusal)) if refusal.is_closed_stream() => {}
                outcome => drop(outcome?),
            }
            return Ok(());
        }
        match self.put_card(card, last, CardText::Markdown).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_content() => {
                self.card_budget.wait(&card.id, &CARD_RATES).await;
                self.put_card(card, last, CardText::Plain).await?;
            }
            outcome => drop(outcome?),
        }
        Ok(())
    }

    /// Replaces the text of a card. Returns whether the card still grows.
    async fn put_text(
        &self,
        card: &GrowingCard,
        text: &OutgoingMessage,
    ) -> Result<bool, OpenApiError> {
        if self.cards.lock().get(&card.id).is_some_and(|known| known.is_closed) {
            return Ok(false);
        }
        let path = format!("cardkit/v1/cards/{}/elements/{TEXT_ELEMENT}/content", card.id);
        let content = json!({"content": markdown_of(text)});
        match self.change_card(card, Method::PUT, path, content).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_closed_stream() => {
                self.cards.lock().entry(card.id.clone()).or_default().is_closed = true;
                Ok(false)
            }
            outcome => outcome.map(|_| true),
        }
    }

    /// Replaces the whole card, which ends its growth.
    async fn put_card(
        &self,
        card: &GrowingCard,
        message: &OutgoingMessage,
        text: CardText,
    ) -> Result<Value, OpenApiError> {
        let new = json!({"card": {"type": "card_json", "data": message_card(message, None, text)}});
        let path = format!("cardkit/v1/cards/{}", card.id);
        self.change_card(card, Method::PUT, path, new).await
    }

    /// Sends a request with the next sequence number.
    async fn change_card(
        &self,
        card: &GrowingCard,
        method: Method,
        path: String,
        mut body: Value,
    ) -> Result<Value, OpenApiError> {
        body["sequence"] = self.next_sequence(card, 1).into();
        let request = ApiRequest::new(method, path);
        match self.api.call(&request.clone().json(&body)).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_old_sequence() => {
                body["sequence"] = self.next_sequence(card, SEQUENCE_JUMP).into();
                self.api.call(&request.json(&body)).await
            }
            outcome => outcome,
        }
    }

    /// Returns a number that exceeds all earlier ones by at least `step`.
    fn next_sequence(&self, card: &GrowingCard, step: i64) -> i64 {
        let elapsed = self.clock.now().as_millisecond().saturating_sub(card.begun_at);
        let mut known = self.cards.lock();
        if known.len() >= MAX_KNOWN_CARDS && !known.contains_key(&card.id) {
            known.clear();
        }
        let CardState { sequence, .. } = known.entry(card.id.clone()).or_default();
        *sequence = (*sequence + step).max(elapsed).clamp(1, i64::from(i32::MAX));
        *sequence
    }
}
