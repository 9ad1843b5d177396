//! Runs the turn of a claimed occurrence, sends its result, and records its end.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineError, NewSession, RequestKey, Submission, SubmittedTurn, TurnWatch},
    model::{
        Content, ExternalName, Occurrence, OccurrenceStatus, ScheduleRecord, SessionId,
        SessionSource, TurnOptions, TurnOrigin, first_words,
    },
    ports::ProfileRequest,
};
use tokio::time::sleep;

use super::{
    result_delivery::SentResult,
    scheduler::{RunningOccurrences, SchedulerParts},
};
use crate::unattended_turn::{StartError, result_text, wait_for_outcome};

/// The pauses before each retry after a transient error.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)];

/// The pause before the next attempt to write to the store.
const WRITE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// How long the turn of an occurrence can be found by its key. The claim of the occurrence itself
/// never expires.
const KEY_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// The note on an occurrence whose process was killed between the claim and the turn.
const KILLED_NOTE: &str = "angelia was killed before the turn began; no agent got it";

pub(super) struct OccurrenceRun {
    pub(super) parts: Arc<SchedulerParts>,
    /// Contains this occurrence until its end is recorded.
    pub(super) running: RunningOccurrences,
    pub(super) schedule: ScheduleRecord,
    pub(super) occurrence: Occurrence,
}

impl OccurrenceRun {
    /// Starts the turn and follows it to its end.
    pub(super) async fn start(mut self, prompt: String) {
        match self.submit_with_retries(&prompt).await {
            Ok(Some(submitted)) => {
                self.occurrence.turn = Some(submitted.turn);
                self.occurrence.status = OccurrenceStatus::Running;
                self.record().await;
                self.follow(submitted.watch).await;
            }
            // The next process will find the claim without a turn.
            Ok(None) => {}
            Err(error) => {
                let note = format!("the turn could not begin: {error}");
                tracing::warn!("the schedule {}: {note}", self.schedule.id);
                self.end(OccurrenceStatus::failed(), Some(note), format!("(failed: {error})"))
                    .await;
            }
        }
    }

    /// Continues an occurrence of an earlier process. Never submits its turn again.
    pub(super) async fn resume(mut self) {
        let turn = match self.occurrence.turn {
            Some(turn) => Some(turn),
            None => loop {
                match self.parts.engine.find_by_key(self.key()).await {
                    Ok(turn) => break turn,
                    Err(error) => self.wait_for_store(&error).await,
                }
            },
        };
        let Some(turn) = turn else {
            let due_at = self.occurrence.due_at;
            tracing::warn!("the schedule {}, due at {due_at}: {KILLED_NOTE}", self.schedule.id);
            let text = format!("(missed: {KILLED_NOTE})");
            self.end(OccurrenceStatus::Missed, Some(KILLED_NOTE.to_owned()), text).await;
            return;
        };
        let watch = match self.parts.engine.watch(turn, 0).await {
            Ok(watch) => watch,
            Err(error) => {
                let note = format!("the turn's outcome is not known: {error}");
                self.end(OccurrenceStatus::failed(), Some(note), String::new()).await;
                return;
            }
        };
        self.occurrence.turn = Some(turn);
        self.occurrence.status = OccurrenceStatus::Running;
        self.record().await;
        self.follow(watch).await;
    }

    /// Submits the turn. Returns `None` if this process ends before the turn begins.
    async fn submit_with_retries(&self, prompt: &str) -> Result<Option<SubmittedTurn>, StartError> {
        let mut pauses = RETRY_DELAYS.iter();
        loop {
            let error = match self.submit(prompt).await {
                Ok(submitted) => return Ok(Some(submitted)),
                Err(StartError::Engine(EngineError::ShuttingDown)) => {
                    if self.parts.engine.wait_until_accepting().await {
                        continue;
                    }
                    return Ok(None);
                }
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.is_transient() => sleep(*pause).await,
                _ => return Err(error),
            }
        }
    }

    async fn submit(&self, prompt: &str) -> Result<SubmittedTurn, StartError> {
        let session = self.find_or_create_session().await?;
        let input = vec![Content::text(prompt)];
        // There is no person to ask, and nothing in the text may act as a command.
        let options = TurnOptions { can_park: true, ..TurnOptions::new(TurnOrigin::Remote) };
        let submission = Submission {
            key: Some(self.key()),
            one_off: self.schedule.session.is_none(),
            ..Submission::new(session, input, options)
        };
        let stop = self.parts.tasks.stop_token();
        Ok(self.parts.engine.submit_when_free(submission, stop).await?)
    }

    async fn find_or_create_session(&self) -> Result<SessionId, StartError> {
        let engine = &self.parts.engine;
        let schedule = &self.schedule;
        if let Some(id) = schedule.session.as_deref().and_then(|text| text.parse().ok()) {
            return Ok(engine.session(id).await?.id);
        }
        let scope = ExternalName::OWNER_SCOPE.into();
        let name = schedule.session.clone().map(|name| ExternalName { scope, name });
        if let Some(name) = &name
            && let Some(session) = engine.find_by_name(name).await?
        {
            return Ok(session);
        }
        let wanted = ProfileRequest {
            profile: schedule.profile.clone(),
            cwd: schedule.cwd.clone(),
            caller_cwd: schedule.caller_cwd.clone(),
            ..ProfileRequest::default()
        };
        let spec = self.parts.profiles.resolve(wanted).await.map_err(StartError::Profile)?;
        let words = first_words(&[Content::text(&*schedule.prompt)]);
        let new = NewSession {
            spec,
            title: words.map(|words| format!("schedule: {words}").into()),
            name,
            source: Some(SessionSource::Schedule),
        };
        Ok(engine.create_session(new).await?.id)
    }

    fn key(&self) -> RequestKey {
        RequestKey {
            caller: format!("schedule:{}", self.schedule.id).into(),
            key: self.occurrence.due_at.to_string().into(),
            // A constant, because the time alone identifies the request.
            input: Some([0; 32]),
            window: KEY_LIFETIME,
        }
    }

    async fn follow(self, watch: TurnWatch) {
        match wait_for_outcome(watch).await {
            Ok(outcome) => {
                let status = OccurrenceStatus::Ended(outcome.status.as_str().into());
                self.end(status, None, result_text(&outcome)).await;
            }
            Err(error) => {
                let note = format!("the turn's outcome is not known: {error}");
                let text = format!("(failed: {error})");
                self.end(OccurrenceStatus::failed(), Some(note), text).await;
            }
        }
    }

    /// Sends the result, then records the end. The result is stored before the end is recorded, so
    /// if this process is killed in between, the next one continues.
    async fn end(mut self, status: OccurrenceStatus, note: Option<String>, text: String) {
        let results = &self.parts.results;
        let now = self.parts.engine.now();
        let sent =
            results.send(&self.schedule, &self.occurrence, status.as_str(), &text, now).await;
        self.occurrence.status = status;
        self.occurrence.ended_at = Some(now);
        self.occurrence.note = note.map(Into::into);
        let sending = match sent {
            Ok(SentResult::Delivering(sending)) => Some(sending),
            Ok(SentResult::Nowhere | SentResult::Stored) => None,
            Err(error) => {
                self.note_undelivered(&error);
                None
            }
        };
        self.record().await;
        self.running.lock().remove(&(self.schedule.id, self.occurrence.due_at));
        if let Some(sending) = sending
            && let Err(error) = sending.outcome().await
        {
            self.note_undelivered(&error.to_string());
            self.record().await;
        }
    }

    fn note_undelivered(&mut self, error: &str) {
        let note = format!("the result was not delivered: {error}");
        tracing::warn!("the schedule {}: {note}", self.schedule.id);
        self.occurrence.note = Some(match &self.occurrence.note {
            Some(first) => format!("{first}; {note}").into(),
            None => note.into(),
        });
    }

    /// Writes the occurrence, and retries until the store accepts it.
    async fn record(&self) {
        let (id, engine) = (self.schedule.id, &self.parts.engine);
        while let Err(error) = engine.put_occurrence(id, self.occurrence.clone()).await {
            self.wait_for_store(&error).await;
        }
    }

    async fn wait_for_store(&self, error: &EngineError) {
        tracing::warn!(%error, "the schedule {} waits for the store", self.schedule.id);
        sleep(WRITE_RETRY_DELAY).await;
    }
}
