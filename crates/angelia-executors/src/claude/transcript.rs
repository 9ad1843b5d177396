//! The program's own transcripts: one JSONL file per conversation, in a directory named after the
//! working directory. The format belongs to the program and has no version number. Only this file
//! knows it, and tests against the real program pin it.
//!
//! The history of another agent or client is imported by writing such a file and resuming it,
//! because assistant messages cannot be sent on stdin.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use angelia_core::model::{Content, HistoryMessage, MessagePart, Mode, Role, SessionSpec};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{caller_tool_names, protocol::outgoing};

/// How long a running program takes at most to write a message that it has already printed.
const MAX_WRITE_LAG: Duration = Duration::from_secs(1);

/// The directory in which the program keeps its conversations.
#[derive(Clone, Debug)]
pub(crate) struct TranscriptStore {
    config: PathBuf,
}

impl TranscriptStore {
    /// Derives the directory from the environment, as the program itself does.
    pub(crate) fn from_environment(environment: &BTreeMap<OsString, OsString>) -> Self {
        let named = |name: &str| {
            environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let config = named("CLAUDE_CONFIG_DIR")
            .unwrap_or_else(|| named("HOME").unwrap_or_else(|| "/".into()).join(".claude"));
        Self { config }
    }

    /// Returns the file of an existing conversation. Tries the expected directory first, then all
    /// others, because a newer version of the program may name them differently.
    pub(crate) fn find(&self, id: &str, cwd: &Path) -> Option<PathBuf> {
        if !is_safe_id(id) {
            return None;
        }
        let name = format!("{id}.jsonl");
        let expected = self.folder(cwd).join(&name);
        if expected.is_file() {
            return Some(expected);
        }
        let folders = fs::read_dir(self.config.join("projects")).ok()?;
        folders
            .filter_map(Result::ok)
            .map(|folder| folder.path().join(&name))
            .find(|path| path.is_file())
    }

    /// Returns the folder that holds a folder for each working directory.
    pub(crate) fn projects(&self) -> PathBuf {
        self.config.join("projects")
    }

    /// Returns the complete rows of a conversation.
    pub(crate) fn read(&self, id: &str, cwd: &Path) -> io::Result<String> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it does not exist");
        read_complete_rows(&self.find(id, cwd).ok_or_else(missing)?)
    }

    /// Writes the conversation of another agent or client.
    pub(crate) fn write(&self, carried: &ImportedHistory<'_>) -> io::Result<()> {
        let folder = self.folder(&carried.spec.cwd);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        write_new(&folder.join(format!("{}.jsonl", carried.id)), &carried.lines())
    }

    /// Copies the current state of a conversation to a new id.
    pub(crate) fn copy(&self, id: &str, cwd: &Path, into: Uuid) -> io::Result<()> {
        let (path, rows) = self.read_settled(id, cwd)?;
        let named = |id: &str| format!("\"sessionId\":\"{id}\"");
        let rows = rows.replace(&named(id), &named(&into.to_string()));
        write_new(&path.with_file_name(format!("{into}.jsonl")), rows.as_bytes())
    }

    /// Removes a conversation and the files that the program keeps next to it.
    pub(crate) fn remove(&self, id: &str, cwd: &Path) -> io::Result<()> {
        if !is_safe_id(id) {
            return Ok(());
        }
        if let Some(file) = self.find(id, cwd) {
            remove_if_exists(&file)?;
            remove_if_exists(&file.with_extension(""))?;
        }
        for kind in ["file-history", "session-env", "tasks", "todos"] {
            remove_if_exists(&self.config.join(kind).join(id))?;
        }
        Ok(())
    }

    /// Returns the rows of a conversation once they end with an answer. Waits for up to
    /// [`MAX_WRITE_LAG`], because a running program writes rows a moment after it has printed them.
    fn read_settled(&self, id: &str, cwd: &Path) -> io::Result<(PathBuf, String)> {
        let give_up = Instant::now() + MAX_WRITE_LAG;
        loop {
            let late = Instant::now() >= give_up;
            match self.find(id, cwd) {
                None if late => {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "it does not exist"));
                }
                None => {}
                Some(path) => {
                    let rows = read_complete_rows(&path)?;
                    if late || ends_with_answer(&rows) {
                        return Ok((path, rows));
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn folder(&self, cwd: &Path) -> PathBuf {
        // The program resolves symbolic links in its working directory.
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let name: String = cwd
            .to_string_lossy()
            .encode_utf16()
            .map(|unit| match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
                _ => '-',
            })
            .collect();
        self.config.join("projects").join(name)
    }
}

/// Reads the file without an incomplete last row.
fn read_complete_rows(path: &Path) -> io::Result<String> {
    let mut rows = fs::read_to_string(path)?;
    rows.truncate(rows.rfind('\n').map_or(0, |end| end + 1));
    Ok(rows)
}

fn ends_with_answer(rows: &str) -> bool {
    let last = (rows.lines().rev()).find_map(|row| {
        let kind = serde_json::from_str::<RowHead>(row).ok()?.kind;
        matches!(&*kind, "user" | "assistant").then_some(kind)
    });
    last.as_deref() == Some("assistant")
}

#[derive(Deserialize)]
struct RowHead {
    #[serde(rename = "type", default)]
    kind: String,
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// Reports whether an id is safe to use in a path.
fn is_safe_id(id: &str) -> bool {
    !id.is_empty() && (id.chars()).all(|char| char.is_ascii_alphanumeric() || char == '-')
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A history to import into a new conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportedHistory<'a> {
    pub(crate) id: Uuid,
    pub(crate) version: &'a str,
    /// Holds the history and the model that will continue it. The program keeps thinking blocks
    /// only if the transcript names this model.
    pub(crate) spec: &'a SessionSpec,
    pub(crate) at: Timestamp,
}

impl ImportedHistory<'_> {
    fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        let mut parent: Option<Uuid> = None;
        for (place, message) in self.spec.history.iter().enumerate() {
            // Derive the uuid from the id, so that the same history yields the same file.
            let uuid = Uuid::from_u128(self.id.as_u128() ^ (place as u128 + 1));
            let row = json!({
                "parentUuid": parent,
                "isSidechain": false,
                "userType": "external",
                "cwd": self.spec.cwd.to_string_lossy(),
                "sessionId": self.id,
                "version": self.version,
                "type": role(message.role),
                "message": self.message(message, place),
                "uuid": uuid,
                "timestamp": format!("{:.3}", self.at),
            });
            lines.extend_from_slice(row.to_string().as_bytes());
            lines.push(b'\n');
            parent = Some(uuid);
        }
        lines
    }

    fn message(&self, message: &HistoryMessage, place: usize) -> Value {
        let content: Vec<Value> = message.parts.iter().map(|part| self.encode_part(part)).collect();
        match message.role {
            Role::User => json!({"role": "user", "content": content}),
            Role::Assistant => {
                let calls =
                    (message.parts.iter()).any(|part| matches!(part, MessagePart::ToolUse { .. }));
                json!({
                    // Each message needs its own id, because the program merges messages with the
                    // same id.
                    "id": format!("msg_{}_{place}", self.id.simple()),
                    "type": "message",
                    "role": "assistant",
                    "model": self.spec.model.as_deref().unwrap_or("unknown"),
                    "content": content,
                    "stop_reason": if calls { "tool_use" } else { "end_turn" },
                    "stop_sequence": null,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                })
            }
        }
    }

    fn encode_part(&self, part: &MessagePart) -> Value {
        match part {
            MessagePart::Content(content) => outgoing::content_block(content),
            MessagePart::Thinking { text, signature } => json!({
                "type": "thinking",
                "thinking": &**text,
                "signature": signature.as_deref().unwrap_or_default(),
            }),
            MessagePart::ToolUse { id, name, input } => json!({
                "type": "tool_use",
                "id": id.as_str(),
                "name": self.tool_name(name),
                "input": serde_json::from_str::<Value>(input.get()).unwrap_or_default(),
            }),
            MessagePart::ToolResult { id, ok, content } => json!({
                "type": "tool_result",
                "tool_use_id": id.as_str(),
                "is_error": !ok,
                "content": content.iter().map(outgoing::content_block).collect::<Vec<_>>(),
            }),
        }
    }

    /// Returns the name by which the model knows a tool. In agent mode the program has its own
    /// tools; every other tool is the caller's.
    fn tool_name(&self, name: &str) -> String {
        let is_callers = self.spec.caller_tools.iter().any(|tool| *tool.name == *name);
        if self.spec.mode == Mode::Agent && !is_callers {
            caller_tool_names::valid_tool_name(name).into_owned()
        } else {
            caller_tool_names::model_tool_name(name)
        }
    }
}

/// Returns the history as plain text, for a program that does not accept a transcript.
pub(crate) fn history_as_text(history: &[HistoryMessage]) -> String {
    let mut text = String::from("What was said before, in another conversation:\n");
    for message in history {
        text.push_str(match message.role {
            Role::User => "\nUser: ",
            Role::Assistant => "\nAssistant: ",
        });
        for part in &message.parts {
            match part {
                MessagePart::Content(Content::Text(said)) => text.push_str(said),
                MessagePart::Content(Content::Image { .. }) => text.push_str("[an image]"),
                MessagePart::Thinking { .. } => {}
                MessagePart::ToolUse { name, input, .. } => {
                    text.extend(["[called ", name, " with ", input.get(), "]"]);
                }
                MessagePart::ToolResult { content, .. } => {
                    for content in content {
                        if let Content::Text(said) = content {
                            text.extend(["[result: ", said, "]"]);
                        }
                    }
                }
            }
        }
        text.push('\n');
    }
    text
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::ToolId;

    use super::*;

    fn environment(pairs: &[(&str, &Path)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| ((*name).into(), value.as_os_str().to_owned())).collect()
    }

    fn history() -> Vec<HistoryMessage> {
        let text = |text: &str| MessagePart::Content(Content::text(text));
        let message = |role, parts| HistoryMessage { role, parts };
        let input = serde_json::value::RawValue::from_string(r#"{"q":1}"#.to_owned()).unwrap();
        vec![
            message(Role::User, vec![text("one")]),
            message(
                Role::Assistant,
                vec![
                    text("two"),
                    MessagePart::ToolUse {
                        id: ToolId::new("t1"),
                        name: "lookup".into(),
                        input: input.into(),
                    },
                ],
            ),
            message(
                Role::User,
                vec![MessagePart::ToolResult {
                    id: ToolId::new("t1"),
                    ok: true,
                    content: vec![Content::text("three")],
                }],
            ),
        ]
    }

    #[test]
    fn rows_are_chained_and_say_who_spoke() {
        let home = tempfile::tempdir().unwrap();
        let cwd = home.path().join("a.b_c é");
        fs::create_dir(&cwd).unwrap();
        let transcripts = TranscriptStore::from_environment(&environment(&[("HOME", home.path())]));
        let mut spec = SessionSpec::new("claude", &cwd);
        spec.mode = Mode::Model;
        spec.model = Some("sonnet".into());
        spec.history = history();
        let carried = ImportedHistory {
            id: Uuid::from_u128(0x100),
            version: "2.1.325",
            spec: &spec,
            at: Timestamp::UNIX_EPOCH,
        };
        transcripts.write(&carried).unwrap();
        let id = carried.id.to_string();
        let path = transcripts.find(&id, &cwd).unwrap();
        let folder = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(folder.ends_with("-a-b-c--"), "{folder}");
        assert_eq!(transcripts.find(&id, Path::new("/elsewhere")), Some(path.clone()));

        let rows: Vec<Value> = (fs::read_to_string(&path).unwrap().lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0]["parentUuid"], Value::Null);
        assert_eq!(rows[1]["parentUuid"], rows[0]["uuid"]);
        assert_eq!(rows[2]["parentUuid"], rows[1]["uuid"]);
        assert_eq!(rows[0]["timestamp"], "1970-01-01T00:00:00.000Z");
        assert_eq!(rows[1]["message"]["role"], "assistant");
        assert_eq!(rows[1]["message"]["content"][1]["name"], "mcp__client__lookup");
        assert_eq!(rows[1]["message"]["stop_reason"], "tool_use");
        assert_eq!(rows[2]["message"]["content"][0]["tool_use_id"], "t1");

        assert!(transcripts.write(&carried).is_err(), "never over another");
        let copy = Uuid::from_u128(0x200);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{half a r"))
            .unwrap();
        transcripts.copy(&id, &cwd, copy).unwrap();
        let copied = transcripts.find(&copy.to_string(), &cwd).unwrap();
        let copied = fs::read_to_string(copied).unwrap();
        assert_eq!(copied.lines().count(), 3);
        assert!(copied.contains(&copy.to_string()) && !copied.contains(&id));
        assert!(transcripts.copy("unknown", &cwd, copy).is_err());
        fs::create_dir(path.with_extension("")).unwrap();
        transcripts.remove(&id, &cwd).unwrap();
        assert_eq!(transcripts.find(&id, &cwd), None);
        assert!(!path.with_extension("").exists());
        transcripts.remove(&id, &cwd).unwrap();
    }

    #[test]
    fn a_call_keeps_the_name_under_which_the_model_made_it() {
        let mut spec = SessionSpec::new("claude", "/x");
        let name = |spec: &SessionSpec, name: &str| {
            let id = Uuid::nil();
            ImportedHistory { id, version: "1", spec, at: Timestamp::UNIX_EPOCH }.tool_name(name)
        };
        spec.caller_tools.push(angelia_core::model::CallerTool {
            name: "lookup".into(),
            description: "".into(),
            input_schema: serde_json::value::RawValue::NULL.to_owned().into(),
        });
        assert_eq!(name(&spec, "Bash"), "Bash");
        assert_eq!(name(&spec, "lookup"), "mcp__client__lookup");
        spec.mode = Mode::Model;
        assert_eq!(name(&spec, "Bash"), "mcp__client__Bash");
    }

    #[test]
    fn an_id_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        let transcripts = TranscriptStore::from_environment(&environment(&[
            ("HOME", home.path()),
            ("CLAUDE_CONFIG_DIR", &config),
        ]));
        assert_eq!(transcripts.config, config);
        let precious = config.join("precious.jsonl");
        fs::create_dir_all(config.join("projects/x")).unwrap();
        fs::write(&precious, "").unwrap();
        for id in ["../../precious", "", "a/b", ".."] {
            assert_eq!(transcripts.find(id, Path::new("/x")), None);
            transcripts.remove(id, Path::new("/x")).unwrap();
        }
        assert!(precious.exists());
    }
}
