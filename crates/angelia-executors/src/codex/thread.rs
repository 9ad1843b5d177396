//! Opens threads: starts, resumes or forks one, or starts one with a given history.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind, LaunchFingerprint, Mode, NativeSessionId, SessionSpec},
    ports::{BoxFuture, ConversationError},
};
use tokio::time::{Instant, sleep};

use super::{
    app_server::{AppServer, CodexCallError, ThreadInbox},
    calls::{self, SkillsList, ThreadStartWithEnvironments},
    launch::{self, AppServerSpec, UserExtensions},
    probe::{CodexInstallation, CodexProber},
    process_guard::ProcessGuard,
    protocol::{
        history,
        outgoing::{DynamicTool, ThreadFork, ThreadInjectItems, ThreadResume, ThreadStart},
        response::ThreadInfo,
    },
};
use crate::{
    claude::launch::effective_spec,
    host::ExecutorHost,
    pool::{VERSION_COMPONENT, WarmProcess},
};

/// The longest wait for a process to exit that still holds a conversation's lock.
const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A thread that is loaded in an app-server process.
#[derive(Debug)]
pub(super) struct CodexThread {
    pub(super) server: AppServer,
    pub(super) info: ThreadInfo,
    pub(super) inbox: ThreadInbox,
    pub(super) process_guard: ProcessGuard,
}

impl CodexThread {
    /// Unloads the thread and ends every process that it started.
    pub(super) async fn close(self) {
        self.server.release_thread(&self.info.thread, self.inbox).await;
        self.process_guard.end_processes().await;
    }
}

impl WarmProcess for CodexThread {
    fn is_alive(&mut self) -> bool {
        self.server.accepts_threads() && self.inbox.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(Self::close(self))
    }
}

/// Everything needed to open a thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadOpener {
    host: ExecutorHost,
    /// Reduced to the settings that Codex can honour.
    pub(super) spec: Arc<SessionSpec>,
    pub(super) installation: Arc<CodexInstallation>,
    pub(super) server_spec: AppServerSpec,
}

impl ThreadOpener {
    pub(super) async fn new(
        host: &ExecutorHost,
        prober: &CodexProber,
        spec: &SessionSpec,
    ) -> Result<Self, Failure> {
        let installation = prober.find_installation(host, spec).await?;
        let spec = effective_spec(spec).into_owned();
        let shape = AppServerSpec::of(host, &spec, &installation)?;
        Ok(Self { host: host.clone(), spec: Arc::new(spec), installation, server_spec: shape })
    }

    /// Returns the fingerprint that two threads must share to be interchangeable.
    pub(super) fn fingerprint(&self) -> LaunchFingerprint {
        let version = [self.installation.version.as_bytes()];
        LaunchFingerprint::of(&self.spec).with(VERSION_COMPONENT, version)
    }

    pub(super) async fn start(&self, server: &AppServer) -> Result<CodexThread, ThreadOpenError> {
        let spec = &self.spec;
        let skills = self.list_skills(server).await?;
        let leash = ProcessGuard::new(&self.host)?;
        let settings =
            launch::thread_settings(spec, leash.mark(), user_extensions(server, &skills))?;
        let call = ThreadStartWithEnvironments {
            thread: ThreadStart {
                settings,
                dynamic_tools: spec.caller_tools.iter().map(DynamicTool::from).collect(),
                ephemeral: false,
            },
            // With an empty list of environments, the thread has no machine to act on.
            environments: (spec.mode == Mode::Model).then_some(&[]),
        };
        let (opened, inbox) = server.open_thread(&call).await?;
        let thread =
            CodexThread { server: server.clone(), info: opened, inbox, process_guard: leash };
        let thread = self.check_instructions(thread).await?;
        if !spec.history.is_empty() {
            let items = ThreadInjectItems {
                thread_id: &thread.info.thread,
                items: history::to_api_items(&spec.history),
            };
            server.call(&items).await?;
        }
        Ok(thread)
    }

    pub(super) async fn resume(
        &self,
        server: &AppServer,
        native: &NativeSessionId,
    ) -> Result<CodexThread, ThreadOpenError> {
        let skills = self.list_skills(server).await?;
        let leash = ProcessGuard::new(&self.host)?;
        let settings =
            launch::thread_settings(&self.spec, leash.mark(), user_extensions(server, &skills))?;
        let call = ThreadResume { thread_id: native.as_str(), exclude_turns: true, settings };
        let until = Instant::now() + LOCK_WAIT_LIMIT;
        loop {
            match server.open_thread(&call).await {
                Ok((opened, inbox)) => {
                    let thread = CodexThread {
                        server: server.clone(),
                        info: opened,
                        inbox,
                        process_guard: leash,
                    };
                    return self.check_instructions(thread).await;
                }
                // Another process still has the conversation open; it is probably exiting.
                Err(CodexCallError::Refused(error))
                    if error.message.contains("active writer") && Instant::now() < until =>
                {
                    sleep(RETRY_INTERVAL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Refuses a model-mode thread that would show the model a file of this machine, because a
    /// caller could make the model repeat it. The folder of model mode has no such file, but a
    /// newer Codex may search other folders.
    async fn check_instructions(
        &self,
        thread: CodexThread,
    ) -> Result<CodexThread, ThreadOpenError> {
        let theirs = thread.info.instruction_files.first().cloned();
        match theirs.filter(|_| self.spec.mode == Mode::Model) {
            None => Ok(thread),
            Some(path) => {
                thread.close().await;
                Err(user_instructions_failure(&path).into())
            }
        }
    }

    /// Lists the user's skills in model mode, where they must be turned off because a prompt could
    /// name one.
    async fn list_skills(&self, server: &AppServer) -> Result<Vec<Box<str>>, CodexCallError> {
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
        server: &AppServer,
        native: &NativeSessionId,
    ) -> Result<NativeSessionId, ThreadOpenError> {
        let skills = self.list_skills(server).await?;
        let leash = ProcessGuard::new(&self.host)?;
        let call = ThreadFork {
            thread_id: native.as_str(),
            exclude_turns: true,
            settings: launch::thread_settings(
                &self.spec,
                leash.mark(),
                user_extensions(server, &skills),
            )?,
        };
        let (opened, inbox) = server.open_thread(&call).await?;
        let copy = NativeSessionId::new(Arc::clone(&opened.thread));
        let server = server.clone();
        let thread = CodexThread { server, info: opened, inbox, process_guard: leash };
        thread.close().await;
        Ok(copy)
    }
}

fn user_extensions<'a>(server: &'a AppServer, skills: &'a [Box<str>]) -> UserExtensions<'a> {
    UserExtensions { servers: server.user_mcp_servers(), skills }
}

fn user_instructions_failure(path: &str) -> Failure {
    let message =
        format!("Codex would show the caller's model {path}, which model mode must not read");
    let hint = "move the file, or use an agent-mode profile, in which Codex may read it";
    Failure::new(FailureKind::Unavailable, message).with_hint(hint)
}

/// Why a thread could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum ThreadOpenError {
    #[error("{0}")]
    Invalid(Failure),
    #[error(transparent)]
    Call(#[from] CodexCallError),
}

impl From<Failure> for ThreadOpenError {
    fn from(failure: Failure) -> Self {
        Self::Invalid(failure)
    }
}

impl ThreadOpenError {
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Call(CodexCallError::Gone))
    }

    pub(super) fn into_conversation_error(self, what: &str) -> ConversationError {
        match self {
            Self::Invalid(failure) => failure.into(),
            Self::Call(CodexCallError::Refused(error)) if is_missing_thread(&error.message) => {
                ConversationError::Lost
            }
            Self::Call(error) => error.to_failure(what).into(),
        }
    }
}

pub(super) fn is_missing_thread(message: &str) -> bool {
    // The last message is about a file that exists but is empty or damaged.
    ["no rollout found", "thread not found", "invalid thread id", "failed to read session metadata"]
        .iter()
        .any(|lost| message.contains(lost))
}
