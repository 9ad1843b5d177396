//! Reads the content of a message: JSON that differs by message type. Pure.

use std::{collections::BTreeMap, sync::Arc};

use angelia_core::ports::InboundFile;
use serde_json::Value;

/// The text and files of a message.
#[derive(Debug, Default)]
pub(super) struct MessageContent {
    /// Mentions appear as their keys, such as `@_user_1`.
    pub(super) text: String,
    pub(super) files: Vec<InboundFile>,
}

/// Reads the content of a message. The content of an unknown type is empty.
pub(super) fn read_content(message_id: &str, kind: &str, content: &str) -> MessageContent {
    let Ok(content) = serde_json::from_str::<Value>(content) else {
        return MessageContent::default();
    };
    let mut read = MessageContent::default();
    let string = |name: &str| content[name].as_str();
    let mut add = |key: Option<&str>, resource: &str, name: &str, media_type: Option<&str>| {
        let Some(key) = key else { return };
        let id = file_id(message_id, key, resource).into();
        let media_type = media_type.map(Arc::from);
        read.files.push(InboundFile { id, name: name.into(), media_type, size: None });
    };
    match kind {
        "text" => string("text").unwrap_or_default().clone_into(&mut read.text),
        "post" => return read_post(message_id, &content),
        "image" => add(string("image_key"), "image", IMAGE_NAME, None),
        "file" => add(string("file_key"), "file", string("file_name").unwrap_or("file"), None),
        "audio" => add(string("file_key"), "file", "voice.opus", Some("audio/ogg")),
        "media" => {
            let name = string("file_name").unwrap_or("video.mp4");
            add(string("file_key"), "file", name, Some("video/mp4"));
        }
        _ => {}
    }
    read
}

/// The name for pictures, whose type the platform does not state.
const IMAGE_NAME: &str = "image";

/// Returns a file id that contains everything needed to download the file.
pub(super) fn file_id(message_id: &str, key: &str, resource: &str) -> String {
    format!("{message_id}/{key}/{resource}")
}

/// Reads a text with paragraphs, which may exist in several languages.
fn read_post(message_id: &str, content: &Value) -> MessageContent {
    let mut read = MessageContent::default();
    let post = if content["content"].is_array() {
        content
    } else {
        content.as_object().and_then(|languages| languages.values().next()).unwrap_or(content)
    };
    let title = post["title"].as_str().unwrap_or_default();
    read.text.push_str(title);
    let paragraphs = post["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    for paragraph in paragraphs {
        if !read.text.is_empty() {
            read.text.push('\n');
        }
        for element in paragraph.as_array().map(Vec::as_slice).unwrap_or_default() {
            push_element(&mut read, message_id, element);
        }
    }
    read
}

fn push_element(read: &mut MessageContent, message_id: &str, element: &Value) {
    let string = |name: &str| element[name].as_str().unwrap_or_default();
    match string("tag") {
        "text" | "md" => read.text.push_str(string("text")),
        "a" if string("text") == string("href") => read.text.push_str(string("href")),
        "a" => read.text.extend(["[", string("text"), "](", string("href"), ")"]),
        "at" => read.text.push_str(string("user_id")),
        "code_block" => {
            let (language, text) = (string("language").to_lowercase(), string("text").trim_end());
            read.text.extend(["\n```", &language, "\n", text, "\n```\n"]);
        }
        "img" if !string("image_key").is_empty() => {
            let id = file_id(message_id, string("image_key"), "image").into();
            let name = IMAGE_NAME.into();
            read.files.push(InboundFile { id, name, media_type: None, size: None });
        }
        "media" if !string("file_key").is_empty() => {
            let id = file_id(message_id, string("file_key"), "file").into();
            let media_type = Some("video/mp4".into());
            read.files.push(InboundFile { id, name: "video.mp4".into(), media_type, size: None });
        }
        _ => {}
    }
}

/// Replaces the keys of mentions with the names that they stand for.
pub(super) fn replace_mentions(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest[1..].find(|c| !is_key(c)).unwrap_or(rest.len() - 1) + 1;
        let (key, behind) = rest.split_at(length);
        match names.get(key) {
            Some(name) => replaced.push_str(name),
            None => replaced.push_str(key),
        }
        rest = behind;
    }
    replaced.push_str(rest);
    replaced
}
