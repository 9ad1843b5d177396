//! A client of the running daemon, for commands: calls `/api` over the socket of this home.
//!
//! - [`DaemonClient`]: sends requests, and reads lists; `service`: the requests of a
//!   [`TurnService`](angelia_frontends::turn_service::TurnService).
//! - [`TurnEvents`]: the events of a turn as they happen, even across a lost connection;
//!   `followed_turn`: its end if the daemon does not come back.
//! - [`RestartSteps`]: the steps of a daemon's restart.
//! - `reports`: status, usage, quotas and search; `schedules`: turns that start on their own.
//! - `connection`: one HTTP connection.
//! - [`ClientError`]: the errors.

mod connection;
mod error;
mod events;
mod followed_turn;
mod reports;
mod restart;
mod schedules;
mod service;
#[cfg(test)]
pub(crate) mod test_daemon;
#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Seq, SessionId, TurnId, TurnOrigin},
    ports::{ApprovalFilter, AuditQuery, Page, SessionFilter},
};
use angelia_frontends::{
    http::{
        ConfigReload, ConfigResource, ConfigState, HealthStatus, KEY_HEADER, LoginCodeResource,
        REPEAT_HEADER, TERMINAL_HEADER,
        resources::{
            AcceptedTurnResource, ApprovalResource, AuditResource, ResourceList, SessionResource,
            TurnResource,
        },
    },
    turn_service::TurnSubmission,
};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{HeaderMap, HeaderValue},
};
use serde::{Serialize, de::DeserializeOwned};

use self::connection::{DaemonConnection, RequestBody};
pub(crate) use self::{
    error::ClientError, events::TurnEvents, restart::RestartSteps, schedules::SCHEDULES_PATH,
};

/// A working daemon answers `/healthz` at once. One that does not is unusable.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// For all other requests. It is long, because deleting a session waits for its agent to end.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);

/// For a request that a model answers. The timeouts of the turn end it earlier.
const MODEL_TIMEOUT: Duration = Duration::from_hours(2);

/// Maximum number of records that the daemon puts on one page of a list.
const MAX_PAGE_SIZE: usize = 500;

/// A client of the daemon. Cheap to clone; all clones share one spare connection.
#[derive(Clone, Debug)]
pub(crate) struct DaemonClient {
    socket: Arc<Path>,
    spare_connection: Arc<Mutex<Option<DaemonConnection>>>,
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

    /// Returns the sessions of one directory or of all, most recently used first.
    pub(crate) async fn sessions_by_use(
        &self,
        cwd: Option<&Path>,
        page: Page,
    ) -> Result<Vec<SessionResource>, ClientError> {
        let cwd = cwd.map(|cwd| format!("cwd={}&", percent_encode(&cwd.to_string_lossy())));
        let path = format!("/api/sessions?sort=used&{}", cwd.unwrap_or_default());
        self.list(&path, page).await
    }

    /// Returns the sessions that match the filter, most recently used first.
    pub(crate) async fn find_sessions(
        &self,
        filter: &SessionFilter,
        page: Page,
    ) -> Result<Vec<SessionResource>, ClientError> {
        let text = |field: &Option<Arc<str>>| field.as_deref().map(str::to_owned);
        let all = |words: &[Arc<str>], between| (!words.is_empty()).then(|| words.join(between));
        let cwd = filter.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let path = with_query(
            "/api/sessions",
            [
                ("sort", Some("updated".to_owned())),
                ("q", all(&filter.words, " ")),
                ("status", all(&filter.statuses, ",")),
                ("profile", text(&filter.profile)),
                ("executor", text(&filter.executor)),
                ("origin", text(&filter.source)),
                ("since", filter.since.map(|since| since.to_string())),
                ("cwd", cwd),
            ],
        );
        self.list(&path, page).await
    }

    /// Returns records whose ids have this prefix. `path` is the path of their list.
    pub(crate) async fn find_by_prefix<T: DeserializeOwned>(
        &self,
        path: &str,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<T>, ClientError> {
        let path = format!("{path}?prefix={}&limit={limit}", percent_encode(prefix));
        let found: ResourceList<T> = self.call_json(request(Method::GET, &path)).await?;
        Ok(found.data)
    }

    /// Submits a turn. Returns `true` if it was already submitted under the same key.
    pub(crate) async fn submit(
        &self,
        new: &TurnSubmission,
    ) -> Result<(AcceptedTurnResource, bool), ClientError> {
        let path = format!("/api/sessions/{}/turns", new.session);
        let mut request = request(Method::POST, &path).json(&new.body)?;
        if new.origin == TurnOrigin::Owner {
            request = request.mark_from_terminal();
        }
        if let Some(key) = &new.key {
            // A turn submitted without its key could run twice.
            let key = HeaderValue::from_str(key).map_err(|_| ClientError::InvalidKey)?;
            request.request.headers_mut().insert(KEY_HEADER, key);
        }
        let (headers, body) = self.send_and_read(request).await?;
        let accepted = serde_json::from_slice(&body).map_err(ClientError::InvalidResponse)?;
        Ok((accepted, headers.contains_key(REPEAT_HEADER)))
    }

    /// Follows the events of a turn with a number above `after`.
    pub(crate) async fn events(&self, turn: TurnId, after: Seq) -> Result<TurnEvents, ClientError> {
        TurnEvents::open(self.clone(), turn, after, false).await
    }

    /// Follows all events of a turn. The daemon ends the turn when the returned value is dropped.
    pub(crate) async fn hold_turn(&self, turn: TurnId) -> Result<TurnEvents, ClientError> {
        TurnEvents::open(self.clone(), turn, 0, true).await
    }

    pub(crate) async fn turns(
        &self,
        session: Option<SessionId>,
        page: Page,
    ) -> Result<Vec<TurnResource>, ClientError> {
        match session {
            Some(session) => self.list(&format!("/api/turns?session={session}&"), page).await,
            None => self.list("/api/turns?", page).await,
        }
    }

    pub(crate) async fn approvals(
        &self,
        which: ApprovalFilter,
        page: Page,
    ) -> Result<Vec<ApprovalResource>, ClientError> {
        let all = u8::from(which == ApprovalFilter::All);
        self.list(&format!("/api/approvals?all={all}&"), page).await
    }

    /// Returns the state of the daemon's configuration file.
    pub(crate) async fn config_state(&self) -> Result<ConfigState, ClientError> {
        self.call_json(request(Method::GET, "/api/config")).await
    }

    /// Returns the effective settings.
    pub(crate) async fn config(&self) -> Result<ConfigResource, ClientError> {
        self.call_json(request(Method::GET, "/api/config")).await
    }

    /// Tells the daemon to reread its configuration file.
    pub(crate) async fn reload_config(&self) -> Result<ConfigReload, ClientError> {
        self.call_json(request(Method::POST, "/api/config/reload")).await
    }

    /// Returns an address that signs a browser in once.
    pub(crate) async fn make_login_code(&self) -> Result<LoginCodeResource, ClientError> {
        self.call_json(request(Method::POST, "/api/login/codes")).await
    }

    /// Returns rows of the audit log, newest first.
    pub(crate) async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditResource>, ClientError> {
        let since = query.since.map(|since| format!("since={since}&")).unwrap_or_default();
        self.list(&format!("/api/audit?{since}"), Page::first(query.limit)).await
    }

    /// Reads a list, with as many requests as its length requires. `path` is complete up to its
    /// query.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        page: Page,
    ) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut cursor = page.before.map(|before| before.to_string());
        while items.len() < page.limit {
            let limit = (page.limit - items.len()).min(MAX_PAGE_SIZE);
            let mut path = format!("{path}limit={limit}");
            if let Some(cursor) = cursor {
                path = format!("{path}&cursor={cursor}");
            }
            let found: ResourceList<T> = self.call_json(request(Method::GET, &path)).await?;
            items.extend(found.data);
            match found.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(items)
    }

    /// Sends a request and reads the response as JSON.
    async fn call_json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let (_, body) = self.send_and_read(request).await?;
        serde_json::from_slice(&body).map_err(ClientError::InvalidResponse)
    }

    /// Sends a request and reads the whole response. Keeps the connection for the next request.
    async fn send_and_read(
        &self,
        request: RequestBuilder,
    ) -> Result<(HeaderMap, Vec<u8>), ClientError> {
        let timeout = request.timeout;
        let exchange = async {
            let (mut connection, response) = self.send(request).await?;
            let (head, body) = response.into_parts();
            let body = connection.read_body(body).await?;
            self.keep_connection(connection);
            Ok((head.headers, body))
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(ClientError::Timeout))
    }

    /// Sends a request on the spare connection or a new one. A status other than success becomes an
    /// error.
    async fn send(
        &self,
        builder: RequestBuilder,
    ) -> Result<(DaemonConnection, Response<Incoming>), ClientError> {
        let request = builder.request;
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

/// A request under construction.
struct RequestBuilder {
    request: Request<RequestBody>,
    /// How long the whole exchange may take.
    timeout: Duration,
}

fn request(method: Method, path: &str) -> RequestBuilder {
    let mut request = Request::new(RequestBody::default());
    *request.method_mut() = method;
    // Always parses: these are our own paths, with all foreign text escaped.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert("host", HeaderValue::from_static("localhost"));
    RequestBuilder { request, timeout: REQUEST_TIMEOUT }
}

impl RequestBuilder {
    fn json(mut self, body: &impl Serialize) -> Result<Self, ClientError> {
        let json = serde_json::to_vec(body).map_err(ClientError::InvalidResponse)?;
        *self.request.body_mut() = RequestBody::from(json);
        Ok(self)
    }

    /// Allows for an answer from a model, which may take minutes.
    fn waiting_for_a_model(self) -> Self {
        Self { timeout: MODEL_TIMEOUT, ..self }
    }

    /// Marks the request as made from the owner's own terminal.
    fn mark_from_terminal(mut self) -> Self {
        let yes = HeaderValue::from_static("1");
        self.request.headers_mut().insert(TERMINAL_HEADER, yes);
        self
    }

    fn resuming_after(mut self, seq: Seq) -> Self {
        self.request.headers_mut().insert("last-event-id", seq.into());
        self
    }
}

/// Returns a path with those parameters that have a value, ready for another one.
fn with_query<const N: usize>(path: &str, parameters: [(&str, Option<String>); N]) -> String {
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut out = format!("{path}?");
    for (name, value) in given {
        out.extend([name, "=", &percent_encode(&value), "&"]);
    }
    out
}

/// Percent-encodes text for a query value of a URL.
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
