//! `/api/usage`, `/api/usage/cold` and `/api/search`: queries over the whole record.

use angelia_core::model::{
    ColdStart, SearchQuery, SearchTerms, SessionId, TurnId, UsageBucket, UsageGroup, UsageQuery,
};
use axum::{Json, extract::State};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};

use super::super::{
    HttpError,
    body::QueryParams,
    openapi::shapes,
    resources::{ResourceList, SearchResource, UsageResource},
    state::SharedState,
};
use crate::event_json::{UsageJson, time::Rfc3339};

/// The range if none is given.
const DEFAULT_RANGE: SignedDuration = SignedDuration::from_hours(30 * 24);

const DEFAULT_MATCHES: usize = 20;
const MAX_MATCHES: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UsageParams {
    /// Only turns from this time on, as RFC 3339; 30 days ago by default.
    #[schemars(extend("format" = "date-time"))]
    from: Option<String>,
    /// Only turns before this time.
    #[schemars(extend("format" = "date-time"))]
    to: Option<String>,
    /// A row for each of these periods.
    #[schemars(extend("enum" = ["hour", "day"]))]
    bucket: Option<String>,
    /// A row for each of these; one row for all by default.
    #[schemars(extend(
        "enum" = ["day", "profile", "key", "session", "model", "executor", "lane"]
    ))]
    by: Option<String>,
}

impl UsageParams {
    fn query(&self) -> Result<UsageQuery, HttpError> {
        let by = self.by.as_deref().map(|word| {
            UsageGroup::parse(word).ok_or_else(|| {
                let known = UsageGroup::ALL.map(UsageGroup::as_str).join(", ");
                HttpError::invalid(format!("by: `{word}` is not one of {known}"))
            })
        });
        let bucket = self.bucket.as_deref().map(|word| match word {
            "hour" => Ok(UsageBucket::Hour),
            "day" => Ok(UsageBucket::Day),
            _ => Err(HttpError::invalid(format!("bucket: `{word}` is neither hour nor day"))),
        });
        let ago = Timestamp::now().checked_sub(DEFAULT_RANGE).ok();
        Ok(UsageQuery {
            from: parse_time("from", self.from.as_deref())?.or(ago),
            to: parse_time("to", self.to.as_deref())?,
            by: by.transpose()?,
            bucket: bucket.transpose()?,
        })
    }
}

pub(super) fn parse_time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, HttpError> {
    let parse = |text: &str| {
        // An unescaped `+` in a URL arrives as a space.
        text.replace(' ', "+").parse().map_err(|_| {
            HttpError::invalid(format!("{field}: this is not a time like 2026-11-17T00:00:00Z"))
        })
    };
    text.map(parse).transpose()
}

pub(super) async fn usage(
    State(state): SharedState,
    QueryParams(params): QueryParams<UsageParams>,
) -> Result<Json<ResourceList<UsageResource>>, HttpError> {
    let rows = state.engine.usage(params.query()?).await?;
    Ok(Json(ResourceList::whole(rows.iter().map(Into::into).collect())))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ColdParams {
    /// Only turns from this time on, as RFC 3339; 30 days ago by default.
    #[schemars(extend("format" = "date-time"))]
    from: Option<String>,
    /// Only turns before this time.
    #[schemars(extend("format" = "date-time"))]
    to: Option<String>,
    /// At most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
}

/// A turn that found nothing in the model's cache.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ColdStart")]
pub(in crate::http) struct ColdStartResource {
    /// The id of the turn.
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    id: TurnId,
    #[serde(with = "As::<Option<DisplayFromStr>>")]
    #[schemars(with = "Option<String>")]
    session_id: Option<SessionId>,
    title: Option<String>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    at: Timestamp,
    profile: String,
    model: Option<String>,
    /// `new_session`, `model_changed`, `prefix_changed` or `expired`.
    reason: &'static str,
    #[serde(flatten)]
    #[schemars(schema_with = "shapes::usage")]
    usage: UsageJson,
}

impl From<&ColdStart> for ColdStartResource {
    fn from(cold: &ColdStart) -> Self {
        Self {
            id: cold.turn,
            session_id: cold.session,
            title: cold.title.as_deref().map(str::to_owned),
            at: cold.at,
            profile: cold.profile.to_string(),
            model: cold.model.as_deref().map(str::to_owned),
            reason: cold.reason.as_str(),
            usage: UsageJson(cold.usage.clone()),
        }
    }
}

pub(super) async fn cold_starts(
    State(state): SharedState,
    QueryParams(params): QueryParams<ColdParams>,
) -> Result<Json<ResourceList<ColdStartResource>>, HttpError> {
    let ago = Timestamp::now().checked_sub(DEFAULT_RANGE).ok();
    let query = UsageQuery {
        from: parse_time("from", params.from.as_deref())?.or(ago),
        to: parse_time("to", params.to.as_deref())?,
        ..UsageQuery::default()
    };
    let limit = params.limit.and_then(|limit| limit.try_into().ok());
    let limit = limit.unwrap_or(DEFAULT_MATCHES).clamp(1, MAX_MATCHES);
    let found = state.engine.cold_starts(query, limit).await?;
    Ok(Json(ResourceList::whole(found.iter().map(Into::into).collect())))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SearchParams {
    /// The words; a text matches if it has all of them.
    #[serde(default)]
    q: String,
    /// How many sessions to find; at most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
}

pub(super) async fn search(
    State(state): SharedState,
    QueryParams(params): QueryParams<SearchParams>,
) -> Result<Json<ResourceList<SearchResource>>, HttpError> {
    let Some(terms) = SearchTerms::parse(&params.q) else {
        return Ok(Json(ResourceList::whole(Vec::new())));
    };
    let limit = params.limit.and_then(|limit| limit.try_into().ok());
    let limit = limit.unwrap_or(DEFAULT_MATCHES).clamp(1, MAX_MATCHES);
    let mut found = Vec::new();
    for one in state.engine.search(SearchQuery { terms, limit }).await? {
        // The session may have been deleted meanwhile.
        if let Ok(session) = state.engine.session(one.session).await {
            found.push(SearchResource::new(&one, session.title.as_deref()));
        }
    }
    Ok(Json(ResourceList::whole(found)))
}
