//! The JSON types of sessions, turns and approvals for clients of `/api`. Our own client reads the
//! same types, so that a command prints the same output whether a daemon or the command itself did
//! the work.

mod approval;
mod schedule;
mod status;

use std::path::PathBuf;

use angelia_core::{
    engine::{SteerOutcome, SubmittedTurn, TurnActivity},
    model::{
        Content, LatestTurn, SessionId, SessionRecord, SessionSummary, TurnId, TurnRecord,
        TurnState,
    },
    ports::{ExecutorHealth, LoginState, ProfileSummary, Profiles},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};

pub use self::{
    approval::{ApprovalResource, ApprovalSession, ResolutionResource},
    schedule::{OccurrenceResource, ScheduleResource},
    status::{
        AgentResource, BusStatusResource, ChannelResource, DaemonResource, PairingCodeResource,
        QuotaResource, SearchResource, StatusResource, UsageResource,
    },
};
pub use super::api::AuditResource;
use super::openapi::shapes;
use crate::event_json::{FailureJson, UsageJson, time::Rfc3339};

/// One page of a list; `next` is the cursor of the page after it, if any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "List")]
pub struct ResourceList<T> {
    pub data: Vec<T>,
    pub next: Option<String>,
}

impl<T> ResourceList<T> {
    pub const fn whole(data: Vec<T>) -> Self {
        Self { data, next: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: SessionId,
    /// The start of the id that no other session has; in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    pub title: Option<String>,
    /// The owner's name for it.
    #[serde(default)]
    pub name: Option<String>,
    /// The frontend through which it was begun: `terminal`, `http`, `key:NAME`, `bus:ENDPOINT`,
    /// `editor`, `bridge`, `agent`, `schedule`, `adopted:EXECUTOR`.
    #[serde(default)]
    pub source: Option<String>,
    /// The first words of the person.
    #[serde(default)]
    pub first_words: Option<String>,
    /// The status of its newest turn.
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub newest_turn: Option<NewestTurnResource>,
    #[serde(default)]
    pub turns: u64,
    /// Of its finished turns, as far as their cost is known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    pub profile: String,
    pub executor: String,
    pub mode: String,
    pub model: Option<String>,
    pub cwd: PathBuf,
    pub permissions: String,
    /// The agent's own id for the conversation, once it has one.
    pub native_session_id: Option<String>,
    #[serde(with = "As::<Option<DisplayFromStr>>")]
    #[schemars(with = "Option<String>")]
    pub forked_from: Option<SessionId>,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub updated_at: Timestamp,
    /// The settings in which the session differs from its profile, because the profile has been
    /// changed since the session began. Only for a session that is asked for by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older_settings: Vec<String>,
}

impl SessionResource {
    /// Returns a session with the settings that are older than its profile's.
    pub async fn with_older_settings(session: &SessionRecord, profiles: &dyn Profiles) -> Self {
        let older = profiles.older_settings(session).await;
        Self { older_settings: older.into_iter().map(str::to_owned).collect(), ..session.into() }
    }
}

impl From<&SessionRecord> for SessionResource {
    fn from(session: &SessionRecord) -> Self {
        let spec = &session.spec;
        Self {
            id: session.id,
            short_id: None,
            title: session.title.as_deref().map(str::to_owned),
            name: None,
            source: session.source.as_ref().map(ToString::to_string),
            first_words: None,
            status: None,
            newest_turn: None,
            turns: 0,
            cost_usd: None,
            profile: spec.profile.to_string(),
            executor: spec.executor.to_string(),
            mode: spec.mode.as_str().to_owned(),
            model: spec.model.as_deref().map(str::to_owned),
            cwd: spec.cwd.clone(),
            permissions: spec.permissions.level.as_str().to_owned(),
            native_session_id: session.native.as_ref().map(ToString::to_string),
            forked_from: session.forked_from,
            created_at: session.created_at,
            updated_at: session.updated_at,
            older_settings: Vec::new(),
        }
    }
}

impl From<&SessionSummary> for SessionResource {
    fn from(session: &SessionSummary) -> Self {
        Self {
            name: session.name.as_deref().map(str::to_owned),
            first_words: session.first_words.as_deref().map(str::to_owned),
            status: session.newest_turn.as_ref().map(|turn| turn.status.to_string()),
            newest_turn: session.newest_turn.as_ref().map(Into::into),
            turns: session.turns,
            cost_usd: session.cost_usd,
            ..Self::from(&session.record)
        }
    }
}

/// The newest turn of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewestTurn")]
pub struct NewestTurnResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: TurnId,
    pub status: String,
    /// When it was submitted.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub at: Timestamp,
}

impl From<&LatestTurn> for NewestTurnResource {
    fn from(turn: &LatestTurn) -> Self {
        Self { id: turn.id, status: turn.status.to_string(), at: turn.created_at }
    }
}

/// A timeout that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Clock")]
pub struct ClockResource {
    /// The state that it limits: `streaming`, `running Bash` …
    pub name: String,
    /// The setting of the profile.
    pub setting: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub fires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Turn")]
pub struct TurnResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: TurnId,
    /// The start of the id that no other turn has; in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub session_id: SessionId,
    pub status: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub finished_at: Option<Timestamp>,
    /// The input; of images only type and size are shown.
    pub input: Vec<InputPart>,
    /// The answer, once the turn has ended; the text of a running turn is in its events.
    pub text: Option<String>,
    pub reason: Option<String>,
    #[schemars(schema_with = "shapes::usage")]
    pub usage: Option<UsageJson>,
    #[schemars(schema_with = "shapes::failure")]
    pub failure: Option<FailureJson>,
    #[serde(with = "As::<Option<Rfc3339>>")]
    #[schemars(with = "Option<String>")]
    pub resumes_at: Option<Timestamp>,
    /// The timeout that expires next, while the turn runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockResource>,
    /// The end of the answer so far, while the turn runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
}

impl TurnResource {
    /// Adds what the turn is doing now.
    #[must_use]
    pub fn with_activity(self, activity: Option<TurnActivity>) -> Self {
        let Some(TurnActivity { clock, last_words }) = activity else { return self };
        let clock = clock.map(|clock| ClockResource {
            name: clock.name,
            setting: clock.setting.to_owned(),
            fires_at: clock.fires_at,
        });
        Self { clock, last_words, ..self }
    }
}

/// A part of a turn's input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputPart {
    Text { text: String },
    Image { media_type: String, bytes: usize },
}

impl From<&Content> for InputPart {
    fn from(content: &Content) -> Self {
        match content {
            Content::Text(text) => Self::Text { text: text.to_string() },
            Content::Image { media_type, data } => {
                Self::Image { media_type: media_type.to_string(), bytes: data.len() }
            }
        }
    }
}

impl From<&TurnRecord> for TurnResource {
    fn from(turn: &TurnRecord) -> Self {
        let outcome = turn.state.outcome();
        let failure = outcome.and_then(|outcome| outcome.status.failure());
        Self {
            id: turn.id,
            short_id: None,
            session_id: turn.session,
            status: turn.state.as_str().to_owned(),
            created_at: turn.created_at,
            finished_at: match turn.state {
                TurnState::Finished { at, .. } => Some(at),
                _ => None,
            },
            input: turn.input.iter().map(InputPart::from).collect(),
            text: outcome.map(|outcome| outcome.text.to_string()),
            reason: outcome.map(|outcome| outcome.reason.to_string()),
            usage: outcome.map(|outcome| UsageJson(outcome.usage.clone())),
            failure: failure.cloned().map(FailureJson),
            resumes_at: match turn.state {
                TurnState::Parked { resumes_at } => Some(resumes_at),
                _ => None,
            },
            clock: None,
            last_words: None,
        }
    }
}

/// A turn that was accepted; its events report the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Accepted")]
pub struct AcceptedTurnResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub id: TurnId,
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    pub session_id: SessionId,
    /// `running` or `queued`; for a repeated request, the current status of its turn.
    pub status: String,
}

impl AcceptedTurnResource {
    pub fn new(session: SessionId, submitted: &SubmittedTurn) -> Self {
        let state = if submitted.running { TurnState::Running } else { TurnState::Queued };
        Self { id: submitted.turn, session_id: session, status: state.as_str().to_owned() }
    }
}

/// The result of sending input to a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
#[schemars(rename = "Steered")]
pub enum SteerResource {
    /// The running agent received it.
    Passed,
    /// It became the session's next turn.
    Queued {
        #[serde(with = "As::<DisplayFromStr>")]
        #[schemars(with = "String")]
        turn_id: TurnId,
    },
}

impl From<&SteerOutcome> for SteerResource {
    fn from(steering: &SteerOutcome) -> Self {
        match steering {
            SteerOutcome::Passed => Self::Passed,
            SteerOutcome::Queued(submitted) => Self::Queued { turn_id: submitted.turn },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Profile")]
pub struct ProfileResource {
    /// Its name.
    pub id: String,
    pub executor: String,
    pub mode: String,
    pub model: Option<String>,
}

impl From<&ProfileSummary> for ProfileResource {
    fn from(profile: &ProfileSummary) -> Self {
        Self {
            id: profile.name.to_string(),
            executor: profile.executor.to_string(),
            mode: profile.mode.as_str().to_owned(),
            model: profile.model.as_deref().map(str::to_owned),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Executor")]
pub struct ExecutorResource {
    /// Its name.
    pub id: String,
    pub ready: bool,
    pub version: Option<String>,
    pub path: Option<PathBuf>,
    /// `in`, `out`, `unknown`, `not_needed`.
    pub login: String,
    /// The payment lane, if the agent reports it.
    pub lane: Option<String>,
    #[schemars(schema_with = "shapes::failure")]
    pub problem: Option<FailureJson>,
}

impl ExecutorResource {
    pub fn new(name: &str, health: ExecutorHealth) -> Self {
        let ready = health.is_ready();
        let (login, lane) = match health.login {
            LoginState::LoggedIn { lane } => ("in", lane),
            LoginState::LoggedOut => ("out", None),
            LoginState::Unknown => ("unknown", None),
            LoginState::NotNeeded => ("not_needed", None),
        };
        let (path, version) = health
            .installation
            .map(|installed| (installed.path, installed.version.to_string()))
            .unzip();
        Self {
            id: name.to_owned(),
            ready,
            version,
            path,
            login: login.to_owned(),
            lane: lane.map(|lane| lane.to_string()),
            problem: health.problem.map(FailureJson),
        }
    }
}
