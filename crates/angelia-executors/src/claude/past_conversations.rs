//! Conversations that a person had directly in the program, read from its transcripts.

use std::{
    fs, io,
    io::BufRead as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{
    Content, EventKind, NativeSessionId, PastConversation, PastTurn, TextChannel, ToolCall, ToolId,
    ToolResult, first_words,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::tool::{ToolInput, tool_class};

/// How many rows to read in search of the person's first words.
const MAX_HEAD_ROWS: usize = 200;

/// The fields that we read from a transcript's row.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "type", default)]
    kind: &'a str,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    /// The row belongs to a sub-agent.
    #[serde(default, rename = "isSidechain")]
    is_sidechain: bool,
    /// The program wrote the row, not the person.
    #[serde(default, rename = "isMeta")]
    is_meta: bool,
    #[serde(default, rename = "isCompactSummary")]
    is_summary: bool,
    #[serde(default)]
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

/// A part of a message. Other kinds of parts are skipped.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    Image {
        source: ImageSource,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct ImageSource {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    data: String,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let row: Self = serde_json::from_str(line).ok()?;
        let is_said = matches!(row.kind, "user" | "assistant") && !row.is_sidechain;
        (is_said && !row.is_meta && !row.is_summary).then_some(row)
    }

    fn take_parts(&mut self) -> Vec<Part> {
        self.message.take().map(|message| parse_parts(message.content)).unwrap_or_default()
    }
}

/// Parses content, which is either a text or a list of parts.
fn parse_parts(content: Value) -> Vec<Part> {
    match content {
        Value::String(text) => vec![Part::Text { text }],
        Value::Array(parts) => {
            parts.into_iter().filter_map(|part| serde_json::from_value(part).ok()).collect()
        }
        _ => Vec::new(),
    }
}

/// Lists the conversations in the project folders, most recently used first.
pub(super) fn list(projects: &Path) -> io::Result<Vec<PastConversation>> {
    let mut found = Vec::new();
    let folders = match fs::read_dir(projects) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        folders => folders?,
    };
    for folder in folders.filter_map(Result::ok) {
        let Ok(files) = fs::read_dir(folder.path()) else { continue };
        for file in files.filter_map(Result::ok) {
            found.extend(describe(&file.path()));
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.used_at));
    Ok(found)
}

/// Describes the conversation in a file. Returns `None` if the file is not a conversation or
/// contains no text from a person.
fn describe(path: &Path) -> Option<PastConversation> {
    let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let used_at = Timestamp::try_from(path.metadata().ok()?.modified().ok()?).ok()?;
    let lines = io::BufReader::new(fs::File::open(path).ok()?).lines().map_while(Result::ok);
    for line in lines.take(MAX_HEAD_ROWS) {
        let Some(mut row) = Row::parse(&line).filter(|row| row.kind == "user") else { continue };
        if let (Some(words), Some(cwd)) = (first_words(&contents(row.take_parts())), row.cwd) {
            let first_words = Some(words.into());
            return Some(PastConversation {
                id: NativeSessionId::new(id),
                cwd,
                used_at,
                first_words,
            });
        }
    }
    None
}

/// Reads the turns of a transcript.
pub(super) fn read(rows: &str) -> Vec<PastTurn> {
    let mut turns: Vec<PastTurn> = Vec::new();
    for mut row in rows.lines().filter_map(Row::parse) {
        let at = row.timestamp.unwrap_or_default();
        let parts = row.take_parts();
        let is_result = parts.iter().any(|part| matches!(part, Part::ToolResult { .. }));
        if row.kind == "user" && !is_result {
            let input = contents(parts);
            if !input.is_empty() {
                turns.push(PastTurn::new(input, at));
            }
            continue;
        }
        let Some(turn) = turns.last_mut() else { continue };
        turn.ended_at = turn.ended_at.max(at);
        for part in parts {
            append(turn, part);
        }
    }
    turns
}

fn append(turn: &mut PastTurn, part: Part) {
    match part {
        Part::Text { text } => turn.push_text(TextChannel::Answer, &text),
        Part::Thinking { thinking } => turn.push_text(TextChannel::Reasoning, &thinking),
        Part::ToolUse { id, name, input } => {
            let Ok(input) = serde_json::value::to_raw_value(&input) else { return };
            let title = ToolInput::parse(&input).title(&name);
            turn.events.push(EventKind::ToolCall(ToolCall {
                id: ToolId::new(id),
                class: tool_class(&name),
                name: name.into(),
                title,
                input: input.into(),
                parent: None,
            }));
        }
        Part::ToolResult { tool_use_id, is_error, content } => {
            let output = result_text(content);
            turn.events.push(EventKind::ToolResult(ToolResult::new(
                ToolId::new(tool_use_id),
                !is_error,
                output,
            )));
        }
        Part::Image { .. } | Part::Other => {}
    }
}

fn result_text(content: Value) -> Arc<str> {
    let texts = parse_parts(content).into_iter().filter_map(|part| match part {
        Part::Text { text } => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n").into()
}

/// Returns the texts and images among the parts.
fn contents(parts: Vec<Part>) -> Vec<Content> {
    let contents = parts.into_iter().filter_map(|part| match part {
        Part::Text { text } => Some(Content::text(text)),
        Part::Image { source } => Some(Content::Image {
            media_type: source.media_type.into(),
            data: BASE64.decode(source.data).ok()?.into(),
        }),
        _ => None,
    });
    contents.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"{"type":"queue-operation","operation":"enqueue","content":"x"}
{"type":"user","isMeta":true,"timestamp":"2026-11-16T10:00:00Z","message":{"role":"user","content":"not a person"}}
{"type":"user","cwd":"/shop","timestamp":"2026-11-16T10:00:01Z","message":{"role":"user","content":"list \"all\" files"}}
{"type":"assistant","timestamp":"2026-11-16T10:00:02Z","message":{"id":"m","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}}
{"type":"assistant","timestamp":"2026-11-16T10:00:03Z","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","timestamp":"2026-11-16T10:00:04Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a.txt"}]}]}}
{"type":"assistant","isSidechain":true,"timestamp":"2026-11-16T10:00:05Z","message":{"role":"assistant","content":[{"type":"text","text":"of a sub-agent"}]}}
{"type":"assistant","timestamp":"2026-11-16T10:00:06Z","message":{"role":"assistant","content":[{"type":"text","text":"one file"},{"type":"new_kind"}]}}
{"type":"user","timestamp":"2026-11-16T11:00:00Z","message":{"role":"user","content":[{"type":"text","text":"thanks"}]}}
half a row"#;

    #[test]
    fn a_transcript_becomes_turns() {
        let turns = read(ROWS);
        assert_eq!(turns.len(), 2);
        assert_eq!(turns[0].input, [Content::text("list \"all\" files")]);
        assert_eq!(turns[0].ended_at, "2026-11-16T10:00:06Z".parse().unwrap());
        let kinds: Vec<String> = turns[0]
            .events
            .iter()
            .map(|kind| match kind {
                EventKind::Block { block, channel, text } => {
                    format!("{block} {} {text}", channel.as_str())
                }
                EventKind::ToolCall(call) => format!("{} {}", call.name, call.title),
                EventKind::ToolResult(result) => format!("{} {}", result.ok, result.output),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["0 reasoning hm", "Bash ls", "true a.txt", "1 answer one file"]);
        assert!(turns[1].events.is_empty());
    }

    #[test]
    fn conversations_are_listed_with_the_words_of_the_person() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(list(&home.path().join("none")).unwrap(), []);
        fs::create_dir(home.path().join("-shop")).unwrap();
        fs::write(home.path().join("-shop/0-1.jsonl"), ROWS).unwrap();
        fs::write(home.path().join("-shop/empty.jsonl"), "{}\n").unwrap();
        fs::write(home.path().join("-shop/notes.txt"), ROWS).unwrap();
        let found = list(home.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id.as_str(), "0-1");
        assert_eq!(found[0].cwd, Path::new("/shop"));
        assert_eq!(found[0].first_words.as_deref(), Some("list \"all\" files"));
    }
}
