//! `delegate`: hands a task to an agent of another profile, and returns its answer.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{CallerTool, RawJson, SessionId, SessionSpec},
    ports::{BoxFuture, DelegateProfile, DelegateResult, DelegatedWork},
};
use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::tool::{
    CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, raw_json,
};
use crate::{delegation_slot::DelegationSlot, truncation::first_line};

pub const NAME: &str = "delegate";

const SCHEMA: &str = r#"{"type":"object","properties":{"task":{"type":"string"},"profile":{"type":"string"},"session":{"type":"string"}},"required":["task"]}"#;

/// The cost of a session's delegated work, until the loop collects it.
#[derive(Clone, Debug, Default)]
pub struct DelegatedCost(Arc<Mutex<f64>>);

impl DelegatedCost {
    fn add(&self, usd: f64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += usd;
    }

    /// Returns the cost since the last call.
    pub(in crate::native) fn take(&self) -> f64 {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct DelegateTool {
    desk: Arc<DelegateDesk>,
    profiles: Vec<DelegateProfile>,
}

struct DelegateDesk {
    slot: DelegationSlot,
    session: SessionId,
    cost: DelegatedCost,
}

impl DelegateTool {
    /// Returns `None` if the session may not delegate to any profile.
    pub fn new(
        slot: &DelegationSlot,
        session: SessionId,
        spec: &SessionSpec,
        cost: DelegatedCost,
    ) -> Option<Self> {
        let profiles = slot.get()?.delegates(spec);
        let desk = DelegateDesk { slot: slot.clone(), session, cost };
        (!profiles.is_empty()).then(|| Self { desk: Arc::new(desk), profiles })
    }

    fn names(&self) -> Vec<&str> {
        self.profiles.iter().map(|profile| &*profile.name).collect()
    }
}

impl fmt::Debug for DelegateTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegateTool").field("profiles", &self.profiles).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct DelegateArguments {
    task: String,
    profile: Option<String>,
    session: Option<String>,
}

struct DelegateCall {
    desk: Arc<DelegateDesk>,
    work: DelegatedWork,
    plan: CallPlan,
}

impl fmt::Debug for DelegateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegateCall").field("work", &self.work).finish_non_exhaustive()
    }
}

impl Tool for DelegateTool {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Hand a task to another agent and get its answer. It has at most your permissions and knows nothing \
         of this conversation, so tell it everything. Several calls in one answer run at the same time. \
         `session` goes on with an earlier one."
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    /// Describes the tool with the profiles that the session may delegate to.
    fn definition(&self) -> CallerTool {
        let profiles = self.profiles.iter().map(|one| format!("`{}` ({})", one.name, one.about));
        let profiles = profiles.collect::<Vec<_>>().join(", ");
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string"},
                "profile": {"enum": self.names()},
                "session": {"type": "string"},
            },
            "required": ["task"],
        });
        let schema: RawJson = to_raw_value(&schema).map_or_else(|_| raw_json(SCHEMA), Into::into);
        CallerTool {
            name: NAME.into(),
            description: format!("{} Profiles: {profiles}.", self.description()).into(),
            input_schema: schema,
        }
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let DelegateArguments { task, profile, session } = parse_arguments(arguments)?;
        let names = self.names();
        let profile = match (profile, &*names) {
            (Some(profile), _) => profile,
            (None, [only]) => (*only).to_owned(),
            (None, _) => {
                let known = names.join(", ");
                return Err(CallError::new(format!("`profile` is missing; there are: {known}")));
            }
        };
        let words = first_line(&task).unwrap_or_default();
        let plan = CallPlan::hands_on(format!("{profile}: {words}"));
        let work = DelegatedWork { profile, task, session };
        Ok(Box::new(DelegateCall { desk: Arc::clone(&self.desk), work, plan }))
    }
}

impl PreparedCall for DelegateCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        let Self { desk, work, .. } = *self;
        Box::pin(async move {
            let Some(delegation) = desk.slot.get() else {
                return CallOutput::failure("angelia is shutting down; nothing was handed on");
            };
            match delegation.hand_on(desk.session, work, io.cancel).await {
                Ok(answer) => {
                    desk.cost.add(answer.cost_usd.unwrap_or_default());
                    answer_output(&answer)
                }
                Err(failure) => {
                    let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                    CallOutput::failure(format!("{}{hint}", failure.message))
                }
            }
        })
    }
}

/// Returns the answer, with the id that the model needs to continue the session.
fn answer_output(answer: &DelegateResult) -> CallOutput {
    let note = format!("[session {}: {}]", answer.session, answer.status);
    match &answer.failure {
        None => CallOutput::text(format!("{}\n{note}", answer.text)),
        Some(why) if answer.text.is_empty() => {
            CallOutput::failure(format!("it failed: {why}\n{note}"))
        }
        Some(why) => {
            let partial = &answer.text;
            CallOutput::failure(format!("it failed: {why}\nits partial answer:\n{partial}\n{note}"))
        }
    }
}
