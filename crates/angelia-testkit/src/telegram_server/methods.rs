//! The methods of the Bot API, and how they are refused.

use serde_json::{Value, json};

use super::{BOT_ID, BOT_NAME, BotMessage, ServerState, html::visible_text};

/// Maximum length of a text in UTF-16 units.
const MAX_TEXT: usize = 4096;

type MethodResult = Result<Value, (u16, String)>;

pub(super) fn answer_method(
    state: &mut ServerState,
    method: &str,
    fields: &Value,
    file: Option<&(String, Vec<u8>)>,
) -> MethodResult {
    match method {
        "getMe" => Ok(json!({
            "id": BOT_ID, "is_bot": true, "first_name": "Fake", "username": BOT_NAME,
            "can_join_groups": true, "can_read_all_group_messages": false,
            "supports_inline_queries": false,
        })),
        "deleteWebhook" => {
            state.webhook.clear();
            Ok(true.into())
        }
        "getWebhookInfo" => Ok(json!({
            "url": state.webhook, "has_custom_certificate": false, "pending_update_count": 0,
        })),
        "setMyCommands" | "answerCallbackQuery" => Ok(true.into()),
        "sendChatAction" => check_chat(state, fields).map(|_chat| true.into()),
        "sendMessageDraft" => {
            let chat = check_chat(state, fields)?;
            if chat < 0 {
                return Err((400, "Bad Request: drafts are for private chats".to_owned()));
            }
            read_text(fields).map(|_text| true.into())
        }
        "sendMessage" => send_message(state, fields, None),
        "sendDocument" | "sendPhoto" => {
            let file = file.cloned().ok_or((400, "Bad Request: there is no file".to_owned()))?;
            send_message(state, fields, Some(file))
        }
        "editMessageText" => edit_message(state, fields),
        "getFile" => {
            let id = fields["file_id"].as_str().unwrap_or_default().to_owned();
            match state.files.get(&id) {
                Some(bytes) => Ok(json!({
                    "file_id": id, "file_unique_id": "u", "file_size": bytes.len(),
                    "file_path": format!("files/{id}"),
                })),
                None => Err((400, "Bad Request: invalid file_id".to_owned())),
            }
        }
        _ => Err((404, "Not Found".to_owned())),
    }
}

/// Parses a number. Forms contain numbers as text.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn check_chat(state: &ServerState, fields: &Value) -> Result<i64, (u16, String)> {
    let chat = number(&fields["chat_id"]).ok_or((400, "Bad Request: chat not found".to_owned()))?;
    if state.blocked.contains(&chat) {
        return Err((403, "Forbidden: bot was blocked by the user".to_owned()));
    }
    Ok(chat)
}

fn read_text(fields: &Value) -> Result<String, (u16, String)> {
    let text = fields["text"].as_str().unwrap_or_default();
    let text = match fields["parse_mode"].as_str() {
        Some("HTML") => visible_text(text)
            .map_err(|why| (400, format!("Bad Request: can't parse entities: {why}")))?,
        Some(other) => return Err((400, format!("Bad Request: unsupported parse_mode {other}"))),
        None => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err((400, "Bad Request: message text is empty".to_owned()));
    }
    if text.encode_utf16().count() > MAX_TEXT {
        return Err((400, "Bad Request: message is too long".to_owned()));
    }
    Ok(text)
}

fn read_buttons(fields: &Value) -> Result<Vec<(String, String)>, (u16, String)> {
    let rows = fields["reply_markup"]["inline_keyboard"].as_array();
    let buttons = rows.into_iter().flatten().filter_map(Value::as_array).flatten();
    let mut found = Vec::new();
    for button in buttons {
        let text = |name: &str| button[name].as_str().unwrap_or_default().to_owned();
        let (label, value) = (text("text"), text("callback_data"));
        if value.is_empty() || value.len() > 64 || label.is_empty() {
            return Err((400, "Bad Request: BUTTON_DATA_INVALID".to_owned()));
        }
        found.push((label, value));
    }
    Ok(found)
}

fn send_message(
    state: &mut ServerState,
    fields: &Value,
    file: Option<(String, Vec<u8>)>,
) -> MethodResult {
    let chat = check_chat(state, fields)?;
    let text = if file.is_some() { String::new() } else { read_text(fields)? };
    let buttons = read_buttons(fields)?;
    state.next_message += 1;
    let id = state.next_message;
    let message = BotMessage {
        id,
        chat,
        text,
        buttons,
        reply_to: number(&fields["reply_parameters"]["message_id"]),
        thread: number(&fields["message_thread_id"]),
        file,
        edits: 0,
    };
    let shown = describe(&message);
    state.sent_buttons.insert(id, message.buttons.clone());
    state.messages.insert(id, message);
    Ok(shown)
}

fn edit_message(state: &mut ServerState, fields: &Value) -> MethodResult {
    check_chat(state, fields)?;
    let text = read_text(fields)?;
    let buttons = read_buttons(fields)?;
    let id = number(&fields["message_id"]).unwrap_or_default();
    let Some(message) = state.messages.get_mut(&id) else {
        return Err((400, "Bad Request: message to edit not found".to_owned()));
    };
    if message.text == text && message.buttons == buttons {
        let why = "Bad Request: message is not modified: specified new message content and reply markup are \
                   exactly the same as a current content and reply markup of the message";
        return Err((400, why.to_owned()));
    }
    message.text = text;
    message.buttons = buttons;
    message.edits += 1;
    Ok(describe(message))
}

fn describe(message: &BotMessage) -> Value {
    let kind = if message.chat < 0 { "group" } else { "private" };
    json!({
        "message_id": message.id, "date": 1_700_000_000, "text": message.text,
        "from": {"id": BOT_ID, "is_bot": true, "first_name": "Fake", "username": BOT_NAME},
        "chat": {"id": message.chat, "type": kind, "title": "t", "first_name": "f"},
    })
}
