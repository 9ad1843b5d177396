//! A model of a session, with everything that a request to it needs except the key. The models of a
//! chain are opened when they are first needed, because opening one may query its server.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use angelia_core::model::{Failure, NativeSettings, RawJson, SessionId, TokenPrice, TurnTimeouts};
use sha2::{Digest as _, Sha256};

use super::{
    agent::SessionTools,
    answer_reader::AnswerClocks,
    client::{Endpoint, ProviderClient},
    provider::{
        Conversation, Issuer, ProviderRequest, Quirks, RequestSettings, encode_request,
        window::ModelLimits,
    },
    providers::{ChosenKey, Provider, WindowSource, load_key},
    request_dump::DumpFolder,
};
use crate::host::ExecutorHost;

/// Our timeouts are this fraction of the engine's, so that they expire first: the engine would end
/// the turn instead of asking again.
const CLOCK_SHARE: f64 = 0.9;

/// A local server may process a long prompt for minutes before its first output.
const LOCAL_FIRST_EVENT: Duration = Duration::from_mins(10);

/// The HTTP clients, created when they are first needed: creating one reads the system's
/// certificates, and most commands ask no model.
#[derive(Debug, Default)]
pub(super) struct Clients {
    local: OnceLock<Result<ProviderClient, Failure>>,
    remote: OnceLock<Result<ProviderClient, Failure>>,
}

impl Clients {
    /// Uses `client` for every request.
    pub(super) fn only(client: ProviderClient) -> Self {
        let client = OnceLock::from(Ok(client));
        Self { local: client.clone(), remote: client }
    }

    fn get(&self, is_local: bool) -> Result<ProviderClient, Failure> {
        let client = if is_local { &self.local } else { &self.remote };
        client.get_or_init(|| ProviderClient::new(is_local)).clone()
    }
}

/// A model, and what is known about it.
#[derive(Debug)]
pub(super) struct SessionModel {
    pub(super) issuer: Issuer,
    pub(super) provider: Arc<Provider>,
    pub(super) quirks: Quirks,
    pub(super) limits: ModelLimits,
    /// `None` if the price is unknown.
    pub(super) price: Option<TokenPrice>,
    /// The model can call tools.
    pub(super) takes_tools: bool,
    pub(super) client: ProviderClient,
    pub(super) clocks: AnswerClocks,
    /// The settings of the first request.
    pub(super) request: RequestSettings,
    /// The folder for failed requests; `None` if they are not written.
    pub(super) dumps: Option<DumpFolder>,
}

impl SessionModel {
    /// Returns the endpoint of requests. `key` is `None` if the provider needs none.
    pub(super) fn endpoint(&self, key: Option<&ChosenKey>) -> Result<Endpoint, Failure> {
        let provider = &self.provider;
        let headers = provider.headers.iter().map(|(name, value)| (&**name, &**value));
        let usual = self.quirks.key_header;
        let key = key.map(|chosen| (chosen.key.header(usual), chosen.key.expose()));
        Endpoint::new(provider.api, &provider.base_url, key, headers)
    }

    /// Returns the size of the window, if it is known. It may have been learned since the session
    /// began.
    pub(super) fn known_window(&self, host: &ExecutorHost) -> Option<u64> {
        let window = host.providers.window_of(&self.provider, &self.issuer.model);
        (window.source != WindowSource::Assumed).then_some(window.context)
    }

    /// Remembers a window that the provider named in an error.
    pub(super) fn learn_window(&self, host: &ExecutorHost, window: u64) {
        let limits = ModelLimits { context: Some(window), output: None };
        host.providers.learn_limits(&self.provider, &self.issuer.model, limits);
    }

    /// Returns the hash of a request to this model without messages.
    pub(super) fn prefix_sha256(&self, tools: &SessionTools, system: &Arc<str>) -> Arc<str> {
        let conversation = Conversation { system: Arc::clone(system), ..Conversation::default() };
        let body = encode_request(&ProviderRequest {
            issuer: &self.issuer,
            conversation: &conversation,
            tools: tools.definitions_for(self),
            // The cache key differs between sessions, but the prefix does not.
            settings: &RequestSettings { cache_key: None, ..self.request.clone() },
            quirks: &self.quirks,
        });
        format!("{:x}", Sha256::digest(&body)).into()
    }
}

/// Opens the models of a session.
#[derive(Debug)]
pub(super) struct ModelOpener {
    pub(super) host: ExecutorHost,
    pub(super) clients: Arc<Clients>,
    pub(super) settings: NativeSettings,
    pub(super) timeouts: TurnTimeouts,
    pub(super) output_schema: Option<RawJson>,
    /// The session whose requests the provider caches. A review uses the session that it reviews.
    pub(super) cached_for: SessionId,
    /// The folder with the session's files.
    pub(super) folder: PathBuf,
}

impl ModelOpener {
    /// Opens a model. If its window is unknown, asks the server, with the first available key and
    /// for at most two seconds.
    pub(super) async fn open(
        &self,
        provider: &Arc<Provider>,
        model: &Arc<str>,
    ) -> Result<SessionModel, Failure> {
        let (host, settings) = (&self.host, &self.settings);
        let mut window = host.providers.window_of(provider, model);
        if window.source == WindowSource::Assumed
            && let Ok(key) = load_key(&provider.keys, host).await
        {
            window = host.providers.discover_window(provider, key.as_ref(), model).await;
        }
        let facts = provider.model(model);
        let images = host.providers.image_care(provider, model);
        let limits = ModelLimits { context: Some(window.context), output: window.output };
        let request = RequestSettings {
            max_output_tokens: settings.max_output_tokens.or(limits.output),
            effort: settings.reasoning.filter(|_| facts.reasoning != Some(false)),
            output_schema: self.output_schema.clone(),
            cache_key: Some(self.cached_for.to_string().into()),
            without_images: !facts.images.unwrap_or(!images.is_text_only),
            ..RequestSettings::default()
        };
        Ok(SessionModel {
            price: provider.price_of(model, &host.prices),
            quirks: provider.quirks_of(model),
            limits,
            takes_tools: facts.tools != Some(false),
            client: self.clients.get(provider.is_local())?,
            clocks: clocks(&self.timeouts, provider.is_local()),
            request,
            dumps: provider.dump_failed_requests.then(|| DumpFolder::below(&self.folder)),
            issuer: Issuer {
                provider: Arc::clone(&provider.name),
                api: provider.api,
                model: Arc::clone(model),
            },
            provider: Arc::clone(provider),
        })
    }
}

fn clocks(timeouts: &TurnTimeouts, is_local: bool) -> AnswerClocks {
    let (mut first, silence) = (timeouts.first_event, timeouts.silence);
    // A limit that the owner has set takes precedence.
    if is_local && first == TurnTimeouts::default().first_event {
        first = LOCAL_FIRST_EVENT;
    }
    AnswerClocks {
        first_event: first.mul_f64(CLOCK_SHARE),
        silence: silence.mul_f64(CLOCK_SHARE),
        connection: silence.max(first).mul_f64(CLOCK_SHARE),
    }
}
