//! Aider: its address, key and model in `~/.aider.conf.yml`.

use serde_json::Value;

use super::{
    client::{Client, ClientFile, Connection, EditRefusal, FileState, quoted},
    marked_block::{with_block, without_block},
};
use crate::config::parse_yaml;

const NAME: &str = "aider";
const FILE: &str = ".aider.conf.yml";

/// Otherwise Aider would ask at every start whether to read about a model that it does not know.
const WARNINGS: &str = "show-model-warnings";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: true,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folders.home.join(FILE),
            holds_key: true,
            with: add_settings,
            without: |text| without_block(text, NAME),
        }])
    },
    usage: |_| "aider".to_owned(),
};

fn add_settings(file: &FileState<'_>, connection: &Connection) -> Result<String, EditRefusal> {
    let base = file.text.map(|text| without_block(text, NAME)).transpose()?;
    let base = base.and_then(|base| base.text).unwrap_or_default();
    let old = match parse_yaml(&base).map_err(EditRefusal::Unreadable)? {
        Value::Null => serde_json::Map::new(),
        Value::Object(settings) => settings,
        _ => return Err(EditRefusal::Unreadable("it has no `name: value` lines".to_owned())),
    };
    let has = |name: &str| old.keys().any(|key| key.trim_start_matches("--") == name);
    let model = format!("openai/{}", connection.model);
    let settings = [
        ("openai-api-base", connection.v1_url()),
        ("openai-api-key", connection.key.clone()),
        ("model", model),
    ];
    if let Some((own, _)) = settings.iter().find(|(name, _)| has(name)) {
        return Err(EditRefusal::Own(format!("your own `{own}` stays")));
    }
    let mut body: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}: {}", quoted(value))).collect();
    if !has(WARNINGS) {
        body.push(format!("{WARNINGS}: false"));
    }
    let text = with_block(file, NAME, &body)?;
    // Verify the result: in a text written on one line, for example, the lines would mean something
    // else.
    let is_added = parse_yaml(&text).is_ok_and(|new| {
        new.as_object().is_some_and(|new| {
            new.len() == old.len() + body.len()
                && old.iter().all(|(name, value)| new.get(name) == Some(value))
        })
    });
    if !is_added {
        let why = "its settings are not on lines of their own, so it cannot be edited by a program";
        return Err(EditRefusal::Unreadable(why.to_owned()));
    }
    Ok(text)
}
