//! Parses `bus-rules.yaml`. Errors name their line. An unknown key is an error: otherwise a
//! misspelled condition would make its rule match more than its author intended.

use std::{fmt, marker::PhantomData, sync::Arc};

use angelia_core::engine::rules::{MessageFormat, NamePattern, Roles, Rule, RuleConditions, Rules};
use regex::RegexBuilder;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::{Error, MessageFormatter as _, Spanned, UserMessageFormatter};

use super::name_list::NameList;

/// Far above any real file, and low enough to bound the work on a hostile one.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 50_000;

/// The limit on the memory of a compiled `text` pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Valid rules, and warnings about them.
#[derive(Clone, Debug, Default)]
pub struct ParsedRules {
    pub rules: Rules,
    pub warnings: Vec<RuleDiagnostic>,
}

/// An error or a warning about one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RuleDiagnostic {
    pub line: u64,
    pub what: String,
}

impl RuleDiagnostic {
    fn new(line: u64, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { line, what }
    }
}

/// Parses the text of a rules file. An empty file has no rules.
pub fn parse(text: &str) -> Result<ParsedRules, RuleDiagnostic> {
    let options = serde_saphyr::options! {
        emit_comments: false,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
        },
    };
    let file: Option<MappingFields<FileKeys>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| diagnose(&error))?;
    file.map_or_else(|| Ok(ParsedRules::default()), build_rules)
}

fn diagnose(error: &Error) -> RuleDiagnostic {
    let line = error.location().map_or(1, |at| at.line());
    let what = match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            format!("`{key}` is set a second time; keep one of them")
        }
        Error::Budget { .. } | Error::AliasError { .. } => {
            "the file is too large or too deeply nested for rules (also through aliases)".to_owned()
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    RuleDiagnostic::new(line, what)
}

fn build_rules(file: MappingFields<FileKeys>) -> Result<ParsedRules, RuleDiagnostic> {
    let keys = file.known()?;
    let mut remarks = Vec::new();
    let mut rules = Rules::default();
    if let Some(bus) = keys.bus {
        rules.endpoint = bus.known()?.endpoint.filter(|name| !name.is_empty()).map(Into::into);
    }
    for callback in keys.callbacks.unwrap_or_default() {
        let line = callback.referenced.line();
        let rule = build_rule(line, callback.value.known()?)?;
        if rule.conditions.is_empty() {
            let what = "this rule matches nothing; give it `match_type`, `from`, `channel`, `text` or `verified`";
            remarks.push(RuleDiagnostic::new(line, what));
        }
        rules.callbacks.push(rule);
    }
    rules.roles = build_roles(keys.role_map.unwrap_or_default());
    Ok(ParsedRules { rules, warnings: remarks })
}

fn build_rule(line: u64, keys: RuleKeys) -> Result<Rule, RuleDiagnostic> {
    let text = match keys.text {
        None => None,
        Some(pattern) => {
            let built = RegexBuilder::new(&pattern.value).size_limit(MAX_PATTERN_BYTES).build();
            let at = pattern.referenced.line();
            let wrong =
                |error| RuleDiagnostic::new(at, format!("`text` is not a valid pattern: {error}"));
            Some(built.map_err(wrong)?)
        }
    };
    let patterns = |names: Option<NameList>| {
        let names = names.map(|names| names.0).unwrap_or_default();
        names.into_iter().map(NamePattern::new).collect()
    };
    let format =
        |text: Option<String>| text.as_deref().map(MessageFormat::parse).unwrap_or_default();
    Ok(Rule {
        line,
        conditions: RuleConditions {
            kind: keys.match_type.map(Into::into),
            from: patterns(keys.from),
            channel: patterns(keys.channel),
            text,
            verified: keys.verified,
        },
        print: keys.print.unwrap_or(true),
        print_format: format(keys.print_format),
        context: keys.context.unwrap_or(false),
        context_format: format(keys.context_format),
        command: keys.command.filter(|line| !line.trim().is_empty()).map(Into::into),
        profile: keys.profile.map(Into::into),
    })
}

fn build_roles(entries: RoleEntries) -> Roles {
    let named = entries.0.into_iter().filter_map(|(key, name)| Some((key, name?)));
    named.collect()
}

/// The keys that a mapping of the file may have.
trait MappingKeys: Default {
    const DESCRIPTION: &'static str;

    /// Reads the value of a known key. Returns `false` for an unknown key, whose value is then
    /// still unread.
    fn read_value<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut M,
    ) -> Result<bool, M::Error>;
}

/// A mapping, read key by key.
#[derive(Debug)]
struct MappingFields<K> {
    keys: K,
    /// The first unknown key.
    unknown: Option<RuleDiagnostic>,
}

impl<K> MappingFields<K> {
    /// Returns the keys, if all are known.
    fn known(self) -> Result<K, RuleDiagnostic> {
        self.unknown.map_or(Ok(self.keys), Err)
    }
}

impl<'de, K: MappingKeys> Deserialize<'de> for MappingFields<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MappingFieldsVisitor(PhantomData))
    }
}

struct MappingFieldsVisitor<K>(PhantomData<K>);

impl<'de, K: MappingKeys> Visitor<'de> for MappingFieldsVisitor<K> {
    type Value = MappingFields<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with `key: value` lines", K::DESCRIPTION)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<MappingFields<K>, M::Error> {
        let mut keys = K::default();
        let mut unknown = None;
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if !keys.read_value(&key.value, &mut map)? {
                map.next_value::<IgnoredAny>()?;
                unknown.get_or_insert_with(|| {
                    let what = format!("`{}` is not a key of {}", key.value, K::DESCRIPTION);
                    RuleDiagnostic::new(key.referenced.line(), what)
                });
            }
        }
        Ok(MappingFields { keys, unknown })
    }
}

#[derive(Debug, Default)]
struct FileKeys {
    bus: Option<MappingFields<BusKeys>>,
    callbacks: Option<Vec<Spanned<MappingFields<RuleKeys>>>>,
    role_map: Option<RoleEntries>,
}

impl MappingKeys for FileKeys {
    const DESCRIPTION: &'static str = "bus-rules.yaml";

    fn read_value<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut M,
    ) -> Result<bool, M::Error> {
        match key {
            "bus" => self.bus = map.next_value()?,
            "callbacks" => self.callbacks = map.next_value()?,
            "role_map" => self.role_map = map.next_value()?,
            // These appear in examples of hermes-bus but have no effect there either.
            "default_sender" | "session_aliases" => _ = map.next_value::<IgnoredAny>()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Debug, Default)]
struct BusKeys {
    endpoint: Option<String>,
}

impl MappingKeys for BusKeys {
    const DESCRIPTION: &'static str = "`bus`";

    fn read_value<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut M,
    ) -> Result<bool, M::Error> {
        match key {
            "endpoint" => self.endpoint = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Debug, Default)]
struct RuleKeys {
    match_type: Option<String>,
    from: Option<NameList>,
    channel: Option<NameList>,
    text: Option<Spanned<String>>,
    verified: Option<bool>,
    print: Option<bool>,
    print_format: Option<String>,
    context: Option<bool>,
    context_format: Option<String>,
    command: Option<String>,
    profile: Option<String>,
}

impl MappingKeys for RuleKeys {
    const DESCRIPTION: &'static str = "a rule";

    fn read_value<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut M,
    ) -> Result<bool, M::Error> {
        match key {
            "match_type" => self.match_type = map.next_value()?,
            "from" => self.from = map.next_value()?,
            "channel" => self.channel = map.next_value()?,
            "text" => self.text = Some(map.next_value()?),
            "verified" => self.verified = map.next_value()?,
            "print" => self.print = map.next_value()?,
            "print_format" => self.print_format = map.next_value()?,
            "context" => self.context = map.next_value()?,
            "context_format" => self.context_format = map.next_value()?,
            "command" => self.command = map.next_value()?,
            "profile" => self.profile = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The `role_map`. Only the `name` of each entry counts. An entry of another shape has no name, and
/// its key is shown unchanged.
#[derive(Debug, Default)]
struct RoleEntries(Vec<(Arc<str>, Option<Arc<str>>)>);

impl<'de> Deserialize<'de> for RoleEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoleEntriesVisitor;
        impl<'de> Visitor<'de> for RoleEntriesVisitor {
            type Value = RoleEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`role_map` with `key: {name: …}` lines")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RoleEntries, M::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let name = map.next_value::<serde_json::Value>()?;
                    let name = name.get("name").and_then(serde_json::Value::as_str);
                    entries.push((key.into(), name.map(Into::into)));
                }
                Ok(RoleEntries(entries))
            }
        }
        deserializer.deserialize_map(RoleEntriesVisitor)
    }
}
