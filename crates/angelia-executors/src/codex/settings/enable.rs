//! The text with what is wanted in it. Pure.
//!
//! What the user has said about the same thing stays and wins. A part that cannot be written is left
//! out and named; the others are written.

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

/// What shall be in the program's configuration.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// MCP servers, in our words.
    pub servers: Vec<(Box<str>, RawJson)>,
    /// Our own tools.
    pub own: Option<OwnTools>,
    /// Writing in the working directory without asking, as what holds where nothing else is said.
    pub workspace: bool,
    /// Ids of plugins to switch on.
    pub plugins: Vec<String>,
}

/// How our own MCP server is started.
#[derive(Clone, Debug)]
pub struct OwnTools {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Variables that it needs to find its way home.
    pub env: Vec<(String, String)>,
}

/// What becomes of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub text: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As it is called in the file.
    pub name: String,
    pub state: State,
    /// Keys that the program does not know, or not so.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Written,
    /// The user's own word about it stays.
    Kept(String),
    Failed(String),
}

/// A table of ours.
#[derive(Clone, Debug)]
struct Piece {
    name: String,
    lines: Vec<String>,
}

/// The text with the wish in it, instead of what was ours in it before. `None` for the text: there is no
/// file.
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
    let stands = |text: &str| disabled(text).is_ok_and(|back| back == base);
    let mut text = build(&pieces);
    if !stands(&text) {
        // One of them does not go with what is there, as a table in what was written as a line.
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
    let why = "the file does not allow a table of this name; write what is there as tables";
    for part in parts.iter_mut().filter(|part| part.name == name) {
        part.state = State::Failed(why.to_owned());
    }
}

/// Whether nothing is said yet about what may be written where.
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
                Err("this name is that of our own tools; give it another in `mcp_servers`"
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
        let program = program.ok_or("the path of this program is not text")?;
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

/// Where a setting that is in no table can be added: behind the last of them, else at the beginning, behind
/// what must be first there. `None`: on a line of its own at the end.
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
