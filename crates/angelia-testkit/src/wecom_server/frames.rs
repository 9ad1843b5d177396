//! The frames of a bot, and the answers to them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

use super::{
    BOT_ID, BotCall, BotFault, BotWay, PRESS_WINDOW, SECRET, ServerState, Upload, WecomMessage,
};
use crate::platform_server::ClientSocket;

/// Maximum length of a text in bytes.
const MAX_CONTENT: usize = 20_480;

type Answer = Result<Value, (i64, String)>;

fn refuse<T>(code: i64, message: &str) -> Result<T, (i64, String)> {
    Err((code, message.to_owned()))
}

/// Executes a frame and answers it.
pub(super) fn handle(state: &mut ServerState, socket: &ClientSocket, frame: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (cmd, req_id) = (text(&frame["cmd"]), text(&frame["headers"]["req_id"]));
    let body = frame["body"].clone();
    state.calls.push(BotCall { cmd: cmd.clone(), req_id: req_id.clone(), body: body.clone() });
    let fault = state.faults.get_mut(&cmd).and_then(std::collections::VecDeque::pop_front);
    let answer = match &fault {
        Some(BotFault::Refuse(code, message)) => refuse(*code, message),
        _ => run(state, socket, &cmd, &req_id, &body),
    };
    match fault {
        Some(BotFault::Cut) => {
            state.bot = None;
            return socket.cut();
        }
        Some(BotFault::Silence) => return,
        Some(BotFault::Refuse(..)) | None => {}
    }
    let headers = json!({"req_id": req_id});
    socket.send_json(&match answer {
        Ok(body) if body.is_null() => json!({"headers": headers, "errcode": 0, "errmsg": "ok"}),
        Ok(body) => json!({"headers": headers, "errcode": 0, "errmsg": "ok", "body": body}),
        Err((code, message)) => json!({"headers": headers, "errcode": code, "errmsg": message}),
    });
}

fn run(
    state: &mut ServerState,
    socket: &ClientSocket,
    cmd: &str,
    req_id: &str,
    body: &Value,
) -> Answer {
    if cmd == "aibot_subscribe" {
        if body["bot_id"] != BOT_ID || body["secret"] != SECRET {
            return refuse(853_000, "invalid bot_id or secret");
        }
        state.subscriptions += 1;
        if let Some(before) = state.bot.replace(socket.clone()) {
            before.close(1000, "displaced");
        }
        return Ok(Value::Null);
    }
    if state.bot.as_ref().is_none_or(|bot| bot.id() != socket.id()) {
        return refuse(846_600, "not subscribed");
    }
    match cmd {
        "ping" => Ok(Value::Null),
        "aibot_respond_msg" => respond(state, req_id, body),
        "aibot_respond_update_msg" => update_card(state, req_id, body),
        "aibot_send_msg" => send(state, body),
        "aibot_upload_media_init" => begin_upload(state, body),
        "aibot_upload_media_chunk" => add_part(state, body),
        "aibot_upload_media_finish" => end_upload(state, body),
        _ => refuse(40_001, "unknown cmd"),
    }
}

fn respond(state: &mut ServerState, req_id: &str, body: &Value) -> Answer {
    let Some(callback) = state.callbacks.get(req_id).cloned().filter(|one| !one.is_press) else {
        return refuse(846_605, "invalid req_id");
    };
    if body["msgtype"] == "template_card" {
        let card = read_card(&callback.chat, &body["template_card"])?;
        state.messages.push(card);
        return Ok(Value::Null);
    }
    if body["msgtype"] != "stream" {
        return refuse(40_008, "invalid msgtype");
    }
    let stream = &body["stream"];
    let (Some(id), Some(content)) = (stream["id"].as_str(), stream["content"].as_str()) else {
        return refuse(40_058, "stream.id and stream.content");
    };
    if content.len() > MAX_CONTENT {
        return refuse(40_058, "content is too long");
    }
    let is_open = stream["finish"] != true;
    let known = state.messages.iter_mut().find(|one| one.id == id && one.way == BotWay::Stream);
    match known {
        Some(message) if !message.is_open || state.dead_streams => {
            refuse(846_608, "stream message update expired")
        }
        Some(message) => {
            content.clone_into(&mut message.text);
            message.is_open = is_open;
            Ok(Value::Null)
        }
        None => {
            state.messages.push(WecomMessage {
                id: id.to_owned(),
                text: content.to_owned(),
                is_open,
                ..new_message(&callback.chat, BotWay::Stream)
            });
            Ok(Value::Null)
        }
    }
}

fn new_message(chat: &str, way: BotWay) -> WecomMessage {
    WecomMessage {
        id: String::new(),
        chat: chat.to_owned(),
        text: String::new(),
        buttons: Vec::new(),
        first_buttons: Vec::new(),
        file: None,
        way,
        is_open: false,
    }
}

fn read_card(chat: &str, card: &Value) -> Result<WecomMessage, (i64, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = text(&card["task_id"]);
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-@".contains(c);
    if id.len() > 128 || !id.chars().all(is_sign) {
        return refuse(41_000, "task_id");
    }
    let buttons: Vec<(String, String)> = card["button_list"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (text(&one["text"]), text(&one["key"])))
        .collect();
    let asks = card["card_type"] == "button_interaction";
    if buttons.len() > 6 || asks == buttons.is_empty() || (asks && id.is_empty()) {
        return refuse(41_000, "button_list");
    }
    let shown = [text(&card["main_title"]["title"]), text(&card["sub_title_text"])];
    let shown: Vec<String> = shown.into_iter().filter(|part| !part.is_empty()).collect();
    if shown.is_empty() {
        return refuse(41_000, "main_title");
    }
    Ok(WecomMessage {
        id,
        text: shown.join("\n"),
        first_buttons: buttons.clone(),
        buttons,
        ..new_message(chat, BotWay::Push)
    })
}

fn update_card(state: &mut ServerState, req_id: &str, body: &Value) -> Answer {
    let callback = state.callbacks.get(req_id).filter(|one| one.is_press);
    if callback.is_none_or(|one| one.at.elapsed() > PRESS_WINDOW) {
        return refuse(846_605, "invalid req_id");
    }
    if body["response_type"] != "update_template_card" {
        return refuse(40_058, "response_type");
    }
    let new = read_card("", &body["template_card"])?;
    let known = state.messages.iter_mut().find(|one| one.id == new.id);
    let Some(message) = known else { return refuse(41_000, "task_id") };
    message.text = new.text;
    message.buttons = new.buttons;
    Ok(Value::Null)
}

fn send(state: &mut ServerState, body: &Value) -> Answer {
    let chat = body["chatid"].as_str().unwrap_or_default().to_owned();
    if chat.is_empty() || state.blocked.contains(&chat) {
        return refuse(846_610, "the user cannot be reached");
    }
    let message = match body["msgtype"].as_str().unwrap_or_default() {
        "markdown" => {
            let content = body["markdown"]["content"].as_str().unwrap_or_default();
            if content.is_empty() || content.len() > MAX_CONTENT {
                return refuse(40_058, "content");
            }
            WecomMessage { text: content.to_owned(), ..new_message(&chat, BotWay::Push) }
        }
        "template_card" => {
            let card = read_card(&chat, &body["template_card"])?;
            if state.messages.iter().any(|one| one.id == card.id) {
                return refuse(41_001, "task_id was used before");
            }
            card
        }
        kind @ ("file" | "image") => {
            let id = body[kind]["media_id"].as_str().unwrap_or_default();
            let Some(file) = state.media.get(id).cloned() else {
                return refuse(40_007, "invalid media_id");
            };
            WecomMessage { file: Some(file), ..new_message(&chat, BotWay::Push) }
        }
        _ => return refuse(40_008, "invalid msgtype"),
    };
    state.messages.push(message);
    Ok(Value::Null)
}

fn begin_upload(state: &mut ServerState, body: &Value) -> Answer {
    let number = |name: &str| usize::try_from(body[name].as_u64().unwrap_or_default());
    let (Ok(size), Ok(parts)) = (number("total_size"), number("total_chunks")) else {
        return refuse(40_058, "total_size");
    };
    if !(1..=100).contains(&parts) {
        return refuse(40_058, "total_chunks");
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let id = format!("up{}", state.fresh_id());
    let upload =
        Upload { name: text("filename"), size, digest: text("md5"), parts: vec![None; parts] };
    state.uploads.insert(id.clone(), upload);
    Ok(json!({"upload_id": id}))
}

fn add_part(state: &mut ServerState, body: &Value) -> Answer {
    let id = body["upload_id"].as_str().unwrap_or_default();
    let index = body["chunk_index"].as_u64().and_then(|index| usize::try_from(index).ok());
    let bytes = STANDARD.decode(body["base64_data"].as_str().unwrap_or_default());
    let upload = state.uploads.get_mut(id);
    let part = upload.and_then(|upload| upload.parts.get_mut(index?));
    match (part, bytes) {
        (Some(part), Ok(bytes)) if bytes.len() <= 512 << 10 => {
            *part = Some(bytes);
            Ok(Value::Null)
        }
        _ => refuse(40_058, "chunk"),
    }
}

fn end_upload(state: &mut ServerState, body: &Value) -> Answer {
    let id = body["upload_id"].as_str().unwrap_or_default();
    let Some(upload) = state.uploads.remove(id) else { return refuse(40_058, "upload_id") };
    let Some(parts) = upload.parts.into_iter().collect::<Option<Vec<_>>>() else {
        return refuse(40_058, "a chunk is missing");
    };
    let bytes = parts.concat();
    let digest = Md5::digest(&bytes);
    let is_digest = |text: &str| format!("{digest:x}") == text;
    if bytes.len() != upload.size || !is_digest(&upload.digest) {
        return refuse(40_058, "md5 or total_size");
    }
    let media = format!("media{}", state.fresh_id());
    state.media.insert(media.clone(), (upload.name, bytes));
    Ok(json!({"type": "file", "media_id": media, "created_at": 1_700_000_000}))
}
