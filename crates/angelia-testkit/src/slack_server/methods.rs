//! The methods of the Web API, and how they are refused.

use serde_json::{Value, json};

use super::{
    APP_TOKEN, BOT_TOKEN, BOT_USER, ServerState, SlackMessage, TEAM, UploadedFile,
    blocks::{ReadBlocks, read_blocks},
    streams::{append_stream, start_stream, stop_stream},
};

/// Maximum length of a new message's text in characters, and of an edit in bytes.
const MAX_TEXT: usize = 40_000;
const MAX_EDITED_TEXT: usize = 4000;

pub(super) type MethodResult = Result<Value, String>;

/// Whose token a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Bot,
    App,
    Nobody,
}

impl Caller {
    pub(super) fn of(token: &str) -> Self {
        match token {
            BOT_TOKEN => Self::Bot,
            APP_TOKEN => Self::App,
            _ => Self::Nobody,
        }
    }
}

pub(super) fn answer_method(
    state: &mut ServerState,
    method: &str,
    fields: &Value,
    caller: Caller,
) -> MethodResult {
    if state.unknown.iter().any(|unknown| unknown == method) {
        return Err("unknown_method".to_owned());
    }
    match (caller, method) {
        (Caller::Nobody, _) => return Err("invalid_auth".to_owned()),
        (Caller::App, "apps.connections.open") => {
            let ticket = format!("ticket-{}", state.new_id());
            state.tickets.push(ticket.clone());
            let host = state.address.trim_start_matches("http://").to_owned();
            return Ok(json!({"url": format!("ws://{host}/link?ticket={ticket}&app_id=A1")}));
        }
        (Caller::App, _) | (Caller::Bot, "apps.connections.open") => {
            return Err("not_allowed_token_type".to_owned());
        }
        (Caller::Bot, _) => {}
    }
    match method {
        "auth.test" => Ok(json!({
            "url": "https://fake.slack.com/", "team": "Fake Team", "user": "fakebot",
            "team_id": TEAM, "user_id": BOT_USER, "bot_id": "B0001", "is_enterprise_install": false,
        })),
        "users.info" => {
            let id = fields["user"].as_str().unwrap_or_default();
            let name = format!("person-{}", id.to_ascii_lowercase());
            Ok(json!({"user": {
                "id": id, "team_id": TEAM, "name": name, "real_name": name,
                "profile": {"display_name": name},
            }}))
        }
        "chat.postMessage" => post_message(state, fields),
        "chat.update" => update_message(state, fields),
        "chat.postEphemeral" => {
            check_channel(state, fields)?;
            if fields["user"].as_str().is_none_or(str::is_empty) {
                return Err("user_not_in_channel".to_owned());
            }
            Ok(json!({"message_ts": state.new_ts()}))
        }
        "chat.startStream" => start_stream(state, fields),
        "chat.appendStream" => append_stream(state, fields),
        "chat.stopStream" => stop_stream(state, fields),
        "files.getUploadURLExternal" => begin_upload(state, fields),
        "files.completeUploadExternal" => complete_upload(state, fields),
        "files.info" => {
            let id = fields["file"].as_str().unwrap_or_default().to_owned();
            let file = state.files.get(&id).ok_or("file_not_found")?;
            let address = format!("{}/files-pri/{id}", state.address);
            Ok(json!({"file": {"id": id, "name": file.name, "url_private_download": address}}))
        }
        _ => Err("unknown_method".to_owned()),
    }
}

pub(super) fn check_channel(state: &ServerState, fields: &Value) -> Result<String, String> {
    let channel = fields["channel"].as_str().unwrap_or_default();
    if !channel.starts_with(['C', 'D', 'G', 'U', 'W']) {
        return Err("channel_not_found".to_owned());
    }
    if state.archived.iter().any(|one| one == channel) {
        return Err("is_archived".to_owned());
    }
    Ok(channel.to_owned())
}

/// Returns what a message shows: its blocks, or else its text.
fn read_content(fields: &Value) -> Result<ReadBlocks, String> {
    let text = fields["text"].as_str().unwrap_or_default();
    match fields["blocks"].as_array().filter(|blocks| !blocks.is_empty()) {
        Some(blocks) => read_blocks(blocks),
        None if text.is_empty() => Err("no_text".to_owned()),
        None => Ok(ReadBlocks { text: unescape(text), buttons: Vec::new() }),
    }
}

/// Unescapes a text in which nothing is formatted.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn post_message(state: &mut ServerState, fields: &Value) -> MethodResult {
    let channel = check_channel(state, fields)?;
    let text = fields["text"].as_str().unwrap_or_default();
    if text.chars().count() > MAX_TEXT {
        return Err("msg_too_long".to_owned());
    }
    let content = read_content(fields)?;
    let ts = state.new_ts();
    let message = SlackMessage {
        channel: channel.clone(),
        ts: ts.clone(),
        thread: fields["thread_ts"].as_str().map(str::to_owned),
        text: content.text,
        buttons: content.buttons.clone(),
        ..SlackMessage::default()
    };
    state.sent_buttons.insert(ts.clone(), content.buttons);
    state.messages.insert((channel.clone(), ts.clone()), message);
    Ok(json!({
        "channel": channel, "ts": ts,
        "message": {"type": "message", "user": BOT_USER, "bot_id": "B0001", "text": text, "ts": ts},
    }))
}

fn update_message(state: &mut ServerState, fields: &Value) -> MethodResult {
    let channel = check_channel(state, fields)?;
    if fields["text"].as_str().unwrap_or_default().len() > MAX_EDITED_TEXT {
        return Err("msg_too_long".to_owned());
    }
    let content = read_content(fields)?;
    let message = find_message(state, &channel, fields)?;
    if message.is_streaming {
        return Err("streaming_state_conflict".to_owned());
    }
    message.text = content.text;
    message.buttons = content.buttons;
    message.tasks.clear();
    message.edits += 1;
    Ok(json!({"channel": channel, "ts": message.ts, "text": message.text}))
}

pub(super) fn find_message<'a>(
    state: &'a mut ServerState,
    channel: &str,
    fields: &Value,
) -> Result<&'a mut SlackMessage, String> {
    let ts = fields["ts"].as_str().unwrap_or_default().to_owned();
    let found = state.messages.get_mut(&(channel.to_owned(), ts));
    found.ok_or_else(|| "message_not_found".to_owned())
}

/// Parses a number. Forms contain numbers as text.
fn number(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => usize::try_from(other.as_u64()?).ok(),
    }
}

fn begin_upload(state: &mut ServerState, fields: &Value) -> MethodResult {
    let length = number(&fields["length"]).filter(|length| *length > 0);
    let length = length.ok_or("invalid_arguments")?;
    let name = fields["filename"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("invalid_arguments")?.to_owned();
    let id = format!("F{:04}", state.new_id());
    state.files.insert(id.clone(), UploadedFile { name, length, content: None });
    Ok(json!({"upload_url": format!("{}/upload/{id}", state.address), "file_id": id}))
}

fn complete_upload(state: &mut ServerState, fields: &Value) -> MethodResult {
    let wanted = fields["files"].as_array().cloned().unwrap_or_default();
    let mut shared = Vec::new();
    let place = json!({"channel": fields["channel_id"]});
    let channel = check_channel(state, &place)?;
    for file in &wanted {
        let id = file["id"].as_str().unwrap_or_default();
        let known = state.files.get(id).cloned().ok_or("file_not_found")?;
        let content = known.content.ok_or("file_not_found")?;
        let ts = state.new_ts();
        let message = SlackMessage {
            channel: channel.clone(),
            ts: ts.clone(),
            thread: fields["thread_ts"].as_str().map(str::to_owned),
            file: Some((known.name.clone(), content)),
            ..SlackMessage::default()
        };
        state.messages.insert((channel.clone(), ts), message);
        shared.push(json!({"id": id, "title": file["title"], "name": known.name}));
    }
    Ok(json!({"files": shared}))
}
