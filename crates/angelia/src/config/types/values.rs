//! The other kinds of values: bounded numbers, names, paths, patterns, addresses.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{ToolPattern, ToolSet};
use serde::{Serialize, Serializer};

use crate::config::{
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor},
};

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BoundedCount<const MIN: u32, const MAX: u32>(pub(crate) u32);

inline_schema!(BoundedCount<const MIN: u32, const MAX: u32>, {"type": "integer", "minimum": MIN, "maximum": MAX});

impl<const MIN: u32, const MAX: u32> Setting for BoundedCount<MIN, MAX> {
    fn expects() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let number = place.text().and_then(|text| text.parse().ok());
        let number = number.filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).or_else(|| place.mismatch(&Self::expects()))
    }
}

/// The maximum number of live agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveAgentLimit {
    /// As many as fit into this machine's memory.
    Auto,
    Count(u32),
}

const MAX_LIVE_AGENTS: u32 = 4096;

inline_schema!(LiveAgentLimit, {
    "anyOf": [
        {"type": "string", "const": "auto"},
        {"type": "integer", "minimum": 1, "maximum": MAX_LIVE_AGENTS},
    ],
});

impl Serialize for LiveAgentLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

impl TextSetting for LiveAgentLimit {
    const EXPECTS: &'static str = "auto, or a whole number from 1 to 4096";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            number => {
                let count = number.parse().ok()?;
                (1..=MAX_LIVE_AGENTS).contains(&count).then_some(Self::Count(count))
            }
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// The accepted units, largest first.
const BYTE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl ByteSize {
    pub(crate) const fn mebibytes(number: u64) -> Self {
        Self(number << 20)
    }

    /// Returns the number as an index or a length in memory.
    pub(crate) fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unit = BYTE_UNITS.iter().find(|(_, bytes)| self.0.is_multiple_of(*bytes));
        match unit {
            Some((unit, bytes)) => {
                serializer.collect_str(&format_args!("{}{unit}", self.0 / bytes))
            }
            None => serializer.serialize_u64(self.0),
        }
    }
}

inline_schema!(ByteSize, {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[1-9][0-9]*(KiB|MiB|GiB)$"}],
});

impl TextSetting for ByteSize {
    const EXPECTS: &'static str = "a number of bytes, such as 64MiB";

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = BYTE_UNITS
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
            .unwrap_or((text, 1));
        let bytes = number.trim_end().parse::<u64>().ok()?.checked_mul(unit)?;
        (bytes > 0).then_some(Self(bytes))
    }
}

/// An amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Dollars(pub(crate) f64);

inline_schema!(Dollars, {"type": "number", "exclusiveMinimum": 0});

impl TextSetting for Dollars {
    const EXPECTS: &'static str = "US dollars, more than 0, such as 2.50";

    fn parse(text: &str) -> Option<Self> {
        let amount: f64 = text.parse().ok()?;
        (amount.is_finite() && amount > 0.0).then_some(Self(amount))
    }
}

/// A share of a whole, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Share(f64);

inline_schema!(Share, {"type": "number", "exclusiveMinimum": 0, "maximum": 1});

impl Share {
    pub(crate) const fn new(share: f64) -> Self {
        Self(share)
    }

    /// Returns the share in thousandths, at least 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is between 0 and 1"
    )]
    pub(crate) fn permille(self) -> u16 {
        ((self.0 * 1000.0).round() as u16).max(1)
    }
}

impl TextSetting for Share {
    const EXPECTS: &'static str = "a share above 0 and at most 1, such as 0.85";

    fn parse(text: &str) -> Option<Self> {
        let share: f64 = text.parse().ok()?;
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

inline_schema!(ListenAddress, {"type": "string"});

impl TextSetting for ListenAddress {
    const EXPECTS: &'static str = "an address with a port, such as 127.0.0.1:4376";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A path that does not depend on the current directory: absolute, or below the owner's home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FixedPath(pub(crate) String);

inline_schema!(FixedPath, {"type": "string", "pattern": "^(/|~/|~$)"});

impl TextSetting for FixedPath {
    const EXPECTS: &'static str = "an absolute path, or one that starts with ~/";

    fn parse(text: &str) -> Option<Self> {
        is_fixed_path(text).then(|| Self(text.to_owned()))
    }
}

/// A program: its path, or a name to look up on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProgramPath(pub(crate) String);

inline_schema!(ProgramPath, {"type": "string", "minLength": 1});

impl TextSetting for ProgramPath {
    const EXPECTS: &'static str = "a program's name, or its path (absolute, or starting with ~/)";

    fn parse(text: &str) -> Option<Self> {
        is_program(text).then(|| Self(text.to_owned()))
    }
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AgentCommand(pub(crate) Vec<Arc<str>>);

inline_schema!(AgentCommand, {"type": "array", "minItems": 1, "items": {"type": "string"}});

impl Setting for AgentCommand {
    fn expects() -> String {
        "a list: a program's name or whole path, then its arguments, such as [gemini, --acp]"
            .to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        if !place.is_list() {
            return place.mismatch(&Self::expects());
        }
        let words = Vec::<String>::read(place)?;
        let starts_well = words.first().is_some_and(|program| is_program(program));
        if !starts_well || words.iter().any(|word| word.contains('\0')) {
            return place.reject(&format!("is not {}", Self::expects()));
        }
        Some(Self(words.into_iter().map(Arc::from).collect()))
    }
}

fn is_fixed_path(text: &str) -> bool {
    let path = text.strip_prefix('~').unwrap_or(text);
    path.starts_with('/') || text == "~"
}

fn is_program(text: &str) -> bool {
    is_fixed_path(text) || (!text.is_empty() && !text.contains('/'))
}

/// Replaces the `~` in a path with the owner's home.
pub(crate) fn expand_home(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    if text == "~" {
        return home.map(Path::to_path_buf);
    }
    match text.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(text)),
    }
}

/// A profile's name, which is also the name of its working folder in model mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ProfileName(pub(crate) Arc<str>);

inline_schema!(ProfileName, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"});

impl TextSetting for ProfileName {
    const EXPECTS: &'static str = "a name of letters, digits, `_`, `-` and `.`";

    fn parse(text: &str) -> Option<Self> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = text.starts_with(is_word);
        let goes_on = text.chars().all(|c| is_word(c) || c == '-' || c == '.');
        (starts_well && goes_on).then(|| Self(text.into()))
    }
}

/// The name of a variable in the child's environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct VariableName(pub(crate) Arc<str>);

inline_schema!(VariableName, {"type": "string", "pattern": "^[^=*\\s]+$"});

impl TextSetting for VariableName {
    const EXPECTS: &'static str = "a variable's name";

    fn parse(text: &str) -> Option<Self> {
        is_variable(text).then(|| Self(text.into()))
    }
}

fn is_variable(text: &str) -> bool {
    let forbidden = |c: char| c == '=' || c == '*' || c == '\0' || c.is_whitespace();
    !text.is_empty() && !text.contains(forbidden)
}

/// A variable that is passed from our environment to the child's. A trailing `*` matches a family
/// of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PassedVariable(pub(crate) Arc<str>);

inline_schema!(PassedVariable, {"type": "string", "pattern": "^[^=*\\s]+\\*?$"});

impl TextSetting for PassedVariable {
    const EXPECTS: &'static str = "a variable's name, with `*` at its end for a family";

    fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix('*').unwrap_or(text);
        is_variable(name).then(|| Self(text.into()))
    }
}

/// The value of a variable. It may be a secret, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretValue(pub(crate) Arc<str>);

pub(crate) const SECRET_MASK: &str = "(hidden)";

inline_schema!(SecretValue, {"type": ["string", "number", "boolean"]});

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(SECRET_MASK)
    }
}

impl Serialize for SecretValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SECRET_MASK)
    }
}

impl Setting for SecretValue {
    fn expects() -> String {
        "text".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        match place.text() {
            None => place.mismatch(&Self::expects()),
            Some(text) if text.contains('\0') => {
                place.reject("has a NUL character, which no variable can hold")
            }
            Some(text) => Some(Self(text.into())),
        }
    }
}

/// A pattern that matches tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolPatternSetting(pub(crate) ToolPattern);

inline_schema!(ToolPatternSetting, {"type": "string"});

impl Serialize for ToolPatternSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl TextSetting for ToolPatternSetting {
    const EXPECTS: &'static str = "a tool's name or a pattern such as `Bash(git *)`";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// The agent's own tools that are available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolSetSetting(pub(crate) ToolSet);

inline_schema!(ToolSetSetting, {
    "anyOf": [
        {"type": "string", "enum": ["default", "all", "none"]},
        {"type": "array", "items": {"type": "string", "minLength": 1}},
    ],
});

impl Serialize for ToolSetSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            ToolSet::Default => serializer.serialize_str("default"),
            ToolSet::All => serializer.serialize_str("all"),
            ToolSet::None => serializer.serialize_str("none"),
            ToolSet::List(names) => serializer.collect_seq(names),
        }
    }
}

impl Setting for ToolSetSetting {
    fn expects() -> String {
        "default | all | none | a list of tools' names".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let set = match place.text() {
            Some("default") => ToolSet::Default,
            Some("all") => ToolSet::All,
            Some("none") => ToolSet::None,
            _ if place.is_list() => {
                ToolSet::List(Vec::<String>::read(place)?.into_iter().map(Arc::from).collect())
            }
            _ => return place.mismatch(&Self::expects()),
        };
        Some(Self(set))
    }
}
