//! Zed: an agent server in its `settings.json`.

use serde_json::json;

use super::{
    client::{Client, ClientFile},
    json_entry::{with_entry, without_entry},
};

const NAME: &str = "zed";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: false,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folders.config().join("zed/settings.json"),
            holds_key: false,
            with: |file, connection| {
                with_entry(file.text, NAME, &connection.acp, &json!({"type": "custom"}))
            },
            without: without_entry,
        }])
    },
    usage: |_| "in Zed's agent panel, start a new thread with Angelia".to_owned(),
};
