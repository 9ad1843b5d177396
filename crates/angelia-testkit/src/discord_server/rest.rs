//! The REST API, and how it refuses requests.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    BOT_ID, BOT_NAME, BotMessage, CHANNEL, GUILD, RestCall, RestFault, ServerState, TOKEN,
    markdown::visible_text, timestamp,
};
use crate::platform_server::{PlatformAnswer, PlatformRequest};

/// Maximum length of a text including its formatting, and other limits.
const MAX_CONTENT: usize = 2000;
const MAX_NONCE: usize = 25;
const MAX_LABEL: usize = 80;
const MAX_CUSTOM_ID: usize = 100;
const MAX_ROW: usize = 5;
const MAX_FILE: usize = 10 << 20;

/// A status, a code and a message.
type RestResult<T = Value> = Result<T, (u16, u64, &'static str)>;

/// Returns the answer, or `None` if the connection is cut.
pub(super) fn answer(state: &mut ServerState, request: &PlatformRequest) -> Option<PlatformAnswer> {
    if let Some(bytes) = state.files.get(&request.path) {
        // Files must be fetched without credentials.
        let status = if request.header("authorization").is_empty() { 200 } else { 400 };
        return Some(PlatformAnswer::bytes(status, "text/plain", bytes.clone()));
    }
    let path = request.path.strip_prefix("/api/v10/").unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let Some((route, channel)) = find_route(&request.method, &parts) else {
        return Some(refuse(404, 0, "404: Not Found"));
    };
    let mut fields = request.fields.clone();
    if let Some(payload) = fields.get("payload_json") {
        fields = payload.clone();
    }
    let outcome = decide(state, request, route, channel, &parts, &fields);
    let status = outcome.as_ref().map_or(0, |answer| answer.status);
    let path = request.path.clone();
    state.calls.push(RestCall { route, path, fields, status, at: Instant::now() });
    outcome
}

/// Returns the method and the path without ids, and the channel.
fn find_route<'a>(method: &str, parts: &[&'a str]) -> Option<(&'static str, &'a str)> {
    Some(match (method, parts) {
        ("GET", ["users", "@me"]) => ("GET me", ""),
        ("GET", ["users", "@me", "guilds"]) => ("GET guilds", ""),
        ("POST", ["users", "@me", "channels"]) => ("POST direct channel", ""),
        ("GET", ["gateway"] | ["gateway", "bot"]) => ("GET gateway", ""),
        ("GET", ["oauth2", "applications", "@me"]) => ("GET application", ""),
        ("PUT", ["applications", _, "commands"]) => ("PUT commands", ""),
        ("GET", ["channels", channel]) => ("GET channel", channel),
        ("POST", ["channels", channel, "messages"]) => ("POST messages", channel),
        ("PATCH", ["channels", channel, "messages", _]) => ("PATCH message", channel),
        ("POST", ["channels", channel, "typing"]) => ("POST typing", channel),
        ("POST", ["interactions", _, _, "callback"]) => ("POST callback", ""),
        _ => return None,
    })
}

fn decide(
    state: &mut ServerState,
    request: &PlatformRequest,
    route: &'static str,
    channel: &str,
    parts: &[&str],
    fields: &Value,
) -> Option<PlatformAnswer> {
    // An interaction has its own token in its path.
    let is_right = request.header("authorization") == format!("Bot {TOKEN}");
    if route != "POST callback" && !is_right {
        return Some(refuse(401, 0, "401: Unauthorized"));
    }
    let fault = state.faults.get_mut(route).and_then(std::collections::VecDeque::pop_front);
    match fault {
        Some(RestFault::Refuse(status, code, why)) => return Some(refuse(status, code, why)),
        Some(RestFault::TooMany(seconds, is_global)) => return Some(too_many(seconds, is_global)),
        Some(RestFault::Garbage) => {
            return Some(PlatformAnswer::bytes(502, "text/html", "<html>bad gateway"));
        }
        Some(RestFault::Cut) | None => {}
    }
    if let Err(left) = state.limits.count(route, channel) {
        return Some(too_many(left.as_secs_f64(), false));
    }
    let done = perform(state, request, route, channel, parts, fields);
    if matches!(fault, Some(RestFault::Cut)) {
        return None;
    }
    let answer = match done {
        // Like the real server: a success without content.
        Ok(Value::Null) => PlatformAnswer { status: 204, headers: Vec::new(), body: Vec::new() },
        Ok(result) => PlatformAnswer::json(200, &result),
        Err((status, code, why)) => refuse(status, code, why),
    };
    Some(state.limits.describe(route, channel, answer))
}

fn refuse(status: u16, code: u64, why: &str) -> PlatformAnswer {
    PlatformAnswer::json(status, &json!({"message": why, "code": code}))
}

fn too_many(seconds: f64, is_global: bool) -> PlatformAnswer {
    let body = json!({
        "message": "You are being rate limited.", "retry_after": seconds, "global": is_global,
    });
    // The library treats a rate limit without this header as a ban.
    PlatformAnswer::json(429, &body).with_header("Via", "1.1 fake")
}

fn perform(
    state: &mut ServerState,
    request: &PlatformRequest,
    route: &str,
    channel: &str,
    parts: &[&str],
    fields: &Value,
) -> RestResult {
    match route {
        "GET me" => Ok(bot_user()),
        "GET guilds" => {
            let server = json!({"id": GUILD, "name": "team", "permissions": "0", "features": []});
            Ok(vec![server; state.servers].into())
        }
        "GET gateway" => Ok(json!({
            "url": format!("{}/gw", state.address.replace("http://", "ws://")), "shards": 1,
            "session_start_limit": {
                "total": 1000, "remaining": state.sessions_left, "reset_after": 7000,
                "max_concurrency": 1,
            },
        })),
        "GET application" => Ok(json!({
            "id": BOT_ID, "name": BOT_NAME, "icon": null, "description": "", "summary": "",
            "bot_public": true, "bot_require_code_grant": false, "verify_key": "0",
            "flags": state.flags, "interactions_endpoint_url": state.interactions_url,
            "owner": {"id": "1", "username": "owner", "discriminator": "0", "avatar": null},
            "team": null, "redirect_uris": [],
        })),
        "PUT commands" => put_commands(fields),
        "POST direct channel" => {
            let person = fields["recipient_id"].as_str().unwrap_or_default().to_owned();
            let person =
                if person.is_empty() { fields["recipient_id"].to_string() } else { person };
            Ok(state.describe_channel(&format!("9{person}")))
        }
        "GET channel" => {
            if !state.knows_channel(channel) {
                return Err((404, 10003, "Unknown Channel"));
            }
            Ok(state.describe_channel(channel))
        }
        "POST typing" => state.check_channel(channel).map(|()| Value::Null),
        "POST messages" => state.send_message(channel, fields, request.file.clone()),
        "PATCH message" => state.edit_message(channel, parts[3], fields),
        "POST callback" => state.answer_interaction(request, parts, fields),
        _ => Err((404, 0, "404: Not Found")),
    }
}

fn bot_user() -> Value {
    json!({
        "id": BOT_ID, "username": BOT_NAME, "discriminator": "0", "avatar": null, "bot": true,
        "global_name": null, "verified": true, "mfa_enabled": false, "flags": 0, "locale": "en-US",
    })
}

fn put_commands(fields: &Value) -> RestResult {
    let bad = Err((400, 50035, "Invalid Form Body"));
    let Some(commands) = fields.as_array() else { return bad };
    let mut answer = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        let text = |name: &str| command[name].as_str().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let is_right = !text("name").is_empty()
            && text("name").chars().all(is_name)
            && (1..=100).contains(&text("description").chars().count());
        if !is_right {
            return bad;
        }
        let mut stored = command.clone();
        stored["id"] = (700 + index).to_string().into();
        stored["application_id"] = BOT_ID.into();
        stored["version"] = "1".into();
        stored["default_member_permissions"] = Value::Null;
        answer.push(stored);
    }
    Ok(answer.into())
}

impl ServerState {
    fn knows_channel(&self, channel: &str) -> bool {
        channel == CHANNEL || channel.starts_with('9') || self.threads.contains_key(channel)
    }

    fn check_channel(&self, channel: &str) -> RestResult<()> {
        if !self.knows_channel(channel) {
            return Err((404, 10003, "Unknown Channel"));
        }
        if self.blocked.iter().any(|blocked| blocked == channel) {
            return Err((403, 50007, "Cannot send messages to this user"));
        }
        Ok(())
    }

    pub(super) fn describe_channel(&self, channel: &str) -> Value {
        if let Some(parent) = self.threads.get(channel) {
            return json!({
                "id": channel, "type": 11, "guild_id": GUILD, "parent_id": parent,
                "name": "a thread", "owner_id": "1", "message_count": 0, "member_count": 1,
                "rate_limit_per_user": 0, "flags": 0, "thread_metadata": {
                    "archived": false, "auto_archive_duration": 1440, "locked": false,
                    "archive_timestamp": "2026-01-01T00:00:00+00:00",
                },
            });
        }
        if let Some(person) = channel.strip_prefix('9') {
            let person = person.parse().unwrap_or_default();
            return json!({"id": channel, "type": 1, "recipients": [super::user(person)]});
        }
        json!({
            "id": channel, "type": 0, "guild_id": GUILD, "name": "general", "position": 0,
            "permission_overwrites": [], "nsfw": false, "parent_id": "8000", "topic": null,
            "rate_limit_per_user": 0,
        })
    }

    fn send_message(
        &mut self,
        channel: &str,
        fields: &Value,
        file: Option<(String, Vec<u8>)>,
    ) -> RestResult {
        self.check_channel(channel)?;
        let content = read_content(fields, file.is_some())?;
        let buttons = read_buttons(fields)?;
        if file.as_ref().is_some_and(|(_, bytes)| bytes.len() > MAX_FILE) {
            return Err((413, 40005, "Request entity too large"));
        }
        let nonce = match &fields["nonce"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        if nonce.as_ref().is_some_and(|nonce| nonce.chars().count() > MAX_NONCE) {
            return Err((400, 50035, "Invalid Form Body"));
        }
        let nonce = nonce.map(|nonce| (channel.to_owned(), nonce));
        let known = nonce.as_ref().and_then(|nonce| self.nonces.get(nonce)).copied();
        if let (Some(id), true) = (known, fields["enforce_nonce"] == true) {
            return Ok(self.describe(&self.messages[&id]));
        }
        let id = self.fresh_id();
        let reference = &fields["message_reference"]["message_id"];
        let reply_to = match reference {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let text = visible_text(&content);
        let channel = channel.to_owned();
        let message = BotMessage { id, channel, content, text, buttons, reply_to, file, edits: 0 };
        let shown = self.describe(&message);
        self.nonces.extend(nonce.map(|nonce| (nonce, id)));
        self.sent_buttons.insert(id, message.buttons.clone());
        self.messages.insert(id, message);
        Ok(shown)
    }

    fn edit_message(&mut self, channel: &str, id: &str, fields: &Value) -> RestResult {
        self.check_channel(channel)?;
        let content = read_content(fields, false)?;
        let buttons = read_buttons(fields)?;
        let id: u64 = id.parse().unwrap_or_default();
        let found = self.messages.get_mut(&id).filter(|one| one.channel == channel);
        let Some(message) = found else { return Err((404, 10008, "Unknown Message")) };
        message.text = visible_text(&content);
        message.content = content;
        message.buttons = buttons;
        message.edits += 1;
        let message = message.clone();
        Ok(self.describe(&message))
    }

    fn answer_interaction(
        &mut self,
        request: &PlatformRequest,
        parts: &[&str],
        fields: &Value,
    ) -> RestResult {
        let name = format!("{}/{}", parts[1], parts[2]);
        match self.interactions.get_mut(&name) {
            None => return Err((404, 10062, "Unknown interaction")),
            Some(is_answered) if *is_answered => {
                return Err((400, 40060, "Interaction has already been acknowledged."));
            }
            Some(is_answered) => *is_answered = true,
        }
        if fields["type"] == 4 {
            read_content(&fields["data"], false)?;
        }
        if !request.query.contains_key("with_response") {
            return Ok(Value::Null);
        }
        let interaction = json!({
            "id": parts[1], "type": 3, "response_message_id": "1",
            "response_message_loading": false, "response_message_ephemeral": true,
        });
        Ok(json!({"interaction": interaction, "resource": {"type": fields["type"]}}))
    }

    pub(super) fn describe(&self, message: &BotMessage) -> Value {
        let buttons = message.buttons.iter().map(
            |(label, value)| json!({"type": 2, "style": 2, "label": label, "custom_id": value}),
        );
        let rows = if message.buttons.is_empty() {
            json!([])
        } else {
            json!([{"type": 1, "components": buttons.collect::<Vec<_>>()}])
        };
        let attachments: Vec<Value> = message
            .file
            .iter()
            .map(|(name, bytes)| {
                let url = format!("{}/attachments/{}/{name}", self.address, message.id);
                json!({
                    "id": message.id.to_string(), "filename": name, "size": bytes.len(),
                    "url": url, "proxy_url": url,
                })
            })
            .collect();
        json!({
            "id": message.id.to_string(), "channel_id": message.channel, "author": bot_user(),
            "content": message.content, "timestamp": timestamp(), "edited_timestamp": null,
            "tts": false, "mention_everyone": false, "mentions": [], "mention_roles": [],
            "attachments": attachments, "embeds": [], "pinned": false, "type": 0,
            "components": rows,
        })
    }
}

fn read_content(fields: &Value, has_file: bool) -> RestResult<String> {
    let content = fields["content"].as_str().unwrap_or_default();
    if content.chars().count() > MAX_CONTENT {
        return Err((400, 50035, "Invalid Form Body"));
    }
    if content.trim().is_empty() && !has_file {
        return Err((400, 50006, "Cannot send an empty message"));
    }
    Ok(content.trim().to_owned())
}

fn read_buttons(fields: &Value) -> RestResult<Vec<(String, String)>> {
    let rows = fields["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found: Vec<(String, String)> = Vec::new();
    let bad = Err((400, 50035, "Invalid Form Body"));
    if rows.len() > MAX_ROW {
        return bad;
    }
    for row in rows {
        let buttons = row["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        if buttons.is_empty() || buttons.len() > MAX_ROW || row["type"] != 1 {
            return bad;
        }
        for button in buttons {
            let text = |name: &str| button[name].as_str().unwrap_or_default().to_owned();
            let (label, value) = (text("label"), text("custom_id"));
            let is_right = (1..=MAX_LABEL).contains(&label.chars().count())
                && (1..=MAX_CUSTOM_ID).contains(&value.chars().count())
                && found.iter().all(|(_, known)| *known != value);
            if !is_right {
                return bad;
            }
            found.push((label, value));
        }
    }
    Ok(found)
}
