//! Summarises the conversation when it gets too long for its model, and continues with the messages
//! that stay. [`native::compaction`](crate::native::compaction) decides which messages stay.

use std::sync::Arc;

use angelia_core::{
    model::{
        ContextWindow, EventKind, Failure, FailureKind, Notice, SummaryFailurePolicy, TurnStatus,
    },
    ports::{Activity, AgentEvent, AgentOutcome, COMPACTED_REASON},
};
use tokio::time::Instant;

use super::{
    CONTINUE_NOTE, TurnRun, TurnStop,
    answer_collector::Answer,
    compaction_notice::{self, Trigger},
    engine_link::EngineLink,
    understood_call::understand,
};
use crate::native::{
    compaction::{
        digest::cut_text,
        gauge::WindowLimit,
        plan::{CompactionPlan, PlanLimits},
        record::compaction_event,
        shortened::Compaction,
        size::{request_tokens, text_bytes},
        summary_request::SummaryRequest,
    },
    provider::{
        AssistantMessage, AssistantPart, Conversation, Message, ReportedTokens, StopReason,
    },
};

/// How often a request for a summary is shortened because it is too long.
const MAX_SHORTENINGS: u32 = 8;

/// The minimum and maximum length of a summary, which is otherwise a tenth of the window.
const SUMMARY_TOKENS: (u64, u64) = (200, 4_000);

/// The reason of a turn that was asked to compact, but could not.
const NOT_COMPACTED_REASON: &str = "not_compacted";

/// How an attempt to compact ended.
#[derive(Debug)]
pub(super) enum CompactionEnd {
    Done {
        before: u64,
        after: u64,
    },
    /// There is nothing to shorten.
    Nothing,
    /// Compaction failed a short time ago, or does not help.
    NotNow,
    Failed(Failure),
}

impl TurnRun<'_> {
    /// Asks for an answer, and shortens the conversation if it is too long for that.
    pub(super) async fn ask_within_window(
        &mut self,
        link: &mut EngineLink,
    ) -> Result<Answer, TurnStop> {
        if let Some(trigger) = self.due_compaction() {
            self.compact(trigger, link).await?;
        }
        match self.ask(link).await {
            Err(TurnStop::Overflow(failure)) => {
                self.compact_or_fail(failure, link).await?;
                let messages = &self.state.log.conversation().messages;
                if matches!(messages.last(), Some(Message::Assistant(_))) {
                    // Part of the answer was shown before the window was full.
                    self.say(CONTINUE_NOTE, link).await;
                }
                self.ask(link).await
            }
            asked => asked,
        }
    }

    /// Compacts a conversation that the provider considers too long, or fails.
    pub(super) async fn compact_or_fail(
        &mut self,
        failure: Failure,
        link: &mut EngineLink,
    ) -> Result<(), TurnStop> {
        match self.compact(Trigger::Overflow, link).await? {
            CompactionEnd::Done { .. } => Ok(()),
            CompactionEnd::Nothing | CompactionEnd::NotNow | CompactionEnd::Failed(_) => {
                Err(TurnStop::Overflow(failure))
            }
        }
    }

    /// Compacts because a person asked for it. The turn does nothing else.
    pub(super) async fn compact_on_demand(
        &mut self,
        link: &mut EngineLink,
    ) -> Result<AgentOutcome, TurnStop> {
        let (reason, text) = match self.compact(Trigger::Demand, link).await? {
            CompactionEnd::Done { before, after } => {
                (COMPACTED_REASON, compaction_notice::done_text(before, after))
            }
            CompactionEnd::Nothing | CompactionEnd::NotNow => {
                let text = "there is nothing to shorten: the conversation has only its first and \
                            its newest messages";
                (NOT_COMPACTED_REASON, text.to_owned())
            }
            CompactionEnd::Failed(failure) => return Err(failure.into()),
        };
        let text = Some(text.into());
        Ok(AgentOutcome { status: TurnStatus::Completed, text, reason: reason.into() })
    }

    /// Records the tokens that the provider has counted for the turn's own conversation. Returns a
    /// notice, once, if compactions do not help.
    pub(super) fn gauge_context(&mut self, tokens: ReportedTokens) -> Option<Notice> {
        if self.aside.is_some() {
            return None;
        }
        let estimated = self.estimated_tokens(self.state.log.conversation());
        self.state.gauge.note_report(tokens.prompt(), tokens.output, estimated);
        let limit = self.window_limit()?;
        let is_too_long = self.state.gauge.used().is_some_and(|used| used >= limit.trigger);
        let is_last = self.state.compactions.note_size(is_too_long);
        is_last.then(compaction_notice::switched_off)
    }

    /// Returns the limit of the window, if the window is known.
    fn window_limit(&self) -> Option<WindowLimit> {
        let window = self.route.model.known_window(&self.setup.host)?;
        let output = self.state.request.max_output_tokens;
        Some(WindowLimit::new(window, output, self.setup.compaction.at_permille))
    }

    fn estimated_tokens(&self, conversation: &Conversation) -> u64 {
        request_tokens(conversation, self.setup.tools.definitions_for(&self.route.model))
    }

    /// Predicts how many tokens the provider will count for the next request.
    pub(super) fn expected_tokens(&self, conversation: &Conversation) -> u64 {
        self.state.gauge.expect(self.estimated_tokens(conversation))
    }

    /// Returns why the conversation should be compacted before the next request, if it should.
    fn due_compaction(&self) -> Option<Trigger> {
        let limit = self.window_limit()?;
        if self.state.gauge.used().is_some_and(|used| used >= limit.trigger) {
            return Some(Trigger::Usage);
        }
        let expected = self.expected_tokens(self.state.log.conversation());
        (expected > limit.window).then_some(Trigger::Estimate)
    }

    async fn compact(
        &mut self,
        trigger: Trigger,
        link: &mut EngineLink,
    ) -> Result<CompactionEnd, TurnStop> {
        if trigger == Trigger::Demand {
            self.state.compactions.forget();
        } else if !self.state.compactions.may_begin(Instant::now()) {
            return Ok(CompactionEnd::NotNow);
        }
        let conversation = self.state.log.conversation();
        let expected = self.expected_tokens(conversation);
        let before = match (self.state.gauge.used(), trigger) {
            (Some(used), Trigger::Usage) => used,
            (used, _) => used.unwrap_or_default().max(expected),
        };
        let known = self.route.model.known_window(&self.setup.host);
        let window = match (known, trigger) {
            // The last request did not fit, so the window is smaller than that, no matter what was
            // known.
            (Some(window), Trigger::Overflow) => window.min(before),
            (Some(window), _) => window,
            (None, _) => before,
        };
        let limits = PlanLimits {
            protect_first_n: self.setup.compaction.protect_first_n as usize,
            earlier_head: self.state.log.compacted_head(),
            window,
            // A person wants the conversation to be shorter than it is, however large the window.
            tail: PlanLimits::tail_of(if trigger == Trigger::Demand { before } else { window }),
            scale: self.state.gauge.scale(),
        };
        let Some(plan) = CompactionPlan::new(&conversation.messages, &limits) else {
            return Ok(CompactionEnd::Nothing);
        };
        let notice = compaction_notice::begun(trigger, before, known);
        let activity = AgentEvent::Activity(Activity::Compacting);
        link.send(vec![activity, AgentEvent::Event(EventKind::Notice(notice))]).await;
        let summary = if plan.only_trims() {
            None
        } else {
            match self.summarise(window, link).await? {
                Ok(summary) => Some(summary),
                Err(failure) => {
                    let keeps_all =
                        self.setup.compaction.on_summary_failure == SummaryFailurePolicy::Abort;
                    self.tell_failure(&failure, keeps_all, link).await;
                    if keeps_all {
                        return Ok(CompactionEnd::Failed(failure));
                    }
                    None
                }
            }
        };
        let after = self.apply_compaction(Compaction { plan, summary }, (trigger, before), link);
        Ok(CompactionEnd::Done { before, after: after.await })
    }

    /// Replaces the conversation. Returns its approximate new size in tokens.
    async fn apply_compaction(
        &mut self,
        compaction: Compaction,
        (trigger, before): (Trigger, u64),
        link: &EngineLink,
    ) -> u64 {
        let count = self.state.log.conversation().messages.len();
        let mut out = Vec::new();
        self.record(compaction_event(&compaction), &mut out);
        if !compaction.plan.only_trims() {
            self.take_changed_notes(&mut out);
        }
        self.state.gauge.forget();
        let is_last = self.state.compactions.note_done();
        let after = self.expected_tokens(self.state.log.conversation());
        self.usage.context = (self.route.model.limits.context)
            .and_then(|size| ContextWindow::from_reported(after, size));
        let left_out = count.saturating_sub(self.state.log.conversation().messages.len());
        let notice = compaction_notice::done(trigger, before, after, left_out);
        let further = is_last.then(compaction_notice::switched_off).map(EventKind::Notice);
        let events = [EventKind::Usage(self.usage.clone()), EventKind::Notice(notice)];
        out.extend(events.into_iter().chain(further).map(AgentEvent::Event));
        link.send(out).await;
        after
    }

    /// Updates the prompt with notes that have changed since the session began. The cache is cold
    /// at this point anyway, and the text of a note that this session wrote may have been
    /// summarised away.
    fn take_changed_notes(&mut self, out: &mut Vec<AgentEvent>) {
        // A review sends the same bytes as the session that it reviews.
        if self.setup.is_review {
            return;
        }
        let Some(memory) = self.setup.tools.read_notes() else { return };
        if memory == self.state.notes.memory {
            return;
        }
        self.state.notes.memory = memory;
        out.extend(self.state.notes.event().map(AgentEvent::Event));
        let system: Arc<str> = self.setup.prompt.with_notes(&self.state.notes).into();
        self.setup.prefix.set_system(Arc::clone(&system));
        self.state.log.set_system(system);
        self.state.own_prefix_sha256 = None;
        self.usage.prefix_sha256 = Some(self.setup.prefix_of(&self.route, self.state));
    }

    async fn tell_failure(&mut self, failure: &Failure, keeps_all: bool, link: &EngineLink) {
        let wait = keeps_all.then(|| self.state.compactions.note_failure(Instant::now()));
        let notice = compaction_notice::failed(failure, wait);
        link.send(vec![AgentEvent::Event(EventKind::Notice(notice))]).await;
    }

    /// Asks for a summary. The inner error is the provider's failure.
    async fn summarise(
        &mut self,
        window: u64,
        link: &mut EngineLink,
    ) -> Result<Result<Arc<str>, Failure>, TurnStop> {
        let (least, most) = SUMMARY_TOKENS;
        let tokens = (window / 10).clamp(least, most);
        let mut request = SummaryRequest::new(self.state.log.conversation(), tokens);
        let is_too_long = |run: &Self, request: &SummaryRequest| {
            run.expected_tokens(request.conversation()) > window
        };
        while is_too_long(self, &request) && request.shorten() {}
        let collector = std::mem::take(&mut self.collector);
        let asked = self.ask_for_summary(&mut request, link).await;
        (self.collector, self.aside) = (collector, None);
        match asked {
            Ok(summary) => {
                let summary = self.setup.host.redactor.redact(&summary);
                Ok(Ok(cut_text(&summary.into(), text_bytes(window / 4))))
            }
            Err(
                TurnStop::Failed(failure)
                | TurnStop::UnknownModel(failure)
                | TurnStop::Overflow(failure),
            ) => Ok(Err(failure)),
            Err(stop @ (TurnStop::Interrupted | TurnStop::Denied)) => Err(stop),
        }
    }

    async fn ask_for_summary(
        &mut self,
        request: &mut SummaryRequest,
        link: &mut EngineLink,
    ) -> Result<String, TurnStop> {
        let mut shortenings = 0;
        let mut has_refused = false;
        loop {
            self.aside = Some(request.conversation().clone());
            let mut answer = match self.ask(link).await {
                Err(TurnStop::Overflow(failure)) => {
                    shortenings += 1;
                    if shortenings > MAX_SHORTENINGS || !request.shorten() {
                        return Err(failure.into());
                    }
                    continue;
                }
                asked => asked?,
            };
            self.read_text_calls(&mut answer);
            if answer.calls().next().is_some() && !std::mem::replace(&mut has_refused, true) {
                request.refuse_calls(self.as_message(&answer));
                continue;
            }
            let text = answer.text.trim();
            let words = match answer.stop {
                Some(StopReason::Refused) => format!("the model refused to summarise: {text}"),
                _ if text.is_empty() => "the model gave an empty summary".to_owned(),
                _ => return Ok(text.to_owned()),
            };
            return Err(Failure::new(FailureKind::Agent, words).into());
        }
    }

    /// Returns an answer with calls as a message for the model.
    fn as_message(&self, answer: &Answer) -> AssistantMessage {
        let text =
            (!answer.text.is_empty()).then(|| AssistantPart::Text(answer.text.as_str().into()));
        let calls = answer.calls().map(|received| {
            let (call, _) =
                understand(received, Arc::clone(&received.id), false, &self.setup.tools);
            AssistantPart::Call(call.call)
        });
        let issuer = self.route.model.issuer.clone();
        AssistantMessage { issuer, parts: text.into_iter().chain(calls).collect() }
    }
}
