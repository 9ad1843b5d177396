//! Parses YAML text into a tree of nodes. This is the only file that uses the YAML parser.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Error, Location, MessageFormatter, Spanned, UserMessageFormatter};

use super::{
    node::{Node, NodeEntry, NodeValue, Scalar, ScalarKind, ValueOrigin},
    problem::Problem,
};

/// Far above any real file, but far below what could exhaust memory.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 20_000;

/// Parses one document. An empty one is an empty map.
pub(crate) fn parse(text: &str, file: &Arc<str>) -> Result<Node, Problem> {
    let options = serde_saphyr::options! {
        // `on` and `off` are words of our settings, not booleans.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
        },
    };
    let source = YamlSource { text, file };
    let raw: Spanned<RawNode> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| source.problem(&error))?;
    let root = source.node(raw);
    if root.is_null() {
        return Ok(Node::empty_map());
    }
    match &root.value {
        NodeValue::Map(_) => Ok(root),
        NodeValue::List(_) | NodeValue::Scalar(_) => Err(Problem::at_origin(
            root.origin,
            "is not a configuration: expected `key: value` lines",
        )),
    }
}

/// Parses another program's YAML into plain values. An empty text is null.
pub(crate) fn parse_yaml(text: &str) -> Result<serde_json::Value, String> {
    let options = serde_saphyr::options! {
        emit_comments: false,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
        },
    };
    let value: Option<serde_json::Value> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    Ok(value.unwrap_or_default())
}

#[derive(Clone, Copy)]
struct YamlSource<'a> {
    text: &'a str,
    file: &'a Arc<str>,
}

impl YamlSource<'_> {
    fn origin(&self, at: Location) -> ValueOrigin {
        ValueOrigin::File { name: Arc::clone(self.file), line: at.line() }
    }

    fn node(&self, raw: Spanned<RawNode>) -> Node {
        let origin = self.origin(raw.referenced);
        let scalar = |kind| {
            let text = self.source_text(raw.defined).to_owned();
            NodeValue::Scalar(Scalar { kind, text })
        };
        let value = match raw.value {
            RawNode::Null => scalar(ScalarKind::Null),
            RawNode::Bool => scalar(ScalarKind::Bool),
            RawNode::Number => scalar(ScalarKind::Number),
            RawNode::Text(text) => NodeValue::Scalar(Scalar { kind: ScalarKind::Text, text }),
            RawNode::List(items) => {
                NodeValue::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            RawNode::Map(entries) => NodeValue::Map(
                entries.into_iter().map(|(key, value)| self.entry(key, value)).collect(),
            ),
        };
        Node { value, origin }
    }

    fn entry(&self, key: Spanned<String>, value: Spanned<RawNode>) -> NodeEntry {
        let origin = self.origin(key.referenced);
        let mut node = self.node(value);
        // A reader looks for the key's line, even if the value begins on the next line.
        node.origin = origin.clone();
        NodeEntry { key: key.value, origin, node }
    }

    fn source_text(&self, at: Location) -> &str {
        let span = at.span();
        let range = || {
            let start = usize::try_from(span.byte_offset()?).ok()?;
            let end = start + usize::try_from(span.byte_len()?).ok()?;
            self.text.get(start..end)
        };
        range().unwrap_or_default().trim()
    }

    fn problem(&self, error: &Error) -> Problem {
        let line = error.location().map_or(1, |at| at.line());
        let origin = ValueOrigin::File { name: Arc::clone(self.file), line };
        let what = match error.without_snippet() {
            Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_deref().unwrap_or("a key");
                format!("says `{key}` a second time; keep one of them")
            }
            Error::MultipleDocuments { .. } => {
                "begins a second document (`---`); keep everything in one".to_owned()
            }
            Error::Budget { .. } | Error::AliasError { .. } => {
                "is larger than a configuration can be (nesting, or aliases of aliases); simplify it"
                    .to_owned()
            }
            _ if self.is_indented_by_tab(line) => {
                "is indented with a tab; YAML requires spaces".to_owned()
            }
            other => {
                let message = UserMessageFormatter.format_message(other);
                format!("is not valid YAML: {message}")
            }
        };
        Problem::at_origin(origin, what)
    }

    fn is_indented_by_tab(&self, line: u64) -> bool {
        let index = usize::try_from(line).unwrap_or(0).saturating_sub(1);
        let text = self.text.lines().nth(index).unwrap_or_default();
        let indent = text.len() - text.trim_start().len();
        text[..indent].contains('\t')
    }
}

/// A value as reported by the parser. The text of booleans and numbers is taken from the source, so
/// that it stays as written.
enum RawNode {
    Null,
    Bool,
    Number,
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawNodeVisitor)
    }
}

struct RawNodeVisitor;

impl<'de> de::Visitor<'de> for RawNodeVisitor {
    type Value = RawNode;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawNode, E> {
        Ok(RawNode::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<RawNode, E> {
        Ok(RawNode::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<RawNode, E> {
        Ok(RawNode::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<RawNode, E> {
        Ok(RawNode::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<RawNode, E> {
        Ok(RawNode::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<RawNode, E> {
        Ok(RawNode::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<RawNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawNode::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<RawNode, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(RawNode::Map(map))
    }
}
