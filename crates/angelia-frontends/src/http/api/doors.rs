//! `/api/keys` and `/api/deliveries`: who else may use this daemon, and what it sends to channels.
//! Neither reveals a secret or changes anything.

use std::collections::HashMap;

use angelia_core::{
    model::{UsageGroup, UsageQuery},
    ports::ChannelDelivery,
};
use axum::{Json, extract::State};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::As;

use super::{
    super::{
        AccessKey, AllowedModels, HttpError, body::QueryParams, keys::key_name,
        resources::ResourceList, state::SharedState,
    },
    status::today_begins,
};
use crate::event_json::time::Rfc3339;

/// A key for the model APIs, without the key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub(in crate::http) struct KeyResource {
    /// Its name.
    id: String,
    /// The profiles that it may use; `null`: all of them.
    profiles: Option<Vec<String>>,
    /// The providers whose models it may use by id; `null`: all of them.
    providers: Option<Vec<String>>,
    agent_mode: bool,
    max_cost_usd_per_day: Option<f64>,
    /// Since midnight, local time.
    spent_today_usd: f64,
    turns_today: u64,
}

impl KeyResource {
    fn new(key: &AccessKey, today: Option<&(u64, f64)>) -> Self {
        let names = |allowed: &AllowedModels| match allowed {
            AllowedModels::All => None,
            AllowedModels::Only(names) => Some(names.iter().map(ToString::to_string).collect()),
        };
        let (turns_today, spent_today_usd) = today.copied().unwrap_or_default();
        Self {
            id: key.name.to_string(),
            profiles: names(&key.grant.profiles),
            providers: names(&key.grant.providers),
            agent_mode: key.grant.agent_mode,
            max_cost_usd_per_day: key.grant.max_cost_usd_per_day,
            spent_today_usd,
            turns_today,
        }
    }
}

pub(super) async fn keys(
    State(state): SharedState,
) -> Result<Json<ResourceList<KeyResource>>, HttpError> {
    let query =
        UsageQuery { from: today_begins(), by: Some(UsageGroup::Key), ..UsageQuery::default() };
    let mut today: HashMap<String, (u64, f64)> = HashMap::new();
    for row in state.engine.usage(query).await? {
        if let Some(name) = row.key.as_deref().and_then(key_name) {
            let (turns, cost) = today.entry(name.to_owned()).or_default();
            *turns += row.turns;
            *cost += row.usage.cost_usd.unwrap_or_default();
        }
    }
    let models = state.models.current();
    let keys = models.keys.iter().map(|key| KeyResource::new(key, today.get(&*key.name)));
    Ok(Json(ResourceList::whole(keys.collect())))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct DeliveryParams {
    /// At most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
}

/// A text to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Delivery")]
pub(in crate::http) struct DeliveryResource {
    pub(in crate::http) id: String,
    /// `platform[:chat]`.
    channel: String,
    text: String,
    /// `pending`, `attempting`, `delivered` or `failed`.
    status: String,
    attempts: u32,
    /// Why it was given up.
    error: Option<String>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    created_at: Timestamp,
}

impl From<&ChannelDelivery> for DeliveryResource {
    fn from(delivery: &ChannelDelivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            channel: delivery.channel.to_string(),
            text: delivery.text.to_string(),
            status: delivery.state.as_str().to_owned(),
            attempts: delivery.state.attempts(),
            error: delivery.state.error().map(str::to_owned),
            created_at: delivery.created_at,
        }
    }
}

const DEFAULT_DELIVERIES: usize = 50;
const MAX_DELIVERIES: usize = 500;

pub(super) async fn deliveries(
    State(state): SharedState,
    QueryParams(params): QueryParams<DeliveryParams>,
) -> Result<Json<ResourceList<DeliveryResource>>, HttpError> {
    let limit = params.limit.and_then(|limit| limit.try_into().ok());
    let limit = limit.unwrap_or(DEFAULT_DELIVERIES).clamp(1, MAX_DELIVERIES);
    let found = match &state.delivery_queue {
        Some(queue) => queue.list(limit).await?,
        None => Vec::new(),
    };
    Ok(Json(ResourceList::whole(found.iter().map(Into::into).collect())))
}
