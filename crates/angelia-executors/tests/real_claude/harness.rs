//! One agent program in a place of its own, and turns run on it by hand.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    model::{
        ApprovalRequest, Content, Decision, EventKind, Failure, NativeSessionId, Notice, Origin,
        SessionId, SessionSpec, Started, Status, TextChannel, ToolCall, ToolResult, Turn, TurnId,
        TurnOptions, Usage, Verdict,
    },
    ports::{Agent, Clock, Emitted, Ended, EventSender, Executor, Opening, TurnControl, TurnIo},
    redact::Redactor,
    task::Tasks,
};
use angelia_executors::{
    Host, claude,
    process::{HomeId, OwnerId},
};
use angelia_testkit::{isolated::Isolated, model_server::ModelServer, real::RealClaude};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) const DEADLINE: Duration = Duration::from_secs(50);

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// A place, a model and an executor.
pub(crate) struct Lab {
    pub(crate) claude: RealClaude,
    pub(crate) server: ModelServer,
    pub(crate) place: Isolated,
    pub(crate) tasks: Tasks,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) host: Host,
}

impl Lab {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        Self::build(claude, false)
    }

    pub(crate) fn keeping_warm(claude: &RealClaude) -> Self {
        Self::build(claude, true)
    }

    fn build(claude: &RealClaude, keep_warm: bool) -> Self {
        let place = Isolated::new().unwrap();
        let tasks = Tasks::new();
        let mut environment: BTreeMap<OsString, OsString> =
            place.environment().into_iter().collect();
        // What must not reach the child, whatever our own environment holds.
        for name in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_TOKEN",
            "CLAUDECODE",
            "SECRET_OF_OURS",
        ] {
            environment.insert(name.into(), "must-not-leak".into());
        }
        let host = Host {
            environment: Arc::new(environment),
            user_home: place.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: place.root().join("angelia/work"),
            ledger: place.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: tasks.clone(),
            clock: Arc::new(SystemClock),
            current_exe: "/nonexistent".into(),
            keep_warm,
        };
        let executor = (claude::REGISTRATION.build)(host.clone());
        Self {
            claude: claude.clone(),
            server: ModelServer::start().unwrap(),
            place,
            tasks,
            executor,
            host,
        }
    }

    /// A specification for this place, with a key in its environment.
    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = self.spec_without_login();
        spec.env.insert(
            "ANTHROPIC_API_KEY".into(),
            "sk-ant-dummy-key-of-the-tests".into(),
        );
        spec
    }

    pub(crate) fn spec_without_login(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("claude", self.place.work());
        spec.binary = Some(self.claude.path.clone());
        spec.model = Some("sonnet".into());
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", self.server.base_url().as_str()),
            (
                "XDG_RUNTIME_DIR",
                self.place.root().join("run").to_str().unwrap(),
            ),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ] {
            spec.env.insert(name.into(), value.into());
        }
        spec
    }

    pub(crate) async fn open(&self, spec: &SessionSpec) -> Session {
        self.try_open(spec, None).await.unwrap()
    }

    pub(crate) async fn resume(&self, spec: &SessionSpec, native: &NativeSessionId) -> Session {
        self.try_open(spec, Some(native)).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Result<Session, Failure> {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let opening = Opening {
            session: id,
            spec,
            native,
        };
        let agent = tokio::time::timeout(DEADLINE, self.executor.open(opening))
            .await
            .unwrap()?;
        Ok(Session { id, agent })
    }

    /// Processes that carry a mark of this lab's.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("ANGELIA_AGENT=test-home:{}:", self.host.owner_id);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|entry| {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(&mark)
            })
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }
}

/// An open agent.
pub(crate) struct Session {
    id: SessionId,
    pub(crate) agent: Box<dyn Agent>,
}

type Watch = Box<dyn FnMut(&Emitted, &Hands) + Send>;

/// What a watcher of a turn can do to it.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) control: mpsc::Sender<TurnControl>,
    pub(crate) cancel: CancellationToken,
}

impl Hands {
    pub(crate) fn decide(&self, request: &ApprovalRequest, verdict: Verdict) {
        let decision = Decision::new(verdict, "test");
        let key = Arc::clone(&request.key);
        self.tell(TurnControl::Decide { key, decision });
    }

    pub(crate) fn tell(&self, control: TurnControl) {
        self.control.try_send(control).unwrap();
    }
}

impl Session {
    pub(crate) async fn say(&mut self, text: &str) -> Heard {
        self.turn(
            Origin::Owner,
            vec![Content::text(text)],
            Box::new(|_, _| {}),
        )
        .await
    }

    pub(crate) async fn say_remotely(&mut self, text: &str) -> Heard {
        self.turn(
            Origin::Remote,
            vec![Content::text(text)],
            Box::new(|_, _| {}),
        )
        .await
    }

    pub(crate) async fn say_watched(
        &mut self,
        text: &str,
        watch: impl FnMut(&Emitted, &Hands) + Send + 'static,
    ) -> Heard {
        self.turn(Origin::Owner, vec![Content::text(text)], Box::new(watch))
            .await
    }

    pub(crate) async fn turn(
        &mut self,
        origin: Origin,
        input: Vec<Content>,
        mut watch: Watch,
    ) -> Heard {
        let turn = Turn {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session: self.id,
            input,
            options: TurnOptions {
                origin,
                can_ask: true,
            },
        };
        let (sender, mut events) = mpsc::channel::<Vec<Emitted>>(64);
        let (control, receiver) = mpsc::channel(64);
        let cancel = CancellationToken::new();
        let io = TurnIo {
            events: EventSender::new(sender),
            control: receiver,
            cancel: cancel.clone(),
        };
        let hands = Hands { control, cancel };
        let emitted = Mutex::new(Vec::new());
        let listen = async {
            while let Some(batch) = events.recv().await {
                for one in batch {
                    watch(&one, &hands);
                    emitted.lock().unwrap().push(one);
                }
            }
        };
        let both = async { tokio::join!(self.agent.run(&turn, io), listen) };
        let Ok((ended, ())) = tokio::time::timeout(DEADLINE, both).await else {
            let emitted = emitted.lock().unwrap();
            panic!(
                "the turn of {:?} does not end; so far {emitted:#?}",
                turn.input
            );
        };
        Heard {
            emitted: emitted.into_inner().unwrap(),
            ended,
        }
    }

    pub(crate) async fn close(self) {
        self.agent.close(Duration::from_secs(4)).await;
    }
}

/// Everything that came out of a turn.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) ended: Ended,
}

impl Heard {
    pub(crate) fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.emitted.iter().filter_map(|one| match one {
            Emitted::Event(event) => Some(event),
            _ => None,
        })
    }

    /// The text of a turn that completed.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.ended.status, Status::Completed, "{self:#?}");
        self.ended.text.as_deref().unwrap()
    }

    pub(crate) fn failure(&self) -> &Failure {
        match self.ended.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub(crate) fn deltas(&self) -> String {
        self.events()
            .filter_map(|event| match event {
                EventKind::Delta {
                    channel: TextChannel::Answer,
                    text,
                    ..
                } => Some(&**text),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn started(&self) -> &Started {
        self.events()
            .find_map(|event| match event {
                EventKind::Started(started) => Some(started),
                _ => None,
            })
            .unwrap()
    }

    pub(crate) fn native(&self) -> NativeSessionId {
        self.started().native_session_id.clone().unwrap()
    }

    pub(crate) fn usage(&self) -> &Usage {
        self.events()
            .filter_map(|event| match event {
                EventKind::Usage(usage) => Some(usage),
                _ => None,
            })
            .last()
            .unwrap()
    }

    pub(crate) fn tool_calls(&self) -> Vec<&ToolCall> {
        self.events()
            .filter_map(|event| match event {
                EventKind::ToolCall(call) => Some(call),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn tool_results(&self) -> Vec<&ToolResult> {
        self.events()
            .filter_map(|event| match event {
                EventKind::ToolResult(result) => Some(result),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn notices(&self) -> Vec<&Notice> {
        self.events()
            .filter_map(|event| match event {
                EventKind::Notice(notice) => Some(notice),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn asked(&self) -> Vec<&ApprovalRequest> {
        self.emitted
            .iter()
            .filter_map(|one| match one {
                Emitted::Ask(request) => Some(request),
                _ => None,
            })
            .collect()
    }
}

/// A prompt that makes the model call one tool.
pub(crate) fn call(name: &str, input: &Value) -> String {
    let call = serde_json::json!({"name": name, "input": input});
    format!("TOOL:{call}:END")
}

pub(crate) fn bash(command: &str) -> String {
    call(
        "Bash",
        &serde_json::json!({"command": command, "description": "a test's command"}),
    )
}

/// Runs a test on both versions.
pub(crate) async fn on_both<F: Future<Output = ()>>(test: impl Fn(Lab) -> F) {
    for claude in RealClaude::all().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(Lab::new(&claude)).await;
    }
}
