//! The JSON types of the status: the daemon, its agents, quotas and usage.

use angelia_core::{
    engine::LiveAgentStatus,
    model::{Quota, SearchMatch, SessionId, TurnId, UsageTotals},
    ports::PairingCode,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};

use super::{ApprovalResource, ScheduleResource, TurnResource};
use crate::{
    chat::ChannelStatus,
    event_json::{UsageJson, time::Rfc3339},
    http::{AgentProcess, ConfigState, openapi::shapes},
};

/// The status of one home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct StatusResource {
    pub daemon: DaemonResource,
    pub agents: Vec<AgentResource>,
    /// The maximum number of live agents; `null` without a daemon.
    pub max_agents: Option<usize>,
    /// The turns that have not ended, newest first.
    pub turns: Vec<TurnResource>,
    /// The approvals that wait for a decision, newest first.
    pub approvals: Vec<ApprovalResource>,
    /// The schedules that are not paused and have something to wait for, the next one first.
    #[serde(default)]
    pub schedules: Vec<ScheduleResource>,
    /// `null` if this daemon has no bus.
    pub bus: Option<BusStatusResource>,
    /// The chat platforms that are set up.
    #[serde(default)]
    pub channels: Vec<ChannelResource>,
    pub quotas: Vec<QuotaResource>,
    /// Since midnight, local time.
    pub usage_today: UsageResource,
}

impl StatusResource {
    /// Returns the waiting schedules, in the order in which they are due.
    pub fn waiting_schedules(mut all: Vec<ScheduleResource>) -> Vec<ScheduleResource> {
        all.retain(|one| !one.paused && (one.next_at.is_some() || one.spec.starts_with("watch ")));
        // Schedules that wait for files come last.
        all.sort_by_key(|one| (one.next_at.is_none(), one.next_at));
        all
    }
}

/// A chat platform, and how its connection is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Channel")]
pub struct ChannelResource {
    pub id: String,
    /// `connecting`, `connected`, `retrying`, or `refused`: the credentials are not accepted.
    pub state: String,
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub last_event_at: Option<Timestamp>,
    pub last_error: Option<String>,
    /// Events whose work has not ended.
    pub backlog: usize,
    /// Codes of people who ask to be let in; only in `/api/channels`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<PairingCodeResource>,
}

/// A code that a stranger was given, until the owner lets the person in with `angelia access approve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PairingCode")]
pub struct PairingCodeResource {
    pub id: String,
    /// The person's id at the platform.
    pub sender: String,
    pub name: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub made_at: Timestamp,
}

impl From<&PairingCode> for PairingCodeResource {
    fn from(code: &PairingCode) -> Self {
        Self {
            id: code.code.to_string(),
            sender: code.sender.to_string(),
            name: code.name.to_string(),
            made_at: code.made_at,
        }
    }
}

impl From<&ChannelStatus> for ChannelResource {
    fn from(status: &ChannelStatus) -> Self {
        Self {
            id: status.platform.to_string(),
            state: status.state.as_str().to_owned(),
            last_event_at: status.last_event_at,
            last_error: status.last_error.clone(),
            backlog: status.backlog,
            codes: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Daemon")]
pub struct DaemonResource {
    pub running: bool,
    pub pid: Option<u32>,
    pub version: Option<String>,
    pub uptime_seconds: Option<u64>,
    /// The address at which it listens: `127.0.0.1:4376`.
    pub address: Option<String>,
    pub config: Option<ConfigState>,
}

/// An agent, or a process of one that belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub struct AgentResource {
    /// The id of its session; of a spare process, its pid.
    pub id: String,
    #[serde(with = "As::<Option<DisplayFromStr>>")]
    #[schemars(with = "Option<String>")]
    pub session_id: Option<SessionId>,
    pub title: Option<String>,
    pub profile: Option<String>,
    pub executor: Option<String>,
    pub model: Option<String>,
    /// `busy`, `idle`, or `spare`: a process that was started in advance or serves several sessions.
    pub state: String,
    pub idle_seconds: Option<u64>,
    /// `null` if the agent shares its process with others.
    pub pid: Option<u32>,
    /// The name of the program that runs.
    pub program: Option<String>,
    /// The process and everything it has started.
    pub processes: Option<usize>,
    /// The resident memory of these processes.
    pub rss_bytes: Option<u64>,
}

impl AgentResource {
    /// Combines the engine's facts about an agent with those of the system.
    pub(crate) fn of_session(agent: &LiveAgentStatus, process: Option<&AgentProcess>) -> Self {
        Self {
            id: agent.session.to_string(),
            session_id: Some(agent.session),
            title: agent.title.as_deref().map(str::to_owned),
            profile: Some(agent.profile.to_string()),
            executor: Some(agent.executor.to_string()),
            model: agent.model.as_deref().map(str::to_owned),
            state: if agent.idle.is_some() { "idle" } else { "busy" }.to_owned(),
            idle_seconds: agent.idle.map(|idle| idle.as_secs()),
            pid: process.map(|process| process.pid),
            program: process.map(|process| process.program.clone()),
            processes: process.map(|process| process.processes),
            rss_bytes: process.map(|process| process.rss_bytes),
        }
    }

    pub(crate) fn spare(process: &AgentProcess) -> Self {
        Self {
            id: process.pid.to_string(),
            session_id: None,
            title: None,
            profile: None,
            executor: None,
            model: None,
            state: "spare".to_owned(),
            idle_seconds: None,
            pid: Some(process.pid),
            program: Some(process.program.clone()),
            processes: Some(process.processes),
            rss_bytes: Some(process.rss_bytes),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BusStatus")]
pub struct BusStatusResource {
    pub endpoints: usize,
    /// The number of endpoints with a listener.
    pub listening: usize,
    /// The number of messages that wait for their receivers.
    pub queued: usize,
    /// Messages that will not be delivered any more.
    #[serde(default)]
    pub dead: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Quota")]
pub struct QuotaResource {
    /// `executor/window`.
    pub id: String,
    pub executor: String,
    /// The vendor's word: `five_hour`, `seven_day` …
    pub window: String,
    /// The used part in percent, if the vendor tells.
    pub used_percent: Option<f64>,
    pub left_percent: Option<f64>,
    pub exhausted: bool,
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub reported_at: Timestamp,
}

impl From<&Quota> for QuotaResource {
    fn from(quota: &Quota) -> Self {
        let report = &quota.report;
        // Vendors report hundredths; the rest is floating-point error.
        let percent = |part: f64| (part.clamp(0.0, 1.0) * 10_000.0).round() / 100.0;
        Self {
            id: format!("{}/{}", quota.executor, report.window),
            executor: quota.executor.to_string(),
            window: report.window.to_string(),
            used_percent: report.used.map(percent),
            left_percent: report.used.map(|used| percent(1.0 - used)),
            exhausted: report.is_exhausted,
            resets_at: report.resets_at,
            reported_at: quota.reported_at,
        }
    }
}

/// The total usage of a group of turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UsageRow")]
pub struct UsageResource {
    /// The value that the row is for: a date, a profile, an id …; `null` if the turns have none.
    pub key: Option<String>,
    /// The start of the period, local time, if periods were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    pub turns: u64,
    /// Finished turns that found nothing in the model's cache.
    #[serde(default)]
    pub cold_starts: u64,
    #[serde(flatten)]
    #[schemars(schema_with = "shapes::usage")]
    pub usage: UsageJson,
}

impl From<&UsageTotals> for UsageResource {
    fn from(totals: &UsageTotals) -> Self {
        Self {
            key: totals.key.as_deref().map(str::to_owned),
            start: totals.start.as_deref().map(str::to_owned),
            turns: totals.turns,
            cold_starts: totals.cold_starts,
            usage: UsageJson(totals.usage.clone()),
        }
    }
}

/// The newest text of a session that matches a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SearchMatch")]
pub struct SearchResource {
    /// The id of the turn.
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: TurnId,
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub session_id: SessionId,
    pub title: Option<String>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// `person` or `agent`.
    pub speaker: String,
    /// The words around the first match, on one line.
    pub snippet: String,
    /// The positions of the words in `snippet`: start and end, in bytes of UTF-8.
    pub marks: Vec<[usize; 2]>,
}

impl SearchResource {
    pub fn new(found: &SearchMatch, title: Option<&str>) -> Self {
        Self {
            id: found.turn,
            session_id: found.session,
            title: title.map(str::to_owned),
            time: found.at,
            speaker: found.speaker.as_str().to_owned(),
            snippet: found.excerpt.text.clone(),
            marks: found.excerpt.marks.iter().map(|mark| [mark.start, mark.end]).collect(),
        }
    }
}
