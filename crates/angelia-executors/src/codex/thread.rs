//! From a specification to an open thread: new, taken up again, copied, or with a history from
//! elsewhere.

use std::{fs, os::unix::fs::DirBuilderExt as _, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind, LaunchFingerprint, Mode, NativeSessionId, SessionSpec},
    ports::BoxFuture,
};
use tokio::time::{Instant, sleep};

use super::{
    calls::{self, PlacedThread, SkillsList},
    launch::{self, Found, Shape},
    leash::Leash,
    probe::{Installation, Prober},
    protocol::{
        history,
        opened::Opened,
        outgoing::{DynamicTool, InjectItems, ThreadFork, ThreadResume, ThreadStart},
    },
    server::{CallError, Inbox, Server},
};
use crate::{
    claude::{launch::effective, start::empty_folder},
    host::Host,
    pool::{VERSION, Warm},
};

/// How long a conversation may stay locked by a process that is just ending.
const LOCKED: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A thread that is open in a process.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) server: Server,
    pub(super) opened: Opened,
    pub(super) inbox: Inbox,
    pub(super) leash: Leash,
}

impl Thread {
    /// Unloads it, and ends everything it has started.
    pub(super) async fn close(self) {
        self.server.leave(&self.opened.thread, self.inbox).await;
        self.leash.pull().await;
    }
}

impl Warm for Thread {
    fn is_alive(&mut self) -> bool {
        self.server.takes_threads() && self.inbox.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(Self::close(self))
    }
}

/// Everything a thread needs to be opened.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    host: Host,
    /// As the program can honour it.
    pub(super) spec: Arc<SessionSpec>,
    pub(super) installation: Arc<Installation>,
    pub(super) shape: Shape,
}

impl Recipe {
    pub(super) async fn new(
        host: &Host,
        prober: &Prober,
        spec: &SessionSpec,
    ) -> Result<Self, Failure> {
        let installation = prober.installation(host, spec).await?;
        let spec = effective(spec, &empty_folder(&host.work_dir)).into_owned();
        if spec.mode == Mode::Model {
            make_folder(&spec)?;
        }
        let shape = Shape::of(host, &spec, &installation)?;
        Ok(Self { host: host.clone(), spec: Arc::new(spec), installation, shape })
    }

    /// What two threads must share so that one can stand in for the other.
    pub(super) fn fingerprint(&self) -> LaunchFingerprint {
        let version = [self.installation.version.as_bytes()];
        LaunchFingerprint::of(&self.spec).with(VERSION, version)
    }

    pub(super) async fn start(&self, server: &Server) -> Result<Thread, OpenError> {
        let spec = &self.spec;
        let skills = self.skills(server).await?;
        let leash = Leash::new(&self.host)?;
        let settings = launch::thread(spec, leash.mark(), found(server, &skills))?;
        let call = PlacedThread {
            thread: ThreadStart {
                settings,
                dynamic_tools: spec.caller_tools.iter().map(DynamicTool::from).collect(),
                ephemeral: false,
            },
            environments: (spec.mode == Mode::Model).then_some(&[]),
        };
        let (opened, inbox) = server.open(&call).await?;
        let thread = Thread { server: server.clone(), opened, inbox, leash };
        let thread = self.checked(thread).await?;
        if !spec.history.is_empty() {
            let items = InjectItems {
                thread_id: &thread.opened.thread,
                items: history::items(&spec.history),
            };
            server.call(&items).await?;
        }
        Ok(thread)
    }

    pub(super) async fn resume(
        &self,
        server: &Server,
        native: &NativeSessionId,
    ) -> Result<Thread, ResumeError> {
        let skills = self.skills(server).await.map_err(OpenError::from)?;
        let leash = Leash::new(&self.host).map_err(OpenError::from)?;
        let settings = launch::thread(&self.spec, leash.mark(), found(server, &skills))
            .map_err(OpenError::from)?;
        let call = ThreadResume { thread_id: native.as_str(), exclude_turns: true, settings };
        let until = Instant::now() + LOCKED;
        loop {
            match server.open(&call).await {
                Ok((opened, inbox)) => {
                    let thread = Thread { server: server.clone(), opened, inbox, leash };
                    return Ok(self.checked(thread).await?);
                }
                Err(CallError::Refused(error)) if is_lost(&error.message) => {
                    return Err(ResumeError::Lost);
                }
                Err(CallError::Refused(error))
                    if error.message.contains("active writer") && Instant::now() < until =>
                {
                    sleep(TRY_AGAIN).await;
                }
                Err(error) => return Err(OpenError::from(error).into()),
            }
        }
    }

    /// The program puts the owner's own `AGENTS.md` before every conversation and knows no way to leave
    /// it out. A caller of model mode could have it repeated, so there is no such conversation.
    async fn checked(&self, thread: Thread) -> Result<Thread, OpenError> {
        let theirs = thread.opened.instructions.first().cloned();
        match theirs.filter(|_| self.spec.mode == Mode::Model) {
            None => Ok(thread),
            Some(path) => {
                thread.close().await;
                Err(own_instructions(&path).into())
            }
        }
    }

    /// What text could bring into the conversation, where it must not.
    async fn skills(&self, server: &Server) -> Result<Vec<Box<str>>, CallError> {
        if self.spec.mode == Mode::Agent {
            return Ok(Vec::new());
        }
        let list = SkillsList { cwds: [&self.spec.cwd] };
        let listed = server.call(&list).await?;
        Ok(calls::skill_paths(&listed))
    }

    /// The copy is not kept open.
    pub(super) async fn fork(
        &self,
        server: &Server,
        native: &NativeSessionId,
    ) -> Result<NativeSessionId, OpenError> {
        let skills = self.skills(server).await?;
        let leash = Leash::new(&self.host)?;
        let call = ThreadFork {
            thread_id: native.as_str(),
            exclude_turns: true,
            settings: launch::thread(&self.spec, leash.mark(), found(server, &skills))?,
        };
        let (opened, inbox) = server.open(&call).await?;
        let copy = NativeSessionId::new(Arc::clone(&opened.thread));
        let server = server.clone();
        let thread = Thread { server, opened, inbox, leash };
        thread.close().await;
        Ok(copy)
    }
}

fn found<'a>(server: &'a Server, skills: &'a [Box<str>]) -> Found<'a> {
    Found { servers: server.own_servers(), skills }
}

fn own_instructions(path: &str) -> Failure {
    let message =
        format!("Codex would show the caller's model {path}, which model mode must not read");
    let hint = "give Codex a folder without AGENTS.md for this: `env: {CODEX_HOME: …}` under \
                `executors: {codex: …}`, and `codex login` with that folder";
    Failure::new(FailureKind::Unavailable, message).with_hint(hint)
}

/// Why no thread was opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("{0}")]
    Invalid(Failure),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self::Invalid(failure)
    }
}

impl OpenError {
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Call(CallError::Gone))
    }

    pub(super) fn failure(self, what: &str) -> Failure {
        match self {
            Self::Invalid(failure) => failure,
            Self::Call(error) => error.failure(what),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ResumeError {
    #[error("the program no longer has the conversation")]
    Lost,
    #[error(transparent)]
    Open(#[from] OpenError),
}

pub(super) fn is_lost(message: &str) -> bool {
    ["no rollout found", "thread not found", "invalid thread id"]
        .iter()
        .any(|lost| message.contains(lost))
}

fn make_folder(spec: &SessionSpec) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&spec.cwd);
    made.map_err(|error| {
        let message = format!("the folder {} cannot be made: {error}", spec.cwd.display());
        Failure::new(FailureKind::Unavailable, message)
            .with_hint("check its permissions and the space on the disk")
    })
}
