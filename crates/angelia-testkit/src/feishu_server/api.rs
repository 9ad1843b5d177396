//! The requests of the open API, and how they are refused.

use std::{collections::VecDeque, time::Instant};

use serde_json::{Value, json};

use super::{
    APP_ID, APP_SECRET, ApiCall, ApiFault, BOT_ID, BOT_NAME, SERVICE, SeenMessage, ServerState,
    StoredCard, StoredMessage,
    card::{SeenCard, read_card},
};
use crate::platform_server::{PlatformAnswer, PlatformRequest};

/// The size limits of a request with a card and with a text.
const MAX_CARD: usize = 30 << 10;
const MAX_TEXT: usize = 150 << 10;

/// The data of an answer, or the code and message of a refusal.
type ApiResult = Result<Value, (i64, String)>;

fn refuse<T>(code: i64, words: &str) -> Result<T, (i64, String)> {
    Err((code, words.to_owned()))
}

/// Returns the answer, or `None` if the connection is cut.
pub(super) fn answer(state: &mut ServerState, request: &PlatformRequest) -> Option<PlatformAnswer> {
    let mut request = request.clone();
    // JSON is parsed whatever content type is declared.
    if let Ok(fields) = serde_json::from_slice(&request.body) {
        request.fields = fields;
    }
    let request = &request;
    let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    let path: Vec<&str> = path.strip_prefix(&["open-apis"]).unwrap_or(&path).to_vec();
    let name = operation(&request.method, &path);
    state.calls.push(ApiCall {
        name: name.to_owned(),
        fields: request.fields.clone(),
        at: Instant::now(),
    });
    let content = request.fields["content"].as_str().unwrap_or_default();
    let by_text = state.text_faults.iter().position(|(text, _)| content.contains(text.as_str()));
    let by_text = by_text.map(|index| state.text_faults.remove(index).1);
    let fault = state.faults.get_mut(name).and_then(VecDeque::pop_front);
    let mut is_cut = false;
    match by_text.or(fault) {
        Some(ApiFault::Refuse(code, words)) => return Some(refusal(code, &words)),
        Some(ApiFault::TooMany(seconds)) => {
            let answer = refusal(99_991_400, "request trigger frequency limit");
            let answer = PlatformAnswer { status: 429, ..answer };
            return Some(answer.with_header("x-ogw-ratelimit-reset", &seconds.to_string()));
        }
        Some(ApiFault::Garbage) => {
            return Some(PlatformAnswer::bytes(502, "text/html", "<html>bad gateway"));
        }
        Some(ApiFault::Cut) => is_cut = true,
        None => {}
    }
    let needs_token = !matches!(name, "token" | "endpoint");
    let token = state.valid_token.as_ref().map(|token| format!("Bearer {token}"));
    if needs_token && token.as_deref() != Some(request.header("authorization")) {
        return Some(refusal(99_991_663, "Invalid access token for authorization"));
    }
    if name == "resource" {
        let (_, bytes) = state.files.get(path[5])?;
        let kind = request.query.get("type").map(String::as_str);
        let fits = kind == Some(if path[5].starts_with("img") { "image" } else { "file" });
        let bytes = PlatformAnswer::bytes(200, "application/octet-stream", bytes.clone());
        return Some(if fits { bytes } else { refusal(234_003, "File not in msg.") });
    }
    let result = run(state, name, &path, request);
    if is_cut {
        return None;
    }
    Some(match result {
        // Two old answers have their fields next to the code.
        Ok(data) if matches!(name, "token" | "bot") => {
            let mut body = json!({"code": 0, "msg": "ok"});
            if let (Some(body), Value::Object(data)) = (body.as_object_mut(), data) {
                body.extend(data);
            }
            PlatformAnswer::json(200, &body)
        }
        Ok(data) => PlatformAnswer::json(200, &json!({"code": 0, "msg": "success", "data": data})),
        Err((code, words)) if name == "endpoint" => {
            PlatformAnswer::json(200, &json!({"code": code, "msg": words}))
        }
        Err((code, words)) => refusal(code, &words),
    })
}

fn refusal(code: i64, words: &str) -> PlatformAnswer {
    PlatformAnswer::json(400, &json!({"code": code, "msg": words}))
}

fn operation(method: &str, path: &[&str]) -> &'static str {
    match (method, path) {
        ("POST", ["callback", "ws", "endpoint"]) => "endpoint",
        ("POST", ["auth", "v3", "tenant_access_token", "internal"]) => "token",
        ("GET", ["bot", "v3", "info"]) => "bot",
        ("GET", ["application", "v6", "scopes"]) => "scopes",
        ("GET", ["application", "v6", "applications", _]) => "app",
        ("GET", ["contact", "v3", "users", _]) => "person",
        ("GET", ["im", "v1", "chats", _]) => "chat",
        ("GET", ["im", "v1", "messages", _]) => "message",
        ("POST", ["im", "v1", "messages"] | ["im", "v1", "messages", _, "reply"]) => "send",
        ("PATCH", ["im", "v1", "messages", _]) => "patch",
        ("GET", ["im", "v1", "messages", _, "resources", _]) => "resource",
        ("POST", ["im", "v1", "images" | "files"]) => "upload",
        ("POST", ["cardkit", "v1", "cards"]) => "make_card",
        ("PUT", ["cardkit", "v1", "cards", _]) => "put_card",
        ("PUT", ["cardkit", "v1", "cards", _, "elements", _, "content"]) => "card_text",
        ("PATCH", ["cardkit", "v1", "cards", _, "settings"]) => "card_settings",
        _ => "unknown",
    }
}

fn run(state: &mut ServerState, name: &str, path: &[&str], request: &PlatformRequest) -> ApiResult {
    let fields = &request.fields;
    match name {
        "endpoint" => {
            if fields["AppID"] != APP_ID || fields["AppSecret"] != APP_SECRET {
                return refuse(10_014, "app secret invalid");
            }
            let ticket = state.fresh_id("ticket");
            let host = state.address.trim_start_matches("http://").to_owned();
            let url = format!(
                "ws://{host}/ws/v2?device_id=1&access_key=k&service_id={SERVICE}&ticket={ticket}"
            );
            state.tickets.push(ticket);
            Ok(json!({"URL": url, "ClientConfig": state.config}))
        }
        "token" => {
            if fields["app_id"] != APP_ID || fields["app_secret"] != APP_SECRET {
                return refuse(10_014, "app secret invalid");
            }
            state.tokens += 1;
            let token = format!("t-{}", state.tokens);
            state.valid_token = Some(token.clone());
            Ok(json!({"tenant_access_token": token, "expire": state.token_lifetime}))
        }
        "bot" => {
            let bot = json!({"app_name": BOT_NAME, "open_id": BOT_ID, "activate_status": 2});
            Ok(json!({"bot": bot}))
        }
        "scopes" => {
            let scopes = state.scopes.iter();
            let scope =
                |name| json!({"scope_name": name, "grant_status": 1, "scope_type": "tenant"});
            Ok(json!({"scopes": scopes.map(scope).collect::<Vec<_>>()}))
        }
        "app" => {
            need_scope(state, "application:application:self_manage")?;
            Ok(json!({"app": state.app}))
        }
        "person" => {
            need_scope(state, "contact:user.base:readonly")?;
            Ok(json!({"user": {"open_id": path[3], "name": format!("Person {}", path[3])}}))
        }
        "chat" => {
            need_scope(state, "im:chat:readonly")?;
            let mode = if path[3].starts_with("oc_with_") { "p2p" } else { "group" };
            Ok(json!({"name": "a chat", "chat_mode": mode, "chat_type": "private"}))
        }
        "message" => find_message(state, path[3]),
        "send" => send(state, path, request),
        "patch" => patch(state, path[3], request),
        "upload" => upload(state, path[2], request),
        "make_card" => {
            need_scope(state, "cardkit:card:write")?;
            let card = parse_card(fields["data"].as_str())?;
            read_card(&card)?;
            let id = state.fresh_id("card").replace('_', "");
            let is_streaming = card["config"]["streaming_mode"] == true;
            let made = StoredCard { card, is_streaming, sequence: 0, updates: 0 };
            state.cards.insert(id.clone(), made);
            Ok(json!({"card_id": id}))
        }
        "put_card" | "card_text" | "card_settings" => change_card(state, name, path, fields),
        _ => refuse(404, "404 page not found"),
    }
}

fn need_scope(state: &ServerState, scope: &str) -> Result<(), (i64, String)> {
    if state.scopes.iter().any(|one| one == scope) {
        return Ok(());
    }
    refuse(
        99_991_672,
        &format!("Access denied. One of the following scopes is required: [{scope}]"),
    )
}

fn find_message(state: &ServerState, id: &str) -> ApiResult {
    if let Some(said) = state.said.get(id) {
        return Ok(json!({"items": [said]}));
    }
    let Some(message) = state.messages.values().find(|message| message.id == id) else {
        return refuse(230_011, "The message was withdrawn.");
    };
    Ok(json!({"items": [{
        "message_id": id, "msg_type": message.kind, "body": {"content": message.content.to_string()},
        "sender": {"id": APP_ID, "id_type": "app_id", "sender_type": "app"},
    }]}))
}

fn parse_card(text: Option<&str>) -> ApiResult {
    let card = text.and_then(|text| serde_json::from_str(text).ok());
    card.ok_or((230_001, "Your request contains an invalid request parameter: content".to_owned()))
}

fn send(state: &mut ServerState, path: &[&str], request: &PlatformRequest) -> ApiResult {
    let fields = &request.fields;
    let reply_to = path.get(3).map(|id| (*id).to_owned());
    let chat = if let Some(id) = &reply_to {
        chat_of(state, id)?
    } else {
        let id = fields["receive_id"].as_str().unwrap_or_default().to_owned();
        match request.query.get("receive_id_type").map(String::as_str) {
            Some("chat_id") => id,
            Some("open_id") => super::FeishuServer::direct_chat(&id),
            other => return refuse(99_992_402, &format!("receive_id_type {other:?}")),
        }
    };
    if state.blocked.contains(&chat) {
        return refuse(230_013, "Bot has NO availability to this user.");
    }
    let uuid = fields["uuid"].as_str().unwrap_or_default().to_owned();
    if uuid.len() > 50 {
        return refuse(99_992_402, "field validation failed: uuid");
    }
    if let Some(known) = state.by_uuid.get(&uuid).and_then(|at| state.messages.get(at)) {
        return Ok(json!({"message_id": known.id, "chat_id": known.chat}));
    }
    let kind = fields["msg_type"].as_str().unwrap_or_default().to_owned();
    let limit = if kind == "text" { MAX_TEXT } else { MAX_CARD };
    if request.body.len() > limit {
        return refuse(230_025, "The length of the message content reaches its limit.");
    }
    let content = parse_card(fields["content"].as_str())?;
    let sent_buttons = match kind.as_str() {
        "interactive" => seen_card(state, &content)?.buttons,
        "text" if content["text"].as_str().is_some_and(|text| !text.is_empty()) => Vec::new(),
        "image" | "file" => Vec::new(),
        other => return refuse(230_001, &format!("msg_type {other}")),
    };
    let id = state.fresh_id("om");
    let in_thread = fields["reply_in_thread"] == true;
    let message = StoredMessage {
        id: id.clone(),
        chat: chat.clone(),
        kind,
        content,
        sent_buttons,
        reply_to,
        in_thread,
        edits: 0,
    };
    let at = state.next_id;
    state.messages.insert(at, message);
    if !uuid.is_empty() {
        state.by_uuid.insert(uuid, at);
    }
    Ok(json!({"message_id": id, "chat_id": chat}))
}

fn chat_of(state: &ServerState, message: &str) -> Result<String, (i64, String)> {
    if let Some(known) = state.messages.values().find(|one| one.id == message) {
        return Ok(known.chat.clone());
    }
    let payload_has = |payload: &[u8]| {
        let event: Value = serde_json::from_slice(payload).unwrap_or_default();
        let found = &event["event"]["message"];
        (found["message_id"] == message).then(|| found["chat_id"].as_str().map(str::to_owned))?
    };
    let chat = state.events.iter().find_map(|event| payload_has(&event.payload));
    chat.ok_or((230_011, "The message was withdrawn.".to_owned()))
}

fn patch(state: &mut ServerState, id: &str, request: &PlatformRequest) -> ApiResult {
    if request.body.len() > MAX_CARD {
        return refuse(230_025, "The length of the message content reaches its limit.");
    }
    let content = parse_card(request.fields["content"].as_str())?;
    seen_card(state, &content)?;
    let Some(message) = state.messages.values_mut().find(|one| one.id == id) else {
        return refuse(230_011, "The message was withdrawn.");
    };
    if message.kind != "interactive" {
        return refuse(230_001, "This message is NOT a card.");
    }
    message.content = content;
    message.edits += 1;
    Ok(json!({}))
}

fn upload(state: &mut ServerState, kind: &str, request: &PlatformRequest) -> ApiResult {
    let fields = &request.fields;
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    // The official library does not name the file in the part with its content.
    let part = text(if kind == "images" { "image" } else { "file" });
    let unnamed = part.map(|part| (text("file_name").unwrap_or_default(), part.into_bytes()));
    let Some((name, bytes)) = request.file.clone().or(unnamed) else {
        return refuse(234_001, "Invalid request param.");
    };
    let is_complete = match kind {
        "images" => fields["image_type"] == "message",
        _ => fields["file_type"].is_string() && fields["file_name"].is_string(),
    };
    if !is_complete {
        return refuse(234_001, "Invalid request param.");
    }
    let (field, prefix) =
        if kind == "images" { ("image_key", "img") } else { ("file_key", "file") };
    let key = state.fresh_id(prefix);
    state.files.insert(key.clone(), (name, bytes));
    Ok(json!({field: key}))
}

fn change_card(state: &mut ServerState, name: &str, path: &[&str], fields: &Value) -> ApiResult {
    let Some(stored) = state.cards.get_mut(path[3]) else {
        return refuse(300_302, "card not found");
    };
    let sequence = fields["sequence"].as_i64().unwrap_or_default();
    if sequence <= stored.sequence || sequence > i64::from(i32::MAX) {
        return refuse(300_317, "sequence number compare failed");
    }
    let mut card = stored.card.clone();
    match name {
        "put_card" => card = parse_card(fields["card"]["data"].as_str())?,
        "card_text" => {
            if !stored.is_streaming {
                return refuse(300_309, "streaming mode is closed");
            }
            let elements = card["body"]["elements"].as_array_mut();
            let mut elements = elements.into_iter().flatten();
            let Some(element) = elements.find(|one| one["element_id"] == path[5]) else {
                return refuse(300_313, "not find elementID");
            };
            element["content"] = fields["content"].clone();
        }
        _ => {
            let settings = parse_card(fields["settings"].as_str())?;
            let config = settings["config"].as_object().cloned().unwrap_or_default();
            if let Some(known) = card["config"].as_object_mut() {
                known.extend(config);
            }
        }
    }
    read_card(&card)?;
    stored.is_streaming = match name {
        "card_text" => true,
        _ => card["config"]["streaming_mode"] == true,
    };
    stored.card = card;
    stored.sequence = sequence;
    stored.updates += 1;
    Ok(json!({}))
}

fn seen_card(state: &ServerState, content: &Value) -> Result<SeenCard, (i64, String)> {
    if content["type"] != "card" {
        return read_card(content);
    }
    match state.cards.get(content["data"]["card_id"].as_str().unwrap_or_default()) {
        Some(stored) => read_card(&stored.card),
        None => refuse(200_621, "parse card json err"),
    }
}

impl ServerState {
    /// Returns a message as people currently see it.
    pub(super) fn see(&self, message: &StoredMessage) -> SeenMessage {
        let content = &message.content;
        let seen = match message.kind.as_str() {
            "interactive" => seen_card(self, content).unwrap_or_default(),
            _ => SeenCard {
                text: content["text"].as_str().unwrap_or_default().to_owned(),
                ..SeenCard::default()
            },
        };
        let key = content["file_key"].as_str().or(content["image_key"].as_str());
        let card = self.cards.get(content["data"]["card_id"].as_str().unwrap_or_default());
        SeenMessage {
            id: message.id.clone(),
            chat: message.chat.clone(),
            text: seen.text,
            buttons: seen.buttons,
            sent_buttons: message.sent_buttons.clone(),
            reply_to: message.reply_to.clone(),
            in_thread: message.in_thread,
            file: key.and_then(|key| self.files.get(key).cloned()),
            is_streaming: card.is_some_and(|card| card.is_streaming),
            edits: message.edits + card.map_or(0, |card| card.updates),
        }
    }
}
