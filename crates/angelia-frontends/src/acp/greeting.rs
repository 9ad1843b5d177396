//! The requests `initialize` and `authenticate`: our capabilities, and whether the agent is logged
//! in.

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, AuthenticateResponse,
        Implementation, InitializeRequest, InitializeResponse, McpCapabilities, PromptCapabilities,
        SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
        SessionForkCapabilities, SessionListCapabilities, SessionResumeCapabilities,
    },
};
use angelia_core::{
    model::{Failure, SessionSpec},
    ports::{Executor, Login, Wanted},
};

use super::{
    connection::{Client, Connection},
    errors::{AUTH_REQUIRED, Refusal},
    update::Features,
};

/// The id of our only login method.
const LOGIN: &str = "agent-login";

/// Answers `initialize`. We support only version 1 and answer with it whatever version is
/// requested.
pub(super) async fn initialize(
    connection: &Connection,
    request: &InitializeRequest,
) -> InitializeResponse {
    let client = &request.client_capabilities;
    let session = client.session.as_ref();
    connection.introduce(Client {
        features: Features { notices: session.is_some_and(|session| session.notices.is_some()) },
        forms: (client.elicitation.as_ref()).is_some_and(|forms| forms.form.is_some()),
    });
    // If the profile has no usable agent, `session/new` reports why.
    let spec = meant(connection).await.ok();
    let agent = spec.and_then(|spec| executor(connection, &spec));
    let can = agent.map(Executor::capabilities);
    let forks = can.is_some_and(|can| can.fork);
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .fork(forks.then(SessionForkCapabilities::new))
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(
            PromptCapabilities::new()
                .image(can.is_some_and(|can| can.images))
                .embedded_context(true),
        )
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    let login = AuthMethodAgent::new(LOGIN, "Log in with the agent's own program").description(
        "Log in once where the agent is installed (`angelia doctor` says how), then try again"
            .to_owned(),
    );
    let version = connection.settings.version.to_string();
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(vec![AuthMethod::Agent(login)])
        .agent_info(Implementation::new("angelia", version).title("Angelia".to_owned()))
}

/// Checks that the agent is logged in. People log in with the agent's own program.
pub(super) async fn authenticate(
    connection: &Connection,
    request: &AuthenticateRequest,
) -> Result<AuthenticateResponse, Refusal> {
    let method = &*request.method_id.0;
    if method != LOGIN {
        return Err(Refusal::invalid(format!(
            "there is no login method `{method}` here: log in with the agent's own program \
             (`angelia doctor` says how), then authenticate with `{LOGIN}`"
        )));
    }
    let spec = meant(connection).await?;
    if let Some(executor) = executor(connection, &spec) {
        let health = executor.probe(&spec).await;
        if let Some(problem) = health.problem {
            return Err(problem.into());
        }
        if health.login == Login::Out {
            let message = "the agent is not logged in; `angelia doctor` says how to log in";
            return Err(Refusal::new(AUTH_REQUIRED, message));
        }
    }
    Ok(AuthenticateResponse::new())
}

/// Returns the specification of a new session. Its directory does not matter here.
async fn meant(connection: &Connection) -> Result<SessionSpec, Failure> {
    let wanted = Wanted {
        profile: connection.settings.profile.clone(),
        caller_cwd: Some("/".into()),
        ..Wanted::default()
    };
    connection.profiles.spec(wanted).await
}

fn executor<'a>(connection: &'a Connection, spec: &SessionSpec) -> Option<&'a dyn Executor> {
    let mut executors = connection.engine.executors().iter();
    let found = executors.find(|executor| executor.name() == &*spec.executor);
    found.map(|executor| &**executor)
}
