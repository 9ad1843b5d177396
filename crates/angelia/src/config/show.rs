//! The output of `config show` and `config check`.

use std::{fmt::Write as _, sync::Arc};

use serde::Serialize;

use super::{
    hermes::BRIDGE,
    load::Config,
    node::{Entry, Node, Origin, Scalar, ScalarKind, Value},
    yaml,
};

impl Config {
    /// Returns the effective configuration as a file with the same meaning.
    pub(crate) fn show(&self) -> String {
        let mut text = String::new();
        nested(&self.shown(), 0, &mut text);
        text
    }

    /// Returns each value on a line of its own, with its origin.
    pub(crate) fn show_origin(&self) -> String {
        let mut text = String::new();
        self.flat(&self.shown(), &mut Vec::new(), &mut text);
        text
    }

    /// Returns the report on a valid configuration.
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

    fn shown(&self) -> Node {
        let mut shown = tree_of(&self.effective);
        if self.effective.claude_code_bridge.is_none() {
            shown.take(BRIDGE);
        }
        shown
    }

    fn flat<'a>(&self, node: &'a Node, path: &mut Vec<&'a str>, text: &mut String) {
        let entries = node.entries();
        if entries.is_empty() {
            let said = self.tree.at(path.iter().copied());
            let origin = said.map_or(&Origin::Default, |node| &node.origin);
            let _infallible = writeln!(text, "{}: {}  # {origin}", path.join("."), flow(node));
        }
        for Entry { key, node, .. } in entries {
            path.push(key);
            self.flat(node, path, text);
            path.pop();
        }
    }
}

/// Converts a typed block to a tree, its keys in the order of their declaration.
pub(super) fn tree_of(block: &impl Serialize) -> Node {
    let text = serde_saphyr::to_string(block).unwrap_or_default();
    let name = Arc::from("settings");
    yaml::parse(&text, &name).unwrap_or_else(|_| Node::empty_map())
}

fn nested(node: &Node, depth: usize, text: &mut String) {
    for Entry { key, node, .. } in node.entries() {
        let indent = "  ".repeat(depth);
        let key = plain(key);
        let _infallible = if node.entries().is_empty() {
            writeln!(text, "{indent}{key}: {}", flow(node))
        } else {
            writeln!(text, "{indent}{key}:")
        };
        nested(node, depth + 1, text);
    }
}

/// Formats a value on one line.
pub(super) fn flow(node: &Node) -> String {
    match &node.value {
        Value::Scalar(Scalar { kind, text }) => match kind {
            ScalarKind::Null => "null".to_owned(),
            ScalarKind::Bool | ScalarKind::Number => text.clone(),
            ScalarKind::Text | ScalarKind::Loose => plain(text),
        },
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let pair = |entry: &Entry| format!("{}: {}", plain(&entry.key), flow(&entry.node));
            let entries: Vec<String> = entries.iter().map(pair).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Formats text as YAML, quoted where it could be read as another type.
fn plain(text: &str) -> String {
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
