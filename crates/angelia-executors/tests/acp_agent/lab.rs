//! The scripted ACP agent in an isolated home.

use std::path::PathBuf;

use angelia_core::{
    model::{NativeSessionId, SessionSpec, Verdict},
    ports::Emitted,
};
use angelia_executors::acp;
use angelia_testkit::{
    by_hand::{Heard, Session},
    programs,
};
use serde_json::{Value, json};

use crate::place::Place;

pub(crate) struct Lab {
    pub(crate) place: Place,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { place: Place::new(&acp::REGISTRATION) }
    }

    pub(crate) fn spec(&self, arguments: &[&str]) -> SessionSpec {
        let mut spec = SessionSpec::new("acp", self.work());
        let program = programs::acp_fake().unwrap();
        spec.command = vec![program.to_str().unwrap().into()];
        spec.command.extend(arguments.iter().map(|word| (*word).into()));
        spec
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.place.isolated.work()
    }

    pub(crate) async fn open(&self) -> Session {
        self.open_as(&self.spec(&[]), None).await
    }

    pub(crate) async fn open_as(
        &self,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Session {
        Session::open(&*self.place.executor, spec, native).await.unwrap()
    }
}

/// Returns a script step that sends this message.
pub(crate) fn says(message: &Value) -> String {
    format!("> {message}\n")
}

/// Returns script steps that send this request to us and repeat the answer as text.
pub(crate) fn asks(method: &str, params: Value) -> String {
    let mut params = params;
    params["sessionId"] = "$S".into();
    let request = json!({"id": format!("r-{method}"), "method": method, "params": params});
    format!("{}<\n", says(&request))
}

pub(crate) fn update(update: &Value) -> String {
    let params = json!({"sessionId": "$S", "update": update});
    says(&json!({"method": "session/update", "params": params}))
}

pub(crate) async fn decided(session: &mut Session, script: &str, verdict: Verdict) -> Heard {
    let watch = move |one: &Emitted, hands: &angelia_testkit::by_hand::Hands| {
        if let Emitted::Ask(request) = one {
            hands.decide(request, verdict);
        }
    };
    session.say_watched(script, watch).await
}

/// Returns the answers that the agent has repeated, each an object.
pub(crate) fn answers(heard: &Heard) -> Vec<Value> {
    let said = heard.deltas();
    let mut all = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let mut answers = Vec::new();
    while let Some(Ok(value)) = all.next() {
        answers.push(value);
    }
    assert!(!answers.is_empty(), "{heard:#?}");
    answers
}
