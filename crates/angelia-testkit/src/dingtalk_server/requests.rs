//! The API calls, and how they are refused.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{
    CLIENT_ID, CLIENT_SECRET, MessageWay, RobotCall, RobotFault, RobotMessage, ServerState,
    TEMPLATE, markdown::visible_text,
};
use crate::platform_server::{PlatformAnswer, PlatformRequest};

/// Maximum size of a message in bytes.
const MAX_BODY: usize = 20_000;

/// The public template of the official library.
const PUBLIC_TEMPLATE: &str = "382e4302-551d-4880-bf29-a30acfab2e71.schema";

type Answer = Result<Value, (u16, &'static str, String)>;

/// Returns the answer, or `None` if the connection is cut.
pub(super) fn answer(state: &mut ServerState, request: &PlatformRequest) -> Option<PlatformAnswer> {
    // The older library sends JSON without saying so.
    let fields = match serde_json::from_slice::<Value>(&request.body) {
        Ok(fields) if fields.is_object() => fields,
        _ => request.fields.clone(),
    };
    state.calls.push(RobotCall {
        path: request.path.clone(),
        fields: fields.clone(),
        headers: request.headers.clone(),
        query: request.query.clone(),
        at: std::time::Instant::now(),
    });
    if let Some(code) = request.path.strip_prefix("/files/") {
        return Some(match state.files.get(code) {
            Some(bytes) => PlatformAnswer::bytes(200, "application/octet-stream", bytes.clone()),
            None => refusal(404, "notFound", "no such file"),
        });
    }
    let fault = state.faults.get_mut(&request.path).and_then(VecDeque::pop_front);
    match fault {
        Some(RobotFault::Refuse(status, code, message)) => {
            return Some(refusal(status, &code, &message));
        }
        Some(RobotFault::ErrorCode(code)) => {
            let body = json!({"errcode": code, "errmsg": "refused"});
            return Some(PlatformAnswer::json(200, &body));
        }
        Some(RobotFault::Cut) => {
            let _done = answer_path(state, request, &fields);
            return None;
        }
        None => {}
    }
    if let Some(scope) = state.denied.get(&request.path) {
        let body = json!({
            "code": "Forbidden.AccessDenied.AccessTokenPermissionDenied", "requestid": "r",
            "message": "the app lacks a permission",
            "accessdenieddetail": {"requiredScopes": [scope]},
        });
        return Some(PlatformAnswer::json(403, &body));
    }
    Some(match answer_path(state, request, &fields) {
        Ok(body) => PlatformAnswer::json(200, &body),
        Err((status, code, message)) => refusal(status, code, &message),
    })
}

fn refusal(status: u16, code: &str, message: &str) -> PlatformAnswer {
    let body = json!({"code": code, "message": message, "requestid": "r"});
    PlatformAnswer::json(status, &body)
}

fn answer_path(state: &mut ServerState, request: &PlatformRequest, fields: &Value) -> Answer {
    let is_ours =
        |id: &str, secret: &str| fields[id] == CLIENT_ID && fields[secret] == CLIENT_SECRET;
    match request.path.as_str() {
        "/v1.0/gateway/connections/open" => {
            if !is_ours("clientId", "clientSecret") {
                return Err((401, "authFailed", "wrong credentials".to_owned()));
            }
            if fields["subscriptions"].as_array().is_none_or(Vec::is_empty) {
                return Err((400, "invalidParameter", "no subscriptions".to_owned()));
            }
            // The ticket contains characters that must be encoded in an address.
            let ticket = format!("t+/=& %{}", state.fresh_id());
            state.tickets.insert(ticket.clone());
            let endpoint = format!("{}/connect", state.address.replacen("http", "ws", 1));
            return Ok(json!({"endpoint": endpoint, "ticket": ticket}));
        }
        "/v1.0/oauth2/accessToken" => {
            if !is_ours("appKey", "appSecret") {
                return Err((400, "invalidClientIdOrSecret", "wrong credentials".to_owned()));
            }
            let token = format!("token-{}", state.fresh_id());
            state.tokens.insert(token.clone());
            return Ok(json!({"accessToken": token, "expireIn": state.token_lifetime}));
        }
        "/robot/sendBySession" => return send_by_session(state, request, fields),
        "/media/upload" => return Ok(upload(state, request)),
        _ => {}
    }
    if !state.tokens.contains(request.header("x-acs-dingtalk-access-token")) {
        return Err((401, "InvalidAuthentication", "the token is not valid".to_owned()));
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1.0/robot/oToMessages/batchSend") => {
            let people: Vec<String> = fields["userIds"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect();
            if people.is_empty() || people.len() > 20 {
                return Err((400, "invalidParameter", "userIds".to_owned()));
            }
            let (blocked, reached): (Vec<String>, Vec<String>) =
                people.into_iter().partition(|one| state.blocked.contains(one));
            for person in reached {
                send_by_api(state, &format!("user:{person}"), fields)?;
            }
            Ok(json!({
                "processQueryKey": format!("query-{}", state.fresh_id()),
                "invalidStaffIdList": blocked, "flowControlledStaffIdList": [],
            }))
        }
        ("POST", "/v1.0/robot/groupMessages/send") => {
            let group = fields["openConversationId"].as_str().unwrap_or_default().to_owned();
            if group.is_empty() || group.starts_with("user:") {
                return Err((400, "invalidParameter", "openConversationId".to_owned()));
            }
            send_by_api(state, &group, fields)?;
            Ok(json!({"processQueryKey": format!("query-{}", state.fresh_id())}))
        }
        ("POST", "/v1.0/robot/messageFiles/download") => {
            let code = fields["downloadCode"].as_str().unwrap_or_default();
            if fields["robotCode"] != CLIENT_ID || !state.files.contains_key(code) {
                return Err((400, "invalidParameter", "downloadCode".to_owned()));
            }
            Ok(json!({"downloadUrl": format!("{}/files/{code}", state.address)}))
        }
        ("POST", "/v1.0/card/instances" | "/v1.0/card/instances/createAndDeliver") => {
            let is_delivered = request.path.ends_with("createAndDeliver");
            create_card(state, fields, is_delivered)
        }
        ("POST", "/v1.0/card/instances/deliver") => deliver_card(state, fields),
        ("PUT", "/v1.0/card/instances") => {
            change_card(state, fields, &fields["cardData"]["cardParamMap"])?;
            Ok(json!({"success": true, "result": true}))
        }
        ("PUT", "/v1.0/card/streaming") => {
            if fields["guid"].as_str().is_none_or(str::is_empty) {
                return Err((400, "invalidParameter", "guid".to_owned()));
            }
            let key = fields["key"].as_str().unwrap_or_default();
            change_card(state, fields, &json!({key: fields["content"]}))?;
            Ok(json!({"success": true, "result": true}))
        }
        _ => Err((404, "notFound", request.path.clone())),
    }
}

fn shown(markdown: &Value) -> Result<String, String> {
    visible_text(markdown.as_str().unwrap_or_default())
}

fn add_message(
    state: &mut ServerState,
    chat: &str,
    way: MessageWay,
    content: MessageContent,
) -> Result<(), String> {
    if content.text.trim().is_empty() && content.file.is_none() {
        return Err("the message is empty".to_owned());
    }
    let id = format!("message-{}", state.fresh_id());
    let MessageContent { text, buttons, file } = content;
    let first_buttons = buttons.clone();
    let (chat, status) = (chat.to_owned(), String::new());
    state.messages.push(RobotMessage { id, chat, text, buttons, first_buttons, file, way, status });
    Ok(())
}

#[derive(Default)]
struct MessageContent {
    text: String,
    buttons: Vec<(String, String)>,
    file: Option<(String, Vec<u8>)>,
}

fn send_by_session(state: &mut ServerState, request: &PlatformRequest, fields: &Value) -> Answer {
    let failed = |code: i64, why: &str| Ok(json!({"errcode": code, "errmsg": why}));
    let session = request.query.get("session").cloned().unwrap_or_default();
    let Some(chat) = state.sessions.get(&session).cloned() else {
        return failed(300_001, "session not exist");
    };
    if request.body.len() > MAX_BODY {
        return failed(460_101, "message too long");
    }
    let mut content = MessageContent::default();
    let text = match fields["msgtype"].as_str() {
        Some("text") => Ok(fields["text"]["content"].as_str().unwrap_or_default().to_owned()),
        Some("markdown") if fields["markdown"]["title"].as_str().is_some() => {
            shown(&fields["markdown"]["text"])
        }
        Some("actionCard") => {
            for button in fields["actionCard"]["btns"].as_array().into_iter().flatten() {
                content.buttons.push((text_of(button, "title"), text_of(button, "actionURL")));
            }
            shown(&fields["actionCard"]["text"])
        }
        _ => return failed(400_102, "unknown msgtype"),
    };
    match text {
        Ok(text) => content.text = text,
        Err(why) => return failed(400_105, &why),
    }
    match add_message(state, &chat, MessageWay::SessionWebhook, content) {
        Ok(()) => Ok(json!({"errcode": 0, "errmsg": "ok"})),
        Err(why) => failed(400_105, &why),
    }
}

fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn send_by_api(
    state: &mut ServerState,
    chat: &str,
    fields: &Value,
) -> Result<(), (u16, &'static str, String)> {
    let invalid = |why: &str| (400, "invalidParameter", why.to_owned());
    let parameters = fields["msgParam"].as_str().filter(|text| text.len() <= MAX_BODY);
    let parameters: Value = parameters
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(|| invalid("msgParam is no JSON in a string, or too long"))?;
    if fields["robotCode"] != CLIENT_ID {
        return Err((400, "robot.not.exist", "robotCode".to_owned()));
    }
    let mut content = MessageContent::default();
    let key = fields["msgKey"].as_str().unwrap_or_default();
    let media = |name: &str| {
        let id = parameters[name].as_str().unwrap_or_default();
        state.media.get(id).cloned().ok_or_else(|| invalid("no such media"))
    };
    match key {
        "sampleText" => content.text = text_of(&parameters, "content"),
        "sampleMarkdown" => {
            content.text = shown(&parameters["text"]).map_err(|why| invalid(&why))?;
        }
        "sampleImageMsg" => content.file = Some(media("photoURL")?),
        "sampleFile" => {
            let (_, bytes) = media("mediaId")?;
            content.file = Some((text_of(&parameters, "fileName"), bytes));
        }
        "sampleActionCard" => {
            content.text = shown(&parameters["text"]).map_err(|why| invalid(&why))?;
            let button = (text_of(&parameters, "singleTitle"), text_of(&parameters, "singleURL"));
            content.buttons.push(button);
        }
        card if card.starts_with("sampleActionCard") => {
            let count: usize = card["sampleActionCard".len()..].parse().unwrap_or_default();
            content.text = shown(&parameters["text"]).map_err(|why| invalid(&why))?;
            for number in 1..=count {
                let label = text_of(&parameters, &format!("actionTitle{number}"));
                let url = text_of(&parameters, &format!("actionURL{number}"));
                if label.is_empty() || url.is_empty() || !(2..=5).contains(&count) {
                    return Err(invalid("a button is missing"));
                }
                content.buttons.push((label, url));
            }
        }
        _ => return Err(invalid("msgKey")),
    }
    add_message(state, chat, MessageWay::Api, content).map_err(|why| invalid(&why))
}

fn upload(state: &mut ServerState, request: &PlatformRequest) -> Value {
    let token = request.query.get("access_token").cloned().unwrap_or_default();
    if !state.tokens.contains(&token) {
        return json!({"errcode": 40_014, "errmsg": "invalid access_token"});
    }
    let kind = request.query.get("type").map(String::as_str);
    let kind = kind.or_else(|| request.fields["type"].as_str());
    let Some(file) = request.file.clone().filter(|_| matches!(kind, Some("file" | "image"))) else {
        return json!({"errcode": 40_035, "errmsg": "no file or no type"});
    };
    let id = format!("@media{}", state.fresh_id());
    state.media.insert(id.clone(), file);
    json!({"errcode": 0, "errmsg": "ok", "media_id": id, "type": kind})
}

/// Creates a card. An existing one is left unchanged.
fn create_card(state: &mut ServerState, fields: &Value, is_delivered: bool) -> Answer {
    let template = fields["cardTemplateId"].as_str().unwrap_or_default();
    if ![TEMPLATE, PUBLIC_TEMPLATE].contains(&template) {
        return Err((400, "param.templateNotExist", "cardTemplateId".to_owned()));
    }
    let id = text_of(fields, "outTrackId");
    if id.is_empty() {
        return Err((400, "param.error", "outTrackId".to_owned()));
    }
    if state.messages.iter().all(|one| one.id != id) {
        state.messages.push(RobotMessage {
            id: id.clone(),
            chat: String::new(),
            text: String::new(),
            buttons: Vec::new(),
            first_buttons: Vec::new(),
            file: None,
            way: MessageWay::Card,
            status: String::new(),
        });
        change_card(state, fields, &fields["cardData"]["cardParamMap"])?;
        if let Some(card) = state.messages.last_mut() {
            card.first_buttons = card.buttons.clone();
        }
    }
    if is_delivered {
        return deliver_card(state, fields);
    }
    Ok(json!({"success": true, "result": id}))
}

fn deliver_card(state: &mut ServerState, fields: &Value) -> Answer {
    let space = fields["openSpaceId"].as_str().unwrap_or_default();
    let group = space.strip_prefix("dtv1.card//IM_GROUP.");
    let person = space.strip_prefix("dtv1.card//IM_ROBOT.");
    let chat = match (group, person) {
        (Some(group), _) if fields["imGroupOpenDeliverModel"]["robotCode"] == CLIENT_ID => {
            group.to_owned()
        }
        (_, Some(person)) if fields["imRobotOpenDeliverModel"]["spaceType"] == "IM_ROBOT" => {
            format!("user:{person}")
        }
        _ => return Err((400, "param.error", "openSpaceId".to_owned())),
    };
    let id = text_of(fields, "outTrackId");
    let is_blocked = person.is_some_and(|one| state.blocked.iter().any(|known| known == one));
    let Some(card) = state.messages.iter_mut().find(|one| one.id == id) else {
        return Err((400, "param.cardNotExist", "outTrackId".to_owned()));
    };
    if !is_blocked {
        card.chat = chat;
    }
    let result = json!({"spaceType": "IM", "success": !is_blocked, "errorMsg": "not reachable"});
    Ok(json!({"success": true, "result": {"outTrackId": id, "deliverResults": [result]}}))
}

fn change_card(
    state: &mut ServerState,
    fields: &Value,
    variables: &Value,
) -> Result<(), (u16, &'static str, String)> {
    let id = text_of(fields, "outTrackId");
    let Some(card) = state.messages.iter_mut().find(|one| one.id == id) else {
        return Err((400, "param.cardNotExist", "outTrackId".to_owned()));
    };
    let variables = variables.as_object().cloned().unwrap_or_default();
    if variables.values().any(|value| !value.is_string()) {
        return Err((400, "param.error", "every variable is a string".to_owned()));
    }
    for (name, value) in &variables {
        match name.as_str() {
            "msgContent" => {
                card.text = shown(value).map_err(|why| (400, "param.error", why))?;
            }
            "flowStatus" => value.as_str().unwrap_or_default().clone_into(&mut card.status),
            "sys_full_json_obj" => {
                let layout: Value =
                    serde_json::from_str(value.as_str().unwrap_or_default()).unwrap_or_default();
                let buttons = layout["msgButtons"].as_array().into_iter().flatten();
                card.buttons =
                    buttons.map(|one| (text_of(one, "text"), text_of(one, "id"))).collect();
            }
            _ => {}
        }
    }
    Ok(())
}
