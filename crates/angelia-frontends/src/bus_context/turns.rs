//! Runs what a lane has: on the session that the lane names, as a new turn, or as words for the
//! lane's own turn while that is running.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    engine::{Engine, EngineError, NewSession, RequestKey, Steering, Submitted, Watch},
    model::{
        Content, EventKind, ExternalName, Failure, FailureKind, MessageId, Origin, Outcome,
        SessionRecord, TurnId, TurnOptions,
    },
    ports::{Page, Profiles, StoreError, Wanted},
    task::Tasks,
};
use jiff::tz::TimeZone;
use tokio::time::sleep;

use super::{
    lane::{LaneName, Offer},
    merge::{Item, merged, source_line},
    reply::{Replies, Reply, reply_text},
};

/// The scope of the names that sessions have on the bus.
const SCOPE: &str = "bus";

/// A message is known by its id for as long as the bus keeps it.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);

/// For what can pass by itself: an agent that is being updated, a queue that is full.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(4),
];

#[derive(Clone)]
pub(super) struct Turns {
    pub(super) engine: Engine,
    pub(super) profiles: Arc<dyn Profiles>,
    pub(super) replies: Replies,
    pub(super) zone: TimeZone,
    pub(super) tasks: Tasks,
    /// Where a profile works that does not say so itself.
    pub(super) caller_cwd: Option<PathBuf>,
    pub(super) running: Running,
}

/// The turn that each lane has at work.
pub(super) type Running = Arc<Mutex<HashMap<LaneName, TurnId>>>;

/// What stood in the way.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Profile(Failure),
}

impl Obstacle {
    fn may_pass(&self) -> bool {
        match self {
            Self::Engine(
                EngineError::QueueFull { .. } | EngineError::Store(StoreError::Held(_)),
            ) => true,
            Self::Engine(EngineError::Failed(failure)) | Self::Profile(failure) => matches!(
                failure.kind,
                FailureKind::Unavailable | FailureKind::RateLimited | FailureKind::Timeout
            ),
            Self::Engine(_) => false,
        }
    }
}

impl Turns {
    /// Gives a batch to its session.
    pub(super) async fn run(&self, name: &LaneName, batch: Vec<Offer>) {
        let mut pauses = PAUSES.iter();
        loop {
            let error = match self.begin(name, &batch).await {
                Ok(Begun::Steered) => {
                    for offer in &batch {
                        offer.done().await;
                    }
                    return;
                }
                Ok(Begun::Turn(submitted)) => {
                    self.follow(name, batch, *submitted).await;
                    return;
                }
                Err(Obstacle::Engine(EngineError::ShuttingDown)) => {
                    // Not acknowledged, so it comes again at the next start.
                    return;
                }
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.may_pass() => {
                    tracing::info!(%error, "a message for {} waits for its turn", name.endpoint);
                    sleep(*pause).await;
                }
                _ => {
                    self.give_up(name, &batch, &error.to_string()).await;
                    return;
                }
            }
        }
    }

    async fn begin(&self, name: &LaneName, batch: &[Offer]) -> Result<Begun, Obstacle> {
        let session = self.session(name).await?;
        let items: Vec<Item> = batch.iter().map(|offer| offer.item.clone()).collect();
        let mut text = merged(&items, &self.zone);
        let options =
            TurnOptions { can_ask: true, can_park: true, ..TurnOptions::new(Origin::Remote) };
        let is_new = batch.iter().all(|offer| !offer.again);
        // Only the lane's own turn: another one's answer goes somewhere else.
        let running = self.running().get(name).copied();
        if let Some(turn) = running.filter(|_| is_new && self.can_steer(&session.spec.executor)) {
            let input = vec![Content::text(text.clone())];
            match self.engine.steer(turn, input, options.clone()).await {
                Ok(Steering::Passed) => return Ok(Begun::Steered),
                Ok(Steering::Queued(submitted)) => return Ok(Begun::Turn(Box::new(submitted))),
                Err(EngineError::NotRunning | EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.engine.turns(Some(session.id), Page::first(1)).await?.is_empty() {
            text = format!("{}\n\n{text}", source_line(&name.endpoint));
        }
        let key = batch.first().map(|first| key(name, &first.id));
        let input = vec![Content::text(text)];
        let submitted = self.engine.submit_once(session.id, input, options, key).await?;
        Ok(Begun::Turn(Box::new(submitted)))
    }

    async fn session(&self, lane: &LaneName) -> Result<SessionRecord, Obstacle> {
        let name = ExternalName { scope: SCOPE.into(), name: lane.session_name().into() };
        if let Some(session) = self.engine.named(&name).await?
            && let Ok(session) = self.engine.session(session).await
        {
            return Ok(session);
        }
        let wanted = Wanted {
            profile: lane.profile.clone(),
            caller_cwd: self.caller_cwd.clone(),
            ..Wanted::default()
        };
        let spec = self.profiles.spec(wanted).await.map_err(Obstacle::Profile)?;
        let new = NewSession {
            spec,
            title: Some(format!("bus: {}", lane.endpoint).into()),
            name: Some(name),
        };
        Ok(self.engine.create_session(new).await?)
    }

    /// The message that began the turn is done with when its reply is on its way; the others are
    /// in the turn's record already.
    async fn follow(&self, name: &LaneName, mut batch: Vec<Offer>, submitted: Submitted) {
        let answers: Vec<MessageId> = batch.iter().map(|offer| Arc::clone(&offer.id)).collect();
        for offer in batch.drain(1..) {
            offer.done().await;
        }
        let Some(first) = batch.pop() else { return };
        self.running().insert(name.clone(), submitted.turn);
        let this = self.clone();
        let name = name.clone();
        self.tasks.spawn_until_stopped(async move {
            let (status, text) = match ending(submitted.watch).await {
                Ok(outcome) => (outcome.status.as_str(), reply_text(&outcome)),
                Err(error) => ("failed", format!("(failed: {error})")),
            };
            this.running().retain(|_, turn| *turn != submitted.turn);
            let reply = Reply {
                id: format!("reply-{}", submitted.turn),
                endpoint: name.endpoint,
                to: name.reply,
                answers,
                status,
                text,
            };
            this.replies.send(reply).await;
            first.done().await;
        });
    }

    /// Words for an agent that cannot take them would be a turn without its message's name.
    fn can_steer(&self, executor: &str) -> bool {
        let mut executors = self.engine.executors().iter();
        executors.any(|one| one.name() == executor && one.capabilities().steer)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<LaneName, TurnId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Said to whoever waits for an answer, and kept with the dead letters.
    async fn give_up(&self, name: &LaneName, batch: &[Offer], why: &str) {
        let Some(first) = batch.first() else { return };
        let reply = Reply {
            id: format!("reply-{}", first.id),
            endpoint: name.endpoint.clone(),
            to: name.reply.clone(),
            answers: batch.iter().map(|offer| Arc::clone(&offer.id)).collect(),
            status: "failed",
            text: format!("(failed: {why})"),
        };
        self.replies.send(reply).await;
        for offer in batch {
            offer.refused(why).await;
        }
    }
}

enum Begun {
    Turn(Box<Submitted>),
    Steered,
}

/// By the id of the first message: a message that comes again finds its turn.
fn key(name: &LaneName, id: &MessageId) -> RequestKey {
    RequestKey {
        caller: format!("bus:{}", name.endpoint).into(),
        key: Arc::clone(id),
        // What is asked under it does not matter: rules may have been edited in between.
        input: Some([0; 32]),
        window: REMEMBERED,
    }
}

async fn ending(mut watch: Watch) -> Result<Outcome, StoreError> {
    while let Some(batch) = watch.next().await? {
        if let Some(EventKind::Finished(outcome)) = batch.last().map(|event| &event.kind) {
            return Ok(outcome.clone());
        }
    }
    let message = "the turn's record has no end".to_owned();
    Err(StoreError::Failed { message })
}
