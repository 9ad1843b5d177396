//! Implements the [`Executor`] port for Codex.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{
        Billing, Failure, FailureKind, Mode, NativeSessionId, PastConversation, PastTurn,
        SessionSpec,
    },
    ports::{
        Agent, BoxFuture, ConversationError, Executor, ExecutorCapabilities, ExecutorHealth,
        LoginState, OpenRequest,
    },
};
use jiff::tz::TimeZone;

use super::{
    agent::{CodexAgent, CodexAgentSettings},
    app_server::{AppServer, CodexCallError},
    app_server_pool::AppServerPool,
    launch, mcp, past_conversations,
    prices::ModelPrices,
    probe::{self, CodexProber},
    protocol::outgoing::Delete,
    sandbox_cleanup::{self, WritableRoots},
    thread::{CodexThread, ThreadOpenError, ThreadOpener, is_missing_thread},
    translate::{CodexContext, CodexTranslator},
};
use crate::{
    billing::{self, BillingHints},
    host::ExecutorHost,
    pool::{ProcessStarter, WarmPool},
    prompt_prefix::prefix_fingerprint,
    turn_driver::DrivenAgent,
};

pub(super) const NAME: &str = "codex";

/// The Codex executor. It runs one app-server process per distinct `AppServerSpec`.
#[derive(Debug)]
pub(super) struct CodexExecutor {
    host: ExecutorHost,
    prober: CodexProber,
    servers: Arc<AppServerPool>,
    roots: Arc<WritableRoots>,
    /// Threads that are started in advance and wait for their first turn.
    pool: Option<WarmPool<CodexThread>>,
}

/// A thread opened for a session, and how it was opened.
struct OpenedThread {
    thread: CodexThread,
    resumed: bool,
    warm: bool,
}

impl Executor for CodexExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities {
            tool_choice: false,
            iterations: false,
            delegates: false,
            memory: false,
            compact: false,
            ..ExecutorCapabilities::ALL
        }
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(async move {
            let recipe = match ThreadOpener::new(&self.host, &self.prober, spec).await {
                Ok(recipe) => recipe,
                Err(problem) => {
                    return ExecutorHealth {
                        installation: None,
                        login: LoginState::Unknown,
                        problem: Some(problem),
                    };
                }
            };
            // `codex login status` reports only the vendor's own login. If there is none, ask the
            // app-server, because the configured provider may not need a login at all.
            let login = probe::login_status(&self.host, spec, &recipe.installation).await;
            if let LoginState::LoggedIn { .. } = login {
                return probe::health(&recipe.installation, login);
            }
            match self.servers.get(&self.host, &recipe.server_spec).await {
                Ok(server) => probe::health(&recipe.installation, server.read_login().await),
                Err(problem) => ExecutorHealth {
                    problem: Some(problem),
                    ..probe::health(&recipe.installation, LoginState::Unknown)
                },
            }
        })
    }

    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(async move {
            match self.prober.find_installation(&self.host, spec).await {
                Ok(installation) => {
                    let login = probe::login_status(&self.host, spec, &installation).await;
                    probe::health(&installation, login)
                }
                Err(problem) => ExecutorHealth {
                    installation: None,
                    login: LoginState::Unknown,
                    problem: Some(problem),
                },
            }
        })
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let recipe = ThreadOpener::new(&self.host, &self.prober, opening.spec).await?;
            let native = opening.native.filter(|_| recipe.spec.resume);
            let mut last_try = false;
            loop {
                let server = self.servers.get(&self.host, &recipe.server_spec).await?;
                let (login, open) =
                    tokio::join!(server.read_login(), self.open_thread(&recipe, &server, native));
                match open {
                    Ok(mut open) => {
                        if let Err(failure) = check_billing(recipe.spec.billing, &login) {
                            open.thread.close().await;
                            return Err(failure.into());
                        }
                        open.thread.process_guard.bind_session(&self.host, opening.session);
                        return Ok(self.build_agent(&recipe, open, &login));
                    }
                    // The app-server exited between the lookup and the call: retry with a new one.
                    Err(error) if error.is_gone() && !last_try => last_try = true,
                    Err(error) => return Err(error.into_conversation_error("open a conversation")),
                }
            }
        })
    }

    fn warm_up(&self, spec: &SessionSpec) {
        let Some(pool) = self.pool.clone() else {
            return;
        };
        if spec.warm == 0 || !spec.history.is_empty() {
            return;
        }
        let (host, servers, spec) = (self.host.clone(), Arc::clone(&self.servers), spec.clone());
        self.host.tasks.spawn_until_stopped(async move {
            match ThreadOpener::new(&host, &CodexProber::default(), &spec).await {
                Ok(recipe) => {
                    let (count, shape) = (spec.warm as usize, recipe.fingerprint());
                    pool.declare(&shape, count, pool_starter(host, servers, recipe));
                }
                Err(failure) => tracing::warn!(%failure, "cannot keep threads warm"),
            }
        });
    }

    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        Box::pin(async move {
            let recipe = ThreadOpener::new(&self.host, &self.prober, spec).await?;
            let server = self.servers.get(&self.host, &recipe.server_spec).await?;
            let copied = recipe.fork(&server, native).await;
            copied.map_err(|error| error.into_conversation_error("copy the conversation"))
        })
    }

    fn past_conversations<'a>(
        &'a self,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Vec<PastConversation>, Failure>> {
        Box::pin(async move { self.with_rollouts(spec, past_conversations::list).await })
    }

    fn read_past_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<Vec<PastTurn>, ConversationError>> {
        Box::pin(async move {
            let id = native.clone();
            let read = self.with_rollouts(spec, move |home| past_conversations::read(home, &id));
            read.await?.ok_or(ConversationError::Lost)
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let deleted = self.delete_thread(spec, native).await?;
            if !deleted && spec.mode == Mode::Model {
                // A conversation from before model mode had its own folder.
                let owners = SessionSpec { mode: Mode::Agent, ..spec.clone() };
                self.delete_thread(&owners, native).await?;
            }
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(pool) = &self.pool {
                pool.close().await;
            }
            self.servers.close().await;
        })
    }
}

impl CodexExecutor {
    /// Creates the executor, with a pool of warm threads if the host asks for one. The pool needs a
    /// running Tokio runtime.
    pub(super) fn new(host: ExecutorHost) -> Self {
        let pool = host.keep_warm.then(|| WarmPool::new(&host.tasks));
        Self {
            host,
            pool,
            prober: CodexProber::default(),
            servers: Arc::default(),
            roots: Arc::default(),
        }
    }

    /// Removes a conversation. Returns `false` if Codex does not have it.
    async fn delete_thread(
        &self,
        spec: &SessionSpec,
        native: &NativeSessionId,
    ) -> Result<bool, Failure> {
        let recipe = ThreadOpener::new(&self.host, &self.prober, spec).await?;
        let server = self.servers.get(&self.host, &recipe.server_spec).await?;
        match server.call(&Delete { thread_id: native.as_str() }).await {
            Ok(_) => Ok(true),
            Err(CodexCallError::Refused(error)) if is_missing_thread(&error.message) => Ok(false),
            Err(error) => Err(error.to_failure("remove the conversation")),
        }
    }

    /// Resumes the conversation `native`, or starts a new one if there is none to resume.
    async fn open_thread(
        &self,
        recipe: &ThreadOpener,
        server: &AppServer,
        native: Option<&NativeSessionId>,
    ) -> Result<OpenedThread, ThreadOpenError> {
        let Some(native) = native else {
            return self.take_or_start_thread(recipe, server).await;
        };
        let thread = recipe.resume(server, native).await?;
        Ok(OpenedThread { thread, resumed: true, warm: false })
    }

    /// Reads the program's own files, off the runtime.
    async fn with_rollouts<T: Send + 'static>(
        &self,
        spec: &SessionSpec,
        read: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let environment = launch::environment(&self.host, spec, &self.host.fresh_mark()?)?;
        let home = launch::codex_home(&environment).unwrap_or_default();
        let unreadable = |error: String| {
            let message = format!("Codex's conversations cannot be read: {error}");
            Failure::new(FailureKind::Unavailable, message)
                .with_hint("check the permissions of its `sessions` folder")
        };
        let done = tokio::task::spawn_blocking(move || read(&home)).await;
        let done = done.map_err(|error| unreadable(error.to_string()))?;
        done.map_err(|error| unreadable(error.to_string()))
    }

    /// Takes a warm thread from the pool, or starts one.
    async fn take_or_start_thread(
        &self,
        recipe: &ThreadOpener,
        server: &AppServer,
    ) -> Result<OpenedThread, ThreadOpenError> {
        let mut ready = None;
        // A warm thread has no history, so it cannot replace one that must carry a history.
        if let Some(pool) = self.pool.as_ref().filter(|_| recipe.spec.history.is_empty()) {
            let (host, servers) = (self.host.clone(), Arc::clone(&self.servers));
            let waiting = pool_starter(host, servers, recipe.clone());
            let count = recipe.spec.warm as usize;
            ready = pool.take(&recipe.fingerprint(), count, waiting).await;
        }
        let warm = ready.is_some();
        let thread = match ready {
            Some(thread) => thread,
            None => recipe.start(server).await?,
        };
        Ok(OpenedThread { thread, resumed: false, warm })
    }

    /// Returns the folders that a thread's commands may write to. Model mode runs no commands.
    fn writable_folders(recipe: &ThreadOpener) -> BTreeSet<PathBuf> {
        match recipe.spec.mode {
            Mode::Agent => sandbox_cleanup::writable_folders(
                &recipe.spec.cwd,
                recipe.server_spec.base_environment(),
            ),
            Mode::Model => BTreeSet::new(),
        }
    }

    fn build_agent(
        &self,
        recipe: &ThreadOpener,
        open: OpenedThread,
        login: &LoginState,
    ) -> Box<dyn Agent> {
        let spec = &recipe.spec;
        let opened = &open.thread.info;
        let prefix = prefix_fingerprint(spec, &recipe.installation.version).sha256();
        let translator = CodexTranslator::new(CodexContext {
            profile: Arc::clone(&spec.profile),
            executor: NAME.into(),
            thread: NativeSessionId::new(Arc::clone(&opened.thread)),
            model: opened.model.clone(),
            provider: opened.provider.clone(),
            resumed: open.resumed,
            warm: open.warm,
            prefix_sha256: Some(prefix.into()),
            cwd: spec.cwd.clone(),
            mode: spec.mode,
            own_servers: vec![mcp::OWN_SERVER.into()],
            lane: match login {
                LoginState::LoggedIn { lane } => lane.clone(),
                _ => None,
            },
            prices: ModelPrices::new(Arc::clone(&self.host.prices)),
            zone: TimeZone::system(),
        });
        let agent = CodexAgent::new(
            open.thread,
            translator,
            CodexAgentSettings {
                permissions: launch::turn_permissions(spec),
                output_schema: spec.output_schema.clone(),
                clock: Arc::clone(&self.host.clock),
                logged_out: *login == LoginState::LoggedOut,
                max_cost_usd: spec.budgets.cost_usd,
            },
            self.roots.register(Self::writable_folders(recipe)),
        );
        Box::new(DrivenAgent::new(agent, Vec::new()))
    }
}

/// Returns the function with which the pool starts a warm thread.
fn pool_starter(
    host: ExecutorHost,
    servers: Arc<AppServerPool>,
    recipe: ThreadOpener,
) -> ProcessStarter<CodexThread> {
    Arc::new(move || {
        let (host, servers, recipe) = (host.clone(), Arc::clone(&servers), recipe.clone());
        Box::pin(async move {
            let server = servers.get(&host, &recipe.server_spec).await?;
            let started = recipe.start(&server).await;
            started.map_err(|error| error.into_conversation_error("open a conversation").into())
        })
    })
}

/// Refuses a login that bills another lane than the profile wants, before the first prompt is sent.
fn check_billing(wanted: Billing, login: &LoginState) -> Result<(), Failure> {
    let lane = match login {
        LoginState::LoggedIn { lane } => lane.as_deref(),
        _ => None,
    };
    let hints = BillingHints {
        subscription: "run `codex login` and sign in with ChatGPT, or set `billing: any`",
        api_key: "run `codex login --with-api-key`, or set `billing: any`",
    };
    billing::check_billing("Codex", wanted, lane, hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwanted_or_unknown_lane_is_refused_with_a_way_out() {
        let login = |lane: &str| LoginState::LoggedIn { lane: Some(lane.into()) };
        let (key, subscription) = (login("api_key"), login("subscription"));
        for login in [&key, &subscription, &LoginState::Unknown, &LoginState::NotNeeded] {
            assert!(check_billing(Billing::Any, login).is_ok());
        }
        assert!(check_billing(Billing::ApiKey, &key).is_ok());
        assert!(check_billing(Billing::Subscription, &subscription).is_ok());
        for (wanted, login) in [
            (Billing::Subscription, &key),
            (Billing::ApiKey, &subscription),
            (Billing::ApiKey, &LoginState::NotNeeded),
        ] {
            let failure = check_billing(wanted, login).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Auth);
            assert!(failure.hint.unwrap().contains("billing: any"));
        }
    }
}
