//! Shows a turn in its chat: a preview while it runs, a card for each approval, and finally its answer, sent
//! once through the delivery ledger. The event that started the turn is finished when the ledger has the
//! answer.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use angelia_core::{
    engine::{PARKED_NOTICE, TurnWatch},
    model::{Approval, ApprovalId, EventKind, Outcome, Resolution, TurnEvent, TurnId, TurnState},
    ports::{
        ApprovalCard, Channel, DeliveryFormat, OutgoingMessage, RecordKind, SendError,
        SendErrorKind, SentMessage,
    },
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{
    approval_card::{FULL_ROOM, card_buttons, card_text, decided_words},
    chat_host::{ChatContext, markdown_message},
    live_answer::LiveAnswer,
    session_files::ChatFiles,
};
use crate::{chat::DeliveryRequest, unattended_turn::result_text};

/// How often we try to show or update a card.
const CARD_ATTEMPTS: u32 = 4;
const CARD_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The pause before the next attempt to use the store.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// A turn whose answer goes to a chat.
pub(super) struct FollowedTurn {
    pub(super) turn: TurnId,
    pub(super) address: Arc<str>,
    pub(super) platform: Arc<str>,
    pub(super) chat: Arc<str>,
    pub(super) reply_to: Option<Arc<str>>,
    /// The position of the event that started the turn.
    pub(super) position: i64,
}

/// Follows a turn to its end and sends its answer. Returns early if this process leaves the turn to the next
/// one, which will find the event in the store.
pub(super) async fn follow_turn(
    context: Arc<ChatContext>,
    followed: FollowedTurn,
    watch: TurnWatch,
) {
    let Some(adapter) = context.adapter(&followed.platform).cloned() else { return };
    let view =
        TurnView { context: Arc::clone(&context), adapter, followed, approvals: HashMap::new() };
    let turn = view.followed.turn;
    view.run(watch).await;
    context.close_turn(turn);
}

struct TurnView {
    context: Arc<ChatContext>,
    adapter: Arc<dyn Channel>,
    followed: FollowedTurn,
    /// The approvals that the turn requested.
    approvals: HashMap<ApprovalId, Approval>,
}

impl TurnView {
    async fn run(mut self, mut watch: TurnWatch) {
        let FollowedTurn { turn, chat, reply_to, .. } = &self.followed;
        let preview = self.context.parts.chats.preview(*turn).await.ok().flatten();
        let preview = preview.map(|id| SentMessage { message_id: Some(id) });
        let mut live = LiveAnswer::new(
            Arc::clone(&self.adapter),
            Arc::clone(chat),
            *turn,
            reply_to.clone(),
            preview,
        );
        let mut ticks = interval(live.interval());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome = loop {
            tokio::select! {
                biased;
                batch = watch.next() => match batch {
                    Ok(Some(batch)) => {
                        for event in batch.iter() {
                            live.apply(event);
                            self.show_event(event).await;
                        }
                        if let Some(outcome) = batch.outcome() {
                            break outcome.clone();
                        }
                    }
                    // The next process continues with this turn.
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(%error, "a turn of {} cannot be followed", self.followed.address);
                        sleep(STORE_RETRY_DELAY).await;
                    }
                },
                _ = ticks.tick() => {
                    if let Some(message) = live.refresh().await {
                        self.keep_preview(&message).await;
                    }
                }
            }
        };
        self.end(&outcome, live.preview).await;
    }

    async fn show_event(&mut self, event: &TurnEvent) {
        match &event.kind {
            EventKind::Approval(approval) => {
                self.approvals.insert(approval.id, approval.clone());
                self.send_card(approval).await;
            }
            EventKind::Resolved(resolution) => {
                if let Some(approval) = self.approvals.remove(&resolution.id) {
                    self.update_card(&approval, resolution).await;
                }
            }
            EventKind::Notice(notice) if *notice.code == *PARKED_NOTICE => {
                let id = format!("parked-{}-{}", self.followed.turn, event.seq);
                self.context.say(&self.followed.address, id, &notice.text).await;
            }
            _ => {}
        }
    }

    /// Sends the turn's answer and files, and finishes its event.
    async fn end(&self, outcome: &Outcome, preview: Option<SentMessage>) {
        let turn = self.followed.turn;
        let is_superseded = {
            let mut superseded = self.context.superseded.lock();
            let before = superseded.len();
            superseded.retain(|one| *one != turn);
            superseded.len() < before
        };
        let mut text = result_text(outcome);
        if text.is_empty() {
            "(no answer)".clone_into(&mut text);
        }
        if !is_superseded {
            self.wait_for_earlier_answers().await;
            let answer = DeliveryRequest {
                reply_to: self.followed.reply_to.clone(),
                replaces: preview.and_then(|sent| sent.message_id),
                ..DeliveryRequest::markdown(format!("answer-{turn}"), &self.followed.address, text)
            };
            self.deliver(answer).await;
            self.send_files().await;
        }
        let position = self.followed.position;
        while let Err(error) = self.context.parts.chats.finish_event(position).await {
            tracing::warn!(%error, "the end of a chat event waits for the store");
            sleep(STORE_RETRY_DELAY).await;
        }
    }

    /// Waits until the finished earlier turns of this chat have sent their answers. A slow preview request
    /// could otherwise delay their answers until after this one.
    async fn wait_for_earlier_answers(&self) {
        loop {
            let mut closed = pin!(self.context.turn_closed.notified());
            closed.as_mut().enable();
            if !self.has_unanswered_turn_before().await {
                return;
            }
            closed.await;
        }
    }

    async fn has_unanswered_turn_before(&self) -> bool {
        let open = self.context.turns_of(&self.followed.address);
        for turn in open.into_iter().take_while(|turn| *turn < self.followed.turn) {
            let state = self.context.parts.engine.turn(turn).await.map(|turn| turn.state);
            if matches!(state, Ok(TurnState::Finished { .. })) {
                return true;
            }
        }
        false
    }

    /// Puts a delivery into the ledger.
    async fn deliver(&self, request: DeliveryRequest) {
        let what = request.id.clone();
        if let Err(error) = self.context.parts.delivery_queue.deliver(request).await {
            tracing::warn!("{what} was not delivered to {}: {error}", self.followed.address);
        }
    }

    async fn send_files(&self) {
        if !self.adapter.capabilities().files {
            return;
        }
        let turn = self.followed.turn;
        let Ok(record) = self.context.parts.engine.turn(turn).await else { return };
        let files = ChatFiles::of(&self.context.parts.sessions_dir, record.session);
        match files.take_output(turn).await {
            Ok(files) => {
                for file in files {
                    let id = format!("file-{turn}-{}", file.name);
                    let format = DeliveryFormat::File(file.path);
                    let request = DeliveryRequest::markdown(id, &self.followed.address, file.name);
                    self.deliver(DeliveryRequest { format, ..request }).await;
                }
            }
            Err(error) => tracing::warn!(%error, "the files of a turn cannot be read"),
        }
    }

    async fn keep_preview(&self, message: &str) {
        let now = self.context.parts.clock.now();
        let turn = self.followed.turn;
        if let Err(error) = self.context.parts.chats.put_preview(turn, message, now).await {
            tracing::warn!(%error, "the preview of an answer is not recorded");
        }
    }

    /// Shows an approval with its buttons, once.
    async fn send_card(&self, approval: &Approval) {
        let chats = &self.context.parts.chats;
        if !matches!(chats.card(approval.id).await, Ok(None)) {
            return;
        }
        let settings = self.context.settings(&self.followed.platform);
        let can_decide = settings.is_some_and(|settings| !settings.approvers.is_empty());
        let short = self.short_id(approval).await;
        let message = OutgoingMessage {
            id: format!("approval-{}", approval.id).into(),
            buttons: if can_decide { card_buttons(approval, &short) } else { Vec::new() },
            reply_to: self.followed.reply_to.clone(),
            ..markdown_message(&card_text(approval, &short, can_decide, self.card_room()))
        };
        let sent = retry(|| self.adapter.send(&self.followed.chat, &message)).await;
        let message_id = match sent {
            Ok(SentMessage { message_id: Some(id) }) => id,
            Ok(SentMessage { message_id: None }) => return,
            Err(error) => {
                tracing::warn!("an approval was not shown in {}: {error}", self.followed.address);
                return;
            }
        };
        let address = Arc::clone(&self.followed.address);
        let card = ApprovalCard { approval: approval.id, address, message_id };
        if let Err(error) = chats.put_card(card, self.context.parts.clock.now()).await {
            tracing::warn!(%error, "the card of an approval is not recorded");
        }
    }

    /// Replaces the buttons of a card with the decision and its author. If the message cannot be
    /// edited, sends a new one.
    async fn update_card(&self, approval: &Approval, resolution: &Resolution) {
        let Ok(Some(card)) = self.context.parts.chats.card(approval.id).await else { return };
        let short = self.short_id(approval).await;
        let decided = format!("**{}**", decided_words(resolution).replace('*', ""));
        let text = card_text(approval, &short, false, self.card_room());
        // Drop the last line, which explains how to decide.
        let text = text.rsplit_once('\n').map_or(text.as_str(), |(text, _)| text);
        let text = format!("{text}\n{decided}");
        let message = OutgoingMessage {
            id: format!("approval-{}", approval.id).into(),
            ..markdown_message(&text)
        };
        let sent = SentMessage { message_id: Some(card.message_id) };
        match retry(|| self.adapter.edit(&self.followed.chat, &sent, &message)).await {
            Ok(()) => {}
            Err(error) if error.kind == SendErrorKind::Refused => {
                tracing::debug!("the card of an approval cannot be changed: {error}");
                let text = format!("{decided} ({} {short})", approval.tool_name);
                let id = format!("decided-{}", approval.id);
                self.context.say(&self.followed.address, id, &text).await;
            }
            Err(error) => tracing::warn!("the card of an approval was not updated: {error}"),
        }
    }

    /// Returns the maximum length of a card's text.
    fn card_room(&self) -> usize {
        self.adapter.capabilities().max_length.map_or(FULL_ROOM, |limit| limit.max)
    }

    async fn short_id(&self, approval: &Approval) -> String {
        let id = approval.id.as_uuid();
        let short = self.context.parts.engine.short_id(RecordKind::Approval, id).await;
        short.unwrap_or_else(|_| approval.id.to_string())
    }
}

/// Retries while the message certainly did not arrive. A message that may have arrived is not
/// repeated.
async fn retry<T, F>(attempt: impl Fn() -> F) -> Result<T, SendError>
where
    F: Future<Output = Result<T, SendError>>,
{
    let mut attempts = 1;
    loop {
        match attempt().await {
            Err(error) if error.kind == SendErrorKind::NotSent && attempts < CARD_ATTEMPTS => {
                sleep(error.retry_after.unwrap_or(CARD_RETRY_DELAY * attempts)).await;
                attempts += 1;
            }
            outcome => return outcome,
        }
    }
}
