//! Adds Angelia's settings to the text of a `config.toml`. Pure.
//!
//! The user's own settings for the same thing stay and take precedence. A part that cannot be
//! written is left out and reported; the others are written.

use std::{ops::Range, path::PathBuf};

use angelia_core::model::RawJson;
use serde_json::{Value, json};
use toml_edit::{Document, Item};

use super::{
    ConfigSyntaxError,
    block::{
        ENABLE, EditMarks, NEW_FILE_FLAG, OPEN_LINE_FLAG, line_end, lines_with_ranges, text_start,
        without_angelia_config, without_edit,
    },
    layout::{self, Layout},
    mcp_server, toml_value,
};
use crate::codex::mcp::{OWN_SERVER, OWN_TIMEOUT_SECONDS};

/// The settings that Codex's configuration should contain.
#[derive(Clone, Debug, Default)]
pub struct DesiredConfig {
    /// MCP servers, in a profile's format.
    pub servers: Vec<(Box<str>, RawJson)>,
    /// Angelia's own MCP server.
    pub own_server: Option<OwnServerLaunch>,
    /// Whether to allow writing in the working directory without asking, by default permission.
    pub workspace_writes: bool,
    /// The ids of plugins to enable.
    pub plugins: Vec<String>,
}

/// The command that starts Angelia's own MCP server.
#[derive(Clone, Debug)]
pub struct OwnServerLaunch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The environment variables that the server needs to find Angelia's home.
    pub env: Vec<(String, String)>,
}

/// The edited text, and the result for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEdit {
    pub text: String,
    pub parts: Vec<ConfigPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPart {
    /// The name of the table or key in the file.
    pub name: String,
    pub state: PartState,
    /// Keys that Codex does not know, or not with this type of value.
    pub ignored_keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartState {
    Written,
    /// The user has a setting of this name, which stays. Holds the reason.
    Kept(String),
    Failed(String),
}

/// A table that Angelia writes.
#[derive(Clone, Debug)]
pub(super) struct ConfigTable {
    pub(super) name: String,
    pub(super) lines: Vec<String>,
}

/// Returns `text` with the desired settings, which replace those that Angelia wrote before. `text`
/// is `None` if there is no file.
pub fn with_angelia_config(
    text: Option<&str>,
    wish: &DesiredConfig,
) -> Result<ConfigEdit, ConfigSyntaxError> {
    let base = match text {
        Some(text) => without_angelia_config(text)?,
        None => None,
    };
    let document = layout::parse(base.as_deref().unwrap_or_default())?;
    let mut parts = Vec::new();
    let permissions = wish.workspace_writes && add_permissions_part(&document, &mut parts);
    let pieces = build_tables(&document, wish, &mut parts);
    Ok(TableEdit { base: base.as_deref(), document: &document, marks: &ENABLE, permissions }
        .apply(pieces, parts))
}

/// An edit that adds marked tables to a text without them.
pub(super) struct TableEdit<'a> {
    /// `None` if there is no file.
    pub(super) base: Option<&'a str>,
    pub(super) document: &'a Document<&'a str>,
    pub(super) marks: &'a EditMarks,
    /// Whether to write the one line that is in no table.
    pub(super) permissions: bool,
}

impl TableEdit<'_> {
    /// Adds the tables. Leaves out and reports those that the file does not allow.
    pub(super) fn apply(
        &self,
        mut pieces: Vec<ConfigTable>,
        mut parts: Vec<ConfigPart>,
    ) -> ConfigEdit {
        // An edit is valid only if removing it restores the original text.
        let stands = |text: &str| {
            without_edit(text, self.marks).is_ok_and(|back| back.as_deref() == self.base)
        };
        let mut text = self.assemble_text(&pieces);
        if !stands(&text) {
            // At least one table conflicts with the file, for example with an inline table of the
            // same name. Find the conflicting tables and leave them out.
            pieces.retain(|piece| {
                let stands = stands(&self.assemble_text(std::slice::from_ref(piece)));
                if !stands {
                    mark_failed(&mut parts, &piece.name);
                }
                stands
            });
            text = self.assemble_text(&pieces);
            if !stands(&text) {
                for piece in &pieces {
                    mark_failed(&mut parts, &piece.name);
                }
                self.base.unwrap_or_default().clone_into(&mut text);
            }
        }
        ConfigEdit { text, parts }
    }

    fn assemble_text(&self, pieces: &[ConfigTable]) -> String {
        let top_line = self.marks.top_line.filter(|_| self.permissions);
        if top_line.is_none() && pieces.is_empty() {
            return self.base.unwrap_or_default().to_owned();
        }
        let text = self.base.unwrap_or_default();
        let newline = match text.find('\n') {
            Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
            _ => "\n",
        };
        let open_line = text.len() > text_start(text) && !text.ends_with('\n');
        let mut block = Vec::new();
        let top = top_line.map(|line| (line, top_level_position(text, &Layout::of(self.document))));
        let flag = match self.base {
            None => NEW_FILE_FLAG,
            Some(_) if open_line => OPEN_LINE_FLAG,
            Some(_) => "",
        };
        block.push(format!("{}{flag}", self.marks.begin));
        if let Some((line, None)) = top {
            block.push(line.to_owned());
        }
        for piece in pieces {
            block.push(format!("[{}] {}", piece.name, self.marks.line));
            block.extend(piece.lines.iter().cloned());
        }
        let names: Vec<&str> = pieces.iter().map(|piece| piece.name.as_str()).collect();
        block.push(format!("{}{}", self.marks.end, names.join(" ")).trim_end().to_owned());

        let mut out = text.to_owned();
        if open_line {
            out.push_str(newline);
        }
        for line in block {
            out.push_str(&line);
            out.push_str(newline);
        }
        if let Some((line, Some(at))) = top {
            out.insert_str(at, &format!("{line}{newline}"));
        }
        out
    }
}

fn mark_failed(parts: &mut [ConfigPart], name: &str) {
    let why = "the file does not allow a table of this name; rewrite its inline values as tables";
    for part in parts.iter_mut().filter(|part| part.name == name) {
        part.state = PartState::Failed(why.to_owned());
    }
}

/// Reports whether the file sets no default permissions yet, and records the result.
fn add_permissions_part(document: &Document<&str>, parts: &mut Vec<ConfigPart>) -> bool {
    let keys = ["default_permissions", "sandbox_mode"];
    let own_key = keys.iter().find(|key| document.as_table().contains_key(key));
    let state = match own_key {
        None => PartState::Written,
        Some(key) => PartState::Kept(format!("your own `{key}` stays")),
    };
    parts.push(ConfigPart {
        name: "default_permissions".to_owned(),
        state,
        ignored_keys: Vec::new(),
    });
    own_key.is_none()
}

fn build_tables(
    document: &Document<&str>,
    wish: &DesiredConfig,
    parts: &mut Vec<ConfigPart>,
) -> Vec<ConfigTable> {
    let mut pieces = Vec::new();
    let mut add = |table: &str, name: &str, body: Result<mcp_server::ServerTable, String>| {
        let full = format!("{table}.{}", toml_value::to_key(name));
        let own = document.get(table).and_then(Item::as_table_like);
        let (state, left_out) = match body {
            _ if own.is_some_and(|own| own.contains_key(name)) => {
                (PartState::Kept("your own table of this name stays".to_owned()), Vec::new())
            }
            Err(why) => (PartState::Failed(why), Vec::new()),
            Ok(body) => {
                pieces.push(ConfigTable { name: full.clone(), lines: body.lines });
                (PartState::Written, body.ignored_keys)
            }
        };
        parts.push(ConfigPart { name: full, state, ignored_keys: left_out });
    };
    if let Some(own) = &wish.own_server {
        add("mcp_servers", OWN_SERVER, own.to_server_table());
    }
    for (name, definition) in &wish.servers {
        let body = match &**name {
            OWN_SERVER if wish.own_server.is_some() => {
                Err("this is the name of Angelia's own server; choose another in `mcp_servers`"
                    .to_owned())
            }
            name => mcp_server::to_server_table(name, definition),
        };
        add("mcp_servers", name, body);
    }
    for id in &wish.plugins {
        let lines = vec!["enabled = true".to_owned()];
        let left_out = Vec::new();
        add("plugins", id, Ok(mcp_server::ServerTable { lines, ignored_keys: left_out }));
    }
    pieces
}

impl OwnServerLaunch {
    fn to_server_table(&self) -> Result<mcp_server::ServerTable, String> {
        let program = self.program.to_str();
        let program = program.ok_or("the path of this program is not UTF-8")?;
        let env: serde_json::Map<String, Value> =
            (self.env.iter()).map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut server = json!({"command": program, "args": self.arguments,
            "tool_timeout_sec": OWN_TIMEOUT_SECONDS});
        if !env.is_empty() {
            server["env"] = env.into();
        }
        let raw = serde_json::value::to_raw_value(&server).map_err(|error| error.to_string())?;
        mcp_server::to_server_table(OWN_SERVER, &raw.into())
    }
}

/// Returns the position for a setting outside of any table: after the last such setting, or else at
/// the beginning, after directives that must come first. Returns `None` if that is not the start of
/// a line; the setting then goes to the end of the text.
fn top_level_position(text: &str, layout: &Layout) -> Option<usize> {
    let tables = layout.first_header().unwrap_or(text.len());
    let last = layout.entries.iter().rev().find(|entry| entry.start < tables);
    let start = text_start(text);
    let at = if let Some(entry) = last {
        line_end(text, entry.end)
    } else {
        let directive =
            |(range, line): (Range<usize>, &str)| line.starts_with("#:").then_some(range.end);
        lines_with_ranges(text).map_while(directive).last().unwrap_or(start)
    };
    let before = text.get(..at).unwrap_or_default();
    let begins_a_line = at == start || before.ends_with('\n');
    begins_a_line.then_some(at)
}
