//! Streams: messages that grow until they are stopped or sealed.

use serde_json::{Value, json};

use super::{
    ServerState, SlackMessage,
    blocks::read_blocks,
    markdown::visible_text,
    methods::{MethodResult, check_channel, find_message},
};

/// Maximum length of the text in one request, and in a whole stream.
const MAX_MARKDOWN: usize = 12_000;

pub(super) fn start_stream(state: &mut ServerState, fields: &Value) -> MethodResult {
    let channel = check_channel(state, fields)?;
    let thread = fields["thread_ts"].as_str().filter(|thread| !thread.is_empty());
    let thread = thread.ok_or("invalid_thread_ts")?.to_owned();
    let is_named = |name: &str| fields[name].as_str().is_some_and(|value| !value.is_empty());
    if !channel.starts_with('D') {
        if !is_named("recipient_team_id") {
            return Err("missing_recipient_team_id".to_owned());
        }
        if !is_named("recipient_user_id") {
            return Err("missing_recipient_user_id".to_owned());
        }
    }
    let mut message = SlackMessage {
        channel: channel.clone(),
        ts: state.new_ts(),
        thread: Some(thread),
        is_streaming: true,
        ..SlackMessage::default()
    };
    grow(&mut message, fields)?;
    let ts = message.ts.clone();
    state.messages.insert((channel.clone(), ts.clone()), message);
    Ok(json!({"channel": channel, "ts": ts}))
}

pub(super) fn append_stream(state: &mut ServerState, fields: &Value) -> MethodResult {
    let channel = check_channel(state, fields)?;
    let message = find_stream(state, &channel, fields)?;
    let is_empty = fields["chunks"].as_array().is_none_or(Vec::is_empty);
    if is_empty && fields["markdown_text"].as_str().is_none() {
        return Err("no_text".to_owned());
    }
    let mut grown = message.clone();
    grow(&mut grown, fields)?;
    *message = grown;
    Ok(json!({"channel": channel, "ts": message.ts}))
}

pub(super) fn stop_stream(state: &mut ServerState, fields: &Value) -> MethodResult {
    let channel = check_channel(state, fields)?;
    let message = find_stream(state, &channel, fields)?;
    let mut ended = message.clone();
    grow(&mut ended, fields)?;
    if let Some(blocks) = fields["blocks"].as_array() {
        let read = read_blocks(blocks)?;
        ended.buttons = read.buttons;
    }
    ended.is_streaming = false;
    *message = ended;
    Ok(json!({
        "channel": channel, "ts": message.ts, "message": {"text": message.text, "ts": message.ts},
    }))
}

fn find_stream<'a>(
    state: &'a mut ServerState,
    channel: &str,
    fields: &Value,
) -> Result<&'a mut SlackMessage, String> {
    let message = find_message(state, channel, fields)?;
    if !message.is_streaming {
        return Err("message_not_in_streaming_state".to_owned());
    }
    Ok(message)
}

fn grow(message: &mut SlackMessage, fields: &Value) -> Result<(), String> {
    let mut more = fields["markdown_text"].as_str().unwrap_or_default().to_owned();
    for chunk in fields["chunks"].as_array().into_iter().flatten() {
        match chunk["type"].as_str() {
            Some("markdown_text") => {
                more.push_str(chunk["text"].as_str().ok_or("invalid_chunks")?);
            }
            Some("task_update") => {
                let text = |name: &str| chunk[name].as_str().filter(|text| !text.is_empty());
                let id = text("id").ok_or("invalid_chunks")?.to_owned();
                let title = text("title").ok_or("invalid_chunks")?.to_owned();
                let status = text("status").ok_or("invalid_chunks")?.to_owned();
                if !["pending", "in_progress", "complete", "error"].contains(&&*status) {
                    return Err("invalid_chunks".to_owned());
                }
                message.tasks.insert(id, (title, status));
            }
            Some("plan_update" | "blocks") => {}
            _ => return Err("invalid_chunks".to_owned()),
        }
    }
    message.markdown.push_str(&more);
    if more.chars().count() > MAX_MARKDOWN || message.markdown.chars().count() > MAX_MARKDOWN {
        return Err("msg_too_long".to_owned());
    }
    message.text = visible_text(&message.markdown);
    Ok(())
}
