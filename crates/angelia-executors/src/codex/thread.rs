//! Opens threads: starts a new one, resumes one, forks one, or starts one with a given history.

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

/// How long to wait for the process that still holds a conversation's lock to exit.
const LOCKED: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A thread that is loaded in an app-server process.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) server: Server,
    pub(super) opened: Opened,
    pub(super) inbox: Inbox,
    pub(super) leash: Leash,
}

impl Thread {
    /// Unloads the thread, and ends every process it has started.
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

/// Everything that is needed to open a thread.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    host: Host,
    /// Reduced to what Codex can honour.
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

    /// Returns the fingerprint that two threads must share to be interchangeable.
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
            // An empty list of environments leaves the thread no machine to act on.
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
                // Another process still has the conversation open, probably one that is exiting.
                Err(CallError::Refused(error))
                    if error.message.contains("active writer") && Instant::now() < until =>
                {
                    sleep(TRY_AGAIN).await;
                }
                Err(error) => return Err(OpenError::from(error).into()),
            }
        }
    }

    /// Refuses a model-mode thread that would show the model a file of this machine. Codex puts the
    /// user's own `AGENTS.md` before every conversation and has no way to leave it out; a caller of
    /// model mode could make the model repeat it.
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

    /// Lists the user's skills in model mode, where they must be turned off: a prompt could name
    /// one.
    async fn skills(&self, server: &Server) -> Result<Vec<Box<str>>, CallError> {
        if self.spec.mode == Mode::Agent {
            return Ok(Vec::new());
        }
        let list = SkillsList { cwds: [&self.spec.cwd] };
        let listed = server.call(&list).await?;
        Ok(calls::skill_paths(&listed))
    }

    /// Copies a conversation and returns the id of the copy, which is not kept open.
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

/// Why a thread could not be opened.
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
    #[error("Codex no longer has the conversation")]
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
        let message = format!("cannot create the folder {}: {error}", spec.cwd.display());
        Failure::new(FailureKind::Unavailable, message)
            .with_hint("check its permissions and the space on the disk")
    })
}
