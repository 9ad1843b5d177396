//! Implements the executor port for our own loop. There is nothing to install: an agent is opened by
//! finding the model's provider and its key, and by reading the conversation from the record.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use angelia_core::{
    model::{
        AgentStart, Failure, FailureKind, Mode, NativeSessionId, SessionId, SessionSpec,
        TurnTimeouts,
    },
    permission::PrivateFiles,
    ports::{
        Agent, BoxFuture, ConversationError, Executor, ExecutorCapabilities, ExecutorHealth,
        KnownPlaces, OpenRequest,
    },
};
use sha2::{Digest as _, Sha256};

use super::{
    agent::{LoopSetup, NativeAgent, SessionModel, SessionTools, has_own_tools},
    answer_reader::AnswerClocks,
    client::{ProviderClient, Transport},
    instructions::Instructions,
    mcp::{McpServers, ServerPlace},
    prompt::system_prompt,
    provider::{
        AssistantPart, Conversation, EncodedHistory, Issuer, Message, ProviderRequest,
        RequestSettings, encode_request, window::ModelLimits,
    },
    providers::{Provider, WindowSource, load_key, provider_health},
    record::ConversationLog,
    request_dump::DumpFolder,
    sandbox::{SandboxPlaces, SandboxSettings, plan_sandbox},
    tools::{EditStyle, OutputFolder, Shell, Toolkit, ToolkitSetup, Workspace},
    turn::LoopState,
};
use crate::{
    billing::{self, BillingHints},
    host::ExecutorHost,
    process::confinement::landlock_support,
};

pub(super) const NAME: &str = "native";

/// Our clocks ring before those of the engine, which would end the turn instead of asking again.
const CLOCK_SHARE: f64 = 0.9;

/// A server at home may read a long prompt for minutes before it says anything.
const LOCAL_FIRST_EVENT: Duration = Duration::from_mins(10);

/// The folder of a session with outputs that are too long for the model.
const OUTPUT: &str = "output";

/// The HTTP clients, made when they are first needed: a client reads the certificates of the system, and
/// most commands ask no model.
#[derive(Debug, Default)]
struct Clients {
    local: OnceLock<Result<ProviderClient, Failure>>,
    remote: OnceLock<Result<ProviderClient, Failure>>,
}

impl Clients {
    fn get(&self, is_local: bool) -> Result<ProviderClient, Failure> {
        let client = if is_local { &self.local } else { &self.remote };
        client.get_or_init(|| ProviderClient::new(is_local)).clone()
    }
}

/// Our own loop as an executor.
#[derive(Debug)]
pub(super) struct NativeExecutor {
    host: ExecutorHost,
    clients: Clients,
}

impl NativeExecutor {
    pub(super) fn new(host: ExecutorHost) -> Self {
        Self { host, clients: Clients::default() }
    }

    /// Every request goes over this transport.
    pub(super) fn over(host: ExecutorHost, transport: Arc<dyn Transport>) -> Self {
        let client = OnceLock::from(Ok(ProviderClient::over(transport)));
        Self { host, clients: Clients { local: client.clone(), remote: client } }
    }

    fn find_model(&self, spec: &SessionSpec) -> Result<(Arc<Provider>, Arc<str>), Failure> {
        let Some(model) = spec.model.as_deref() else {
            let message = "a profile with `executor: native` needs a model";
            return Err(Failure::new(FailureKind::Invalid, message).with_hint(
                "set `model: PROVIDER/MODEL`; `angelia providers list` shows what there is",
            ));
        };
        self.host.providers.resolve(model)
    }

    async fn session_model(&self, spec: &SessionSpec) -> Result<SessionModel, Failure> {
        let (provider, model) = self.find_model(spec)?;
        let lane = Some(provider.lane());
        billing::check_billing("the provider", spec.billing, lane, BILLING_HINTS)?;
        let mut window = self.host.providers.window_of(&provider, &model);
        if window.source == WindowSource::Assumed
            && let Ok(key) = load_key(&provider.keys, &self.host).await
        {
            window = self.host.providers.discover_window(&provider, key.as_ref(), &model).await;
        }
        Ok(SessionModel {
            price: provider.price_of(&model, &self.host.prices),
            quirks: provider.quirks_of(&model),
            limits: ModelLimits { context: Some(window.context), output: window.output },
            issuer: Issuer { provider: Arc::clone(&provider.name), api: provider.api, model },
            provider,
        })
    }

    async fn open_agent(&self, opening: OpenRequest<'_>) -> Result<NativeAgent, Failure> {
        let spec = opening.spec;
        let model = self.session_model(spec).await?;
        let client = self.clients.get(model.provider.is_local())?;
        let facts = model.provider.model(&model.issuer.model);
        let takes_tools = facts.tools != Some(false);
        let (cwd, toolkit) = if takes_tools && has_own_tools(spec) {
            let cwd = real_cwd(&spec.cwd)?;
            let toolkit = self.toolkit(&opening, &cwd, &model)?;
            (cwd, Some(toolkit))
        } else {
            (real_or_stated(&spec.cwd), None)
        };
        let tools = if takes_tools {
            let servers = McpServers::start(ServerPlace {
                host: self.host.clone(),
                session: opening.session,
                spec: spec.clone(),
                cwd: cwd.clone(),
                output: Arc::new(OutputFolder::new(
                    self.session_folder(opening.session).join(OUTPUT),
                )),
            });
            SessionTools::new(spec, toolkit, servers.await)
        } else {
            SessionTools::default()
        };
        let native = opening.native.filter(|_| spec.resume);
        let mut instructions = (spec.trust && spec.mode == Mode::Agent).then(Instructions::default);
        let project = instructions.as_mut().and_then(|found| found.from_root(&cwd));
        let system = system_prompt(spec, &cwd, project.as_deref());
        let mut log = ConversationLog::new(system.into(), &spec.history);
        let mut last_turn = None;
        if native.is_some() {
            for turn in opening.record.turns().await? {
                log.replay(&turn);
                last_turn = Some(turn.id);
            }
        }
        let fresh = || NativeSessionId::new(self.host.clock.fresh_uuid().to_string());
        let reasoning = spec.native.reasoning.filter(|_| facts.reasoning != Some(false));
        let request = RequestSettings {
            max_output_tokens: spec.native.max_output_tokens.or(model.limits.output),
            effort: reasoning,
            output_schema: spec.output_schema.clone(),
            cache_key: Some(opening.session.to_string().into()),
            without_images: facts.images == Some(false),
            ..RequestSettings::default()
        };
        let state = LoopState {
            call_ids: call_ids(&log),
            log,
            encoded: EncodedHistory::default(),
            request,
            instructions,
        };
        let setup = LoopSetup {
            start: AgentStart {
                profile: Arc::clone(&spec.profile),
                executor: NAME.into(),
                model: spec.model.clone(),
                native_session_id: Some(native.cloned().unwrap_or_else(fresh)),
                resumed: native.is_some(),
                warm: false,
            },
            prefix_sha256: prefix_sha256(&model, &tools, &state),
            clocks: clocks(spec, model.provider.is_local()),
            dumps: (model.provider.dump_failed_requests)
                .then(|| DumpFolder::below(&self.session_folder(opening.session))),
            max_iterations: spec.native.max_iterations,
            max_cost_usd: spec.budgets.cost_usd,
            host: self.host.clone(),
            model,
            client,
            tools,
            cwd,
        };
        Ok(NativeAgent::new(setup, state, last_turn))
    }

    fn angelia_home(&self) -> PathBuf {
        let work_dir = &self.host.work_dir;
        real_or_stated(work_dir.parent().unwrap_or(work_dir))
    }

    /// The folder with the files of a session.
    fn session_folder(&self, session: SessionId) -> PathBuf {
        self.angelia_home().join("sessions").join(session.to_string())
    }

    fn toolkit(
        &self,
        opening: &OpenRequest<'_>,
        cwd: &Path,
        model: &SessionModel,
    ) -> Result<Toolkit, Failure> {
        let (host, spec) = (&self.host, opening.spec);
        let invalid = |text: String| Failure::new(FailureKind::Invalid, text);
        let angelia_home = self.angelia_home();
        let user_home = real_or_stated(&host.home_of(spec));
        let own = self.session_folder(opening.session);
        let output = own.join(OUTPUT);
        let settings = SandboxSettings {
            mode: spec.native.sandbox,
            read: spec.native.sandbox_read.clone(),
            write: spec.native.sandbox_write.clone(),
            network: spec.native.network,
        };
        let places = SandboxPlaces {
            cwd,
            user_home: &user_home,
            angelia_home: &angelia_home,
            temporary: &[real_or_stated(&std::env::temp_dir())],
            own_temporary: &own.join("tmp"),
            own_files: &[output.clone(), own.join("inbox")],
        };
        let sandbox = plan_sandbox(&settings, &places, landlock_support())
            .map_err(|error| invalid(error.to_string()))?;
        let workspace = Workspace::new(cwd, &user_home)
            .map_err(|error| invalid(format!("{} cannot be used: {error}", cwd.display())))?;
        let places = KnownPlaces { user_home, angelia_home, agent_files: crate::agent_files() };
        let private = PrivateFiles {
            session: opening.session,
            profile: Arc::clone(&spec.profile),
            cwd: cwd.to_owned(),
            places,
        };
        let shell = Shell {
            host: host.clone(),
            session: opening.session,
            spec: spec.clone(),
            cwd: cwd.to_owned(),
            sandbox,
        };
        Ok(Toolkit::new(&ToolkitSetup {
            workspace: Arc::new(workspace),
            private: Arc::new(private),
            shell: Arc::new(shell),
            output: Arc::new(OutputFolder::new(output)),
            edit_style: edit_style(&model.issuer.model),
        }))
    }
}

const BILLING_HINTS: BillingHints = BillingHints {
    subscription: "providers are paid by key; take a profile with another executor, or set \
                   `billing: any`",
    api_key: "this provider needs no key; set `billing: any`",
};

impl Executor for NativeExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities::ALL
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(provider_health(spec, &self.host, true))
    }

    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(provider_health(spec, &self.host, false))
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let agent = self.open_agent(opening).await?;
            Ok(Box::new(agent) as Box<dyn Agent>)
        })
    }

    /// Nothing has to be started in advance.
    fn warm_up(&self, _spec: &SessionSpec) {}

    /// The record of the copy contains that of the original, so the copy only needs a name.
    fn fork<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        let copy = NativeSessionId::new(self.host.clock.fresh_uuid().to_string());
        Box::pin(std::future::ready(Ok(copy)))
    }

    /// There is no transcript besides the record.
    fn delete_conversation<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Models that were trained to change files by patches.
fn edit_style(model: &str) -> EditStyle {
    let name = model.rsplit('/').next().unwrap_or(model);
    if name.starts_with("gpt-") || name.contains("codex") {
        EditStyle::Patch
    } else {
        EditStyle::Replace
    }
}

fn real_cwd(cwd: &Path) -> Result<PathBuf, Failure> {
    cwd.canonicalize().map_err(|error| {
        let message = format!("the directory {} cannot be used: {error}", cwd.display());
        Failure::new(FailureKind::Invalid, message)
    })
}

fn real_or_stated(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn clocks(spec: &SessionSpec, is_local: bool) -> AnswerClocks {
    let (mut first, silence) = (spec.timeouts.first_event, spec.timeouts.silence);
    // A limit that the owner has set holds.
    if is_local && first == TurnTimeouts::default().first_event {
        first = LOCAL_FIRST_EVENT;
    }
    AnswerClocks {
        first_event: first.mul_f64(CLOCK_SHARE),
        silence: silence.mul_f64(CLOCK_SHARE),
        connection: silence.max(first).mul_f64(CLOCK_SHARE),
    }
}

fn call_ids(log: &ConversationLog) -> HashSet<Arc<str>> {
    let answers = log.conversation().messages.iter().filter_map(|message| match message {
        Message::Assistant(answer) => Some(&answer.parts),
        Message::User(_) | Message::Results(_) => None,
    });
    let calls = answers.flatten().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(Arc::clone(&call.id)),
        AssistantPart::Text(_) | AssistantPart::Reasoning(_) => None,
    });
    calls.collect()
}

/// Returns the hash of a request of this session without any message.
fn prefix_sha256(model: &SessionModel, tools: &SessionTools, state: &LoopState) -> Arc<str> {
    let conversation = Conversation {
        system: Arc::clone(&state.log.conversation().system),
        ..Conversation::default()
    };
    let body = encode_request(&ProviderRequest {
        issuer: &model.issuer,
        conversation: &conversation,
        tools: &tools.definitions,
        // The key of the cache differs from session to session, and the prefix does not.
        settings: &RequestSettings { cache_key: None, ..state.request.clone() },
        quirks: &model.quirks,
    });
    format!("{:x}", Sha256::digest(&body)).into()
}
