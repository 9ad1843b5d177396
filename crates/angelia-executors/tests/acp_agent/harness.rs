//! The scripted ACP agent in an isolated home.

use std::path::PathBuf;

use angelia_core::{
    model::{NativeSessionId, SessionSpec, Verdict},
    ports::AgentEvent,
};
use angelia_executors::acp;
use angelia_testkit::{
    direct_session::{DirectSession, TurnOutput},
    programs,
};
use serde_json::{Value, json};

use crate::isolated_executor::IsolatedExecutor;

pub(crate) struct AcpHarness {
    pub(crate) place: IsolatedExecutor,
}

impl AcpHarness {
    pub(crate) fn new() -> Self {
        Self { place: IsolatedExecutor::new(&acp::REGISTRATION) }
    }

    pub(crate) fn spec(&self, arguments: &[&str]) -> SessionSpec {
        let mut spec = SessionSpec::new("acp", self.work());
        let program = programs::acp_fake().unwrap();
        spec.command = vec![program.to_str().unwrap().into()];
        spec.command.extend(arguments.iter().map(|word| (*word).into()));
        spec
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.place.isolated.work_dir()
    }

    pub(crate) async fn open(&self) -> DirectSession {
        self.open_as(&self.spec(&[]), None).await
    }

    pub(crate) async fn open_as(
        &self,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> DirectSession {
        DirectSession::open(&*self.place.executor, spec, native).await.unwrap()
    }
}

/// Returns a script step that sends this message.
pub(crate) fn send_step(message: &Value) -> String {
    format!("> {message}\n")
}

/// Returns script steps that send this request to us and repeat the answer as text.
pub(crate) fn request_steps(method: &str, params: Value) -> String {
    let mut params = params;
    params["sessionId"] = "$S".into();
    let request = json!({"id": format!("r-{method}"), "method": method, "params": params});
    format!("{}<\n", send_step(&request))
}

pub(crate) fn update_step(update: &Value) -> String {
    let params = json!({"sessionId": "$S", "update": update});
    send_step(&json!({"method": "session/update", "params": params}))
}

pub(crate) async fn run_with_verdict(
    session: &mut DirectSession,
    script: &str,
    verdict: Verdict,
) -> TurnOutput {
    let watch = move |one: &AgentEvent, hands: &angelia_testkit::direct_session::TurnHandle| {
        if let AgentEvent::ApprovalRequest(request) = one {
            hands.decide(request, verdict);
        }
    };
    session.prompt_watched(script, watch).await
}

/// Returns the answers that the agent has repeated, each an object.
pub(crate) fn repeated_answers(heard: &TurnOutput) -> Vec<Value> {
    let said = heard.deltas();
    let mut all = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let mut answers = Vec::new();
    while let Some(Ok(value)) = all.next() {
        answers.push(value);
    }
    assert!(!answers.is_empty(), "{heard:#?}");
    answers
}
