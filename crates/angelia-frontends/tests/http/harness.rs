//! The test setup: the router, an engine, and an agent that does what its prompt says.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Content, EventKind, Failure, FailureKind,
        FileChange, FileEdit, Mode, Notice, NoticeLevel, Question, QuestionOption, SessionId,
        SessionSpec, TextChannel, ToolAccess, ToolClass, TurnStatus, Usage,
    },
    ports::{
        AgentEvent, AgentOutcome, BoxFuture, Clock, ProfileRequest, ProfileSummary, Profiles,
        Store, TurnControl,
    },
    task::TaskGroup,
};
use angelia_frontends::{
    http::{
        AgentAccess, AgentDelegation, ApiState, ConnectionSource, DelegatedTurnLimits,
        dialect::ModelSettings, router,
    },
    mcp::lineage,
    socket::{AgentSessions, LocalCaller, Peer, TcpPeer},
};
use angelia_testkit::{
    lexical_paths::LexicalPaths,
    manual_executor::{ManualExecutor, ManualTurn},
    memory_store::MemoryStore,
};
use axum::{
    Router,
    body::Body,
    http::{Method, Request},
};
use serde_json::Value;
use tokio::sync::Semaphore;
use tower::ServiceExt;
use uuid::Uuid;

use crate::router_fixture::api_state;
pub(crate) use crate::router_fixture::{ApiResponse, DEADLINE, LOCAL_ADDRESS, TOKEN};

pub(crate) struct ApiHarness {
    pub(crate) state: Arc<ApiState>,
    pub(crate) router: Router,
    /// Each permit lets one held turn continue.
    pub(crate) permits: Arc<Semaphore>,
    runs: Arc<AtomicU64>,
    _agent_tasks: TaskGroup,
}

impl ApiHarness {
    pub(crate) fn new() -> Self {
        Self::with_limits(EngineLimits::default())
    }

    pub(crate) fn with_limits(limits: EngineLimits) -> Self {
        Self::with_store(Arc::new(MemoryStore::new()), limits)
    }

    pub(crate) fn with_store(store: Arc<dyn Store>, limits: EngineLimits) -> Self {
        let (puppet, strings) = ManualExecutor::new();
        let hands = TaskGroup::new();
        let go = Arc::new(Semaphore::new(0));
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store),
            clock: Arc::new(CountingClock::default()),
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits,
            tasks: TaskGroup::new(),
        });
        let (more_hands, held) = (hands.clone(), Arc::clone(&go));
        let runs = Arc::<AtomicU64>::default();
        let count = Arc::clone(&runs);
        hands.spawn_until_stopped(async move {
            loop {
                let run = strings.next_turn().await;
                count.fetch_add(1, Ordering::Relaxed);
                more_hands.spawn_until_stopped(play_turn(run, Arc::clone(&held)));
            }
        });
        let state = Arc::new(ApiState {
            agents: {
                let agents = Arc::new(ApiAgents(store));
                Arc::new(AgentAccess::new(Arc::clone(&agents) as _, agents))
            },
            allowed_hosts: vec!["box.example".to_owned(), "dev.example:99".to_owned()],
            allowed_origins: vec!["https://app.example".to_owned()],
            ..api_state(engine, Arc::new(ApiProfiles), ModelSettings::default())
        });
        Self { router: router(Arc::clone(&state)), state, permits: go, runs, _agent_tasks: hands }
    }

    /// Signs a browser in, and returns its token.
    pub(crate) async fn sign_in(&self) -> String {
        let code = self.login_code().await;
        let body = serde_json::json!({"code": code});
        let mut request = request(Method::POST, "/api/login", Some(body));
        request.headers_mut().remove("authorization");
        let login = self.send(request).await.success_json();
        login["token"].as_str().unwrap().to_owned()
    }

    /// Returns a code for a login, as a command at this machine gets it.
    pub(crate) async fn login_code(&self) -> String {
        let mut request = request(Method::POST, "/api/login/codes", None);
        request.extensions_mut().insert(own_process_source());
        let made = self.send(request).await.success_json();
        let url = made["url"].as_str().unwrap();
        url.split_once("/#code=").unwrap().1.to_owned()
    }

    /// Returns how many turns an agent was asked to run.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Sends a request as the owner's program does over TCP.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> ApiResponse {
        self.send(request(method, path, body)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> ApiResponse {
        let response = self.router.clone().oneshot(request).await.unwrap();
        ApiResponse::read(response).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None).await.success_json()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.call(Method::POST, path, Some(body)).await.success_json()
    }

    pub(crate) async fn session(&self) -> String {
        let session = self.post("/api/sessions", serde_json::json!({})).await;
        session["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn submit(&self, session: &str, prompt: &str) -> String {
        let path = format!("/api/sessions/{session}/turns");
        let turn = self.post(&path, serde_json::json!({"input": prompt})).await;
        turn["id"].as_str().unwrap().to_owned()
    }

    /// Returns the event stream up to the end of the turn, as text.
    pub(crate) async fn events(&self, turn: &str, after: u64) -> String {
        let path = format!("/api/turns/{turn}/events?after={after}");
        let answer = self.call(Method::GET, &path, None).await;
        assert!(answer.status.is_success(), "{answer:?}");
        answer.text
    }

    /// Waits until the turn has this status.
    pub(crate) async fn wait_for_status(&self, turn: &str, status: &str) -> Value {
        let path = format!("/api/turns/{turn}");
        let reached = async {
            loop {
                let turn = self.get(&path).await;
                if turn["status"] == status {
                    return turn;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(DEADLINE, reached).await.unwrap()
    }
}

pub(crate) fn request(method: Method, path: &str, body: Option<Value>) -> Request<Body> {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:4376")
        .header("authorization", format!("Bearer {TOKEN}"))
        .extension(owner_source())
        .body(body)
        .unwrap()
}

/// Returns the owner's program as a caller over TCP.
pub(crate) fn owner_source() -> ConnectionSource {
    ConnectionSource::Tcp(TcpPeer::identified(LOCAL_ADDRESS, LocalCaller::Owner))
}

/// Returns this process as a caller over the Unix socket.
pub(crate) fn own_process_source() -> ConnectionSource {
    let uid = rustix::process::geteuid().as_raw();
    ConnectionSource::Unix(Peer::new(uid, Some(std::process::id())))
}

impl ApiResponse {
    pub(crate) fn success_json(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.json()
    }

    /// Asserts that the body has the shape of an error, and returns the error's parts.
    pub(crate) fn error(&self) -> (u16, String, String) {
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        assert!(!self.status.is_success(), "{self:?}");
        assert!(error.contains_key("hint"), "{self:?}");
        assert_eq!(json.as_object().unwrap().len(), 1, "{self:?}");
        let text = |field: &str| error[field].as_str().unwrap().to_owned();
        (self.status.as_u16(), text("kind"), text("message"))
    }
}

#[derive(Default)]
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> jiff::Timestamp {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        jiff::Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(count).unwrap())
            .unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.0.fetch_add(1, Ordering::Relaxed), 1)
    }
}

/// Three profiles with different default working directories: `default` has a project folder,
/// `homely` a home folder, and `nowhere` uses the caller's directory.
struct ApiProfiles;

impl Profiles for ApiProfiles {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(async move {
            let name = wanted.profile.unwrap_or_else(|| "default".into());
            let fallback = match (&*name, &wanted.caller_cwd) {
                ("default", _) => Path::new("/project"),
                ("homely", _) => Path::new("/home"),
                ("nowhere", Some(here)) => here,
                ("nowhere", None) => {
                    return Err(Failure::new(FailureKind::Invalid, "the profile needs a cwd"));
                }
                (other, _) => {
                    let message = format!("there is no profile `{other}`");
                    return Err(
                        Failure::new(FailureKind::Invalid, message).with_hint("use `default`")
                    );
                }
            };
            let cwd = wanted.cwd.unwrap_or_else(|| fallback.to_owned());
            Ok(SessionSpec {
                profile: name,
                model: wanted.model,
                trust: wanted.at_terminal,
                ..SessionSpec::new("puppet", cwd)
            })
        })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        vec![ProfileSummary {
            name: "default".into(),
            executor: "puppet".into(),
            mode: Mode::Agent,
            model: None,
        }]
    }
}

/// Returns the mark of the agent of a session.
pub(crate) fn agent_mark(session: &str) -> String {
    format!("home:owner:{session}")
}

/// Agents whose mark ends with the id of their session. They may hand work to `homely`.
struct ApiAgents(Arc<dyn Store>);

impl AgentSessions for ApiAgents {
    fn session_of(&self, mark: &str) -> Option<SessionId> {
        mark.rsplit(':').next()?.parse().ok()
    }
}

impl AgentDelegation for ApiAgents {
    fn is_within(
        &self,
        session: SessionId,
        top: SessionId,
    ) -> BoxFuture<'_, Result<bool, Failure>> {
        Box::pin(async move {
            let found = lineage::is_same_or_descendant(&*self.0, session, top).await;
            found.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
        })
    }

    fn check_delegation<'a>(
        &'a self,
        _: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let allowed = if &*spec.profile == "homely" {
            Ok(())
        } else {
            Err(Failure::new(FailureKind::Refused, "only to `homely`").with_hint("use it"))
        };
        Box::pin(std::future::ready(allowed))
    }

    fn turn_limits(&self, _: SessionId) -> BoxFuture<'_, Result<DelegatedTurnLimits, Failure>> {
        let limits = DelegatedTurnLimits {
            charged_to: "key:guest".into(),
            can_ask: false,
            max_cost_usd: Some(0.25),
        };
        Box::pin(std::future::ready(Ok(limits)))
    }
}

/// Plays a turn as its prompt says: `echo TEXT`, `words N`, `ask`, `question`, `fail`, `hang`,
/// `linger`, `listen`, `origin`. A prompt that starts with `held ` waits for a permit first.
async fn play_turn(run: ManualTurn, go: Arc<Semaphore>) {
    let Some(Content::Text(prompt)) = run.turn.input.first().cloned() else {
        run.emit_started().await;
        let text = format!("{} blocks", run.turn.input.len());
        return run.complete(&text);
    };
    run.emit_started().await;
    let prompt = match prompt.strip_prefix("held ") {
        Some(prompt) => {
            go.acquire().await.unwrap().forget();
            prompt
        }
        None => &prompt,
    };
    let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
    match word {
        "words" => words(run, rest.parse().unwrap()).await,
        "ask" => ask(run, ApprovalKind::Tool).await,
        "question" => ask(run, question()).await,
        "fail" => run.end(AgentOutcome::failed(
            Failure::new(FailureKind::Auth, "not logged in").with_hint("log in"),
        )),
        "hang" => {
            run.io.cancel.cancelled().await;
            run.end(AgentOutcome {
                status: TurnStatus::Interrupted,
                text: None,
                reason: "interrupted".into(),
            });
        }
        // Stops only when the test gives a permit, not when it is interrupted.
        "linger" => {
            run.io.cancel.cancelled().await;
            go.acquire().await.unwrap().forget();
            run.end(AgentOutcome {
                status: TurnStatus::Interrupted,
                text: None,
                reason: "interrupted".into(),
            });
        }
        "listen" => listen(run).await,
        "origin" => {
            let options = &run.turn.options;
            let text = format!("{} {}", options.origin.as_str(), options.can_ask);
            run.complete(&text);
        }
        _ => {
            run.emit_answer(0, rest).await;
            run.complete(rest);
        }
    }
}

async fn words(run: ManualTurn, count: usize) {
    let channel = TextChannel::Answer;
    let mut whole = String::new();
    for number in 0..count {
        let word = format!("word{number} ");
        whole.push_str(&word);
        let text = word.into();
        run.emit(vec![AgentEvent::Event(EventKind::Delta { block: 0, channel, text })]).await;
    }
    let usage = Usage { output_tokens: count as u64, ..Usage::default() };
    run.emit(vec![
        AgentEvent::Event(EventKind::Block { block: 0, channel, text: whole.as_str().into() }),
        AgentEvent::Event(EventKind::Notice(Notice::new(NoticeLevel::Info, "said", "all"))),
        AgentEvent::Event(EventKind::Usage(usage)),
    ])
    .await;
    run.complete(&whole);
}

/// Repeats the steering input that it gets while it runs.
async fn listen(mut run: ManualTurn) {
    let told = match run.io.control.recv().await {
        Some(TurnControl::Steer(input)) => format!("{input:?}"),
        other => format!("not words: {other:?}"),
    };
    run.complete(&told);
}

fn question() -> ApprovalKind {
    let option = |label: &str| QuestionOption { label: label.into(), description: "".into() };
    ApprovalKind::Question(Arc::from([Question {
        text: "Which colour?".into(),
        header: "Colour".into(),
        options: vec![option("red"), option("blue")],
        multiple: false,
    }]))
}

async fn ask(mut run: ManualTurn, kind: ApprovalKind) {
    let write = FileEdit { path: "notes.txt".into(), change: FileChange::Write("new".into()) };
    let edits = if kind == ApprovalKind::Tool { vec![write] } else { Vec::new() };
    run.emit(vec![AgentEvent::ApprovalRequest(ApprovalRequest {
        key: "key-1".into(),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits,
        kind,
        tool_id: None,
        tool_name: "shell".into(),
        class: ToolClass::Execute,
        subject: Some("make".into()),
        title: "make".into(),
        detail: "in /project".into(),
        input: serde_json::from_str("{}").unwrap(),
    })])
    .await;
    let decided = tokio::select! {
        decided = run.io.control.recv() => decided,
        () = run.io.cancel.cancelled() => None,
    };
    match decided {
        Some(TurnControl::Decide { decision, .. }) => {
            let answers = decision.answers.iter();
            let answers: Vec<_> =
                answers.map(|one| format!("{}={}", one.question, one.answer)).collect();
            let note = decision.note.as_deref().unwrap_or("-");
            let verdict = decision.verdict.as_str();
            let text = format!("{verdict} {note} [{}] by {}", answers.join(","), decision.by);
            run.complete(&text);
        }
        _ => {
            run.end(AgentOutcome {
                status: TurnStatus::Interrupted,
                text: None,
                reason: "interrupted".into(),
            });
        }
    }
}
