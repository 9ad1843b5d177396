//! Short requests to a provider that run no model: which models there are, and what their limits
//! are.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};

use super::{key::ProviderKey, provider::Provider};
use crate::native::{
    client::{Endpoint, cause_chain, client_builder},
    provider::Api,
};

/// The time that a provider has for the whole answer.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Lists of hundreds of models are long, but not longer than this.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A question to a provider's server that runs no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    /// All models.
    Models,
    /// One model, for APIs that have an address for each.
    Model(&'a str),
    /// One model of an Ollama server.
    Show(&'a str),
    /// All models of an LM Studio server.
    LoadedModels,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShortAnswer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl ShortAnswer {
    pub(super) const fn is_success(&self) -> bool {
        200 <= self.status && self.status < 300
    }
}

impl Question<'_> {
    /// Returns the address, and the body if it is a POST.
    fn request(&self, provider: &Provider) -> (String, Option<String>) {
        let base = &*provider.base_url;
        // These servers have addresses of their own in addition to the compatible ones.
        let root = base.strip_suffix("/v1").unwrap_or(base);
        match (self, provider.api) {
            (Self::Models, Api::Messages) => (format!("{root}/v1/models"), None),
            (Self::Model(id), Api::Messages) => (format!("{root}/v1/models/{id}"), None),
            (Self::Models | Self::Model(_), Api::Chat | Api::Responses) => {
                (format!("{base}/models"), None)
            }
            (Self::Show(id), _) => {
                let body = serde_json::json!({ "model": id });
                (format!("{root}/api/show"), Some(body.to_string()))
            }
            (Self::LoadedModels, _) => (format!("{root}/api/v0/models"), None),
        }
    }
}

/// Asks a provider. The error says why there is no answer.
pub(super) async fn ask(
    provider: &Provider,
    key: Option<&ProviderKey>,
    question: &Question<'_>,
) -> Result<ShortAnswer, String> {
    let (url, body) = question.request(provider);
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let usual = provider.quirks_of("").key_header;
    let key = key.map(|key| (key.header(usual), key.expose()));
    let headers = provider.headers.iter().map(|(name, value)| (&**name, &**value));
    let endpoint = Endpoint::new(provider.api, &provider.base_url, key, headers)
        .map_err(|failure| failure.message.to_string())?;
    let mut request = client(provider)?.request(method, url).headers(endpoint.headers().clone());
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body);
    }
    send(request, SHORT_TIMEOUT).await
}

/// Sends a request and reads the answer. `timeout` is that of the request's client, for the error.
pub(super) async fn send(
    request: RequestBuilder,
    timeout: Duration,
) -> Result<ShortAnswer, String> {
    let describe = |error: reqwest::Error| describe(&error, timeout);
    let mut response = request.send().await.map_err(describe)?;
    let status = response.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(describe)? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MAX_BYTES {
            return Err("its answer is too long".to_owned());
        }
    }
    Ok(ShortAnswer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
}

fn client(provider: &Provider) -> Result<Client, String> {
    let client = client_builder(provider.is_local()).timeout(SHORT_TIMEOUT);
    client.build().map_err(|error| describe(&error, SHORT_TIMEOUT))
}

/// Describes why there is no answer, without the address, which callers name themselves.
fn describe(error: &reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() && !error.is_connect() {
        return format!("no answer within {} s", timeout.as_secs());
    }
    let cause = cause_chain(error).pop().unwrap_or_default();
    if error.is_connect() { format!("no connection: {cause}") } else { cause }
}
