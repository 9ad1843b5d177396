//! Asks for one answer. A failed request is sent again, changed or continued, as [`retry`] decides.
//!
//! [`retry`]: crate::native::retry

use std::{pin::pin, sync::Arc, time::Duration};

use angelia_core::{
    model::{EventKind, Failure, FailureKind, Notice, NoticeLevel},
    ports::{Activity, AgentEvent, EventSender},
};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use super::{
    CONTINUE_NOTE, TurnRun, TurnStop, answer_collector::Answer, drop_notice,
    engine_link::EngineLink,
};
use crate::{
    native::{
        answer_reader::{AnswerOutcome, AnswerReader, StreamDrop},
        client::Reply,
        provider::{
            AnswerDecoder, ErrorClass, ProviderError, ProviderRequest, RequestSettings,
            encode_request,
        },
        record::answer_event,
        request_dump::FailedRequest,
        retry::{AttemptContext, AttemptFault, MAX_RETRIES, RefusedPart, RetryState, RetryStep},
    },
    turn_driver::is_delta,
};

/// How often we tell the engine that we are still waiting for a slow server. Shorter than any of
/// the engine's timeouts.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(20);

/// An attempt that gave no complete answer.
struct FailedAttempt {
    fault: AttemptFault,
    /// `None` if the provider replied with an error instead of an answer.
    drop: Option<StreamDrop>,
}

impl TurnRun<'_> {
    pub(super) async fn ask(&mut self, link: &mut EngineLink) -> Result<Answer, TurnStop> {
        let mut retry = RetryState::default();
        let mut attempts = 0;
        self.renewed_keys.clear();
        loop {
            attempts += 1;
            link.send(vec![AgentEvent::Activity(self.activity())]).await;
            link.run(self.fit_images()).await?;
            let body = self.encode();
            let dumped = self.route.model.dumps.is_some().then(|| body.clone());
            let sender = link.sender();
            let failed = match link.run(self.attempt(body, &sender)).await? {
                Ok(()) => {
                    self.record_success();
                    let answer = self.collector.finish();
                    self.report_usage(&answer, link).await;
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            if let Err(stop) = self.prepare_next(failed, attempts, &mut retry, link).await {
                if let Some(body) = dumped {
                    self.dump(&body, &stop, link).await;
                }
                return Err(self.first_failure(stop));
            }
        }
    }

    /// Writes the request that made the turn fail to a file.
    async fn dump(&self, body: &Bytes, stop: &TurnStop, link: &EngineLink) {
        let setup = self.setup;
        let (
            Some(dumps),
            TurnStop::Failed(failure)
            | TurnStop::UnknownModel(failure)
            | TurnStop::Overflow(failure),
        ) = (&self.route.model.dumps, stop)
        else {
            return;
        };
        let request = FailedRequest {
            turn: self.turn,
            at: setup.host.clock.now(),
            endpoint: &self.route.endpoint,
            failure,
            body,
        };
        let text = match dumps.write(&request, &setup.host.redactor) {
            Ok(path) => format!("the request that failed is in {}", path.display()),
            Err(error) => format!("the request that failed could not be written: {error}"),
        };
        let notice = Notice::new(NoticeLevel::Info, "request_dumped", text);
        link.send(vec![AgentEvent::Event(EventKind::Notice(notice))]).await;
    }

    fn encode(&mut self) -> Bytes {
        let model = &*self.route.model;
        let request = ProviderRequest {
            issuer: &model.issuer,
            conversation: self.state.log.conversation(),
            tools: self.setup.tools.definitions_for(model),
            settings: &self.state.request,
            quirks: &model.quirks,
        };
        let body = match &self.aside {
            None => self.state.encoded.encode(&request),
            Some(conversation) => {
                // The output schema is only for answers to the person.
                let settings =
                    &RequestSettings { output_schema: None, ..self.state.request.clone() };
                encode_request(&ProviderRequest { conversation, settings, ..request })
            }
        };
        self.request_bytes = body.len() as u64;
        body.into()
    }

    /// Returns the activity to report to the engine while we wait for the model.
    const fn activity(&self) -> Activity {
        match self.aside {
            None => Activity::WaitingForModel,
            Some(_) => Activity::Compacting,
        }
    }

    /// Sends one request and reads its answer. Everything it learns is stored in `self`, so that
    /// dropping the future loses nothing.
    async fn attempt(&mut self, body: Bytes, sender: &EventSender) -> Result<(), FailedAttempt> {
        let setup = self.setup;
        let model = Arc::clone(&self.route.model);
        if let Some(key) = &self.route.key {
            setup.host.providers.health().count_request(&model.issuer.provider, key);
        }
        let begun = Instant::now();
        let no_reply = |cause: Vec<String>| StreamDrop {
            elapsed: begun.elapsed(),
            cause,
            ..StreamDrop::default()
        };
        let dropped = |drop| FailedAttempt { fault: AttemptFault::Dropped, drop: Some(drop) };
        let sent = model.client.post(&self.route.endpoint, body, &*setup.host.clock);
        let sent = timeout(model.clocks.first_event, sent);
        let (head, bytes) = match self.wait_patiently(sent, sender).await {
            Err(_) => {
                return Err(dropped(no_reply(vec!["the server did not answer in time".into()])));
            }
            Ok(Err(error)) if error.is_certificate => {
                let drop = Some(no_reply(error.causes));
                return Err(FailedAttempt { fault: AttemptFault::Certificate, drop });
            }
            Ok(Err(error)) => return Err(dropped(no_reply(error.causes))),
            Ok(Ok(Reply::Error(error))) => {
                return Err(FailedAttempt { fault: self.error_fault(error), drop: None });
            }
            Ok(Ok(Reply::Answer(head, bytes))) => (head, bytes),
        };
        let place = self.state.log.conversation().messages.len() as u64;
        let decoder = AnswerDecoder::new(model.issuer.api, place);
        let mut reader = AnswerReader::new(bytes, decoder, head, model.clocks);
        let mut has_spoken = false;
        loop {
            let events = if has_spoken {
                reader.next().await
            } else {
                self.wait_patiently(reader.next(), sender).await
            };
            let Some(events) = events else { break };
            let mut out = Vec::new();
            for event in events {
                self.collector.take(event, &mut out);
            }
            if self.aside.is_some() {
                out.clear();
            }
            self.apply(&out);
            let first_words = !has_spoken && out.iter().any(is_delta);
            sender.send(out).await;
            if first_words {
                has_spoken = true;
                // The receiver of the first words may be waiting for this thread, so let it run
                // before reading more.
                tokio::task::yield_now().await;
            }
        }
        match reader.finish() {
            AnswerOutcome::Whole => Ok(()),
            AnswerOutcome::Dropped(drop) => Err(dropped(drop)),
            AnswerOutcome::Failed(error, drop) => {
                Err(FailedAttempt { fault: self.error_fault(error), drop: Some(drop) })
            }
        }
    }

    /// Masks secrets in a provider's message, which may quote the key.
    fn error_fault(&self, mut error: ProviderError) -> AttemptFault {
        error.message = self.setup.host.redactor.redact(&error.message).into();
        AttemptFault::Error(error)
    }

    /// Waits for the server. A local server may process its prompt for minutes, which the engine
    /// does not know, so this keeps the engine's timeout from expiring before ours.
    async fn wait_patiently<T>(&self, work: impl Future<Output = T>, sender: &EventSender) -> T {
        if !self.route.model.provider.is_local() {
            return work.await;
        }
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = sleep(SIGN_OF_LIFE_INTERVAL) => {
                    sender.send(vec![AgentEvent::Activity(self.activity())]).await;
                }
            }
        }
    }

    /// Reports a failed attempt, and makes the changes that the next one needs.
    async fn prepare_next(
        &mut self,
        failed: FailedAttempt,
        attempt: u32,
        retry: &mut RetryState,
        link: &mut EngineLink,
    ) -> Result<(), TurnStop> {
        let FailedAttempt { fault, drop } = failed;
        let has_shown_text = self.aside.is_none() && self.collector.has_shown_text();
        let mut out = Vec::new();
        self.collector.complete_open_blocks(&mut out);
        if self.aside.is_some() {
            out.clear();
        }
        self.apply(&out);
        let mut answer = self.collector.finish();
        let error = match &fault {
            AttemptFault::Error(error) => Some(error),
            AttemptFault::Dropped | AttemptFault::Certificate => None,
        };
        let found = link.run(self.find_detours(&fault)).await?;
        let context =
            AttemptContext { has_shown_text, random: self.random(), detours: found.summary() };
        let step = retry.next_step(&fault, &context);
        self.record_departure(&fault, &step);
        let next = match &step {
            RetryStep::Again { after, .. } | RetryStep::Continue { after } => Some(*after),
            _ => None,
        };
        let notice = match (&drop, error, next) {
            (Some(drop), ..) => {
                Some(drop_notice::stream_dropped(drop, (attempt, MAX_RETRIES + 1), next))
            }
            (None, Some(error), Some(after)) => Some(drop_notice::retrying(error, after)),
            _ => None,
        };
        out.extend(notice.map(|notice| AgentEvent::Event(EventKind::Notice(notice))));
        link.send(std::mem::take(&mut out)).await;
        self.report_usage(&answer, link).await;
        if self.state.log.has_loose_blocks() {
            // Text that people have seen belongs to the conversation even if nothing follows it;
            // reasoning does not.
            answer.keep_text();
            let parts = answer.recorded_parts(Vec::new());
            self.record(answer_event(&self.route.model.issuer, &parts), &mut out);
            self.text.push_str(&answer.text);
            link.send(out).await;
        }
        match step {
            RetryStep::Again { after, .. } | RetryStep::Continue { after } => {
                self.wait(after, link).await?;
            }
            RetryStep::RenewKey => self.take_renewed_key(found)?,
            RetryStep::NextKey { after } => {
                if !after.is_zero() {
                    self.wait(after, link).await?;
                }
                let reason = error.map(|error| Arc::clone(&error.message)).unwrap_or_default();
                self.rotate_key(found, &reason, link).await?;
            }
            RetryStep::FallBack(failure) => {
                retry.begin_with_other_model();
                self.fall_back(found, with_cause(failure, drop.as_ref(), error), link).await?;
            }
            RetryStep::Without(part) => {
                let request = &mut self.state.request;
                match part {
                    RefusedPart::Reasoning => request.without_reasoning = true,
                    RefusedPart::Images => self.leave_out_images(error, link).await,
                    RefusedPart::SchemaKeywords => request.plain_schemas = true,
                }
            }
            RetryStep::ShrinkImages => self.lower_image_limit(link).await,
            RetryStep::LowerOutput { tokens } => {
                self.state.request.max_output_tokens = Some(tokens);
            }
            RetryStep::Shorten { window } => {
                if let Some(window) = window {
                    self.route.model.learn_window(&self.setup.host, window);
                }
                return Err(TurnStop::Overflow(overflow(error, window)));
            }
            RetryStep::GiveUp(failure) => {
                let failure = with_cause(failure, drop.as_ref(), error);
                let is_unknown = error.is_some_and(|error| error.class == ErrorClass::NotFound);
                return Err(if is_unknown {
                    TurnStop::UnknownModel(failure)
                } else {
                    TurnStop::Failed(failure)
                });
            }
        }
        if has_shown_text {
            // Whatever else has changed, the next request asks for the rest of the text that was shown.
            self.say(CONTINUE_NOTE, link).await;
        }
        Ok(())
    }

    async fn wait(&self, after: Duration, link: &mut EngineLink) -> Result<(), TurnStop> {
        if self.aside.is_none() {
            link.send(vec![AgentEvent::Activity(Activity::Retrying)]).await;
        }
        Ok(link.sleep(after).await?)
    }

    /// Returns a random number between 0 and 1.
    fn random(&self) -> f64 {
        let [.., high, low] = *self.setup.host.clock.fresh_uuid().as_bytes();
        f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX)
    }
}

/// Adds to a failure why there was no complete answer, unless the provider has said what is wrong.
fn with_cause(
    failure: Failure,
    drop: Option<&StreamDrop>,
    error: Option<&ProviderError>,
) -> Failure {
    let (Some(drop), None) = (drop, error) else { return failure };
    let message = format!("{}: {}", failure.message, drop.cause.join(": "));
    let hint = failure.hint.unwrap_or_else(|| {
        "`angelia providers check` tells whether the provider can be reached".into()
    });
    Failure { message: message.into(), hint: Some(hint), ..failure }
}

/// Returns the failure of a conversation that is too long for its model.
pub(super) fn overflow(error: Option<&ProviderError>, window: Option<u64>) -> Failure {
    let size = window.map(|tokens| format!(" of {tokens} tokens")).unwrap_or_default();
    let words = error.map(|error| format!(": {}", error.message)).unwrap_or_default();
    let message = format!("the conversation does not fit the model's context window{size}{words}");
    Failure::new(FailureKind::Invalid, message).with_hint(
        "shorten it with `/compact`, start a new session, or use a model with a larger window",
    )
}
