//! llm: a model in its `extra-openai-models.yaml`. The key is in a header of that model, so that
//! llm's own keys stay unchanged.

use serde_json::Value;

use super::{
    client::{Client, ClientFile, Connection, EditRefusal, FileState, Folders, quoted},
    marked_block::{with_block, without_block},
};
use crate::config::parse_yaml;

const NAME: &str = "llm";
const MODEL: &str = "angelia";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: true,
    files: |folders| {
        Ok(vec![ClientFile {
            path: folder(folders).join("extra-openai-models.yaml"),
            holds_key: true,
            with: add_model,
            without: |text| without_block(text, NAME),
        }])
    },
    usage: |_| format!("llm -m {MODEL} \"hello\""),
};

fn folder(folders: &Folders<'_>) -> std::path::PathBuf {
    match folders.environment.non_empty("LLM_USER_PATH") {
        Some(named) => named.into(),
        None if cfg!(target_os = "macos") => {
            folders.home.join("Library/Application Support/io.datasette.llm")
        }
        None => folders.config().join("io.datasette.llm"),
    }
}

fn add_model(file: &FileState<'_>, connection: &Connection) -> Result<String, EditRefusal> {
    let base = file.text.map(|text| without_block(text, NAME)).transpose()?;
    let base = base.and_then(|base| base.text).unwrap_or_default();
    let old = match parse_yaml(&base).map_err(EditRefusal::Unreadable)? {
        Value::Null => Vec::new(),
        Value::Array(models) => models,
        _ => return Err(EditRefusal::Unreadable("it is not a list of models".to_owned())),
    };
    if old.iter().any(is_named_so) {
        return Err(EditRefusal::Own(format!("your own model `{MODEL}` stays")));
    }
    let indentation = base.lines().find_map(|line| {
        let words = line.trim_start_matches(' ');
        words.starts_with("- ").then(|| line.len() - words.len())
    });
    let indentation = " ".repeat(indentation.unwrap_or(0));
    let body = [
        format!("- model_id: {MODEL}"),
        format!("  model_name: {}", quoted(&connection.model)),
        format!("  api_base: {}", quoted(&connection.v1_url())),
        "  headers:".to_owned(),
        format!("    Authorization: {}", quoted(&format!("Bearer {}", connection.key))),
        "  vision: true".to_owned(),
        "  supports_schema: true".to_owned(),
        "  supports_tools: true".to_owned(),
    ];
    let body: Vec<String> = body.iter().map(|line| format!("{indentation}{line}")).collect();
    let text = with_block(file, NAME, &body)?;
    // Verify the result: in a list written on one line, for example, the lines would mean something
    // else.
    let is_added = parse_yaml(&text).is_ok_and(|new| {
        let Some((last, others)) = new.as_array().and_then(|models| models.split_last()) else {
            return false;
        };
        is_named_so(last) && *others == *old
    });
    if !is_added {
        let why = "its models are not on lines of their own, so it cannot be edited by a program";
        return Err(EditRefusal::Unreadable(why.to_owned()));
    }
    Ok(text)
}

fn is_named_so(model: &Value) -> bool {
    let aliases = model["aliases"].as_array().into_iter().flatten();
    aliases.chain([&model["model_id"]]).any(|name| name == MODEL)
}
