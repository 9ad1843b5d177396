//! What the editor sends: answers and cancellations are taken at once, requests one by one in
//! their order. A prompt is only begun in that order; it runs beside the others.

use std::{sync::Arc, time::Duration};

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateResponse, CancelNotification,
        Implementation, InitializeRequest, InitializeResponse, McpCapabilities, PromptCapabilities,
        SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
        SessionListCapabilities, SessionResumeCapabilities,
    },
};
use angelia_core::{
    engine::Engine,
    model::SessionId,
    ports::{Login, Profiles, Wanted},
    task::Tasks,
};
use angelia_wire::jsonrpc::{DecodeError, Id, Incoming, decode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use super::{
    connection::{Client, Connection, Settings},
    errors::{AUTH_REQUIRED, INVALID_REQUEST, PARSE_ERROR, Refusal},
    prompt,
    update::Features,
};
use crate::stdio::{Input, Line, Output};

/// Requests that may wait for those before them.
const WAITING: usize = 64;

/// How long requests that came before the end of the input may take to be answered.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The one way to log in.
const LOGIN: &str = "agent-login";

/// Why an editor is no longer served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It says nothing more.
    Eof,
    /// It reads nothing more.
    Gone,
}

/// What is done in its order.
enum Item {
    Request(Request),
    /// Whatever this session has begun by then.
    Cancel(SessionId),
}

struct Request {
    id: Id<'static>,
    method: String,
    params: Option<Box<RawValue>>,
}

/// Serves one editor until it has gone. Turns that it began may still run: they belong to the
/// engine, and `tasks` to whoever ends them.
pub async fn serve(
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    settings: Settings,
    mut input: Input,
    output: Output,
    tasks: &Tasks,
) -> Ended {
    let connection = Connection::new(engine, profiles, settings, output.clone(), tasks.clone());
    let (requests, queue) = mpsc::channel(WAITING);
    let reading = async {
        let ended = loop {
            let line = tokio::select! {
                biased;
                () = output.gone() => break Ended::Gone,
                line = input.next() => line,
            };
            match line {
                Some(line) => take(&connection, line, &requests).await,
                None => break Ended::Eof,
            }
        };
        drop(requests);
        ended
    };
    let working = work(&connection, queue);
    let mut working = std::pin::pin!(working);
    let mut reading = std::pin::pin!(reading);
    let ended = tokio::select! {
        ended = &mut reading => ended,
        // The queue does not end before the input does.
        () = &mut working => Ended::Eof,
    };
    if ended == Ended::Eof {
        let _late = tokio::time::timeout(LAST_ANSWERS, working).await;
    }
    // Whoever waits for an answer of the editor waits in vain.
    connection.asked().close().for_each(drop);
    ended
}

async fn take(connection: &Arc<Connection>, line: Line, requests: &mpsc::Sender<Item>) {
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong { bytes, .. } => {
            let message = format!("a line of {bytes} bytes is too long and was skipped");
            let refusal = Refusal::new(INVALID_REQUEST, message);
            return connection.refuse_line(&refusal).await;
        }
        Line::Partial(_) => {
            let refusal = Refusal::new(PARSE_ERROR, "the input ended in the middle of a line");
            return connection.refuse_line(&refusal).await;
        }
    };
    match decode(&line) {
        Ok(Incoming::Request { id, method, params }) => {
            let request = Request {
                id: id.into_owned(),
                method: method.into_owned(),
                params: params.map(ToOwned::to_owned),
            };
            let _ended = requests.send(Item::Request(request)).await;
        }
        Ok(Incoming::Notification { method, params }) => {
            // At once, and again in its order: the prompt it means may not have begun yet.
            if let Some(session) = cancelled(&method, params) {
                connection.cancel(session);
                let _ended = requests.send(Item::Cancel(session)).await;
            }
        }
        Ok(Incoming::Response { id, result }) => connection.answered(id.as_ref(), result),
        Err(error) => {
            let code = match error {
                DecodeError::NotJson => PARSE_ERROR,
                DecodeError::NotAMessage | DecodeError::BadId => INVALID_REQUEST,
            };
            let refusal = Refusal::new(code, error.to_string());
            connection.refuse_line(&refusal).await;
        }
    }
}

/// What is not known is ignored.
fn cancelled(method: &str, params: Option<&RawValue>) -> Option<SessionId> {
    let params = params.filter(|_| method == "session/cancel")?;
    let cancel: CancelNotification = serde_json::from_str(params.get()).ok()?;
    cancel.session_id.0.parse().ok()
}

async fn work(connection: &Arc<Connection>, mut queue: mpsc::Receiver<Item>) {
    while let Some(item) = queue.recv().await {
        let request = match item {
            Item::Request(request) => request,
            Item::Cancel(session) => {
                connection.cancel(session);
                continue;
            }
        };
        if request.method == "session/prompt" {
            if let Err(refusal) = begin(connection, &request) {
                connection.refuse(&request.id, &refusal).await;
            }
            continue;
        }
        match handle(connection, &request).await {
            Ok(result) => connection.answer(&request.id, &*result).await,
            Err(refusal) => connection.refuse(&request.id, &refusal).await,
        }
    }
}

fn begin(connection: &Arc<Connection>, request: &Request) -> Result<(), Refusal> {
    let prompt = prompt::Prompt::accept(connection, request.id.clone(), read(request)?)?;
    let tasks = connection.tasks.clone();
    tasks.spawn(prompt.run(Arc::clone(connection)));
    Ok(())
}

fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Refusal> {
    let params = request.params.as_deref().map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| Refusal::params(&request.method, error))
}

type Result_ = Result<Box<RawValue>, Refusal>;

fn done(result: &impl Serialize) -> Result_ {
    to_raw_value(result).map_err(|error| Refusal::invalid(error.to_string()))
}

async fn handle(connection: &Arc<Connection>, request: &Request) -> Result_ {
    match request.method.as_str() {
        "initialize" => done(&initialize(connection, &read(request)?)),
        "authenticate" => done(&authenticate(connection).await?),
        "session/new" => done(&connection.new_session(read(request)?).await?),
        "session/load" => done(&connection.load_session(read(request)?).await?),
        "session/resume" => done(&connection.resume_session(read(request)?).await?),
        "session/list" => done(&connection.list_sessions(read(request)?).await?),
        "session/delete" => done(&connection.delete_session(read(request)?).await?),
        "session/close" => done(&connection.close_session(read(request)?).await?),
        "session/set_mode" => done(&connection.set_mode(read(request)?).await?),
        "session/set_config_option" => done(&connection.set_option(read(request)?).await?),
        unknown => Err(Refusal::unknown_method(unknown)),
    }
}

/// There is one version so far, and whoever wants another one is told so.
fn initialize(connection: &Connection, request: &InitializeRequest) -> InitializeResponse {
    let client = &request.client_capabilities;
    let session = client.session.as_ref();
    connection.introduce(Client {
        features: Features {
            notices: session.is_some_and(|session| session.notices.is_some()),
        },
        forms: (client.elicitation.as_ref()).is_some_and(|forms| forms.form.is_some()),
    });
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(
            PromptCapabilities::new()
                .image(images(connection))
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

/// Whichever agent the profile may mean takes images.
fn images(connection: &Connection) -> bool {
    let wanted = connection.settings.profile.as_deref().unwrap_or("default");
    let profiles = connection.profiles.list();
    let profile = profiles.iter().find(|profile| *profile.name == *wanted);
    let meant = |name: &str| profile.is_some_and(|profile| *profile.executor == *name);
    let executors = connection.engine.executors();
    let named = executors.iter().find(|executor| meant(executor.name()));
    match named {
        Some(executor) => executor.capabilities().images,
        None => (executors.iter()).all(|executor| executor.capabilities().images),
    }
}

/// Logging in happens elsewhere; here it is looked at whether it has.
async fn authenticate(connection: &Connection) -> Result<AuthenticateResponse, Refusal> {
    let wanted = Wanted {
        profile: connection.settings.profile.clone(),
        caller_cwd: Some("/".into()),
        ..Wanted::default()
    };
    let spec = connection.profiles.spec(wanted).await?;
    let executors = connection.engine.executors().iter();
    for executor in executors.filter(|executor| executor.name() == &*spec.executor) {
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
