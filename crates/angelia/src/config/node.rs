//! A configuration before it has types: a tree in which every value has its origin. Layers are
//! merged here, so that an error and `config show --origin` can name the line.

use std::{fmt, sync::Arc};

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    Default,
    File { name: Arc<str>, line: u64 },
    Variable(Arc<str>),
    Flag(Arc<str>),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: NodeValue,
    pub(crate) origin: ValueOrigin,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeValue {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<NodeEntry>),
}

/// A single value with its text as written: `1.10` stays `1.10` where text is expected.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) kind: ScalarKind,
    pub(crate) text: String,
}

/// Omits the text, which may be a secret; this type cannot tell.
impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Null,
    Bool,
    Number,
    Text,
    /// From a variable or a flag, which have no types. Parsed as whatever the key expects.
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    pub(crate) key: String,
    /// The origin of the key itself.
    pub(crate) origin: ValueOrigin,
    pub(crate) node: Node,
}

/// The map whose entries are replaced rather than merged. A server's definition is a unit, and
/// halves of two definitions merged together would start neither server.
const REPLACED_WHOLE: &str = "mcp_servers";

impl Node {
    pub(crate) fn empty_map() -> Self {
        Self { value: NodeValue::Map(Vec::new()), origin: ValueOrigin::Default }
    }

    pub(crate) fn untyped(text: &str, origin: ValueOrigin) -> Self {
        let value = NodeValue::Scalar(Scalar { kind: ScalarKind::Untyped, text: text.to_owned() });
        Self { value, origin }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null)
    }

    /// Returns the entries of a map. Empty for anything else.
    pub(crate) fn entries(&self) -> &[NodeEntry] {
        match &self.value {
            NodeValue::Map(entries) => entries,
            NodeValue::Scalar(_) | NodeValue::List(_) => &[],
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&NodeEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// Returns a map with only the keys that `keep` accepts. Returns anything else unchanged.
    pub(crate) fn with_keys(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut kept = self.clone();
        if let NodeValue::Map(entries) = &mut kept.value {
            entries.retain(|entry| keep(&entry.key));
        }
        kept
    }

    /// Returns the node at a path of keys, if it is set.
    pub(crate) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        path.into_iter().try_fold(self, |node, key| match &node.value {
            NodeValue::List(items) => items.get(key.parse::<usize>().ok()?),
            NodeValue::Map(_) | NodeValue::Scalar(_) => node.get(key),
        })
    }

    /// Sets the value at a path of keys, overriding an existing one.
    pub(crate) fn set(&mut self, path: &[&str], node: Self) {
        let origin = node.origin.clone();
        let layer = path.iter().rev().fold(node, |inner, key| Self {
            value: NodeValue::Map(vec![NodeEntry {
                key: (*key).to_owned(),
                origin: origin.clone(),
                node: inner,
            }]),
            origin: origin.clone(),
        });
        self.overlay(layer);
    }

    /// Collects the values below a path that come from variables, with their paths.
    pub(crate) fn collect_variables(&self, path: &str, found: &mut Vec<(String, String)>) {
        match (&self.value, &self.origin) {
            (NodeValue::Scalar(scalar), ValueOrigin::Variable(_)) => {
                found.push((path.to_owned(), scalar.text.clone()));
            }
            _ => {
                for entry in self.entries() {
                    entry.node.collect_variables(&format!("{path}.{}", entry.key), found);
                }
            }
        }
    }

    /// Merges another tree on top of this one: maps are merged key by key, everything else is
    /// replaced. A null on top of a map changes nothing.
    pub(crate) fn overlay(&mut self, top: Self) {
        self.merge(top, false);
    }

    fn merge(&mut self, top: Self, whole_entries: bool) {
        if top.is_null() && matches!(self.value, NodeValue::Map(_)) {
            return;
        }
        let (NodeValue::Map(below), NodeValue::Map(_)) = (&mut self.value, &top.value) else {
            *self = top;
            return;
        };
        let NodeValue::Map(above) = top.value else { return };
        for entry in above {
            match below.iter_mut().find(|old| old.key == entry.key) {
                Some(old) if whole_entries => *old = entry,
                Some(old) => {
                    old.origin = entry.origin;
                    old.node.merge(entry.node, entry.key == REPLACED_WHOLE);
                }
                None => below.push(entry),
            }
        }
    }
}
