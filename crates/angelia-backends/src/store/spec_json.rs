//! The JSON form of the launch specification on disk. It is versioned, so that a session of an
//! older angelia can still be resumed with every flag it had.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::model::{
    Billing, Budgets, CallerTool, CompactionSettings, HistoryMessage, MemoryUse, Mode,
    NativeSettings, PermissionLevel, Permissions, RawJson, ReasoningEffort, ReviewPlan,
    SandboxMode, SessionId, SessionSpec, SummaryFailurePolicy, SystemPrompt, ToolPattern, ToolSet,
    TurnId, TurnTimeouts,
};
use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::{As, DeserializeAs, DisplayFromStr, FromInto, SerializeAs, TryFromInto};

use super::{content_json::MessageBody, unreadable::Unreadable};

const FORMAT_VERSION: u32 = 1;

/// A specification without its version, which stands before it in the same object.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionSpec")]
struct SpecBody {
    profile: Arc<str>,
    executor: Arc<str>,
    #[serde(with = "ModeBody")]
    mode: Mode,
    model: Option<Arc<str>>,
    #[serde(with = "As::<TryFromInto<PathBody>>")]
    cwd: PathBuf,
    trust: bool,
    #[serde(with = "SystemBody")]
    system: SystemPrompt,
    #[serde(with = "As::<Vec<MessageBody>>")]
    history: Vec<HistoryMessage>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<DisplayFromStr>>"
    )]
    history_until: Option<TurnId>,
    #[serde(with = "As::<Vec<FromInto<CallerToolBody>>>")]
    caller_tools: Vec<CallerTool>,
    output_schema: Option<RawJson>,
    #[serde(with = "PermissionsBody")]
    permissions: Permissions,
    #[serde(with = "ToolsBody")]
    tools: ToolSet,
    mcp_servers: BTreeMap<Arc<str>, RawJson>,
    env: BTreeMap<Arc<str>, Arc<str>>,
    env_pass: Vec<Arc<str>>,
    #[serde(default, with = "As::<Option<TryFromInto<PathBody>>>")]
    binary: Option<PathBuf>,
    command: Vec<Arc<str>>,
    #[serde(with = "BillingBody")]
    billing: Billing,
    stable_prompt: bool,
    resume: bool,
    warm: u32,
    #[serde(rename = "clocks", with = "TimeoutsBody")]
    timeouts: TurnTimeouts,
    #[serde(with = "BudgetsBody")]
    budgets: Budgets,
    #[serde(default, skip_serializing_if = "is_default", with = "NativeBody")]
    native: NativeSettings,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "As::<Option<ReviewBody>>")]
    review: Option<ReviewPlan>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<Box<VersionedSpec>>>"
    )]
    fallback: Option<Box<SessionSpec>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReviewPlan")]
struct ReviewBody {
    turns: u32,
    tool_calls: u32,
    iterations: u32,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "As::<Option<Box<VersionedSpec>>>"
    )]
    reviewer: Option<Box<SessionSpec>>,
}

/// A specification with its version.
#[derive(Serialize)]
struct VersionedSpec<'a> {
    version: u32,
    #[serde(flatten, serialize_with = "SpecBody::serialize")]
    spec: &'a SessionSpec,
}

#[derive(Deserialize)]
struct SpecVersion {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode", rename_all = "snake_case")]
enum ModeBody {
    Agent,
    Model,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Billing", rename_all = "snake_case")]
enum BillingBody {
    Any,
    Subscription,
    ApiKey,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SystemPrompt", rename_all = "snake_case")]
enum SystemBody {
    Default,
    Append(Arc<str>),
    Replace(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolSet", rename_all = "snake_case")]
enum ToolsBody {
    Default,
    All,
    None,
    List(Vec<Arc<str>>),
}

#[derive(Serialize, Deserialize)]
struct CallerToolBody {
    name: Arc<str>,
    description: Arc<str>,
    input_schema: RawJson,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Permissions")]
struct PermissionsBody {
    #[serde(with = "LevelBody")]
    level: PermissionLevel,
    #[serde(with = "As::<Vec<DisplayFromStr>>")]
    allowed: Vec<ToolPattern>,
    #[serde(with = "As::<Vec<DisplayFromStr>>")]
    disallowed: Vec<ToolPattern>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PermissionLevel", rename_all = "snake_case")]
enum LevelBody {
    Ask,
    Edit,
    Unattended,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TurnTimeouts")]
struct TimeoutsBody {
    timeout: Duration,
    first_event: Duration,
    silence: Duration,
    post_tool_quiet: Duration,
    tool: Duration,
    retry: Duration,
    compaction: Duration,
    background: Duration,
    approval: Duration,
    caller_tool: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Budgets")]
struct BudgetsBody {
    time: Option<Duration>,
    tools: Option<u32>,
    cost_usd: Option<f64>,
    resumes: u32,
}

/// A setting that is missing has its default.
#[derive(Serialize, Deserialize)]
#[serde(remote = "NativeSettings", default = "NativeSettings::default")]
struct NativeBody {
    fallback: Vec<Arc<str>>,
    max_iterations: u32,
    max_output_tokens: Option<u64>,
    #[serde(with = "As::<Option<EffortBody>>")]
    reasoning: Option<ReasoningEffort>,
    #[serde(with = "SandboxBody")]
    sandbox: SandboxMode,
    #[serde(with = "As::<Vec<TryFromInto<PathBody>>>")]
    sandbox_read: Vec<PathBuf>,
    #[serde(with = "As::<Vec<TryFromInto<PathBody>>>")]
    sandbox_write: Vec<PathBuf>,
    network: bool,
    #[serde(with = "MemoryBody")]
    memory: MemoryUse,
    #[serde(skip_serializing_if = "Option::is_none", with = "As::<Option<DisplayFromStr>>")]
    reviews: Option<SessionId>,
    #[serde(with = "CompactionBody")]
    compaction: CompactionSettings,
}

/// A setting that is missing has its default.
#[derive(Serialize, Deserialize)]
#[serde(remote = "CompactionSettings", default = "CompactionSettings::default")]
struct CompactionBody {
    at_permille: u16,
    protect_first_n: u32,
    #[serde(with = "SummaryFailureBody")]
    on_summary_failure: SummaryFailurePolicy,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SummaryFailurePolicy", rename_all = "snake_case")]
enum SummaryFailureBody {
    Abort,
    Truncate,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReasoningEffort", rename_all = "snake_case")]
enum EffortBody {
    Off,
    Low,
    Medium,
    High,
    Max,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MemoryUse", rename_all = "snake_case")]
enum MemoryBody {
    Off,
    FromOwner,
    FromAny,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SandboxMode", rename_all = "snake_case")]
enum SandboxBody {
    Auto,
    Landlock,
    Off,
}

/// Most sessions have none of these settings.
fn is_default(native: &NativeSettings) -> bool {
    *native == NativeSettings::default()
}

/// A path that is not valid UTF-8 is stored as Base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PathBody {
    Text(String),
    Base64(String),
}

pub(super) fn encode(spec: &SessionSpec, out: &mut Vec<u8>) -> Result<(), Unreadable> {
    serde_json::to_writer(out, &VersionedSpec { version: FORMAT_VERSION, spec })?;
    Ok(())
}

pub(super) fn decode(body: &str) -> Result<SessionSpec, Unreadable> {
    let SpecVersion { version } = serde_json::from_str(body)?;
    if version > FORMAT_VERSION {
        return Err(Unreadable(format!("a launch specification of version {version}")));
    }
    Ok(SpecBody::deserialize(&mut serde_json::Deserializer::from_str(body))?)
}

impl SerializeAs<SessionSpec> for VersionedSpec<'_> {
    fn serialize_as<S: Serializer>(spec: &SessionSpec, to: S) -> Result<S::Ok, S::Error> {
        VersionedSpec { version: FORMAT_VERSION, spec }.serialize(to)
    }
}

impl<'de> DeserializeAs<'de, SessionSpec> for VersionedSpec<'_> {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<SessionSpec, D::Error> {
        SpecBody::deserialize(from)
    }
}

impl SerializeAs<ReviewPlan> for ReviewBody {
    fn serialize_as<S: Serializer>(plan: &ReviewPlan, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(plan, to)
    }
}

impl<'de> DeserializeAs<'de, ReviewPlan> for ReviewBody {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<ReviewPlan, D::Error> {
        Self::deserialize(from)
    }
}

impl SerializeAs<ReasoningEffort> for EffortBody {
    fn serialize_as<S: Serializer>(effort: &ReasoningEffort, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(effort, to)
    }
}

impl<'de> DeserializeAs<'de, ReasoningEffort> for EffortBody {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<ReasoningEffort, D::Error> {
        Self::deserialize(from)
    }
}

impl From<CallerTool> for CallerToolBody {
    fn from(CallerTool { name, description, input_schema }: CallerTool) -> Self {
        Self { name, description, input_schema }
    }
}

impl From<CallerToolBody> for CallerTool {
    fn from(CallerToolBody { name, description, input_schema }: CallerToolBody) -> Self {
        Self { name, description, input_schema }
    }
}

impl From<PathBuf> for PathBody {
    fn from(path: PathBuf) -> Self {
        match path.into_os_string().into_string() {
            Ok(text) => Self::Text(text),
            Err(bytes) => Self::Base64(BASE64.encode(bytes.as_encoded_bytes())),
        }
    }
}

impl TryFrom<PathBody> for PathBuf {
    type Error = DecodeError;

    fn try_from(path: PathBody) -> Result<Self, DecodeError> {
        Ok(match path {
            PathBody::Text(text) => text.into(),
            PathBody::Base64(text) => os_string(BASE64.decode(text)?).into(),
        })
    }
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A specification as it was written before our own loop existed.
    const OLD: &str = r#"{"version":1,"profile":"default","executor":"claude","mode":"agent",
        "model":null,"cwd":{"text":"/project"},"trust":false,"system":"default","history":[],
        "caller_tools":[],"output_schema":null,"permissions":{"level":"ask","allowed":[],
        "disallowed":[]},"tools":"default","mcp_servers":{},"env":{},"env_pass":[],"binary":null,
        "command":[],"billing":"any","stable_prompt":true,"resume":true,"warm":1,"clocks":{
        "timeout":{"secs":7200,"nanos":0},"first_event":{"secs":60,"nanos":0},
        "silence":{"secs":120,"nanos":0},"post_tool_quiet":{"secs":90,"nanos":0},
        "tool":{"secs":1800,"nanos":0},"retry":{"secs":180,"nanos":0},
        "compaction":{"secs":600,"nanos":0},"background":{"secs":900,"nanos":0},
        "approval":{"secs":86400,"nanos":0},"caller_tool":{"secs":600,"nanos":0}},
        "budgets":{"time":null,"tools":null,"cost_usd":null,"resumes":5}}"#;

    fn written(spec: &SessionSpec) -> String {
        let mut out = Vec::new();
        encode(spec, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_older_record_has_the_default_settings_of_the_loop() {
        let spec = decode(OLD).unwrap();
        assert_eq!(spec.native, NativeSettings::default());
        assert!(!written(&spec).contains("native"), "an older angelia can read it, too");
    }

    #[test]
    fn the_settings_of_the_loop_are_stored() {
        let mut spec = decode(OLD).unwrap();
        spec.native = NativeSettings {
            fallback: vec!["spare/m".into()],
            max_iterations: 7,
            max_output_tokens: Some(4_096),
            reasoning: Some(ReasoningEffort::High),
            sandbox: SandboxMode::Landlock,
            sandbox_read: vec!["/opt".into()],
            sandbox_write: vec!["/var/cache".into(), os_string(vec![b'/', 0xff]).into()],
            network: true,
            memory: MemoryUse::FromAny,
            reviews: Some(SessionId::from_uuid(uuid::Uuid::from_u128(7))),
            compaction: CompactionSettings {
                at_permille: 500,
                protect_first_n: 0,
                on_summary_failure: SummaryFailurePolicy::Truncate,
            },
        };
        let text = written(&spec);
        assert_eq!(decode(&text).unwrap().native, spec.native);
        // A setting that a later version adds is missing in the records of this one.
        let fewer = text.replace("\"max_iterations\":7,", "");
        assert_ne!(fewer, text);
        assert_eq!(decode(&fewer).unwrap().native.max_iterations, 90);
    }
}
