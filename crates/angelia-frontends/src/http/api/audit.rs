//! `/api/audit`: who decided, changed, deleted or exposed something. Rows are only ever added.

use angelia_core::{model::AuditRecord, ports::AuditQuery};
use axum::{Json, extract::State};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};

use super::super::{HttpError, body::QueryParams, resources::ResourceList, state::SharedState};
use crate::event_json::time::Rfc3339;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct AuditParams {
    /// The size of the page; at most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
    /// The `next` of an earlier page.
    #[schemars(extend("pattern" = "^[0-9]{1,18}$"))]
    cursor: Option<String>,
    /// Only rows from this time on, as RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    since: Option<String>,
}

/// One row of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditRow")]
pub struct AuditResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: u64,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// `terminal`, `browser`, `chat:NAME`, `key:NAME` or `agent:NAME`.
    pub who: String,
    /// `decision`, `key`, `rule`, `configuration`, `deletion`, `login`, `exposure` or
    /// `schedule`.
    pub action: String,
    pub what: String,
}

impl From<&AuditRecord> for AuditResource {
    fn from(record: &AuditRecord) -> Self {
        let entry = &record.entry;
        Self {
            id: record.number,
            at: entry.at,
            who: entry.actor.to_string(),
            action: entry.action.as_str().to_owned(),
            what: entry.subject.to_string(),
        }
    }
}

pub(super) async fn list(
    State(state): SharedState,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<Json<ResourceList<AuditResource>>, HttpError> {
    let limit = params.limit.and_then(|limit| limit.try_into().ok()).unwrap_or(DEFAULT_LIMIT);
    let limit = limit.clamp(1, MAX_LIMIT);
    let before = params
        .cursor
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|_| HttpError::invalid("cursor: this is not the `next` of an earlier page"))?;
    let since = params
        .since
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|_| HttpError::invalid("since: write a time such as 2026-01-31T12:00:00Z"))?;
    // One extra row tells whether there is a next page.
    let query = AuditQuery { since, before, limit: limit + 1 };
    let rows = state.engine.audit(query).await?;
    let shown = &rows[..rows.len().min(limit)];
    let next = shown.last().filter(|_| rows.len() > limit);
    Ok(Json(ResourceList {
        next: next.map(|row| row.number.to_string()),
        data: shown.iter().map(Into::into).collect(),
    }))
}
