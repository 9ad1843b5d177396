//! The other kinds of values: bounded numbers, names, paths, patterns, addresses.

use std::{
    borrow::Cow,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{ToolPattern, ToolSet};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};

use crate::config::{
    node::NodeValue,
    problem::Problem,
    setting::{MapKey, Setting, ValueCursor},
};

/// Implements `JsonSchema` inline for a type with a literal schema.
macro_rules! schema {
    ($name:ident $(<$(const $bound:ident: $kind:ty),+>)?, $schema:tt) => {
        impl$(<$(const $bound: $kind),+>)? JsonSchema for $name$(<$($bound),+>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BoundedCount<const MIN: u32, const MAX: u32>(pub(crate) u32);

schema!(BoundedCount<const MIN: u32, const MAX: u32>, {"type": "integer", "minimum": MIN, "maximum": MAX});

impl<const MIN: u32, const MAX: u32> Setting for BoundedCount<MIN, MAX> {
    fn expects() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| {
            let number = text.parse().ok()?;
            (MIN..=MAX).contains(&number).then_some(Self(number))
        })
    }
}

/// An amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Dollars(pub(crate) f64);

schema!(Dollars, {"type": "number", "exclusiveMinimum": 0});

impl Setting for Dollars {
    fn expects() -> String {
        "US dollars, more than 0, such as 2.50".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| {
            let amount: f64 = text.parse().ok()?;
            (amount.is_finite() && amount > 0.0).then_some(Self(amount))
        })
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

schema!(ListenAddress, {"type": "string"});

impl Setting for ListenAddress {
    fn expects() -> String {
        "an address with a port, such as 127.0.0.1:4376".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| text.parse().ok().map(Self))
    }
}

/// A path that does not depend on the current directory: absolute, or below the owner's home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FixedPath(String);

schema!(FixedPath, {"type": "string", "pattern": "^(/|~/|~$)"});

impl FixedPath {
    pub(crate) fn expand(&self, home: Option<&Path>) -> Option<PathBuf> {
        expand(&self.0, home)
    }
}

impl Setting for FixedPath {
    fn expects() -> String {
        "an absolute path, or one that starts with ~/".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| {
            is_fixed_path(text).then(|| Self(text.to_owned()))
        })
    }
}

/// A program: its path, or a name that is looked up on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProgramPath(String);

schema!(ProgramPath, {"type": "string", "minLength": 1});

impl ProgramPath {
    pub(crate) fn expand(&self, home: Option<&Path>) -> Option<PathBuf> {
        expand(&self.0, home)
    }
}

impl Setting for ProgramPath {
    fn expects() -> String {
        "a program's name, or its path (absolute, or starting with ~/)".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| {
            let usable = is_fixed_path(text) || (!text.is_empty() && !text.contains('/'));
            usable.then(|| Self(text.to_owned()))
        })
    }
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AgentCommand(pub(crate) Vec<Arc<str>>);

schema!(AgentCommand, {"type": "array", "minItems": 1, "items": {"type": "string"}});

impl Setting for AgentCommand {
    fn expects() -> String {
        "a list: a program's name or whole path, then its arguments, such as [gemini, --acp]"
            .to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let is_list = matches!(&place.node.value, NodeValue::List(_));
        let is_loose = matches!(&place.node.value, NodeValue::Scalar(scalar)
            if scalar.kind == crate::config::node::ScalarKind::Untyped);
        if !is_list && !is_loose {
            problems.push(place.mismatch(&Self::expects()));
            return None;
        }
        let words = Vec::<String>::read(place, problems)?;
        let starts_well = words.first().is_some_and(|program| {
            is_fixed_path(program) || (!program.is_empty() && !program.contains('/'))
        });
        if !starts_well || words.iter().any(|word| word.contains('\0')) {
            problems.push(place.problem(format!("is not {}", Self::expects())));
            return None;
        }
        Some(Self(words.into_iter().map(Arc::from).collect()))
    }
}

fn is_fixed_path(text: &str) -> bool {
    let path = text.strip_prefix('~').unwrap_or(text);
    path.starts_with('/') || text == "~"
}

fn expand(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    if text == "~" {
        return home.map(Path::to_path_buf);
    }
    match text.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(text)),
    }
}

/// A profile's name; also the name of its working folder in model mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ProfileName(pub(crate) Arc<str>);

schema!(ProfileName, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"});

impl MapKey for ProfileName {
    fn expects() -> &'static str {
        "a name of letters, digits, `_`, `-` and `.`"
    }

    fn parse(text: &str) -> Option<Self> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = text.starts_with(is_word);
        let goes_on = text.chars().all(|c| is_word(c) || c == '-' || c == '.');
        (starts_well && goes_on).then(|| Self(text.into()))
    }
}

/// The name of a variable of the child's environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct VariableName(pub(crate) Arc<str>);

schema!(VariableName, {"type": "string", "pattern": "^[^=*\\s]+$"});

impl MapKey for VariableName {
    fn expects() -> &'static str {
        "a variable's name"
    }

    fn parse(text: &str) -> Option<Self> {
        is_variable(text).then(|| Self(text.into()))
    }
}

fn is_variable(text: &str) -> bool {
    let forbidden = |c: char| c == '=' || c == '*' || c == '\0' || c.is_whitespace();
    !text.is_empty() && !text.contains(forbidden)
}

/// A variable that is passed from our environment to the child's; a `*` at the end stands for a
/// family of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PassedVariable(pub(crate) Arc<str>);

schema!(PassedVariable, {"type": "string", "pattern": "^[^=*\\s]+\\*?$"});

impl Setting for PassedVariable {
    fn expects() -> String {
        "a variable's name, with `*` at its end for a family".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| {
            let name = text.strip_suffix('*').unwrap_or(text);
            is_variable(name).then(|| Self(text.into()))
        })
    }
}

/// The value of a variable. It may be a secret, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretValue(pub(crate) Arc<str>);

pub(crate) const SECRET_MASK: &str = "(hidden)";

schema!(SecretValue, {"type": ["string", "number", "boolean"]});

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

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let text: Arc<str> = place.parse(problems, &Self::expects(), |text| Some(text.into()))?;
        if text.contains('\0') {
            problems.push(place.problem("has a NUL character, which no variable can hold"));
            return None;
        }
        Some(Self(text))
    }
}

/// A pattern that names tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolPatternSetting(pub(crate) ToolPattern);

schema!(ToolPatternSetting, {"type": "string"});

impl Serialize for ToolPatternSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Setting for ToolPatternSetting {
    fn expects() -> String {
        "a tool's name or a pattern such as `Bash(git *)`".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| text.parse().ok().map(Self))
    }
}

/// Which of the agent's own tools exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolSetSetting(pub(crate) ToolSet);

schema!(ToolSetSetting, {
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
            ToolSet::List(names) => {
                let mut list = serializer.serialize_seq(Some(names.len()))?;
                for name in names {
                    list.serialize_element(name)?;
                }
                list.end()
            }
        }
    }
}

impl Setting for ToolSetSetting {
    fn expects() -> String {
        "default | all | none | a list of tools' names".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        use crate::config::node::ScalarKind::Untyped;
        let set = match (&place.node.value, place.text()) {
            (_, Some("default")) => ToolSet::Default,
            (_, Some("all")) => ToolSet::All,
            (_, Some("none")) => ToolSet::None,
            (NodeValue::List(_), _) => read_tool_list(place, problems)?,
            (NodeValue::Scalar(scalar), _) if scalar.kind == Untyped => {
                read_tool_list(place, problems)?
            }
            (NodeValue::Scalar(_) | NodeValue::Map(_), _) => {
                problems.push(place.mismatch(&Self::expects()));
                return None;
            }
        };
        Some(Self(set))
    }
}

fn read_tool_list(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<ToolSet> {
    let names = Vec::<String>::read(place, problems)?;
    Some(ToolSet::List(names.into_iter().map(Arc::from).collect()))
}
