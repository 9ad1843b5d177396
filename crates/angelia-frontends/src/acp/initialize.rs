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
    ports::{Executor, LoginState, ProfileRequest},
};

use super::{
    connection::{EditorCapabilities, EditorConnection},
    errors::{AUTH_REQUIRED, AcpError},
    update::EditorFeatures,
};

/// The id of our only login method.
const LOGIN_METHOD_ID: &str = "agent-login";

/// Answers `initialize`. We support only version 1, and answer with it whatever version was
/// requested.
pub(super) async fn initialize(
    connection: &EditorConnection,
    request: &InitializeRequest,
) -> InitializeResponse {
    let client = &request.client_capabilities;
    let session = client.session.as_ref();
    connection.set_capabilities(EditorCapabilities {
        features: EditorFeatures {
            notices: session.is_some_and(|session| session.notices.is_some()),
        },
        forms: (client.elicitation.as_ref()).is_some_and(|forms| forms.form.is_some()),
    });
    // If the profile has no usable agent, `session/new` reports why.
    let spec = new_session_spec(connection).await.ok();
    let agent = spec.and_then(|spec| find_executor(connection, &spec));
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
    let login = AuthMethodAgent::new(LOGIN_METHOD_ID, "Log in with the agent's own program")
        .description(
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
    connection: &EditorConnection,
    request: &AuthenticateRequest,
) -> Result<AuthenticateResponse, AcpError> {
    let method = &*request.method_id.0;
    if method != LOGIN_METHOD_ID {
        return Err(AcpError::invalid_params(format!(
            "there is no login method `{method}` here: log in with the agent's own program \
             (`angelia doctor` says how), then authenticate with `{LOGIN_METHOD_ID}`"
        )));
    }
    let spec = new_session_spec(connection).await?;
    if let Some(executor) = find_executor(connection, &spec) {
        let health = executor.probe(&spec).await;
        if let Some(problem) = health.problem {
            return Err(problem.into());
        }
        if health.login == LoginState::LoggedOut {
            let message = "the agent is not logged in; `angelia doctor` says how to log in";
            return Err(AcpError::new(AUTH_REQUIRED, message));
        }
    }
    Ok(AuthenticateResponse::new())
}

/// Returns the specification of a new session. Its directory does not matter here.
async fn new_session_spec(connection: &EditorConnection) -> Result<SessionSpec, Failure> {
    let wanted = ProfileRequest {
        profile: connection.settings.profile.clone(),
        caller_cwd: Some("/".into()),
        ..ProfileRequest::default()
    };
    connection.profiles.resolve(wanted).await
}

fn find_executor<'a>(
    connection: &'a EditorConnection,
    spec: &SessionSpec,
) -> Option<&'a dyn Executor> {
    let mut executors = connection.engine.executors().iter();
    let found = executors.find(|executor| executor.name() == &*spec.executor);
    found.map(|executor| &**executor)
}
