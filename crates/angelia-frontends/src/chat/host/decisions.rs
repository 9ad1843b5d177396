//! Decides approvals by chat. Only approvers may decide, and the first decision wins, wherever it comes
//! from.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{ApprovalId, AuditAction, AuditActor, Decision, IdPrefix, Verdict},
    ports::{ApprovalFilter, ButtonPress, Page, RecordKind, StoredEvent},
};

use super::{
    access::{Admission, admit},
    approval_card::{decide_by_choice, decide_by_words, decided_words, parse_press},
    chat_host::ChatContext,
};

/// How many open approvals are searched for those of a chat.
const MAX_PENDING: usize = 100;

const NOT_APPROVER: &str = "Only the approvers of this channel decide; you are not one of them.";

/// Handles a button press and acknowledges it.
pub(super) async fn answer_press(context: &ChatContext, stored: &StoredEvent, press: &ButtonPress) {
    let text = decide_press(context, stored, press).await;
    let Some(adapter) = context.adapter(&stored.platform) else { return };
    if let Err(error) = adapter.answer_press(press, &text).await {
        tracing::info!("a press in {} was not answered: {error}", stored.platform);
    }
}

async fn decide_press(context: &ChatContext, stored: &StoredEvent, press: &ButtonPress) -> String {
    // The sender must pass the same check as for a message, and be an approver.
    let admission = admit(context, stored, press.is_direct, true).await;
    if !matches!(admission, Ok(Admission::Admitted)) || !is_approver(context, stored) {
        return NOT_APPROVER.to_owned();
    }
    let Some((id, choice)) = parse_press(&press.value) else {
        return "This button no longer works.".to_owned();
    };
    let record = match context.parts.engine.approval(id).await {
        Ok(record) => record,
        Err(error) => return error.to_string(),
    };
    match decide_by_choice(&record.approval, choice, &decider(stored)) {
        Some(decision) => decide(context, stored, id, decision).await,
        None => "This is not one of the choices.".to_owned(),
    }
}

/// Handles `/approve [ID] [WORDS]` and `/deny [ID] [NOTE]`, and returns the reply.
pub(super) async fn decide_typed(
    context: &ChatContext,
    stored: &StoredEvent,
    allows: bool,
    argument: &str,
) -> String {
    if !is_approver(context, stored) {
        return NOT_APPROVER.to_owned();
    }
    let (id, words) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let id = match find_approval(context, stored, id).await {
        Ok(id) => id,
        Err(text) => return text,
    };
    let record = match context.parts.engine.approval(id).await {
        Ok(record) => record,
        Err(error) => return error.to_string(),
    };
    let by = decider(stored);
    let decision = if allows {
        match decide_by_words(&record.approval, words.trim(), &by) {
            Ok(decision) => decision,
            Err(text) => return text,
        }
    } else {
        let denial = Decision::new(Verdict::Deny, by);
        if words.trim().is_empty() { denial } else { denial.with_note(words.trim()) }
    };
    decide(context, stored, id, decision).await
}

/// Finds an approval by the start of its id, or, without an id, the only one that this chat shows.
async fn find_approval(
    context: &ChatContext,
    stored: &StoredEvent,
    id: &str,
) -> Result<ApprovalId, String> {
    let engine = &context.parts.engine;
    if id.is_empty() {
        let pending = engine.approvals(ApprovalFilter::Pending, Page::first(MAX_PENDING)).await;
        let address = format!("{}:{}", stored.platform, stored.event.chat);
        let mut shown = Vec::new();
        for record in pending.map_err(|error| error.to_string())? {
            let card = context.parts.chats.card(record.approval.id).await;
            if matches!(card, Ok(Some(card)) if *card.address == *address) {
                shown.push(record.approval.id);
            }
        }
        return match shown.as_slice() {
            [] => Err("Nothing is waiting for a decision here.".to_owned()),
            [only] => Ok(*only),
            _ => {
                Err("Several requests are waiting for a decision; add the id of the one you mean."
                    .to_owned())
            }
        };
    }
    let Some(prefix) = IdPrefix::parse(id) else {
        return Err(format!("`{id}` is not the id of an approval."));
    };
    let found = engine.find_ids(RecordKind::Approval, prefix, 2).await;
    match found.map_err(|error| error.to_string())?.as_slice() {
        [] => Err(format!("There is no approval `{id}`.")),
        [only] => Ok(ApprovalId::from_uuid(*only)),
        _ => Err(format!("Several approvals start with `{id}`; write more of it.")),
    }
}

/// Submits a decision and returns the reply.
async fn decide(
    context: &ChatContext,
    stored: &StoredEvent,
    id: ApprovalId,
    decision: Decision,
) -> String {
    let engine = &context.parts.engine;
    let verdict = decision.verdict;
    match engine.decide(id, decision).await {
        Ok(()) => {
            let who = format!("{}:{}", stored.platform, stored.event.sender.id);
            let subject = format!("approval {id}: {}", verdict.as_str());
            let actor = AuditActor::ChatUser(who.into());
            engine.record_audit(actor, AuditAction::Decision, subject).await;
            if verdict.allows() { "Allowed.".to_owned() } else { "Denied.".to_owned() }
        }
        Err(EngineError::NotPending) => match engine.approval(id).await {
            Ok(record) => match &record.resolution {
                Some((resolution, _)) => format!("Already decided: {}.", decided_words(resolution)),
                None => "The turn that asked is over.".to_owned(),
            },
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

/// Stops all running and queued turns of a chat, and returns their number.
pub(super) async fn stop_turn(context: &ChatContext, address: &str) -> usize {
    let mut stopped = 0;
    // Newest first, so that stopping one turn does not start a queued one.
    for turn in context.turns_of(address).into_iter().rev() {
        match context.parts.engine.interrupt(turn, false).await {
            Ok(()) => stopped += 1,
            Err(EngineError::NotRunning) => {}
            Err(error) => tracing::info!(%error, "a turn of {address} could not be stopped"),
        }
    }
    stopped
}

pub(super) fn is_approver(context: &ChatContext, stored: &StoredEvent) -> bool {
    let settings = context.settings(&stored.platform);
    settings.is_some_and(|settings| settings.is_approver(&stored.event.sender.id))
}

/// Returns the name of the person who decides, as all frontends show it.
fn decider(stored: &StoredEvent) -> Arc<str> {
    let sender = &stored.event.sender;
    let name = if sender.name.is_empty() { &sender.id } else { &sender.name };
    format!("{name} ({})", stored.platform).into()
}
