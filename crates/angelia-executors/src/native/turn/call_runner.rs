//! Decides and runs the calls of an answer, in waves of calls that cannot interfere with each
//! other. Each call runs only after the permission authority has allowed it. Results are in the
//! order of the calls.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandLine, Content, Decision, EventKind,
        FileEdit, Plan, Question, ToolAccess, ToolCall, ToolChoice, ToolClass, ToolId, Verdict,
    },
    ports::{Activity, AgentEvent},
};
use futures_util::{FutureExt as _, future::join_all};
use tokio::time::timeout;

use super::{
    TurnRun, TurnStop,
    answer_collector::Answer,
    engine_link::{CallDecision, EngineLink},
    understood_call::{UnderstoodCall, understand},
};
use crate::native::{
    ending::has_reached_limit,
    provider::{ModelCall, StopReason},
    record::{answer_event, result_events},
    tools::{
        CallError, CallIo, CallOutput, CallPlan, CallScope, PreparedCall, PreparedTool, ask_user,
        memory, plan_waves, skill, todo,
    },
};

/// How long an interrupt waits for tools to stop.
const TOOL_STOP_LIMIT: Duration = Duration::from_secs(2);

const OUT_OF_STEPS: &str = "not run: the number of steps is used up; answer without tools";
const NOT_IN_A_REVIEW: &str = "not allowed in a review: only `memory` and `skill` can be used";
const NO_CALLS: &str = "not run: no tool may be called now; answer without tools";

/// A call that is ready to be decided.
enum ReadyCall {
    Own(Box<dyn PreparedCall>),
    Plan(Plan),
    Question(Question),
    /// The caller runs it.
    Caller,
    Refused(String),
}

impl ReadyCall {
    fn scope(&self) -> CallScope {
        match self {
            Self::Own(call) => CallScope::of(call.plan()),
            Self::Plan(_) | Self::Caller | Self::Refused(_) => CallScope::Free,
            Self::Question(_) => CallScope::Alone,
        }
    }

    /// Returns the files that the call touches.
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Own(call) => {
                let access = &call.plan().access;
                access.reads.iter().chain(&access.writes).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    fn class(&self) -> ToolClass {
        match self {
            Self::Own(call) => call.plan().class,
            _ => ToolClass::Other,
        }
    }

    fn title(&self, name: &Arc<str>) -> Arc<str> {
        match self {
            Self::Own(call) if !call.plan().title.trim().is_empty() => {
                Arc::clone(&call.plan().title)
            }
            Self::Question(question) => Arc::clone(&question.text),
            _ => Arc::clone(name),
        }
    }
}

/// What remains to be done for a call that was decided.
enum CallStep {
    Run(Box<dyn PreparedCall>),
    /// The caller runs it.
    AwaitCaller,
    Done(CallOutput),
}

impl TurnRun<'_> {
    /// Runs the calls of an answer. `is_last`: the steps are used up, so the calls are refused.
    pub(super) async fn run_calls(
        &mut self,
        answer: &Answer,
        is_last: bool,
        link: &mut EngineLink,
    ) -> Result<(), TurnStop> {
        let calls = self.understand_calls(answer, link).await;
        // The record has what the model wrote; people and permissions see the tool that is meant.
        let tools = &self.setup.tools;
        let calls: Vec<_> = calls.into_iter().map(|call| call.meant(tools)).collect();
        let mut ready = Vec::with_capacity(calls.len());
        for understood in &calls {
            ready.push(link.run(self.prepare(understood, is_last)).await?);
        }
        let waves = plan_waves(&ready.iter().map(ReadyCall::scope).collect::<Vec<_>>());
        let mut ready = ready.into_iter();
        for wave in waves {
            let calls = &calls[wave];
            let ready: Vec<_> = ready.by_ref().take(calls.len()).collect();
            self.run_wave(calls, ready, link).await?;
        }
        Ok(())
    }

    /// Parses the calls of an answer, and records the answer.
    async fn understand_calls(
        &mut self,
        answer: &Answer,
        link: &EngineLink,
    ) -> Vec<UnderstoodCall> {
        let count = answer.calls().count();
        let output_tokens = answer.tokens.map(|tokens| tokens.output);
        let is_cut =
            matches!(answer.stop, Some(StopReason::MaxTokens | StopReason::WindowExceeded))
                || has_reached_limit(output_tokens, self.state.request.max_output_tokens);
        let mut out = Vec::new();
        let mut calls = Vec::with_capacity(count);
        for (number, received) in answer.calls().enumerate() {
            let id = self.fresh_call_id(&received.id);
            let was_cut = is_cut && number + 1 == count;
            let (call, notice) = understand(received, id, was_cut, &self.setup.tools);
            out.extend(notice.map(|notice| AgentEvent::Event(EventKind::Notice(notice))));
            calls.push(call);
        }
        let recorded: Vec<ModelCall> = calls.iter().map(|one| one.call.clone()).collect();
        let parts = answer.recorded_parts(recorded);
        self.record(answer_event(&self.route.model.issuer, &parts), &mut out);
        link.send(out).await;
        calls
    }

    /// Returns the id of a call, or a new one if the conversation already has it.
    fn fresh_call_id(&mut self, id: &Arc<str>) -> Arc<str> {
        let mut fresh = Arc::clone(id);
        let mut number = 2;
        while !self.state.call_ids.insert(Arc::clone(&fresh)) {
            fresh = format!("{id}_{number}").into();
            number += 1;
        }
        fresh
    }

    async fn prepare(&self, understood: &UnderstoodCall, is_last: bool) -> ReadyCall {
        let call = &understood.call;
        if let Some(words) = &understood.refusal {
            return ReadyCall::Refused(words.clone());
        }
        if is_last {
            return ReadyCall::Refused(OUT_OF_STEPS.to_owned());
        }
        if self.setup.is_review && ![memory::NAME, skill::NAME].contains(&&*call.name) {
            return ReadyCall::Refused(NOT_IN_A_REVIEW.to_owned());
        }
        if self.state.request.tool_choice == ToolChoice::None {
            return ReadyCall::Refused(NO_CALLS.to_owned());
        }
        if let Some(words) = self.guard.objection(&call.name, call.arguments.get()) {
            return ReadyCall::Refused(words);
        }
        let Some(prepared) = self.setup.tools.prepare(&call.name, &call.arguments).await else {
            return ReadyCall::Caller;
        };
        match prepared {
            Ok(PreparedTool::Call(call)) => ReadyCall::Own(call),
            Ok(PreparedTool::Plan(plan)) => ReadyCall::Plan(plan),
            Ok(PreparedTool::Question(question)) => ReadyCall::Question(question),
            Err(error) => ReadyCall::Refused(error.to_string()),
        }
    }

    async fn run_wave(
        &mut self,
        calls: &[UnderstoodCall],
        ready: Vec<ReadyCall>,
        link: &mut EngineLink,
    ) -> Result<(), TurnStop> {
        let touched: Vec<Vec<PathBuf>> = ready.iter().map(ReadyCall::paths).collect();
        let mut steps = Vec::with_capacity(calls.len());
        for (understood, ready) in calls.iter().zip(ready) {
            steps.push(self.start_call(&understood.call, ready, link).await?);
        }
        let outputs = self.run_steps(calls, steps, link).await?;
        let mut out = Vec::new();
        for ((understood, mut output), paths) in calls.iter().zip(outputs).zip(touched) {
            self.add_instructions(&mut output, &paths);
            self.record_output(&understood.call, &output, &mut out);
        }
        self.tell_notices(&mut out);
        let handed_on = self.setup.tools.take_delegated_cost();
        if handed_on > 0.0 {
            out.push(AgentEvent::HandedOnCost(handed_on));
        }
        link.send(out).await;
        Ok(())
    }

    /// Shows a call, and gets a decision about it.
    async fn start_call(
        &mut self,
        call: &ModelCall,
        ready: ReadyCall,
        link: &mut EngineLink,
    ) -> Result<CallStep, TurnStop> {
        let id = tool_id(call);
        self.open_calls.push(id.clone());
        let shown = ToolCall {
            id,
            name: Arc::clone(&call.name),
            class: ready.class(),
            input: call.arguments.clone(),
            title: ready.title(&call.name),
            parent: None,
        };
        let mut out = vec![AgentEvent::Event(EventKind::ToolCall(shown))];
        if let ReadyCall::Caller = ready {
            out.push(AgentEvent::Activity(Activity::AwaitingToolResult));
        }
        link.send(out).await;
        match ready {
            ReadyCall::Caller => Ok(CallStep::AwaitCaller),
            ReadyCall::Refused(words) => Ok(CallStep::Done(CallOutput::failure(words))),
            ReadyCall::Plan(plan) => {
                let request =
                    self.request(call, ApprovalStage::Report, &CallPlan::free(todo::NAME));
                if let Some(refusal) = self.decide(request, link).await? {
                    return Ok(CallStep::Done(refusal));
                }
                link.send(vec![AgentEvent::Event(EventKind::Plan(plan))]).await;
                Ok(CallStep::Done(CallOutput::text(todo::ANSWER)))
            }
            ReadyCall::Question(question) => {
                self.ask_person(call, question, link).await.map(CallStep::Done)
            }
            ReadyCall::Own(prepared) => self.decide_own(call, prepared, link).await,
        }
    }

    async fn decide_own(
        &mut self,
        call: &ModelCall,
        prepared: Box<dyn PreparedCall>,
        link: &mut EngineLink,
    ) -> Result<CallStep, TurnStop> {
        // A call that must fail is not worth a person's time.
        let (prepared, edits) = match link.run(review(prepared)).await? {
            Ok(reviewed) => reviewed,
            Err(error) => return Ok(CallStep::Done(CallOutput::failure(error.to_string()))),
        };
        let plan = prepared.plan();
        let stage = if plan.is_own_record || is_reading_inside(plan, &self.setup.cwd) {
            ApprovalStage::Report
        } else {
            ApprovalStage::Request
        };
        let mut request = self.request(call, stage, plan);
        request.edits = edits;
        Ok(match self.decide(request, link).await? {
            Some(refusal) => CallStep::Done(refusal),
            None => CallStep::Run(prepared),
        })
    }

    fn request(&self, call: &ModelCall, stage: ApprovalStage, plan: &CallPlan) -> ApprovalRequest {
        let access = ToolAccess { must_ask: plan.must_ask.clone(), ..plan.access.clone() };
        let command = plan.access.command.as_ref().and_then(|command| match &command.line {
            CommandLine::Shell(script) => Some(Arc::clone(script)),
            CommandLine::Argv(_) => None,
        });
        // The title may be the model's own description, so people see the command itself, too.
        let lines = [command.clone(), Some(self.cwd_line()), plan.must_ask.clone()];
        let lines: Vec<Arc<str>> = lines.into_iter().flatten().collect();
        ApprovalRequest {
            key: Arc::clone(&call.id),
            stage,
            kind: ApprovalKind::Tool,
            tool_id: Some(tool_id(call)),
            tool_name: Arc::clone(&call.name),
            class: plan.class,
            subject: command,
            access,
            edits: Vec::new(),
            suggestions: Vec::new(),
            title: Arc::clone(&plan.title),
            detail: lines.join("\n").into(),
            input: call.arguments.clone(),
        }
    }

    fn cwd_line(&self) -> Arc<str> {
        format!("in {}", self.setup.cwd.display()).into()
    }

    /// Asks the authority. Returns the output of a call that is not allowed.
    async fn decide(
        &mut self,
        request: ApprovalRequest,
        link: &mut EngineLink,
    ) -> Result<Option<CallOutput>, TurnStop> {
        match link.decide(request).await? {
            CallDecision::Proceed => Ok(None),
            CallDecision::Decide(decision) if decision.verdict.allows() => Ok(None),
            CallDecision::Decide(decision) => refusal(&decision).map(Some),
        }
    }

    async fn ask_person(
        &mut self,
        call: &ModelCall,
        question: Question,
        link: &mut EngineLink,
    ) -> Result<CallOutput, TurnStop> {
        let plan = CallPlan::free(Arc::clone(&question.text));
        let mut request = self.request(call, ApprovalStage::Request, &plan);
        request.kind = ApprovalKind::Question([question].into());
        match link.decide(request).await? {
            CallDecision::Decide(decision) if decision.verdict.allows() => {
                Ok(CallOutput::text(ask_user::answer_text(&decision.answers)))
            }
            CallDecision::Decide(decision) => refusal(&decision),
            CallDecision::Proceed => Ok(CallOutput::text(ask_user::answer_text(&[]))),
        }
    }

    /// Runs the calls of a wave at the same time.
    async fn run_steps(
        &mut self,
        calls: &[UnderstoodCall],
        steps: Vec<CallStep>,
        link: &mut EngineLink,
    ) -> Result<Vec<CallOutput>, TurnStop> {
        let cancel = link.cancel_token().clone();
        let mut awaited = Vec::new();
        let running = steps.into_iter().enumerate().map(|(place, step)| {
            let io = CallIo { cancel: cancel.clone() };
            if let CallStep::AwaitCaller = step {
                awaited.push(place);
            }
            run_step(step, io)
        });
        let mut running = std::pin::pin!(join_all(running.collect::<Vec<_>>()));
        let mut outputs = match link.run(&mut running).await {
            Ok(outputs) => outputs,
            Err(interrupted) => {
                // The tools share this token, so they stop now and report how far they got.
                if let Ok(outputs) = timeout(TOOL_STOP_LIMIT, running).await {
                    let mut out = Vec::new();
                    for (understood, output) in calls.iter().zip(outputs) {
                        self.record_output(&understood.call, &output, &mut out);
                    }
                    link.send(out).await;
                }
                return Err(interrupted.into());
            }
        };
        for place in awaited {
            let result = link.caller_result(&tool_id(&calls[place].call)).await?;
            let changed = Vec::new();
            outputs[place] = CallOutput { ok: result.ok, content: result.content, changed };
        }
        Ok(outputs)
    }

    /// Masks the keys that we know. Text that only looks like a secret stays, because the model may
    /// have to write it back.
    fn without_secrets(&self, part: &Content) -> Content {
        match part {
            Content::Text(text) => match self.setup.host.redactor.mask_known(text) {
                Cow::Borrowed(_) => part.clone(),
                Cow::Owned(masked) => Content::text(masked),
            },
            Content::Image { .. } => part.clone(),
        }
    }

    /// Adds the instructions of folders that a call is the first to touch.
    fn add_instructions(&mut self, output: &mut CallOutput, paths: &[PathBuf]) {
        let Some(instructions) = &mut self.state.instructions else { return };
        for path in paths {
            if let Some(text) = instructions.on_the_way(&self.setup.cwd, path) {
                let text = format!("\n[instructions of this project for that folder]\n{text}");
                output.content.push(Content::text(text));
            }
        }
    }

    fn record_output(&mut self, call: &ModelCall, output: &CallOutput, out: &mut Vec<AgentEvent>) {
        let id = tool_id(call);
        if !self.open_calls.contains(&id) {
            return;
        }
        self.open_calls.retain(|open| *open != id);
        self.guard.note(&call.name, call.arguments.get(), &output.all_text());
        let mut content: Vec<_> =
            output.content.iter().map(|part| self.without_secrets(part)).collect();
        if content.is_empty() {
            content.push(Content::text(""));
        }
        for event in result_events(&id, output.ok, &content) {
            self.record(event, out);
        }
    }
}

fn tool_id(call: &ModelCall) -> ToolId {
    ToolId::new(Arc::clone(&call.id))
}

/// Checks that a call is possible, on a thread that may block, and returns what it would change.
async fn review(
    prepared: Box<dyn PreparedCall>,
) -> Result<(Box<dyn PreparedCall>, Vec<FileEdit>), CallError> {
    if prepared.plan().class != ToolClass::Edit {
        return Ok((prepared, Vec::new()));
    }
    let reviewed = tokio::task::spawn_blocking(move || {
        let edits = prepared.review()?;
        Ok((prepared, edits))
    });
    reviewed.await.unwrap_or_else(|error| Err(CallError::new(format!("the tool failed: {error}"))))
}

async fn run_step(step: CallStep, io: CallIo) -> CallOutput {
    match step {
        CallStep::Done(output) => output,
        // Replaced later by the result that the caller sends.
        CallStep::AwaitCaller => CallOutput::text(""),
        CallStep::Run(call) => {
            // A panic in a tool fails only this call.
            let done = AssertUnwindSafe(call.run(io)).catch_unwind().await;
            done.unwrap_or_else(|_| {
                CallOutput::failure("the tool failed; this is a bug in angelia")
            })
        }
    }
}

/// Returns whether the call only reads below the session's directory, which nobody is asked about.
fn is_reading_inside(plan: &CallPlan, cwd: &Path) -> bool {
    plan.class == ToolClass::Read
        && plan.must_ask.is_none()
        && plan.access.writes.is_empty()
        && plan.access.command.is_none()
        && plan.access.reads.iter().all(|path| path.starts_with(cwd))
}

/// Returns the output of a call that was not allowed, or stops the turn.
fn refusal(decision: &Decision) -> Result<CallOutput, TurnStop> {
    if decision.verdict == Verdict::Stop {
        return Err(TurnStop::Denied);
    }
    let words = match decision.note.as_deref() {
        Some(note) if !note.trim().is_empty() => format!("not allowed: {note}"),
        _ => "not allowed; go on without it, or ask".to_owned(),
    };
    Ok(CallOutput::failure(words))
}
