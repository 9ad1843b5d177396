//! Runs the messages of a lane on the lane's session: as a new turn, or as steering input for the
//! lane's own running turn.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::{
        Engine, EngineError, NewSession, RequestKey, SteerOutcome, Submission, SubmittedTurn,
    },
    model::{
        Content, ExternalName, MessageId, SessionRecord, SessionSource, TurnId, TurnOptions,
        TurnOrigin,
    },
    ports::{Page, ProfileRequest, Profiles},
    task::TaskGroup,
};
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{
    lane::{LaneKey, QueuedMessage},
    merge::{PromptItem, merge_prompt, source_line},
    reply::{ReplySender, TurnReply},
};
use crate::{
    mcp::lineage::account_of_session,
    unattended_turn::{StartError, result_text, wait_for_outcome},
};

/// The scope of session names on the bus.
const SESSION_NAME_SCOPE: &str = "bus";

/// How long a message is recognized by its id: as long as the bus keeps it.
const KEY_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// The pauses before the retries after a transient error, such as an agent that is being updated or
/// a full queue.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(4),
];

#[derive(Clone)]
pub(super) struct LaneTurns {
    pub(super) engine: Engine,
    pub(super) profiles: Arc<dyn Profiles>,
    pub(super) replies: ReplySender,
    pub(super) zone: TimeZone,
    pub(super) tasks: TaskGroup,
    /// The working directory for profiles that do not set one.
    pub(super) caller_cwd: Option<PathBuf>,
    pub(super) running: RunningTurns,
}

/// The running turn of each lane.
pub(super) type RunningTurns = Arc<Mutex<HashMap<LaneKey, TurnId>>>;

impl LaneTurns {
    /// Starts a turn for a batch of messages, or steers the running one, with retries.
    pub(super) async fn run(&self, name: &LaneKey, batch: Vec<QueuedMessage>) {
        let mut pauses = RETRY_DELAYS.iter();
        loop {
            let error = match self.start_or_steer(name, &batch).await {
                Ok(StartOutcome::Steered) => {
                    for offer in &batch {
                        offer.report_done().await;
                    }
                    return;
                }
                Ok(StartOutcome::Turn(submitted)) => {
                    self.follow(name, batch, *submitted).await;
                    return;
                }
                Err(StartError::Engine(EngineError::ShuttingDown)) => {
                    if self.engine.wait_until_accepting().await {
                        continue;
                    }
                    // The messages are not acknowledged, so they are delivered again at the next
                    // start.
                    return;
                }
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.is_transient() => {
                    tracing::info!(%error, "a message for {} waits for a retry", name.endpoint);
                    sleep(*pause).await;
                }
                _ => {
                    self.give_up(name, &batch, &error.to_string()).await;
                    return;
                }
            }
        }
    }

    async fn start_or_steer(
        &self,
        name: &LaneKey,
        batch: &[QueuedMessage],
    ) -> Result<StartOutcome, StartError> {
        let session = self.find_or_create_session(name).await?;
        let items: Vec<PromptItem> = batch.iter().map(|offer| offer.item.clone()).collect();
        let mut text = merge_prompt(&items, &self.zone);
        let charged_to = match name.sender_session {
            Some(sender) => Some(account_of_session(&self.engine, sender).await?),
            None => None,
        };
        // No person waits at a terminal for this turn, so `can_ask` stays off.
        let options =
            TurnOptions { can_park: true, charged_to, ..TurnOptions::new(TurnOrigin::Remote) };
        let is_new = batch.iter().all(|offer| !offer.redelivered);
        // Steer only the lane's own turn, because the answer of another lane's turn has another
        // target. Never steer with a redelivered message, because its turn may already exist.
        let running = self.running.lock().get(name).copied();
        if let Some(turn) = running.filter(|_| is_new && self.can_steer(&session.spec.executor)) {
            let input = vec![Content::text(text.clone())];
            match self.engine.steer(turn, input, options.clone()).await {
                Ok(SteerOutcome::Passed) => return Ok(StartOutcome::Steered),
                Ok(SteerOutcome::Queued(submitted)) => {
                    return Ok(StartOutcome::Turn(Box::new(submitted)));
                }
                Err(EngineError::NotRunning | EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.engine.turns(Some(session.id), Page::first(1)).await?.is_empty() {
            text = format!("{}\n\n{text}", source_line(&name.endpoint));
        }
        let key = batch.first().map(|first| request_key(name, &first.id));
        let input = vec![Content::text(text)];
        let new = Submission { key, ..Submission::new(session.id, input, options) };
        let submitted = self.engine.submit_with(new).await?;
        Ok(StartOutcome::Turn(Box::new(submitted)))
    }

    async fn find_or_create_session(&self, lane: &LaneKey) -> Result<SessionRecord, StartError> {
        let name =
            ExternalName { scope: SESSION_NAME_SCOPE.into(), name: lane.session_name().into() };
        if let Some(session) = self.engine.find_by_name(&name).await?
            && let Ok(session) = self.engine.session(session).await
        {
            return Ok(session);
        }
        let wanted = ProfileRequest {
            profile: lane.profile.clone(),
            caller_cwd: self.caller_cwd.clone(),
            ..ProfileRequest::default()
        };
        let spec = self.profiles.resolve(wanted).await.map_err(StartError::Profile)?;
        let new = NewSession {
            spec,
            title: Some(format!("bus: {}", lane.endpoint).into()),
            name: Some(name),
            source: Some(SessionSource::Bus(lane.endpoint.as_str().into())),
        };
        Ok(self.engine.create_session(new).await?)
    }

    /// Follows a turn and sends its reply. The message that started the turn is acknowledged after
    /// the reply has been handed over; the others immediately, because they are in the turn's
    /// record.
    async fn follow(
        &self,
        name: &LaneKey,
        mut batch: Vec<QueuedMessage>,
        submitted: SubmittedTurn,
    ) {
        let answers: Vec<MessageId> = batch.iter().map(|offer| Arc::clone(&offer.id)).collect();
        for offer in batch.drain(1..) {
            offer.report_done().await;
        }
        let Some(first) = batch.pop() else { return };
        self.running.lock().insert(name.clone(), submitted.turn);
        let this = self.clone();
        let name = name.clone();
        self.tasks.spawn_until_stopped(async move {
            let (status, text) = match wait_for_outcome(submitted.watch).await {
                Ok(outcome) => (outcome.status.as_str(), result_text(&outcome)),
                Err(error) => ("failed", format!("(failed: {error})")),
            };
            // By turn, not by lane: a later turn of the lane may have replaced the entry.
            this.running.lock().retain(|_, turn| *turn != submitted.turn);
            let reply = TurnReply {
                id: format!("reply-{}", submitted.turn),
                endpoint: name.endpoint,
                to: name.reply_target,
                in_reply_to: answers,
                status,
                text,
            };
            this.replies.send(reply).await;
            first.report_done().await;
        });
    }

    /// Returns whether the executor can steer. If it cannot, the engine would queue a turn without
    /// a request key, which a redelivered message would not find.
    fn can_steer(&self, executor: &str) -> bool {
        let mut executors = self.engine.executors().iter();
        executors.any(|one| one.name() == executor && one.capabilities().steer)
    }

    /// Tells the sender that its messages failed, and moves them to the dead letters.
    async fn give_up(&self, name: &LaneKey, batch: &[QueuedMessage], why: &str) {
        let Some(first) = batch.first() else { return };
        let reply = TurnReply {
            id: format!("reply-{}", first.id),
            endpoint: name.endpoint.clone(),
            to: name.reply_target.clone(),
            in_reply_to: batch.iter().map(|offer| Arc::clone(&offer.id)).collect(),
            status: "failed",
            text: format!("(failed: {why})"),
        };
        self.replies.send(reply).await;
        for offer in batch {
            offer.report_refused(why).await;
        }
    }
}

enum StartOutcome {
    Turn(Box<SubmittedTurn>),
    Steered,
}

/// Derives the request key from the id of the first message, so that a redelivered message finds
/// its turn.
fn request_key(name: &LaneKey, id: &MessageId) -> RequestKey {
    RequestKey {
        caller: format!("bus:{}", name.endpoint).into(),
        key: Arc::clone(id),
        // A constant hash: the text may differ after redelivery, because the rules may have
        // changed.
        input: Some([0; 32]),
        window: KEY_LIFETIME,
    }
}
