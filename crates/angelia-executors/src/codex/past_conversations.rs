//! Conversations that a person had directly in the program, read from its rollout files, which hold
//! one JSON object per line and are stored in `sessions/YEAR/MONTH/DAY`.

use std::{
    fs, io,
    io::BufRead as _,
    path::{Path, PathBuf},
};

use angelia_core::model::{
    Content, EventKind, NativeSessionId, PastConversation, PastTurn, TextChannel, ToolCall,
    ToolClass, ToolId, ToolResult, first_words,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// How many lines to read in search of the person's first words.
const MAX_HEAD_LINES: usize = 200;

/// The beginning of the program's own message with the project's instructions.
const INSTRUCTIONS_PREFIX: &str = "# AGENTS.md instructions";

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    payload: Value,
}

/// The parts that we read from an item of the model's API.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        role: String,
        #[serde(default)]
        content: Vec<MessageText>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    CustomToolCall {
        call_id: String,
        name: String,
        #[serde(default)]
        input: String,
    },
    #[serde(alias = "custom_tool_call_output")]
    FunctionCallOutput {
        call_id: String,
        #[serde(default)]
        output: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageText {
    #[serde(default)]
    text: String,
}

/// Lists the conversations in this `CODEX_HOME`, most recently used first.
pub(super) fn list(home: &Path) -> io::Result<Vec<PastConversation>> {
    let mut found: Vec<_> =
        rollouts(home)?.iter().filter_map(|(id, path)| describe(id, path)).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.used_at));
    Ok(found)
}

/// Reads the turns of a conversation. Returns `None` if there is no such conversation.
pub(super) fn read(home: &Path, id: &NativeSessionId) -> io::Result<Option<Vec<PastTurn>>> {
    let found = rollouts(home)?.into_iter().find(|(known, _)| known == id.as_str());
    match found {
        Some((_, path)) => Ok(Some(parse_turns(&fs::read_to_string(path)?))),
        None => Ok(None),
    }
}

/// Returns the id and the file of each conversation.
fn rollouts(home: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut folders = vec![home.join("sessions")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(id) = rollout_id(&path) {
                found.push((id, path));
            }
        }
    }
    Ok(found)
}

/// Returns the id from a file name of the form `rollout-TIME-ID.jsonl`.
fn rollout_id(path: &Path) -> Option<String> {
    const ID_LENGTH: usize = 36;
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let id = name.get(name.len().checked_sub(ID_LENGTH)?..)?;
    uuid::Uuid::try_parse(id).ok()?;
    Some(id.to_owned())
}

fn describe(id: &str, path: &Path) -> Option<PastConversation> {
    let used_at = Timestamp::try_from(path.metadata().ok()?.modified().ok()?).ok()?;
    let lines = io::BufReader::new(fs::File::open(path).ok()?).lines().map_while(Result::ok);
    let mut cwd = None;
    for line in lines.take(MAX_HEAD_LINES) {
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        if line.kind == "session_meta" {
            cwd = line.payload["cwd"].as_str().map(PathBuf::from);
            continue;
        }
        if let (Some(input), Some(cwd)) = (persons_input(&line), &cwd) {
            return Some(PastConversation {
                id: NativeSessionId::new(id),
                cwd: cwd.clone(),
                used_at,
                first_words: first_words(&input).map(Into::into),
            });
        }
    }
    None
}

fn item(line: &Line) -> Option<Item> {
    if line.kind != "response_item" {
        return None;
    }
    Item::deserialize(&line.payload).ok()
}

/// Returns the input if the line is the person's message. The program sends its own messages in the
/// same role.
fn persons_input(line: &Line) -> Option<Vec<Content>> {
    let Some(Item::Message { role, content }) = item(line) else { return None };
    let is_injected = |text: &str| text.trim_start().starts_with(INSTRUCTIONS_PREFIX);
    let texts = content.into_iter().map(|part| part.text).filter(|text| !is_injected(text));
    let input: Vec<Content> = texts.map(Content::text).collect();
    (role == "user" && first_words(&input).is_some()).then_some(input)
}

fn parse_turns(rollout: &str) -> Vec<PastTurn> {
    let mut turns: Vec<PastTurn> = Vec::new();
    for line in rollout.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        let at = line.timestamp.unwrap_or_default();
        if let Some(input) = persons_input(&line) {
            turns.push(PastTurn::new(input, at));
            continue;
        }
        if let (Some(turn), Some(item)) = (turns.last_mut(), item(&line)) {
            turn.ended_at = turn.ended_at.max(at);
            append(turn, item);
        }
    }
    turns
}

fn append(turn: &mut PastTurn, item: Item) {
    match item {
        Item::Message { role, content } if role == "assistant" => {
            for part in content {
                turn.push_text(TextChannel::Answer, &part.text);
            }
        }
        Item::FunctionCall { call_id, name, arguments } => {
            // The arguments are JSON in a string.
            let input = RawValue::from_string(arguments.clone());
            push_call(turn, call_id, name, input, &arguments);
        }
        Item::CustomToolCall { call_id, name, input } => {
            let raw = serde_json::value::to_raw_value(&serde_json::json!({"input": input}));
            push_call(turn, call_id, name, raw, &input);
        }
        Item::FunctionCallOutput { call_id, output } => {
            let output = match output {
                Value::String(text) => text,
                other => other.to_string(),
            };
            turn.events.push(EventKind::ToolResult(ToolResult::new(
                ToolId::new(call_id),
                true,
                output,
            )));
        }
        Item::Message { .. } | Item::Other => {}
    }
}

fn push_call(
    turn: &mut PastTurn,
    id: String,
    name: String,
    input: serde_json::Result<Box<RawValue>>,
    about: &str,
) {
    let Ok(input) = input else { return };
    let first_line = about.lines().next().unwrap_or_default();
    turn.events.push(EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        class: ToolClass::Other,
        title: format!("{name} {first_line}").trim_end().into(),
        name: name.into(),
        input: input.into(),
        parent: None,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLOUT: &str = r##"{"timestamp":"2026-11-16T10:00:00Z","type":"session_meta","payload":{"id":"x","cwd":"/shop"}}
{"timestamp":"2026-11-16T10:00:00Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}
{"timestamp":"2026-11-16T10:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /shop\n"},{"type":"input_text","text":"<environment_context>\n</environment_context>"}]}}
{"timestamp":"2026-11-16T10:00:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"list files"}]}}
{"timestamp":"2026-11-16T10:00:01Z","type":"event_msg","payload":{"type":"user_message","message":"list files"}}
{"timestamp":"2026-11-16T10:00:02Z","type":"response_item","payload":{"type":"reasoning","summary":[]}}
{"timestamp":"2026-11-16T10:00:03Z","type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"}}
{"timestamp":"2026-11-16T10:00:04Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a.txt"}}
{"timestamp":"2026-11-16T10:00:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"one file"}]}}
half a row"##;

    #[test]
    fn a_rollout_becomes_turns() {
        let home = tempfile::tempdir().unwrap();
        let id = "01a1e7dd-39e0-71e3-a206-3cbbf56a0219";
        let folder = home.path().join("sessions/2026/11/16");
        assert_eq!(list(home.path()).unwrap(), []);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("rollout-2026-11-16T10-00-00-{id}.jsonl")), ROLLOUT).unwrap();
        fs::write(folder.join("rollout-x.jsonl"), ROLLOUT).unwrap();
        let found = list(home.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id.as_str(), id);
        assert_eq!(found[0].cwd, Path::new("/shop"));
        assert_eq!(found[0].first_words.as_deref(), Some("list files"));

        let turns = read(home.path(), &found[0].id).unwrap().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0].input, [Content::text("list files")]);
        let [
            EventKind::ToolCall(call),
            EventKind::ToolResult(result),
            EventKind::Block { text, .. },
        ] = &turns[0].events[..]
        else {
            panic!("{:?}", turns[0].events);
        };
        assert_eq!((&*call.name, call.input.get()), ("exec_command", r#"{"cmd":"ls"}"#));
        assert_eq!((&*result.output, &**text), ("a.txt", "one file"));
        assert!(read(home.path(), &NativeSessionId::new("other")).unwrap().is_none());
    }
}
