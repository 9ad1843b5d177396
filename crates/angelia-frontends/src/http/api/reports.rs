//! `/api/usage` and `/api/search`: questions about the whole record.

use angelia_core::model::{SearchQuery, SearchTerms, UsageBucket, UsageGroup, UsageQuery};
use axum::{Json, extract::State};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::{
    HttpError,
    body::QueryParams,
    resources::{ResourceList, SearchResource, UsageResource},
    state::SharedState,
};

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
        // A `+` that is not escaped in a URL arrives as a space.
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
        // It may have been deleted meanwhile.
        if let Ok(session) = state.engine.session(one.session).await {
            found.push(SearchResource::new(&one, session.title.as_deref()));
        }
    }
    Ok(Json(ResourceList::whole(found)))
}
