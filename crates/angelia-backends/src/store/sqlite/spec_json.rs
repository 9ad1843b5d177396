//! The JSON form of the launch specification on disk. It is versioned, so that a session of an
//! older angelia can still be resumed with every flag it had.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{
    Billing, CallerTool, Mode, PermissionLevel, Permissions, SessionSpec, SystemPrompt,
    ToolPattern, ToolSet, TurnId,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    columns::parse_variant,
    content_json::MessageBody,
    error::SqliteError,
    limits_json::{BudgetsBody, ClocksBody},
};

const FORMAT_VERSION: u32 = 1;

const MODES: [Mode; 2] = [Mode::Agent, Mode::Model];
const BILLINGS: [Billing; 3] = [Billing::Any, Billing::Subscription, Billing::ApiKey];
const LEVELS: [PermissionLevel; 3] =
    [PermissionLevel::Ask, PermissionLevel::Edit, PermissionLevel::Unattended];

type CowStr<'a> = Cow<'a, str>;

#[derive(Debug, Serialize, Deserialize)]
struct SpecBody<'a> {
    version: u32,
    #[serde(borrow)]
    profile: CowStr<'a>,
    #[serde(borrow)]
    executor: CowStr<'a>,
    #[serde(borrow)]
    mode: CowStr<'a>,
    model: Option<CowStr<'a>>,
    #[serde(borrow)]
    cwd: PathBody<'a>,
    trust: bool,
    #[serde(borrow)]
    system: SystemBody<'a>,
    #[serde(borrow)]
    history: Vec<MessageBody<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history_until: Option<Uuid>,
    #[serde(borrow)]
    caller_tools: Vec<CallerToolBody<'a>>,
    #[serde(borrow)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    permissions: PermissionsBody<'a>,
    #[serde(borrow)]
    tools: ToolsBody<'a>,
    #[serde(borrow)]
    mcp_servers: BTreeMap<CowStr<'a>, &'a RawValue>,
    env: BTreeMap<CowStr<'a>, CowStr<'a>>,
    env_pass: Vec<CowStr<'a>>,
    #[serde(borrow)]
    binary: Option<PathBody<'a>>,
    command: Vec<CowStr<'a>>,
    #[serde(borrow)]
    billing: CowStr<'a>,
    stable_prompt: bool,
    resume: bool,
    warm: u32,
    clocks: ClocksBody,
    budgets: BudgetsBody,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fallback: Option<Box<SpecBody<'a>>>,
}

/// A path that is not valid UTF-8 is stored as Base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PathBody<'a> {
    #[serde(borrow)]
    Text(CowStr<'a>),
    Base64(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SystemBody<'a> {
    Default,
    #[serde(borrow)]
    Append(CowStr<'a>),
    #[serde(borrow)]
    Replace(CowStr<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToolsBody<'a> {
    Default,
    All,
    None,
    #[serde(borrow)]
    List(Vec<CowStr<'a>>),
}

#[derive(Debug, Serialize, Deserialize)]
struct CallerToolBody<'a> {
    #[serde(borrow)]
    name: CowStr<'a>,
    #[serde(borrow)]
    description: CowStr<'a>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
struct PermissionsBody<'a> {
    #[serde(borrow)]
    level: CowStr<'a>,
    allowed: Vec<String>,
    disallowed: Vec<String>,
}

pub(super) fn encode(spec: &SessionSpec, out: &mut Vec<u8>) -> Result<(), SqliteError> {
    serde_json::to_writer(out, &SpecBody::of(spec))?;
    Ok(())
}

pub(super) fn decode(body: &str) -> Result<SessionSpec, SqliteError> {
    let body: SpecBody<'_> = serde_json::from_str(body)?;
    if body.version > FORMAT_VERSION {
        return Err(SqliteError::Unreadable(format!(
            "a launch specification of version {}",
            body.version
        )));
    }
    body.into_spec()
}
impl<'a> SpecBody<'a> {
    fn of(spec: &'a SessionSpec) -> Self {
        Self {
            version: FORMAT_VERSION,
            profile: (&*spec.profile).into(),
            executor: (&*spec.executor).into(),
            mode: spec.mode.as_str().into(),
            model: spec.model.as_deref().map(Cow::Borrowed),
            cwd: PathBody::of(&spec.cwd),
            trust: spec.trust,
            system: SystemBody::of(&spec.system),
            history: spec.history.iter().map(MessageBody::of).collect(),
            history_until: spec.history_until.map(TurnId::as_uuid),
            caller_tools: spec.caller_tools.iter().map(CallerToolBody::of).collect(),
            output_schema: spec.output_schema.as_deref(),
            permissions: PermissionsBody::of(&spec.permissions),
            tools: ToolsBody::of(&spec.tools),
            mcp_servers: spec
                .mcp_servers
                .iter()
                .map(|(name, value)| (Cow::Borrowed(&**name), &**value))
                .collect(),
            env: spec
                .env
                .iter()
                .map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value)))
                .collect(),
            env_pass: to_cow_strs(&spec.env_pass),
            binary: spec.binary.as_deref().map(PathBody::of),
            command: to_cow_strs(&spec.command),
            billing: spec.billing.as_str().into(),
            stable_prompt: spec.stable_prompt,
            resume: spec.resume,
            warm: spec.warm,
            clocks: ClocksBody::of(&spec.timeouts),
            budgets: BudgetsBody::of(&spec.budgets),
            fallback: (spec.fallback.as_deref()).map(|fallback| Box::new(Self::of(fallback))),
        }
    }

    fn into_spec(self) -> Result<SessionSpec, SqliteError> {
        Ok(SessionSpec {
            profile: self.profile.into(),
            executor: self.executor.into(),
            mode: parse_variant(&MODES, Mode::as_str, &self.mode)?,
            model: self.model.map(Into::into),
            cwd: self.cwd.into_path()?,
            trust: self.trust,
            system: self.system.into_prompt(),
            history: self
                .history
                .into_iter()
                .map(MessageBody::into_message)
                .collect::<Result<_, _>>()?,
            history_until: self.history_until.map(TurnId::from_uuid),
            caller_tools: self.caller_tools.into_iter().map(CallerToolBody::into_tool).collect(),
            output_schema: self.output_schema.map(|schema| schema.to_owned().into()),
            permissions: self.permissions.into_permissions()?,
            tools: self.tools.into_set(),
            mcp_servers: self
                .mcp_servers
                .into_iter()
                .map(|(name, value)| (name.into(), value.to_owned().into()))
                .collect(),
            env: self.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            env_pass: to_arc_strs(self.env_pass),
            binary: self.binary.map(PathBody::into_path).transpose()?,
            command: to_arc_strs(self.command),
            billing: parse_variant(&BILLINGS, Billing::as_str, &self.billing)?,
            stable_prompt: self.stable_prompt,
            resume: self.resume,
            warm: self.warm,
            timeouts: self.clocks.into_clocks(),
            budgets: self.budgets.into_budgets(),
            fallback: match self.fallback {
                Some(fallback) => Some(Box::new(fallback.into_spec()?)),
                None => None,
            },
        })
    }
}

fn to_cow_strs(words: &[Arc<str>]) -> Vec<CowStr<'_>> {
    words.iter().map(|word| Cow::Borrowed(&**word)).collect()
}

fn to_arc_strs(words: Vec<CowStr<'_>>) -> Vec<Arc<str>> {
    words.into_iter().map(Into::into).collect()
}

impl<'a> PathBody<'a> {
    fn of(path: &'a Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Base64(BASE64.encode(path.as_os_str().as_encoded_bytes())),
        }
    }

    fn into_path(self) -> Result<PathBuf, SqliteError> {
        match self {
            Self::Text(text) => Ok(PathBuf::from(text.into_owned())),
            Self::Base64(text) => BASE64
                .decode(text)
                .map(|bytes| PathBuf::from(os_string(bytes)))
                .map_err(|error| SqliteError::Unreadable(format!("a path: {error}"))),
        }
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

impl<'a> SystemBody<'a> {
    fn of(system: &'a SystemPrompt) -> Self {
        match system {
            SystemPrompt::Default => Self::Default,
            SystemPrompt::Append(text) => Self::Append((&**text).into()),
            SystemPrompt::Replace(text) => Self::Replace((&**text).into()),
        }
    }

    fn into_prompt(self) -> SystemPrompt {
        match self {
            Self::Default => SystemPrompt::Default,
            Self::Append(text) => SystemPrompt::Append(text.into()),
            Self::Replace(text) => SystemPrompt::Replace(text.into()),
        }
    }
}

impl<'a> ToolsBody<'a> {
    fn of(tools: &'a ToolSet) -> Self {
        match tools {
            ToolSet::Default => Self::Default,
            ToolSet::All => Self::All,
            ToolSet::None => Self::None,
            ToolSet::List(names) => Self::List(to_cow_strs(names)),
        }
    }

    fn into_set(self) -> ToolSet {
        match self {
            Self::Default => ToolSet::Default,
            Self::All => ToolSet::All,
            Self::None => ToolSet::None,
            Self::List(names) => ToolSet::List(to_arc_strs(names)),
        }
    }
}

impl<'a> CallerToolBody<'a> {
    fn of(tool: &'a CallerTool) -> Self {
        Self {
            name: (&*tool.name).into(),
            description: (&*tool.description).into(),
            input_schema: &tool.input_schema,
        }
    }

    fn into_tool(self) -> CallerTool {
        CallerTool {
            name: self.name.into(),
            description: self.description.into(),
            input_schema: self.input_schema.to_owned().into(),
        }
    }
}

impl PermissionsBody<'_> {
    fn of(permissions: &Permissions) -> Self {
        let texts = |patterns: &[ToolPattern]| patterns.iter().map(ToString::to_string).collect();
        Self {
            level: permissions.level.as_str().into(),
            allowed: texts(&permissions.allowed),
            disallowed: texts(&permissions.disallowed),
        }
    }

    fn into_permissions(self) -> Result<Permissions, SqliteError> {
        Ok(Permissions {
            level: parse_variant(&LEVELS, PermissionLevel::as_str, &self.level)?,
            allowed: parse_patterns(&self.allowed)?,
            disallowed: parse_patterns(&self.disallowed)?,
        })
    }
}

fn parse_patterns(texts: &[String]) -> Result<Vec<ToolPattern>, SqliteError> {
    texts
        .iter()
        .map(|text| text.parse().map_err(|error| SqliteError::Unreadable(format!("{error}"))))
        .collect()
}
