//! Claude Code: settings for `claude --settings`.
//!
//! They are not written to Claude Code's own `settings.json`, because that would also apply to the
//! Claude Code that Angelia drives, which would then call Angelia again, and to every `claude`
//! while no daemon runs.

use serde_json::json;

use super::{
    client::{Client, ClientFile, Connection},
    own_file::{with_file, without_file},
};

/// A variable contained in every file that Angelia has written.
const MARK: &str = "ANTHROPIC_AUTH_TOKEN";
const FILE: &str = "claude.json";

pub(super) const CLIENT: Client = Client {
    name: "claude",
    has_key: true,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folders.clients.join(FILE),
            holds_key: true,
            with: |file, connection| with_file(file, MARK, settings(connection)),
            without: |text| Ok(without_file(text, MARK)),
        }])
    },
    usage: |folders| format!("claude --settings {}", folders.clients.join(FILE).display()),
};

fn settings(connection: &Connection) -> String {
    let env = json!({"ANTHROPIC_BASE_URL": connection.url, MARK: connection.key});
    format!("{:#}\n", json!({ "env": env }))
}
