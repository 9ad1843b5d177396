//! The HTTP client of an MCP server, which adds the token of the owner's login to every request. If
//! the server refuses a token, the token is renewed once and the request is sent again, which is
//! safe because a refused request was not carried out.

use std::{collections::HashMap, error::Error, sync::Arc};

use reqwest::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            AuthRequiredError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};

use crate::{
    ExecutorHost,
    native::providers::{KeySource, OAuthSettings},
};

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub(super) struct LoginClient {
    http: reqwest::Client,
    login: Option<ServerLogin>,
}

/// The owner's login at a server. Its tokens are created in the same place as all others, so that
/// only one request at a time uses a refresh token.
#[derive(Clone, Debug)]
struct ServerLogin {
    source: KeySource,
    command: String,
    host: ExecutorHost,
}

impl LoginClient {
    pub(super) fn new(
        http: reqwest::Client,
        login: Option<&OAuthSettings>,
        host: &ExecutorHost,
    ) -> Self {
        let login = login.map(|settings| ServerLogin {
            source: KeySource::OAuth(settings.clone()),
            command: settings.target.login_command(),
            host: host.clone(),
        });
        Self { http, login }
    }

    /// Sends a request with the token of the login, if there is one.
    async fn send<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(ServerLogin { source, command, host }) = &self.login else {
            let words = "it wants a login; set `oauth` of the server in config.yaml, or give it a \
                         token in `headers`";
            return send(None).await.map_err(|error| explain(error, words));
        };
        let needs_login = |words: String| HttpError::AuthRequired(AuthRequiredError::new(words));
        let token = source.load(host).await.map_err(needs_login)?;
        match send(Some(token.expose().to_owned())).await {
            Err(error) if is_refusal(&error) => {}
            answer => return answer,
        }
        let next = match source.renew(&token, host).await {
            Some(next) => next,
            None => source.load(host).await.map_err(needs_login)?,
        };
        let words = format!("it refuses the token of your login; log in again with `{command}`");
        let answer = send(Some(next.expose().to_owned())).await;
        answer.map_err(|error| explain(error, &words))
    }
}

impl StreamableHttpClient for LoginClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let send = |token| {
            let (message, session) = (message.clone(), session_id.clone());
            self.http.post_message(uri.clone(), message, session, token, headers.clone())
        };
        self.send(send).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let send = |token| {
            self.http.delete_session(uri.clone(), session_id.clone(), token, headers.clone())
        };
        self.send(send).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        let send = |token| {
            let (session, last) = (session_id.clone(), last_event_id.clone());
            self.http.get_stream(uri.clone(), session, last, token, headers.clone())
        };
        self.send(send).await
    }
}

/// Returns whether the server refuses the token or requires one.
fn is_refusal(error: &HttpError) -> bool {
    match error {
        HttpError::AuthRequired(_) => true,
        // The library reports a response without a challenge only as text.
        HttpError::UnexpectedServerResponse(words) => words.starts_with("HTTP 401"),
        HttpError::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

/// Replaces the error of a request that needs a login with our own message, because the server's
/// challenge means nothing to a person.
fn explain(error: HttpError, words: &str) -> HttpError {
    if is_refusal(&error) {
        HttpError::AuthRequired(AuthRequiredError::new(words.to_owned()))
    } else {
        error
    }
}

/// Returns what is wrong with the login, if that is why a request failed.
pub(super) fn login_problem(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(AuthRequiredError { www_authenticate_header: words, .. }) = error.downcast_ref() {
        return Some(words.clone());
    }
    if let Some(InsufficientScopeError { required_scope, .. }) = error.downcast_ref() {
        let missing = required_scope
            .as_ref()
            .map_or_else(|| "a scope".to_owned(), |scope| format!("the scope `{scope}`"));
        return Some(format!(
            "its login lacks {missing}; add it to `oauth.scope` and log in again"
        ));
    }
    error.source().and_then(login_problem)
}
