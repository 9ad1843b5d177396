//! A chat platform in a folder, whose adapter is the program `tests/clients/channel_program.py`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::programs::workspace_root;

/// The platform. Its methods simulate people.
#[derive(Debug)]
pub struct FolderPlatform {
    folder: tempfile::TempDir,
    events: AtomicU64,
}

/// A message of the bot.
#[derive(Clone, Debug)]
pub struct FolderMessage {
    pub id: String,
    pub chat: String,
    pub text: String,
    pub markdown: String,
    /// Labels and values.
    pub buttons: Vec<(String, String)>,
    /// The last buttons that the message had.
    pub old_buttons: Vec<(String, String)>,
    pub reply_to: Option<String>,
    pub file: Option<Vec<u8>>,
}

impl Default for FolderPlatform {
    fn default() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), events: AtomicU64::new(0) }
    }
}

impl FolderPlatform {
    /// Returns the program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let script = workspace_root().join("tests/clients/channel_program.py");
        // Without -B, Python would leave compiled files in the repository.
        let words = ["python3", "-B", script.to_str().unwrap(), self.path().to_str().unwrap()];
        words.map(str::to_owned).to_vec()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Simulates an action of a person. The event gets a key and a person; `event` contains the
    /// rest.
    pub fn push_event(&self, person: &str, mut event: Value) {
        let number = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        let fields = event.as_object_mut().unwrap();
        fields.entry("key").or_insert_with(|| json!(format!("event-{number}")));
        fields.entry("chat").or_insert_with(|| json!(format!("chat-{person}")));
        let name = person.to_ascii_uppercase();
        fields.insert("sender".to_owned(), json!({"id": person, "name": name}));
        self.push_line(&json!({"event": event}));
    }

    /// Makes the program do something on its own.
    pub fn act(&self, what: &str, times: usize) {
        self.push_line(&json!({"do": what, "times": times}));
    }

    fn push_line(&self, line: &Value) {
        let path = self.file("people.jsonl");
        // Use one write, so that the program never sees half a line.
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn say(&self, person: &str, text: &str) {
        let id = format!("said-{}", self.events.load(Ordering::Relaxed) + 1);
        let event = json!({"kind": "message", "message_id": id, "text": text, "direct": true});
        self.push_event(person, event);
    }

    pub fn press(&self, person: &str, message: &FolderMessage, label: &str) {
        let mut buttons = message.buttons.iter().chain(&message.old_buttons);
        let (_, value) = buttons.find(|(known, _)| known == label).unwrap();
        let id = format!("press-{}", self.events.load(Ordering::Relaxed) + 1);
        self.push_event(
            person,
            json!({
                "kind": "press", "press_id": id, "value": value, "message_id": message.id,
                "chat": message.chat, "direct": true,
            }),
        );
    }

    /// Returns the program's environment for each of its starts, in order.
    pub fn starts(&self) -> Vec<Value> {
        let lines = fs::read_to_string(self.file("starts.jsonl")).unwrap_or_default();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns what the program has recorded.
    pub fn state(&self) -> Value {
        let text = fs::read_to_string(self.file("state.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn count(&self, key: &str) -> usize {
        usize::try_from(self.state()[key].as_u64().unwrap_or_default()).unwrap()
    }

    /// Returns whether every line from people was acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        let lines = fs::read_to_string(self.file("people.jsonl")).unwrap_or_default();
        self.count("acked") == lines.lines().count()
    }

    pub fn fail_next(&self, fault: &str) {
        fs::write(self.file("fault"), fault).unwrap();
    }

    pub fn messages(&self) -> Vec<FolderMessage> {
        let state = self.state();
        let messages = state["messages"].as_array().into_iter().flatten();
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let buttons = |one: &Value| {
            let pairs = one.as_array().into_iter().flatten();
            let word = |pair: &Value, at: usize| pair[at].as_str().unwrap_or_default().to_owned();
            pairs.map(|pair| (word(pair, 0), word(pair, 1))).collect()
        };
        messages
            .map(|one| FolderMessage {
                id: text(one, "id"),
                chat: text(one, "chat"),
                text: text(one, "text"),
                markdown: text(one, "markdown"),
                buttons: buttons(&one["buttons"]),
                old_buttons: buttons(&one["old_buttons"]),
                reply_to: one["reply_to"].as_str().map(str::to_owned),
                file: one["file"].as_str().map(|data| STANDARD.decode(data).unwrap()),
            })
            .collect()
    }
}
