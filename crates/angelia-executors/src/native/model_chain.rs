//! The models of a session: its own, and fallbacks that are asked while its own cannot answer.
//! Whether a model can be asked depends on the health of its provider, which all sessions share.

use std::{fmt, sync::Arc};

use angelia_core::model::{Failure, FailureKind, SessionSpec};
use tokio::{sync::OnceCell, time::Instant};

use super::{
    client::Endpoint,
    providers::{Availability, ChosenKey, KeyChoice, Provider, choose_key},
    session_model::{ModelOpener, SessionModel},
};
use crate::{
    billing::{self, BillingHints},
    host::ExecutorHost,
};

const BILLING_HINTS: BillingHints = BillingHints {
    subscription: "providers are paid by key; take a profile with another executor, or set \
                   `billing: any`",
    api_key: "this provider is not paid by an API key; set `billing: any`",
};

/// The models of a session, in the order in which they are asked. The first is its own.
#[derive(Debug)]
pub(super) struct ModelChain {
    links: Vec<ChainLink>,
    opener: ModelOpener,
}

#[derive(Debug)]
struct ChainLink {
    provider: Arc<Provider>,
    model: Arc<str>,
    opened: OnceCell<Arc<SessionModel>>,
}

/// `PROVIDER/MODEL`.
impl fmt::Display for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.name, self.model)
    }
}

/// The model that is asked, and the key that requests to it carry.
#[derive(Debug)]
pub(super) struct Route {
    /// The place of the model in the chain.
    pub(super) place: usize,
    pub(super) model: Arc<SessionModel>,
    pub(super) key: Option<ChosenKey>,
    pub(super) endpoint: Endpoint,
    /// The model or the key has failed, and has not answered since.
    pub(super) on_probation: bool,
}

/// A model of the chain that can be asked now.
#[derive(Debug)]
pub(super) struct FreeLink {
    place: usize,
    key: Option<ChosenKey>,
}

impl Route {
    /// Switches to another key for the following requests.
    pub(super) fn take_key(&mut self, key: ChosenKey) -> Result<(), Failure> {
        self.endpoint = self.model.endpoint(Some(&key))?;
        self.key = Some(key);
        Ok(())
    }

    /// Returns the lane, which says who pays.
    pub(super) fn lane(&self) -> &'static str {
        match &self.key {
            Some(key) => key.source.lane(),
            None => self.model.provider.lane(),
        }
    }
}

impl ModelChain {
    /// Finds the providers of all models, and checks that the profile allows their billing.
    /// Duplicate models are dropped.
    pub(super) fn new(spec: &SessionSpec, opener: ModelOpener) -> Result<Self, Failure> {
        let providers = &opener.host.providers;
        let Some(own) = spec.model.as_ref() else {
            let message = "a profile with `executor: native` needs a model";
            return Err(Failure::new(FailureKind::Invalid, message).with_hint(
                "set `model: PROVIDER/MODEL`; `angelia providers list` shows what there is",
            ));
        };
        let mut links: Vec<ChainLink> = Vec::new();
        for id in std::iter::once(own).chain(&spec.native.fallback) {
            let (provider, model) = providers.resolve(id)?;
            billing::check_billing(
                "the provider",
                spec.billing,
                Some(provider.lane()),
                BILLING_HINTS,
            )?;
            let is_known =
                |link: &ChainLink| link.provider.name == provider.name && link.model == model;
            if !links.iter().any(is_known) {
                links.push(ChainLink { provider, model, opened: OnceCell::new() });
            }
        }
        Ok(Self { links, opener })
    }

    /// Opens the session's own model.
    pub(super) async fn own_model(&self) -> Result<Arc<SessionModel>, Failure> {
        self.open(0).await
    }

    /// Returns the `PROVIDER/MODEL` at a place.
    pub(super) fn name(&self, place: usize) -> String {
        self.links.get(place).map(ToString::to_string).unwrap_or_default()
    }

    /// Fails if a cost limit cannot be enforced because a model has no price.
    pub(super) fn ensure_priced(&self) -> Result<(), Failure> {
        let prices = &self.opener.host.prices;
        self.links.iter().try_for_each(|link| link.provider.ensure_priced(&link.model, prices))
    }

    /// Chooses the model at the start of a turn: the first that can be asked, or the session's own
    /// if none can. Also returns why the session's own model was passed over.
    pub(super) async fn begin(&self) -> Result<(Route, Option<Arc<str>>), Failure> {
        let mut first_obstacle = None;
        for (place, link) in self.links.iter().enumerate() {
            let (reason, key) = match self.look_at(link).await {
                LinkState::Free(key) => {
                    let route = self.route(FreeLink { place, key }).await?;
                    return Ok((route, first_obstacle.map(|(reason, _)| reason)));
                }
                LinkState::Blocked { reason, key } => (reason, key),
            };
            first_obstacle.get_or_insert((reason, key));
        }
        let key = first_obstacle.map_or(Ok(None), |(_, key)| key)?;
        Ok((self.route(FreeLink { place: 0, key }).await?, None))
    }

    /// Finds a model that can be asked instead of those at the `tried` places.
    pub(super) async fn find_other(&self, tried: &[usize]) -> Option<FreeLink> {
        for (place, link) in self.links.iter().enumerate() {
            if tried.contains(&place) {
                continue;
            }
            if let LinkState::Free(key) = self.look_at(link).await {
                return Some(FreeLink { place, key });
            }
        }
        None
    }

    /// Opens the model that was found.
    pub(super) async fn route(&self, free: FreeLink) -> Result<Route, Failure> {
        let FreeLink { place, key } = free;
        let model = self.open(place).await?;
        let (provider, id) = (&model.issuer.provider, &model.issuer.model);
        let health = self.host().providers.health();
        Ok(Route {
            on_probation: health.is_on_probation(provider, id, key.as_ref()),
            endpoint: model.endpoint(key.as_ref())?,
            place,
            key,
            model,
        })
    }

    async fn look_at(&self, link: &ChainLink) -> LinkState {
        let ChainLink { provider, model, .. } = link;
        let choice = match choose_key(provider, model, self.host()).await {
            Ok(choice) => choice,
            Err(failure) => {
                return LinkState::Blocked {
                    reason: Arc::clone(&failure.message),
                    key: Err(failure),
                };
            }
        };
        let health = self.host().providers.health().model(&provider.name, model, Instant::now());
        let obstacle = match (choice.obstacle(), health) {
            (Some(reason), _) => Arc::clone(reason),
            (None, Availability::Usable) => return LinkState::Free(choice.into_key()),
            (None, Availability::Paused { reason, .. } | Availability::Revoked { reason }) => {
                reason
            }
        };
        LinkState::Blocked { reason: obstacle, key: Ok(KeyChoice::into_key(choice)) }
    }

    async fn open(&self, place: usize) -> Result<Arc<SessionModel>, Failure> {
        let Some(link) = self.links.get(place) else {
            return Err(Failure::new(FailureKind::Internal, "the chain has no such model"));
        };
        let open = || async {
            let model = self.opener.open(&link.provider, &link.model).await?;
            Ok(Arc::new(model))
        };
        link.opened.get_or_try_init(open).await.cloned()
    }

    fn host(&self) -> &ExecutorHost {
        &self.opener.host
    }
}

/// Whether a model can be asked now.
enum LinkState {
    Free(Option<ChosenKey>),
    /// `key` is the key that the model would use, or why there is none.
    Blocked {
        reason: Arc<str>,
        key: Result<Option<ChosenKey>, Failure>,
    },
}
