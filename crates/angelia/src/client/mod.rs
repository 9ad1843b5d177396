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
pub(crate) mod stage;
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
    Hello, TERMINAL_HEADER,
    resources::{Accepted, List, Session, Turn},
};
use hyper::{Method, Request, Response, body::Incoming};
use serde::{Serialize, de::DeserializeOwned};

use self::connection::{Connection, Outgoing};
pub(crate) use self::{error::ClientError, events::Events};

/// A working daemon answers `/healthz` at once; one that does not cannot be used.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// For all other requests. Long, because deleting a session waits for its agent to end.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A client of the daemon. Cheap to clone; all clones share one spare connection.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    socket: Arc<Path>,
    spare: Arc<Mutex<Option<Connection>>>,
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

impl Daemon {
    /// Connects to the daemon. Returns `None` at once if nothing listens on the socket.
    pub(crate) async fn connect(socket: &Path) -> Option<Self> {
        let connection = Connection::open(socket).await.ok()?;
        Some(Self { socket: socket.into(), spare: Arc::new(Mutex::new(Some(connection))) })
    }

    pub(crate) async fn hello(&self) -> Result<Hello, ClientError> {
        tokio::time::timeout(HELLO_TIMEOUT, self.call(request(Method::GET, "/healthz")))
            .await
            .unwrap_or(Err(ClientError::Silent))
    }

    pub(crate) async fn session(&self, id: &str) -> Result<Session, ClientError> {
        let path = format!("/api/sessions/{}", escaped(id));
        self.call(request(Method::GET, &path)).await
    }

    /// Returns the session with this name.
    pub(crate) async fn named(&self, name: &str) -> Result<Option<Session>, ClientError> {
        let path = format!("/api/sessions?name={}", escaped(name));
        let found: List<Session> = self.call(request(Method::GET, &path)).await?;
        Ok(found.data.into_iter().next())
    }

    pub(crate) async fn create_session(
        &self,
        new: &NewSessionRequest,
    ) -> Result<Session, ClientError> {
        let mut request = request(Method::POST, "/api/sessions").json(new)?;
        if new.at_terminal {
            request = request.spoken_by_owner();
        }
        self.call(request).await
    }

    pub(crate) async fn fork(&self, session: SessionId) -> Result<Session, ClientError> {
        let path = format!("/api/sessions/{session}/fork");
        self.call(request(Method::POST, &path)).await
    }

    pub(crate) async fn delete(&self, session: SessionId) -> Result<(), ClientError> {
        let path = format!("/api/sessions/{session}");
        self.answer(request(Method::DELETE, &path)).await.map(drop)
    }

    /// Submits a turn that the owner typed.
    pub(crate) async fn submit(
        &self,
        session: SessionId,
        text: &str,
        can_ask: bool,
    ) -> Result<Accepted, ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            input: &'a str,
            can_ask: bool,
        }
        let path = format!("/api/sessions/{session}/turns");
        let body = Body { input: text, can_ask };
        let request = request(Method::POST, &path).json(&body)?.spoken_by_owner();
        self.call(request).await
    }

    /// Submits a turn that an agent or another program delegates.
    pub(crate) async fn delegate(
        &self,
        session: SessionId,
        task: &DelegatedTurn<'_>,
    ) -> Result<Accepted, ClientError> {
        let path = format!("/api/sessions/{session}/turns");
        self.call(request(Method::POST, &path).json(task)?).await
    }

    /// Submits a turn of a host application. Returns `true` if it was submitted before, under the
    /// same key.
    pub(crate) async fn submit_for_host(
        &self,
        session: SessionId,
        turn: &HostTurn<'_>,
    ) -> Result<(Accepted, bool), ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            input: &'a str,
            can_ask: bool,
            can_park: bool,
        }
        let path = format!("/api/sessions/{session}/turns");
        let mut request = request(Method::POST, &path).json(&Body {
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
            let body = connection.read(response.into_body()).await?;
            self.keep(connection);
            let accepted = serde_json::from_slice(&body).map_err(ClientError::Odd)?;
            Ok((accepted, repeats))
        };
        tokio::time::timeout(TIMEOUT, asked).await.unwrap_or(Err(ClientError::Silent))
    }

    /// Follows the events of a turn with a number above `after`.
    pub(crate) async fn events(&self, turn: TurnId, after: Seq) -> Result<Events, ClientError> {
        Events::open(self.clone(), turn, after, false).await
    }

    /// Follows all events of a turn. The daemon ends the turn when the returned value is dropped.
    pub(crate) async fn hold(&self, turn: TurnId) -> Result<Events, ClientError> {
        Events::open(self.clone(), turn, 0, true).await
    }

    /// Returns the current state of a turn.
    pub(crate) async fn turn(&self, turn: TurnId) -> Result<Turn, ClientError> {
        self.call(request(Method::GET, &format!("/api/turns/{turn}"))).await
    }

    pub(crate) async fn interrupt(&self, turn: TurnId, kill: bool) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Body {
            kill: bool,
        }
        let path = format!("/api/turns/{turn}/interrupt");
        let request = request(Method::POST, &path).json(&Body { kill })?;
        let _as_it_is_now: Turn = self.call(request).await?;
        Ok(())
    }

    pub(crate) async fn decide(
        &self,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            verdict: &'static str,
            note: Option<&'a str>,
            answers: BTreeMap<&'a str, &'a str>,
        }
        let answers = decision.answers.iter();
        let body = Body {
            verdict: decision.verdict.as_str(),
            note: decision.note.as_deref(),
            answers: answers.map(|one| (&*one.question, &*one.answer)).collect(),
        };
        let path = format!("/api/approvals/{approval}");
        let request = request(Method::POST, &path).json(&body)?;
        self.answer(request).await.map(drop)
    }

    /// Sends a request and reads the response as JSON.
    async fn call<T: DeserializeOwned>(&self, request: Ask) -> Result<T, ClientError> {
        let body = self.answer(request).await?;
        serde_json::from_slice(&body).map_err(ClientError::Odd)
    }

    /// Sends a request and reads the whole response. The connection is kept for the next request.
    async fn answer(&self, request: Ask) -> Result<Vec<u8>, ClientError> {
        let asked = async {
            let (mut connection, response) = self.send(request).await?;
            let body = connection.read(response.into_body()).await?;
            self.keep(connection);
            Ok(body)
        };
        tokio::time::timeout(TIMEOUT, asked).await.unwrap_or(Err(ClientError::Silent))
    }

    /// Sends a request on the spare connection or a new one. A response with another status than
    /// success becomes an error.
    async fn send(&self, ask: Ask) -> Result<(Connection, Response<Incoming>), ClientError> {
        let request = ask.request;
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spare = match spare {
            Some(spare) => spare.if_usable().await,
            None => None,
        };
        let mut connection = match spare {
            Some(usable) => usable,
            None => Connection::open(&self.socket).await.map_err(ClientError::Gone)?,
        };
        let response = connection.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((connection, response));
        }
        let body = connection.read(response.into_body()).await?;
        self.keep(connection);
        Err(ClientError::refused(status, &body))
    }

    fn keep(&self, connection: Connection) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }
}

/// A request that is being built.
struct Ask {
    request: Request<Outgoing>,
}

fn request(method: Method, path: &str) -> Ask {
    let mut request = Request::new(Outgoing::default());
    *request.method_mut() = method;
    // Always parses: these are our own paths, with all foreign text in them escaped.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert("host", hyper::header::HeaderValue::from_static("localhost"));
    Ask { request }
}

impl Ask {
    fn json(mut self, body: &impl Serialize) -> Result<Self, ClientError> {
        let json = serde_json::to_vec(body).map_err(ClientError::Odd)?;
        *self.request.body_mut() = Outgoing::from(json);
        Ok(self)
    }

    /// Marks the request as made from the owner's own terminal.
    fn spoken_by_owner(mut self) -> Self {
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
fn escaped(text: &str) -> String {
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
