//! An agent that acts at random: everything an agent can do, in any order, obedient or not.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, EventKind, Failure, FailureKind, Level, Notice, RawJson,
        SessionId, Status, ToolCall, ToolClass, ToolId, ToolResult, TurnId, Usage,
    },
    ports::{Activity, Emitted, Ended, TurnControl},
};
use angelia_testkit::puppet::Run;

use crate::dice::Dice;

/// One running turn of an agent, and the blocks, tools and questions it has opened.
pub(crate) struct Acting {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    run: Option<Run>,
    blocks: u32,
    tools: Vec<ToolId>,
    asked: Vec<Arc<str>>,
    called: Vec<ToolId>,
    count: u32,
}

/// The result of a random step.
pub(crate) enum Moved {
    On,
    Ended,
    Limited,
}

fn raw() -> RawJson {
    serde_json::value::RawValue::from_string("{}".to_owned()).unwrap().into()
}

impl Acting {
    pub(crate) fn new(run: Run) -> Self {
        Self {
            turn: run.turn.id,
            session: run.turn.session,
            run: Some(run),
            blocks: 0,
            tools: Vec::new(),
            asked: Vec::new(),
            called: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.run.as_ref().is_none_or(Run::is_given_up)
    }

    /// Returns a call of a caller's tool that waits for its result.
    pub(crate) fn waiting_call(&self) -> Option<&ToolId> {
        self.called.first()
    }

    pub(crate) async fn act(&mut self, dice: &mut Dice) -> Moved {
        self.listen();
        let Some(run) = &self.run else {
            return Moved::Ended;
        };
        if run.io.cancel.is_cancelled() && !dice.one_in(4) {
            return self.end(interrupted());
        }
        match dice.below(24) {
            0 => run.start().await,
            1..=5 => {
                run.say(self.blocks, "words").await;
                self.blocks += 1;
            }
            6..=8 => self.call_tool().await,
            9..=11 => self.finish_tool().await,
            12 | 13 => self.ask().await,
            14 => {
                if let Some(key) = self.asked.pop() {
                    run.emit(vec![Emitted::Withdraw(key)]).await;
                }
            }
            15 => {
                let activity = [
                    Activity::WaitingForModel,
                    Activity::Retrying,
                    Activity::Compacting,
                    Activity::Background,
                ];
                let activity = *dice.pick(&activity).unwrap();
                run.emit(vec![Emitted::Activity(activity)]).await;
            }
            16 => self.call_caller().await,
            17 => {
                let usage = Usage { cost_usd: Some(0.1), ..Usage::default() };
                run.emit(vec![Emitted::Event(EventKind::Usage(usage))]).await;
            }
            18 => {
                let notice = EventKind::Notice(Notice::new(Level::Info, "any", "any"));
                run.emit(vec![Emitted::Event(notice)]).await;
            }
            19 | 20 => return self.end(completed()),
            21 => return self.fail(dice),
            22 => return self.limit(dice),
            _ => return self.break_down(dice),
        }
        Moved::On
    }

    pub(crate) fn complete(&mut self) {
        self.end(completed());
    }

    fn end(&mut self, ended: Ended) -> Moved {
        if let Some(run) = self.run.take() {
            run.end(ended);
        }
        Moved::Ended
    }

    fn fail(&mut self, dice: &mut Dice) -> Moved {
        let kind = *dice.pick(&FailureKind::ALL).unwrap();
        self.end(Ended::failed(Failure::new(kind, "by chance")))
    }

    fn limit(&mut self, dice: &mut Dice) -> Moved {
        let mut failure = Failure::new(FailureKind::RateLimited, "no quota");
        let hours = u64::try_from(dice.below(20)).unwrap();
        failure.retry_after = Some(Duration::from_mins(1 + 60 * hours));
        self.end(Ended::failed(failure));
        Moved::Limited
    }

    fn break_down(&mut self, dice: &mut Dice) -> Moved {
        if let Some(run) = self.run.take() {
            match dice.below(3) {
                // Rarely, because every panic prints its message.
                0 if dice.one_in(8) => run.panic(),
                1 => drop(run),
                _ => run.retire(completed()),
            }
        }
        Moved::Ended
    }

    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{}", self.count)
    }

    async fn call_tool(&mut self) {
        let id = ToolId::new(self.fresh("tool"));
        self.tools.push(id.clone());
        let call = ToolCall {
            id,
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: raw(),
            title: "ls".into(),
            parent: None,
        };
        self.emit(Emitted::Event(EventKind::ToolCall(call))).await;
    }

    async fn finish_tool(&mut self) {
        if let Some(id) = self.tools.pop() {
            let result = ToolResult { id, ok: true, output: "done".into() };
            self.emit(Emitted::Event(EventKind::ToolResult(result))).await;
        }
    }

    async fn ask(&mut self) {
        let key: Arc<str> = self.fresh("ask").into();
        self.asked.push(Arc::clone(&key));
        let request = ApprovalRequest {
            key,
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: "Bash".into(),
            class: ToolClass::Execute,
            subject: Some("ls".into()),
            title: "ls".into(),
            detail: "in /project".into(),
            input: raw(),
        };
        self.emit(Emitted::Ask(request)).await;
    }

    /// Calls one of the caller's tools; the agent waits for its result.
    async fn call_caller(&mut self) {
        self.call_tool().await;
        if let Some(id) = self.tools.pop() {
            self.called.push(id);
            self.emit(Emitted::Activity(Activity::AwaitingToolResult)).await;
        }
    }

    async fn emit(&self, emitted: Emitted) {
        if let Some(run) = &self.run {
            run.emit(vec![emitted]).await;
        }
    }

    /// Handles the controls that the engine has sent.
    fn listen(&mut self) {
        let Some(run) = &mut self.run else { return };
        while let Ok(control) = run.io.control.try_recv() {
            match control {
                TurnControl::Decide { key, .. } => self.asked.retain(|asked| *asked != key),
                TurnControl::Steer(_) => {}
                TurnControl::ToolResult { id, .. } => {
                    self.called.retain(|called| *called != id);
                    self.tools.push(id);
                }
            }
        }
    }
}

fn completed() -> Ended {
    Ended { status: Status::Completed, text: None, reason: "end_turn".into() }
}

fn interrupted() -> Ended {
    Ended { status: Status::Interrupted, text: None, reason: "interrupted".into() }
}
