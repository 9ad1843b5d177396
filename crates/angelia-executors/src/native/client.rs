//! Sends requests to models over HTTP. The code before it produces the bytes of a request, and the
//! code after it reads the bytes of the answer. Requests that do not go to a model are in
//! `providers/short_request.rs`.

use std::{error::Error as _, fmt, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::{BoxFuture, Clock},
};
use bytes::Bytes;
use reqwest::{
    Client, ClientBuilder, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};

use super::{
    answer_reader::{AnswerHead, ByteSource},
    provider::{Api, ErrorReply, ProviderError, error::REQUEST_IDS, quirks::KeyHeader},
};

/// The time that a server has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The version of the Messages API that our requests are written for.
const MESSAGES_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// No more than this is read of an error's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The maximum number of causes that are reported for a failed connection.
const MAX_CAUSES: usize = 4;

/// The address of an API, with everything that every request to it carries.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
}

/// Omits the headers because they hold the key.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// `base_url` has the form that the vendor's own library accepts. `headers` come from the
    /// configuration and override ours.
    pub fn new<'a>(
        api: Api,
        base_url: &str,
        key: Option<(KeyHeader, &str)>,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Failure> {
        let invalid = |what: &str| {
            let message = format!("{what} of the provider at {base_url} cannot be used");
            Failure::new(FailureKind::Invalid, message).with_hint("correct it in `providers`")
        };
        let base = base_url.trim_end_matches('/');
        // The base URL of a Messages API does not contain the version, but many people add it.
        let base = match api {
            Api::Messages => base.strip_suffix("/v1").unwrap_or(base),
            Api::Chat | Api::Responses => base,
        };
        let url = format!("{base}{}", api.path()).parse().map_err(|_| invalid("the address"))?;
        let mut all = HeaderMap::new();
        if api == Api::Messages {
            let (name, value) = MESSAGES_VERSION;
            all.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some((header, key)) = key {
            let (name, value) = match header {
                KeyHeader::Bearer => ("authorization", format!("Bearer {key}")),
                KeyHeader::XApiKey => ("x-api-key", key.to_owned()),
                KeyHeader::ApiKey => ("api-key", key.to_owned()),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid("the key"))?;
            value.set_sensitive(true);
            all.insert(HeaderName::from_static(name), value);
        }
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|_| invalid("a header"))?;
            let value = HeaderValue::try_from(value).map_err(|_| invalid("a header"))?;
            all.insert(name, value);
        }
        Ok(Self { url, headers: all })
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Carries a request to a server, and the bytes of the reply back. Besides the implementation over
/// HTTP, tests of the loop's timeouts have one without a connection, so that they can pause time.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request and waits for the head of the reply. Dropping the future ends the exchange.
    fn send<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        body: Bytes,
    ) -> BoxFuture<'a, Result<TransportReply, ConnectionError>>;
}

/// The head of a reply, and the source of its remaining bytes.
#[derive(Debug)]
pub struct TransportReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Box<dyn ReplyBytes>,
}

/// The bytes of a reply.
pub trait ReplyBytes: Send + fmt::Debug {
    /// Returns the next bytes, or `None` at the end. The error is the chain of causes, outermost
    /// first. Must be cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, Vec<String>>>;
}

/// Sends requests. Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct ProviderClient {
    transport: Arc<dyn Transport>,
}

/// The server's reaction before the first byte of an answer.
#[derive(Debug)]
pub enum Reply {
    Answer(AnswerHead, AnswerBytes),
    Error(ProviderError),
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Outermost first.
    pub causes: Vec<String>,
    /// The server's certificate was not accepted.
    pub is_certificate: bool,
}

/// Returns a builder for an HTTP client. `is_local`: the servers are on this machine or its local
/// network.
pub(in crate::native) fn client_builder(is_local: bool) -> ClientBuilder {
    // This fails if the process has already installed a crypto provider, which is just as good.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    // A redirect would send the key to another address.
    let builder = Client::builder().redirect(redirect::Policy::none());
    // A proxy cannot reach servers on the local network.
    if is_local { builder.no_proxy() } else { builder }
}

impl ProviderClient {
    /// `is_local`: the servers are on this machine or its local network.
    pub fn new(is_local: bool) -> Result<Self, Failure> {
        let client = client_builder(is_local).connect_timeout(CONNECT_TIMEOUT);
        let client = client.build().map_err(|error| {
            let causes = cause_chain(&error).join(": ");
            Failure::new(FailureKind::Internal, format!("no HTTP client: {causes}"))
        })?;
        Ok(Self::over(Arc::new(client)))
    }

    pub fn over(transport: Arc<dyn Transport>) -> Self {
        Self { transport }
    }

    /// Sends a request and waits for the head of its answer. Dropping the future closes the
    /// connection.
    pub async fn post(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        clock: &dyn Clock,
    ) -> Result<Reply, ConnectionError> {
        let reply = self.transport.send(endpoint, body).await?;
        if !(200..300).contains(&reply.status) {
            return Ok(Reply::Error(read_error(reply, clock).await));
        }
        let is_document = header(&reply, "content-type")
            .is_some_and(|kind| kind.trim_start().starts_with("application/json"));
        let request_id = REQUEST_IDS.iter().find_map(|name| header(&reply, name));
        let request_id = request_id.map(str::to_owned);
        let head = AnswerHead { status: reply.status, request_id, is_document };
        Ok(Reply::Answer(head, AnswerBytes(reply.bytes)))
    }
}

impl Transport for Client {
    fn send<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        body: Bytes,
    ) -> BoxFuture<'a, Result<TransportReply, ConnectionError>> {
        let request = self
            .post(endpoint.url.clone())
            .headers(endpoint.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        Box::pin(async move {
            let response = request.send().await.map_err(|error| ConnectionError::of(&error))?;
            Ok(TransportReply {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                bytes: Box::new(response),
            })
        })
    }
}

impl ReplyBytes for Response {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, Vec<String>>> {
        Box::pin(async move { self.chunk().await.map_err(|error| cause_chain(&error)) })
    }
}

impl ConnectionError {
    fn of(error: &reqwest::Error) -> Self {
        let causes = cause_chain(error);
        let is_certificate = causes.iter().any(|cause| cause.contains("certificate"));
        Self { causes, is_certificate }
    }
}

fn header<'r>(reply: &'r TransportReply, name: &str) -> Option<&'r str> {
    reply.headers.get(name)?.to_str().ok()
}

async fn read_error(mut reply: TransportReply, clock: &dyn Clock) -> ProviderError {
    let mut body = Vec::new();
    // If the connection breaks, the bytes received so far are used.
    while let Ok(Some(bytes)) = reply.bytes.next().await {
        body.extend_from_slice(&bytes);
        if body.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    let headers = reply.headers.iter();
    let headers: Vec<(&str, &str)> =
        headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    ProviderError::from_reply(&ErrorReply {
        status: reply.status,
        headers: &headers,
        body: &String::from_utf8_lossy(&body),
        now: clock.now(),
    })
}

/// The bytes of an answer.
#[derive(Debug)]
pub struct AnswerBytes(Box<dyn ReplyBytes>);

impl ByteSource for AnswerBytes {
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, Vec<String>> {
        self.0.next().await
    }
}

/// Returns the messages of an error and its causes, without the address, which may contain a
/// secret.
pub(super) fn cause_chain(error: &reqwest::Error) -> Vec<String> {
    let outermost = if error.is_connect() {
        "cannot connect to the provider"
    } else if error.is_timeout() {
        "the provider took too long"
    } else {
        "the connection to the provider failed"
    };
    let mut causes = vec![outermost.to_owned()];
    let mut next = error.source();
    while let Some(cause) = next
        && causes.len() < MAX_CAUSES
    {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes
}
