//! The client of a running daemon, for commands: calls `/api` over the socket of this home.
//!
//! - [`DaemonClient`]: the requests.
//! - [`TurnEvents`]: the events of a turn as they happen, also across a lost connection.
//! - `connection`: one HTTP connection.
//! - [`ClientError`]: the errors.

mod connection;
mod error;
mod events;
#[cfg(test)]
pub(crate) mod test_daemon;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::model::{ApprovalId, Decision, Seq, SessionId, TurnId};
use angelia_frontends::http::{
    HealthStatus, TERMINAL_HEADER,
    resources::{AcceptedTurnResource, ResourceList, SessionResource, TurnResource},
};
use hyper::{Method, Request, Response, body::Incoming};
use serde::{Serialize, de::DeserializeOwned};

use self::connection::{DaemonConnection, RequestBody};
pub(crate) use self::{error::ClientError, events::TurnEvents};

/// A working daemon answers `/healthz` at once; one that does not cannot be used.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// For all other requests. Long, because deleting a session waits for its agent to end.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);

/// A client of the daemon. Cheap to clone; all clones share one spare connection.
#[derive(Clone, Debug)]
pub(crate) struct DaemonClient {
    socket: Arc<Path>,
    spare_connection: Arc<Mutex<Option<DaemonConnection>>>,
}

/// The body of a request for a new session.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NewSessionRequest {
    pub(crate) profile: Option<String>,
    /// Named by the user; wins over the profile's.
    pub(crate) cwd: Option<PathBuf>,
    /// The folder the command was called in, for profiles without a `cwd`.
    pub(crate) caller_cwd: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    #[serde(skip)]
    pub(crate) at_terminal: bool,
}

/// The body of a request for a delegated turn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DelegatedTurn<'a> {
    pub(crate) input: &'a str,
    pub(crate) can_ask: bool,
    pub(crate) can_park: bool,
    pub(crate) delegated_by: Option<String>,
    pub(crate) max_cost_usd: Option<f64>,
}

/// A turn that a host application submits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostTurn<'a> {
    pub(crate) text: &'a str,
    /// The idempotency key: the turn runs once for each key.
    pub(crate) key: Option<&'a str>,
}

impl DaemonClient {
    /// Connects to the daemon. Returns `None` at once if nothing listens on the socket.
    pub(crate) async fn connect(socket: &Path) -> Option<Self> {
        let connection = DaemonConnection::open(socket).await.ok()?;
        Some(Self {
            socket: socket.into(),
            spare_connection: Arc::new(Mutex::new(Some(connection))),
        })
    }

    pub(crate) async fn hello(&self) -> Result<HealthStatus, ClientError> {
        tokio::time::timeout(HELLO_TIMEOUT, self.call_json(request(Method::GET, "/healthz")))
            .await
            .unwrap_or(Err(ClientError::Timeout))
    }

    pub(crate) async fn session(&self, id: &str) -> Result<SessionResource, ClientError> {
        let path = format!("/api/sessions/{}", percent_encode(id));
        self.call_json(request(Method::GET, &path)).await
    }

    /// Returns the session with this name.
    pub(crate) async fn find_by_name(
        &self,
        name: &str,
    ) -> Result<Option<SessionResource>, ClientError> {
        let path = format!("/api/sessions?name={}", percent_encode(name));
        let found: ResourceList<SessionResource> =
            self.call_json(request(Method::GET, &path)).await?;
        Ok(found.data.into_iter().next())
    }

    pub(crate) async fn create_session(
        &self,
        new: &NewSessionRequest,
    ) -> Result<SessionResource, ClientError> {
        let mut request = request(Method::POST, "/api/sessions").json(new)?;
        if new.at_terminal {
            request = request.mark_from_terminal();
        }
        self.call_json(request).await
    }

    pub(crate) async fn fork(&self, session: SessionId) -> Result<SessionResource, ClientError> {
        let path = format!("/api/sessions/{session}/fork");
        self.call_json(request(Method::POST, &path)).await
    }

    pub(crate) async fn delete(&self, session: SessionId) -> Result<(), ClientError> {
        let path = format!("/api/sessions/{session}");
        self.send_and_read(request(Method::DELETE, &path)).await.map(drop)
    }

    /// Submits a turn that the owner typed.
    pub(crate) async fn submit(
        &self,
        session: SessionId,
        text: &str,
        can_ask: bool,
    ) -> Result<AcceptedTurnResource, ClientError> {
        #[derive(Serialize)]
        struct SubmitBody<'a> {
            input: &'a str,
            can_ask: bool,
        }
        let path = format!("/api/sessions/{session}/turns");
        let body = SubmitBody { input: text, can_ask };
        let request = request(Method::POST, &path).json(&body)?.mark_from_terminal();
        self.call_json(request).await
    }

    /// Submits a turn that an agent or another program delegates.
    pub(crate) async fn delegate(
        &self,
        session: SessionId,
        task: &DelegatedTurn<'_>,
    ) -> Result<AcceptedTurnResource, ClientError> {
        let path = format!("/api/sessions/{session}/turns");
        self.call_json(request(Method::POST, &path).json(task)?).await
    }

    /// Submits a turn of a host application. Returns `true` if it was submitted before, under the
    /// same key.
    pub(crate) async fn submit_for_host(
        &self,
        session: SessionId,
        turn: &HostTurn<'_>,
    ) -> Result<(AcceptedTurnResource, bool), ClientError> {
        #[derive(Serialize)]
        struct HostTurnBody<'a> {
            input: &'a str,
            can_ask: bool,
            can_park: bool,
        }
        let path = format!("/api/sessions/{session}/turns");
        let mut request = request(Method::POST, &path).json(&HostTurnBody {
            input: turn.text,
            can_ask: true,
            can_park: false,
        })?;
        if let Some(key) = turn.key.and_then(|key| key.parse().ok()) {
            let headers = request.request.headers_mut();
            headers.insert("idempotency-key", key);
        }
        let asked = async {
            let (mut connection, response) = self.send(request).await?;
            let repeats = response.headers().contains_key("x-angelia-repeat");
            let body = connection.read_body(response.into_body()).await?;
            self.keep_connection(connection);
            let accepted = serde_json::from_slice(&body).map_err(ClientError::InvalidResponse)?;
            Ok((accepted, repeats))
        };
        tokio::time::timeout(REQUEST_TIMEOUT, asked).await.unwrap_or(Err(ClientError::Timeout))
    }

    /// Follows the events of a turn with a number above `after`.
    pub(crate) async fn events(&self, turn: TurnId, after: Seq) -> Result<TurnEvents, ClientError> {
        TurnEvents::open(self.clone(), turn, after, false).await
    }

    /// Follows all events of a turn. The daemon ends the turn when the returned value is dropped.
    pub(crate) async fn hold_turn(&self, turn: TurnId) -> Result<TurnEvents, ClientError> {
        TurnEvents::open(self.clone(), turn, 0, true).await
    }

    /// Returns the current state of a turn.
    pub(crate) async fn turn(&self, turn: TurnId) -> Result<TurnResource, ClientError> {
        self.call_json(request(Method::GET, &format!("/api/turns/{turn}"))).await
    }

    pub(crate) async fn interrupt(&self, turn: TurnId, kill: bool) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct InterruptBody {
            kill: bool,
        }
        let path = format!("/api/turns/{turn}/interrupt");
        let request = request(Method::POST, &path).json(&InterruptBody { kill })?;
        let _as_it_is_now: TurnResource = self.call_json(request).await?;
        Ok(())
    }

    pub(crate) async fn decide(
        &self,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct DecisionBody<'a> {
            verdict: &'static str,
            note: Option<&'a str>,
            answers: BTreeMap<&'a str, &'a str>,
        }
        let answers = decision.answers.iter();
        let body = DecisionBody {
            verdict: decision.verdict.as_str(),
            note: decision.note.as_deref(),
            answers: answers.map(|one| (&*one.question, &*one.answer)).collect(),
        };
        let path = format!("/api/approvals/{approval}");
        let request = request(Method::POST, &path).json(&body)?;
        self.send_and_read(request).await.map(drop)
    }

    /// Sends a request and reads the response as JSON.
    async fn call_json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let body = self.send_and_read(request).await?;
        serde_json::from_slice(&body).map_err(ClientError::InvalidResponse)
    }

    /// Sends a request and reads the whole response. The connection is kept for the next request.
    async fn send_and_read(&self, request: RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let asked = async {
            let (mut connection, response) = self.send(request).await?;
            let body = connection.read_body(response.into_body()).await?;
            self.keep_connection(connection);
            Ok(body)
        };
        tokio::time::timeout(REQUEST_TIMEOUT, asked).await.unwrap_or(Err(ClientError::Timeout))
    }

    /// Sends a request on the spare connection or a new one. A response with another status than
    /// success becomes an error.
    async fn send(
        &self,
        ask: RequestBuilder,
    ) -> Result<(DaemonConnection, Response<Incoming>), ClientError> {
        let request = ask.request;
        let spare = self.spare_connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spare = match spare {
            Some(spare) => spare.if_usable().await,
            None => None,
        };
        let mut connection = match spare {
            Some(usable) => usable,
            None => DaemonConnection::open(&self.socket).await.map_err(ClientError::Unreachable)?,
        };
        let response = connection.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((connection, response));
        }
        let body = connection.read_body(response.into_body()).await?;
        self.keep_connection(connection);
        Err(ClientError::from_response(status, &body))
    }

    fn keep_connection(&self, connection: DaemonConnection) {
        *self.spare_connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }
}

/// A request that is being built.
struct RequestBuilder {
    request: Request<RequestBody>,
}

fn request(method: Method, path: &str) -> RequestBuilder {
    let mut request = Request::new(RequestBody::default());
    *request.method_mut() = method;
    // Always parses: these are our own paths, with all foreign text in them escaped.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert("host", hyper::header::HeaderValue::from_static("localhost"));
    RequestBuilder { request }
}

impl RequestBuilder {
    fn json(mut self, body: &impl Serialize) -> Result<Self, ClientError> {
        let json = serde_json::to_vec(body).map_err(ClientError::InvalidResponse)?;
        *self.request.body_mut() = RequestBody::from(json);
        Ok(self)
    }

    /// Marks the request as made from the owner's own terminal.
    fn mark_from_terminal(mut self) -> Self {
        let yes = hyper::header::HeaderValue::from_static("1");
        self.request.headers_mut().insert(TERMINAL_HEADER, yes);
        self
    }

    fn resuming_after(mut self, seq: Seq) -> Self {
        self.request.headers_mut().insert("last-event-id", seq.into());
        self
    }
}

/// Percent-encodes text for one segment or query value of a URL.
fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}
