//! The JSON types of schedules.

use std::path::PathBuf;

use angelia_core::model::{Occurrence, ScheduleId, ScheduleSummary, TurnId};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};

use crate::event_json::time::Rfc3339;

/// A turn that begins by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct ScheduleResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: ScheduleId,
    /// The start of the id that no other schedule has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// Five fields of cron, `at TIME`, `every PERIOD` or `watch PATH`.
    pub spec: String,
    /// The time zone of a cron expression.
    pub tz: Option<String>,
    pub prompt: String,
    pub profile: Option<String>,
    /// The name or id of the session that it continues; `null`: a new one each time.
    pub session: Option<String>,
    /// The directory that was asked for.
    pub cwd: Option<PathBuf>,
    /// The channel or the endpoint that gets the result.
    pub to: Option<String>,
    /// `skip` or `run_once`.
    pub missed: String,
    /// `skip` or `queue`.
    pub overlap: String,
    /// `null` if no time is left, if it is paused, or if it waits for files.
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub next_at: Option<Timestamp>,
    pub last: Option<OccurrenceResource>,
    pub paused: bool,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// The newest first; only for a schedule that is asked for by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<OccurrenceResource>,
}

/// One time at which a schedule was due, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ScheduleResult")]
pub struct OccurrenceResource {
    /// The time at which it was due.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub at: Timestamp,
    #[serde(with = "As::<Option<DisplayFromStr>>")]
    #[schemars(with = "Option<String>")]
    pub turn_id: Option<TurnId>,
    /// `starting`, `missed`, or the status of its turn.
    pub status: String,
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// The first of the missed times that it stands for.
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub missed_since: Option<Timestamp>,
    /// The number of occurrences that were skipped while its turn ran.
    pub skipped: u32,
    /// The reason why it did not run, or why its result was not delivered.
    pub note: Option<String>,
}

impl From<&Occurrence> for OccurrenceResource {
    fn from(occurrence: &Occurrence) -> Self {
        Self {
            at: occurrence.due_at,
            turn_id: occurrence.turn,
            status: occurrence.status.as_str().to_owned(),
            ended_at: occurrence.ended_at,
            missed_since: occurrence.missed_since,
            skipped: occurrence.skipped,
            note: occurrence.note.as_deref().map(str::to_owned),
        }
    }
}

impl From<&ScheduleSummary> for ScheduleResource {
    fn from(summary: &ScheduleSummary) -> Self {
        let record = &summary.record;
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        Self {
            id: record.id,
            short_id: None,
            spec: record.trigger.to_string(),
            tz: record.trigger.zone().and_then(|zone| zone.iana_name()).map(str::to_owned),
            prompt: record.prompt.to_string(),
            profile: text(&record.profile),
            session: text(&record.session),
            cwd: record.cwd.clone(),
            to: text(&record.to),
            missed: record.missed.as_str().to_owned(),
            overlap: record.overlap.as_str().to_owned(),
            next_at: record.next_at.filter(|_| !record.paused),
            last: summary.last.as_ref().map(Into::into),
            paused: record.paused,
            created_at: record.created_at,
            results: Vec::new(),
        }
    }
}
