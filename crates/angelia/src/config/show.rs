//! The output of `config show` and `config check`.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use serde::Serialize;

use super::{
    hermes::BRIDGE_KEY,
    load::Config,
    node::{Node, NodeEntry, NodeValue, Scalar, ScalarKind, ValueOrigin},
    yaml,
};

impl Config {
    /// Returns the effective configuration as a file with the same meaning.
    pub(crate) fn show(&self) -> String {
        let mut text = String::new();
        write_nested(&self.effective_tree(), 0, &mut text);
        text
    }

    /// Returns each value on its own line, with its origin.
    pub(crate) fn show_origin(&self) -> String {
        let mut text = String::new();
        self.write_flat(&self.effective_tree(), &mut Vec::new(), &mut text);
        text
    }

    /// Returns the report for a valid configuration.
    pub(crate) fn check(&self) -> String {
        let names: Vec<&str> = self.profile_names().collect();
        let mut text = format!(
            "the configuration is valid; profiles: {} (`{}` where none is named)\n",
            names.join(", "),
            self.default_profile(),
        );
        for warning in self.warnings() {
            let _infallible = writeln!(text, "warning: {warning}");
        }
        text
    }

    fn effective_tree(&self) -> Node {
        let has_bridge = self.effective.claude_code_bridge.is_some();
        to_tree(&self.effective).with_keys(|key| has_bridge || key != BRIDGE_KEY)
    }

    /// Returns the origin of each value by its path.
    pub(crate) fn origins(&self) -> BTreeMap<String, String> {
        let mut origins = BTreeMap::new();
        self.collect_origins(&self.effective_tree(), &mut Vec::new(), &mut origins);
        origins
    }

    fn collect_origins<'a>(
        &self,
        node: &'a Node,
        path: &mut Vec<&'a str>,
        origins: &mut BTreeMap<String, String>,
    ) {
        if node.entries().is_empty() {
            origins.insert(path.join("."), self.origin_at(path).to_string());
        }
        for NodeEntry { key, node, .. } in node.entries() {
            path.push(key);
            self.collect_origins(node, path, origins);
            path.pop();
        }
    }

    fn origin_at(&self, path: &[&str]) -> &ValueOrigin {
        let set = self.tree.at(path.iter().copied());
        set.map_or(&ValueOrigin::Default, |node| &node.origin)
    }

    fn write_flat<'a>(&self, node: &'a Node, path: &mut Vec<&'a str>, text: &mut String) {
        let entries = node.entries();
        if entries.is_empty() {
            let origin = self.origin_at(path);
            let _infallible =
                writeln!(text, "{}: {}  # {origin}", path.join("."), format_flow(node));
        }
        for NodeEntry { key, node, .. } in entries {
            path.push(key);
            self.write_flat(node, path, text);
            path.pop();
        }
    }
}

/// Converts a typed block to a tree, with the keys in order of declaration.
pub(super) fn to_tree(block: &impl Serialize) -> Node {
    let text = serde_saphyr::to_string(block).unwrap_or_default();
    let name = Arc::from("settings");
    yaml::parse(&text, &name).unwrap_or_else(|_| Node::empty_map())
}

fn write_nested(node: &Node, depth: usize, text: &mut String) {
    for NodeEntry { key, node, .. } in node.entries() {
        let indent = "  ".repeat(depth);
        let key = format_text(key);
        let _infallible = if node.entries().is_empty() {
            writeln!(text, "{indent}{key}: {}", format_flow(node))
        } else {
            writeln!(text, "{indent}{key}:")
        };
        write_nested(node, depth + 1, text);
    }
}

/// Formats a value on one line.
pub(super) fn format_flow(node: &Node) -> String {
    match &node.value {
        NodeValue::Scalar(Scalar { kind, text }) => match kind {
            ScalarKind::Null => "null".to_owned(),
            ScalarKind::Bool | ScalarKind::Number => text.clone(),
            ScalarKind::Text | ScalarKind::Untyped => format_text(text),
        },
        NodeValue::List(items) => {
            let items: Vec<String> = items.iter().map(format_flow).collect();
            format!("[{}]", items.join(", "))
        }
        NodeValue::Map(entries) => {
            let pair = |entry: &NodeEntry| {
                format!("{}: {}", format_text(&entry.key), format_flow(&entry.node))
            };
            let entries: Vec<String> = entries.iter().map(pair).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Formats text as YAML, quoted where it could be read as another type.
fn format_text(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./~".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_/~".contains(c))
        && text.chars().all(|c| harmless(c) || c == ':')
        && !text.ends_with(':');
    let is_other = ["null", "true", "false", "~"].contains(&text.to_ascii_lowercase().as_str())
        || text.parse::<f64>().is_ok()
        || text.starts_with("0x")
        || text.starts_with("0o");
    if is_word && !is_other {
        return text.to_owned();
    }
    // A JSON string is also a YAML string.
    serde_json::Value::from(text).to_string()
}
