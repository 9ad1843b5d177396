//! Adds Angelia's settings to the text of a `config.toml`. Pure.
//!
//! The user's own settings for the same thing stay and win. A part that cannot be written is left
//! out and reported; the others are written.

use std::{ops::Range, path::PathBuf};

use angelia_core::model::RawJson;
use serde_json::{Value, json};
use toml_edit::{Document, Item};

use super::{
    Broken,
    block::{BEGIN, END, MARK, NEW_FILE, OPEN_LINE, PERMISSIONS, disabled, line_end, lines, start},
    layout::{self, Layout},
    server, value,
};
use crate::codex::mcp::{OWN_SERVER, OWN_TIMEOUT};

/// The settings that Codex's configuration shall contain.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// MCP servers, in the form of a profile.
    pub servers: Vec<(Box<str>, RawJson)>,
    /// Angelia's own MCP server.
    pub own: Option<OwnTools>,
    /// Whether to allow writing in the working directory without asking, as the default permission.
    pub workspace: bool,
    /// Ids of plugins to enable.
    pub plugins: Vec<String>,
}

/// How Angelia's own MCP server is started.
#[derive(Clone, Debug)]
pub struct OwnTools {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Environment variables that the server needs to find Angelia's home.
    pub env: Vec<(String, String)>,
}

/// The edited text, and the result for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub text: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of the table or key in the file.
    pub name: String,
    pub state: State,
    /// Keys that Codex does not know, or not with this type of value.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Written,
    /// The user has a setting of this name, which stays; holds the reason.
    Kept(String),
    Failed(String),
}

/// A table that Angelia writes.
#[derive(Clone, Debug)]
struct Piece {
    name: String,
    lines: Vec<String>,
}

/// Returns `text` with the desired settings, which replace those that Angelia wrote before. `text`
/// is `None` if there is no file.
pub fn enabled(text: Option<&str>, wish: &Wish) -> Result<Plan, Broken> {
    let base = match text {
        Some(text) => disabled(text)?,
        None => None,
    };
    let document = layout::parse(base.as_deref().unwrap_or_default())?;
    let mut parts = Vec::new();
    let permissions = wish.workspace && permissions(&document, &mut parts);
    let mut pieces = pieces(&document, wish, &mut parts);
    let build = |pieces: &[Piece]| built(base.as_deref(), &document, permissions, pieces);
    // An edit is valid only if removing it restores the original text.
    let stands = |text: &str| disabled(text).is_ok_and(|back| back == base);
    let mut text = build(&pieces);
    if !stands(&text) {
        // At least one table conflicts with the file, for example with an inline table of the same
        // name. Find the conflicting ones, and leave them out.
        pieces.retain(|piece| {
            let stands = stands(&build(std::slice::from_ref(piece)));
            if !stands {
                fail(&mut parts, &piece.name);
            }
            stands
        });
        text = build(&pieces);
        if !stands(&text) {
            for piece in &pieces {
                fail(&mut parts, &piece.name);
            }
            text = base.clone().unwrap_or_default();
        }
    }
    Ok(Plan { text, parts })
}

fn fail(parts: &mut [Part], name: &str) {
    let why = "the file does not allow a table of this name; rewrite its inline values as tables";
    for part in parts.iter_mut().filter(|part| part.name == name) {
        part.state = State::Failed(why.to_owned());
    }
}

/// Returns whether the file sets no default permissions yet, and records the result.
fn permissions(document: &Document<&str>, parts: &mut Vec<Part>) -> bool {
    let said = ["default_permissions", "sandbox_mode"];
    let said = said.iter().find(|key| document.as_table().contains_key(key));
    let state = match said {
        None => State::Written,
        Some(key) => State::Kept(format!("your own `{key}` stays")),
    };
    parts.push(Part { name: "default_permissions".to_owned(), state, left_out: Vec::new() });
    said.is_none()
}

fn pieces(document: &Document<&str>, wish: &Wish, parts: &mut Vec<Part>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut add = |table: &str, name: &str, body: Result<server::Translated, String>| {
        let full = format!("{table}.{}", value::key(name));
        let own = document.get(table).and_then(Item::as_table_like);
        let (state, left_out) = match body {
            _ if own.is_some_and(|own| own.contains_key(name)) => {
                (State::Kept("your own table of this name stays".to_owned()), Vec::new())
            }
            Err(why) => (State::Failed(why), Vec::new()),
            Ok(body) => {
                pieces.push(Piece { name: full.clone(), lines: body.lines });
                (State::Written, body.left_out)
            }
        };
        parts.push(Part { name: full, state, left_out });
    };
    if let Some(own) = &wish.own {
        add("mcp_servers", OWN_SERVER, own.translated());
    }
    for (name, definition) in &wish.servers {
        let body = match &**name {
            OWN_SERVER if wish.own.is_some() => {
                Err("this is the name of Angelia's own server; choose another in `mcp_servers`"
                    .to_owned())
            }
            name => server::translated(name, definition),
        };
        add("mcp_servers", name, body);
    }
    for id in &wish.plugins {
        let lines = vec!["enabled = true".to_owned()];
        let left_out = Vec::new();
        add("plugins", id, Ok(server::Translated { lines, left_out }));
    }
    pieces
}

impl OwnTools {
    fn translated(&self) -> Result<server::Translated, String> {
        let program = self.program.to_str();
        let program = program.ok_or("the path of this program is not UTF-8")?;
        let env: serde_json::Map<String, Value> =
            (self.env.iter()).map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut server = json!({"command": program, "args": self.arguments,
            "tool_timeout_sec": OWN_TIMEOUT});
        if !env.is_empty() {
            server["env"] = env.into();
        }
        let raw = serde_json::value::to_raw_value(&server).map_err(|error| error.to_string())?;
        server::translated(OWN_SERVER, &raw.into())
    }
}

fn built(
    base: Option<&str>,
    document: &Document<&str>,
    permissions: bool,
    pieces: &[Piece],
) -> String {
    if !permissions && pieces.is_empty() {
        return base.unwrap_or_default().to_owned();
    }
    let text = base.unwrap_or_default();
    let newline = match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    };
    let open_line = text.len() > start(text) && !text.ends_with('\n');
    let mut block = Vec::new();
    let top = permissions.then(|| top(text, &Layout::of(document)));
    let flag = match base {
        None => NEW_FILE,
        Some(_) if open_line => OPEN_LINE,
        Some(_) => "",
    };
    block.push(format!("{BEGIN}{flag}"));
    if top == Some(None) {
        block.push(PERMISSIONS.to_owned());
    }
    for piece in pieces {
        block.push(format!("[{}] {MARK}", piece.name));
        block.extend(piece.lines.iter().cloned());
    }
    let names: Vec<&str> = pieces.iter().map(|piece| piece.name.as_str()).collect();
    block.push(format!("{END}{}", names.join(" ")).trim_end().to_owned());

    let mut out = text.to_owned();
    if open_line {
        out.push_str(newline);
    }
    for line in block {
        out.push_str(&line);
        out.push_str(newline);
    }
    if let Some(Some(top)) = top {
        out.insert_str(top, &format!("{PERMISSIONS}{newline}"));
    }
    out
}

/// Returns the position for a setting outside of any table: after the last such setting, or else at
/// the beginning, after directives that must come first. `None` if that is not the start of a line;
/// the setting then goes to the end of the text.
fn top(text: &str, layout: &Layout) -> Option<usize> {
    let tables = layout.first_header().unwrap_or(text.len());
    let last = layout.entries.iter().rev().find(|entry| entry.start < tables);
    let start = start(text);
    let at = if let Some(entry) = last {
        line_end(text, entry.end)
    } else {
        let directive =
            |(range, line): (Range<usize>, &str)| line.starts_with("#:").then_some(range.end);
        lines(text).map_while(directive).last().unwrap_or(start)
    };
    let before = text.get(..at).unwrap_or_default();
    let begins_a_line = at == start || before.ends_with('\n');
    begins_a_line.then_some(at)
}
