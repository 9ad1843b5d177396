//! The test setup: the router, an engine, and an agent that the test controls.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::{
        Content, EventKind, Failure, FailureKind, HistoryMessage, MessagePart, Mode, Role,
        SessionSpec, SystemPrompt, ToolCall, ToolClass, ToolId, ToolResult,
    },
    ports::{
        Activity, AgentEvent, BoxFuture, ProfileRequest, ProfileSummary, Profiles, TurnControl,
    },
    task::TaskGroup,
};
use angelia_frontends::http::{
    AccessKey, AllowedModels, ApiState, CallerLimits, ConnectionSource, Grant,
    dialect::{ModelFamily, ModelSettings},
    router,
};
use angelia_frontends::socket::{LocalCaller, TcpPeer};
use angelia_testkit::{
    clock::SystemClock,
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor, ManualTurn},
    memory_store::MemoryStore,
};
use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::ServiceExt;

use crate::router_fixture::api_state;
pub(crate) use crate::router_fixture::{ApiResponse, DEADLINE, LOCAL_ADDRESS, TOKEN};
pub(crate) const MODEL: &str = "puppet/wood";

pub(crate) struct ModelApiHarness {
    pub(crate) state: Arc<ApiState>,
    router: Router,
    pub(crate) control: ExecutorControl,
}

impl ModelApiHarness {
    pub(crate) fn new() -> Self {
        Self::with_settings(|_| {}, EngineLimits::default())
    }

    pub(crate) fn with_settings(
        change: impl FnOnce(&mut ModelSettings),
        limits: EngineLimits,
    ) -> Self {
        let (puppet, strings) = ManualExecutor::new();
        let engine = Engine::new(EngineParts {
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(SystemClock),
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits,
            tasks: TaskGroup::new(),
        });
        let mut models = ModelSettings {
            families: vec![ModelFamily {
                executor: "puppet".into(),
                bare_prefixes: vec!["wood-".into()],
                agent_aliases: vec!["puppet-cli".into()],
                models: vec!["wood".into(), "oak".into()],
                providers: None,
            }],
            disconnect_grace: Duration::from_millis(50),
            ..ModelSettings::default()
        };
        change(&mut models);
        Self::on(engine, models, strings)
    }

    pub(crate) fn engine(&self) -> Engine {
        self.state.engine.clone()
    }

    fn on(engine: Engine, models: ModelSettings, strings: ExecutorControl) -> Self {
        let state = Arc::new(api_state(engine, Arc::new(ModelApiProfiles), models));
        Self { router: router(Arc::clone(&state)), state, control: strings }
    }

    /// Returns the same daemon with other limits for callers.
    pub(crate) fn with_caller_limits(self, caller_limits: CallerLimits) -> Self {
        drop(self.router);
        let state = Arc::into_inner(self.state).unwrap();
        let state = Arc::new(ApiState { caller_limits, ..state });
        Self { router: router(Arc::clone(&state)), state, control: self.control }
    }

    /// Returns a second daemon on the same store, with an empty memory.
    pub(crate) fn restarted(self) -> Self {
        let models = (*self.state.models.current()).clone();
        Self::on(self.state.engine.clone(), models, self.control)
    }

    /// Waits for the next turn that the agent is asked to run, and starts it.
    pub(crate) async fn run(&self) -> ManualTurn {
        let run = self.run_unstarted().await;
        run.emit_started().await;
        run
    }

    /// Waits for the next turn that the agent is asked to run.
    pub(crate) async fn run_unstarted(&self) -> ManualTurn {
        tokio::time::timeout(DEADLINE, self.control.next_turn()).await.unwrap()
    }

    /// Sends a request in the background, as a client would.
    pub(crate) fn send(&self, ask: &ModelApiRequest) -> tokio::task::JoinHandle<ApiResponse> {
        let (router, request) = (self.router.clone(), ask.request());
        #[expect(clippy::disallowed_methods, reason = "a client is somebody else")]
        tokio::spawn(async move { ApiResponse::read(router.oneshot(request).await.unwrap()).await })
    }

    /// Sends a request and disconnects when the answer has started.
    pub(crate) async fn send_and_leave(&self, ask: &ModelApiRequest) {
        let response = self.router.clone().oneshot(ask.request()).await.unwrap();
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
    }

    pub(crate) async fn send_and_wait(&self, ask: &ModelApiRequest) -> ApiResponse {
        tokio::time::timeout(DEADLINE, self.send(ask)).await.unwrap().unwrap()
    }

    pub(crate) async fn raw(&self, request: Request<Body>) -> ApiResponse {
        ApiResponse::read(self.router.clone().oneshot(request).await.unwrap()).await
    }

    /// Runs one whole turn in which the agent answers `says`.
    pub(crate) async fn run_turn(&self, ask: &ModelApiRequest, says: &str) -> ApiResponse {
        let answer = self.send(ask);
        let run = self.run().await;
        run.emit_answer(0, says).await;
        run.complete(says);
        let answer = tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer
    }

    /// Returns how many agents were started.
    pub(crate) fn agents_opened(&self) -> usize {
        self.control.opened_agents()
    }
}

/// A request for a chat completion.
#[derive(Clone)]
pub(crate) struct ModelApiRequest {
    pub(crate) body: Value,
    headers: Vec<(String, String)>,
    token: String,
    path: &'static str,
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

impl ModelApiRequest {
    pub(crate) fn new(messages: impl Into<Vec<Value>>) -> Self {
        Self {
            body: json!({"model": MODEL, "messages": messages.into()}),
            headers: Vec::new(),
            token: TOKEN.to_owned(),
            path: "/v1/chat/completions",
        }
    }

    /// Returns a request of the Messages API.
    pub(crate) fn messages(messages: impl Into<Vec<Value>>) -> Self {
        Self { path: "/v1/messages", ..Self::new(messages) }
    }

    pub(crate) fn responses(body: Value) -> Self {
        Self { path: "/v1/responses", body, ..Self::new([]) }
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body[field] = value.into();
        self
    }

    pub(crate) fn streamed(self) -> Self {
        self.with("stream", true)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::builder()
            .method("POST")
            .uri(self.path)
            .header("host", "127.0.0.1:4376")
            .header("authorization", format!("Bearer {}", self.token))
            .extension(loopback_source());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body.to_string())).unwrap()
    }
}

pub(crate) fn loopback_source() -> ConnectionSource {
    ConnectionSource::Tcp(TcpPeer::identified(LOCAL_ADDRESS, LocalCaller::Owner))
}

pub(crate) fn get(path: &str) -> axum::http::request::Builder {
    Request::builder().uri(path).header("host", "127.0.0.1:4376").extension(loopback_source())
}

impl ApiResponse {
    /// Returns the content of the first choice.
    pub(crate) fn content(&self) -> String {
        let json = self.json();
        let content = json["choices"][0]["message"]["content"].as_str();
        content.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// Returns the deltas of a stream, joined.
    pub(crate) fn streamed(&self) -> String {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks = data.filter(|data| *data != "[DONE]");
        chunks
            .map(|data| {
                let chunk: Value = serde_json::from_str(data).unwrap();
                let delta = chunk["choices"][0]["delta"]["content"].as_str();
                delta.unwrap_or_default().to_owned()
            })
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(crate) fn session(&self) -> &str {
        self.header("x-angelia-session")
    }

    pub(crate) fn turn(&self) -> &str {
        self.header("x-angelia-turn")
    }

    pub(crate) fn error(&self) -> String {
        let json = self.json();
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Returns the input of the agent's turn as text.
pub(crate) fn input_text(run: &ManualTurn) -> String {
    let texts = run.turn.input.iter().map(|content| match content {
        Content::Text(text) => text.to_string(),
        Content::Image { media_type, .. } => format!("<{media_type}>"),
    });
    texts.collect::<Vec<_>>().join("|")
}

/// Formats a history, one line per part.
pub(crate) fn format_history(history: &[HistoryMessage]) -> Vec<String> {
    let part = |part: &MessagePart| match part {
        MessagePart::Content(Content::Text(text)) => text.to_string(),
        MessagePart::Content(Content::Image { .. }) => "<image>".to_owned(),
        MessagePart::Thinking { .. } => "<thinking>".to_owned(),
        MessagePart::ToolUse { id, name, .. } => format!("<{name} {id}>"),
        MessagePart::ToolResult { id, content, .. } => {
            let texts = content.iter().map(|content| match content {
                Content::Text(text) => text.to_string(),
                Content::Image { .. } => "<image>".to_owned(),
            });
            format!("<{id}: {}>", texts.collect::<Vec<_>>().join("|"))
        }
    };
    let line = |message: &HistoryMessage| {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{who}: {}", parts.join(" "))
    };
    history.iter().map(line).collect()
}

/// Makes the agent call its caller's tools and wait for their results.
pub(crate) async fn call(run: &ManualTurn, ids: &[&str], name: &str) {
    let mut emitted: Vec<AgentEvent> = ids
        .iter()
        .map(|id| {
            AgentEvent::Event(EventKind::ToolCall(ToolCall {
                id: ToolId::new(*id),
                name: name.into(),
                class: ToolClass::Other,
                input: serde_json::from_str(r#"{"city":"Paris"}"#).unwrap(),
                title: name.into(),
                parent: None,
            }))
        })
        .collect();
    emitted.push(AgentEvent::Activity(Activity::AwaitingToolResult));
    run.emit(emitted).await;
}

/// Waits for the next tool result that the agent is given, makes the agent report it, and returns
/// it as text.
pub(crate) async fn next_tool_result(run: &mut ManualTurn) -> String {
    let told = tokio::time::timeout(DEADLINE, run.io.control.recv()).await;
    let Some(TurnControl::ToolResult { id, ok, content }) = told.unwrap() else {
        panic!("this is no result");
    };
    let texts = content.iter().map(|content| match content {
        Content::Text(text) => text.to_string(),
        Content::Image { .. } => "<image>".to_owned(),
    });
    let text = texts.collect::<Vec<_>>().join("|");
    let result = ToolResult::new(id.clone(), ok, text.as_str());
    run.emit(vec![AgentEvent::Event(EventKind::ToolResult(result))]).await;
    format!("{id}: {text}")
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "finds",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})
}

pub(crate) fn key(name: &str, secret: &str, grant: Grant) -> AccessKey {
    AccessKey { name: name.into(), sha256: Sha256::digest(secret.as_bytes()).into(), grant }
}

pub(crate) fn full_grant() -> Grant {
    Grant {
        profiles: AllowedModels::All,
        providers: AllowedModels::All,
        agent_mode: true,
        max_cost_usd_per_day: None,
    }
}

/// The plain manual executor in any mode, and the profile `work` in agent mode.
struct ModelApiProfiles;

impl Profiles for ModelApiProfiles {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(async move {
            let (name, mode) = match (wanted.target, wanted.profile) {
                (Some(target), _) => (target.executor, target.mode),
                (None, Some(name)) if &*name == "work" => (name, Mode::Agent),
                (None, other) => {
                    let message = format!("there is no profile {other:?}");
                    return Err(Failure::new(FailureKind::Invalid, message));
                }
            };
            let system = match mode {
                Mode::Agent => SystemPrompt::Default,
                Mode::Model => SystemPrompt::Replace("".into()),
            };
            Ok(SessionSpec {
                profile: name,
                mode,
                model: wanted.model,
                system,
                ..SessionSpec::new("puppet", "/work")
            })
        })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        vec![ProfileSummary {
            name: "work".into(),
            executor: "puppet".into(),
            mode: Mode::Agent,
            model: None,
        }]
    }
}
