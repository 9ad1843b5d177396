//! `JetBrains` IDEs: an agent server in their `acp.json`.

use serde_json::json;

use super::{
    client::{Client, ClientFile},
    json_entry::{with_entry, without_entry},
};

const NAME: &str = "jetbrains";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: false,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folders.home.join(".jetbrains/acp.json"),
            holds_key: false,
            with: |file, connection| with_entry(file.text, NAME, &connection.acp, &json!({})),
            without: without_entry,
        }])
    },
    usage: |_| "in the IDE's AI chat, choose the agent Angelia".to_owned(),
};
