//! Paginates lists, newest first. The `next` of a page is the last id on it.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::IdPrefix,
    ports::{Page, SessionFilter, SessionOrder, SessionQuery},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{HttpError, resources::ResourceList},
    reports::parse_time,
};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PageQuery {
    /// The size of the page; at most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
    /// The `next` of an earlier page.
    #[schemars(extend("format" = "uuid"))]
    cursor: Option<String>,
    /// For turns: only those of this session.
    pub(super) session: Option<String>,
    /// Only turns with one of these statuses, separated by commas, or sessions whose newest turn has
    /// one.
    status: Option<String>,
    /// Only turns from this time on, or sessions that were used since, as RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub(super) since: Option<String>,
    /// For sessions: only those with these words in the title, the name or the first words.
    q: Option<String>,
    /// For sessions: only those of this profile.
    profile: Option<String>,
    /// For sessions: only those of this executor.
    executor: Option<String>,
    /// For sessions: only those that were begun there: `terminal`, `http`, `key:NAME`, or `key` for
    /// every key.
    origin: Option<String>,
    /// For sessions: only the one with this name.
    pub(super) name: Option<String>,
    /// Only records whose id starts with this, at least four digits; pages do not go on.
    prefix: Option<String>,
    /// For sessions: `updated`, or `used`, puts those first that were used last; otherwise the newest
    /// are first.
    #[schemars(extend("enum" = ["created", "updated", "used"]))]
    sort: Option<String>,
    /// For sessions: only those that work in this directory.
    cwd: Option<PathBuf>,
    /// For approvals: `1` includes decided ones.
    #[schemars(extend("enum" = ["0", "1", "false", "true"]))]
    all: Option<String>,
}

impl PageQuery {
    pub(super) fn includes_all(&self) -> Result<bool, HttpError> {
        match self.all.as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(_) => Err(HttpError::invalid("all: this must be 1 or 0")),
        }
    }

    pub(super) fn prefix(&self) -> Result<Option<IdPrefix>, HttpError> {
        let wrong = || HttpError::invalid("prefix: this is not the start of an id");
        self.prefix.as_deref().map(|text| IdPrefix::parse(text).ok_or_else(wrong)).transpose()
    }

    /// Returns the requested statuses; empty if all are.
    pub(super) fn statuses(&self) -> Vec<Arc<str>> {
        words(self.status.as_deref(), ',').collect()
    }

    /// Returns the query for the requested sessions.
    pub(super) fn sessions(&self) -> Result<SessionQuery, HttpError> {
        let page = self.page()?;
        let order = match self.sort.as_deref() {
            None | Some("created") => SessionOrder::Created,
            Some("updated" | "used") => SessionOrder::Used,
            Some(_) => return Err(HttpError::invalid("sort: this must be `created` or `updated`")),
        };
        let text = |field: &Option<String>| field.as_deref().map(Into::into);
        let filter = SessionFilter {
            words: words(self.q.as_deref(), ' ').collect(),
            statuses: self.statuses(),
            profile: text(&self.profile),
            executor: text(&self.executor),
            source: text(&self.origin),
            since: parse_time("since", self.since.as_deref())?,
            cwd: self.cwd.clone(),
        };
        Ok(SessionQuery::Find { filter, order, page })
    }

    fn limit(&self) -> usize {
        let limit = self.limit.and_then(|limit| limit.try_into().ok());
        limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }

    /// Returns the page to query. It has one extra record, which tells whether there is a next
    /// page.
    pub(super) fn page(&self) -> Result<Page, HttpError> {
        let before = match &self.cursor {
            None => None,
            Some(cursor) => Some(cursor.parse().map_err(|_| {
                HttpError::invalid("cursor: this is not the `next` of an earlier page")
            })?),
        };
        Ok(Page { limit: self.limit() + 1, before })
    }

    pub(super) fn list<R, T>(
        &self,
        records: &[R],
        id: impl Fn(&R) -> String,
        to_resource: impl Fn(&R) -> T,
    ) -> ResourceList<T> {
        let page_records = &records[..records.len().min(self.limit())];
        let more = records.len() > page_records.len();
        ResourceList {
            next: page_records.last().filter(|_| more).map(id),
            data: page_records.iter().map(to_resource).collect(),
        }
    }
}

/// Returns the non-empty parts of a text.
fn words(text: Option<&str>, between: char) -> impl Iterator<Item = Arc<str>> {
    let parts = text.into_iter().flat_map(move |text| text.split(between));
    parts.map(str::trim).filter(|part| !part.is_empty()).map(Into::into)
}
