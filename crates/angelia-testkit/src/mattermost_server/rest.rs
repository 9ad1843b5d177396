//! The REST API, and how it refuses requests.

use serde_json::{Map, Value, json};

use super::{BOT_NAME, ServerState, TOKEN, id_of};
use crate::platform_server::{PlatformAnswer, PlatformRequest};

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 16_383;

const MAX_FILE: usize = 100 << 20;

pub(super) fn refusal(status: u16, why: &str) -> PlatformAnswer {
    let body = json!({
        "id": "api.fake.app_error", "message": why, "detailed_error": "", "status_code": status,
    });
    PlatformAnswer::json(status, &body)
}

fn parts_of(request: &PlatformRequest) -> Vec<&str> {
    request.path.strip_prefix("/api/v4/").unwrap_or_default().split('/').collect()
}

/// Returns the name of a request: its method and action.
pub(super) fn name_of(request: &PlatformRequest) -> String {
    let action = match parts_of(request).as_slice() {
        ["users", "me"] => "me",
        ["users" | "channels" | "posts", _, action] | [action, ..] => action,
        [] => "nothing",
    }
    .to_owned();
    format!("{} {action}", request.method)
}

pub(super) fn answer(
    state: &mut ServerState,
    name: &str,
    request: &PlatformRequest,
) -> PlatformAnswer {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return refusal(401, "Invalid or expired session, please login again.");
    }
    let ok = |body: &Value| PlatformAnswer::json(200, body);
    let parts = parts_of(request);
    let fields = &request.fields;
    match (name, parts.as_slice()) {
        ("GET me", _) => ok(&user(&id_of(BOT_NAME), BOT_NAME, true)),
        ("GET users", [_, id]) => {
            let name = id.trim_end_matches('x');
            ok(&user(id, name, false))
        }
        ("GET teams", _) if state.has_no_team => ok(&json!([])),
        ("GET teams", _) => ok(&json!([{"id": id_of("team"), "name": "team"}])),
        ("GET channels", ["users", ..]) => {
            let channels = state.channels.iter();
            let own = channels.filter(|(_, channel)| channel.members.contains(&id_of(BOT_NAME)));
            let own: Vec<Value> = own
                .map(|(id, channel)| {
                    json!({
                        "id": id, "type": channel.kind, "last_post_at": channel.last_post_at,
                    })
                })
                .collect();
            ok(&own.into())
        }
        ("GET channels", [_, id]) => match state.channels.get(*id) {
            Some(channel) => ok(&json!({"id": id, "type": channel.kind})),
            None => refusal(404, "Unable to find the existing channel."),
        },
        ("GET posts", ["channels", id, _]) => list_posts(state, id, request),
        ("GET posts", [_, id]) => match state.posts.get(*id) {
            Some(post) => ok(post),
            None => refusal(404, "Unable to get the post."),
        },
        ("POST posts", _) => create_post(state, fields),
        ("PUT patch", [_, id, _]) => patch_post(state, id, fields),
        ("POST reactions", _) => add_reaction(state, fields),
        ("POST typing", _) => match check_channel(state, fields) {
            Ok(()) => ok(&json!({"status": "OK"})),
            Err(refusal) => refusal,
        },
        ("POST files", _) => upload(state, request),
        ("GET files", [_, id]) => match state.files.get(*id) {
            Some((_, bytes)) => PlatformAnswer::bytes(200, "text/plain", bytes.clone()),
            None => refusal(404, "Unable to get the file info."),
        },
        _ => refusal(404, "Sorry, we could not find the page."),
    }
}

fn user(id: &str, name: &str, is_bot: bool) -> Value {
    json!({"id": id, "username": name, "is_bot": is_bot, "roles": "system_user", "email": ""})
}

fn check_channel(state: &ServerState, fields: &Value) -> Result<(), PlatformAnswer> {
    let channel = state.channels.get(fields["channel_id"].as_str().unwrap_or_default());
    match channel {
        None => Err(refusal(404, "Unable to find the existing channel.")),
        Some(channel) if !channel.members.contains(&id_of(BOT_NAME)) => {
            Err(refusal(403, "You do not have the appropriate permissions."))
        }
        Some(_) => Ok(()),
    }
}

fn check_message(fields: &Value) -> Result<(), PlatformAnswer> {
    let length = fields["message"].as_str().unwrap_or_default().chars().count();
    if length > MAX_MESSAGE {
        return Err(refusal(
            400,
            "Post Message property is longer than the maximum permitted length.",
        ));
    }
    Ok(())
}

fn create_post(state: &mut ServerState, fields: &Value) -> PlatformAnswer {
    if let Err(refusal) = check_channel(state, fields).and_then(|()| check_message(fields)) {
        return refusal;
    }
    let has_file = fields["file_ids"].as_array().is_some_and(|files| !files.is_empty());
    if fields["message"].as_str().unwrap_or_default().is_empty() && !has_file {
        return refusal(400, "Invalid message.");
    }
    let root = fields["root_id"].as_str().unwrap_or_default();
    if !root.is_empty() && state.posts.get(root).is_none_or(|post| post["root_id"] != "") {
        return refusal(400, "Invalid RootId parameter.");
    }
    PlatformAnswer::json(201, &state.add_post(&id_of(BOT_NAME), fields))
}

fn patch_post(state: &mut ServerState, id: &str, fields: &Value) -> PlatformAnswer {
    let Some(post) = state.posts.get(id) else { return refusal(404, "Unable to get the post.") };
    if post["user_id"] != id_of(BOT_NAME).as_str() {
        return refusal(403, "You do not have the appropriate permissions.");
    }
    if let Err(refusal) = check_channel(state, &post.clone()).and_then(|()| check_message(fields)) {
        return refusal;
    }
    let changed = state.change_post(id, "post_edited", |post, at| {
        for name in ["message", "props"] {
            if !fields[name].is_null() {
                post[name] = fields[name].clone();
            }
        }
        post["edit_at"] = at.into();
        post["edits"] = (post["edits"].as_u64().unwrap_or_default() + 1).into();
    });
    PlatformAnswer::json(200, &changed)
}

fn add_reaction(state: &mut ServerState, fields: &Value) -> PlatformAnswer {
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    let (user, post, emoji) = (text("user_id"), text("post_id"), text("emoji_name"));
    if !state.posts.contains_key(&post) || user != id_of(BOT_NAME) {
        return refusal(403, "You do not have the appropriate permissions.");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
    if emoji.is_empty() || !emoji.chars().all(is_name) {
        return refusal(400, "Invalid emoji name.");
    }
    let reaction = (user, post, emoji);
    if !state.reactions.contains(&reaction) {
        state.reactions.push(reaction);
    }
    let at = state.tick();
    let mut reaction = fields.clone();
    reaction["create_at"] = at.into();
    state.send_event("reaction_added", &json!({"reaction": reaction.to_string()}));
    PlatformAnswer::json(201, &reaction)
}

fn list_posts(state: &ServerState, channel: &str, request: &PlatformRequest) -> PlatformAnswer {
    let since = request.query.get("since").and_then(|text| text.parse().ok()).unwrap_or(0_i64);
    let mut posts = Map::new();
    let mut order = Vec::new();
    for id in state.order.iter().rev() {
        let Some(post) = state.posts.get(id) else { continue };
        if post["channel_id"] == channel && post["update_at"].as_i64() > Some(since) {
            posts.insert(id.clone(), post.clone());
            order.push(id);
        }
    }
    PlatformAnswer::json(200, &json!({"order": order, "posts": posts}))
}

fn upload(state: &mut ServerState, request: &PlatformRequest) -> PlatformAnswer {
    if let Err(refusal) = check_channel(state, &request.fields) {
        return refusal;
    }
    let Some((name, bytes)) = &request.file else { return refusal(400, "There is no file.") };
    if bytes.len() > MAX_FILE {
        return refusal(413, "File is too large.");
    }
    let id = id_of(&format!("upload{}", state.files.len()));
    state.files.insert(id.clone(), (name.clone(), bytes.clone()));
    let info = json!({"id": id, "name": name, "size": bytes.len()});
    PlatformAnswer::json(201, &json!({"file_infos": [info], "client_ids": []}))
}
