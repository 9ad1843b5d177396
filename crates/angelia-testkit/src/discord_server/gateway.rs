//! The gateway: sessions with numbered events. An event that arrives while a session has no connection is
//! sent when the session is resumed. Before the first session, events wait for it.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use super::{BOT_ID, BOT_NAME, CHANNEL, GUILD, ServerState, TOKEN};
use crate::platform_server::{ClientSocket, PlatformRequest, SocketFrame};

/// The intent to read messages, which the owner must grant.
const MESSAGE_CONTENT: u64 = 1 << 15;

/// How the gateway fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayFault {
    /// Every connection is closed with this code.
    Close(u16),
    /// Every connection is cut without a close frame.
    Cut,
    /// Every connection is asked to reconnect.
    Reconnect,
    /// Every session is invalidated; the flag says whether it can be resumed.
    Invalidate(bool),
    /// New connections are no longer greeted.
    NoHello,
    /// Sessions no longer start.
    NoReady,
    /// Heartbeats are no longer answered.
    NoAck,
    /// This many resumes are refused with a close code.
    RefuseResumes(usize),
    /// All sessions are forgotten.
    ForgetSessions,
    /// Everything works again.
    None,
}

#[derive(Debug)]
pub(super) struct GatewayState {
    pub(super) heartbeat_interval: Duration,
    /// The frames sent by clients.
    pub(super) frames: Vec<Value>,
    pub(super) delivered: usize,
    sessions: HashMap<String, GatewaySession>,
    /// Connections without a session.
    new_sockets: Vec<ClientSocket>,
    /// Events that came before the first session.
    early: Vec<(String, Value)>,
    /// The last event.
    last: Option<(String, Value)>,
    fault: GatewayFault,
    refused_resumes: usize,
}

#[derive(Debug, Default)]
struct GatewaySession {
    /// Every event with its number.
    events: Vec<Value>,
    socket: Option<ClientSocket>,
}

impl Default for GatewayState {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(41_250),
            frames: Vec::new(),
            delivered: 0,
            sessions: HashMap::new(),
            new_sockets: Vec::new(),
            early: Vec::new(),
            last: None,
            fault: GatewayFault::None,
            refused_resumes: 0,
        }
    }
}

impl GatewaySession {
    /// Numbers an event, and sends it if a client is connected.
    fn push(&mut self, name: &str, data: &Value) -> bool {
        let seq = self.events.len() + 1;
        let frame = json!({"op": 0, "s": seq, "t": name, "d": data});
        if let Some(socket) = &self.socket {
            socket.send_json(&frame);
        }
        self.events.push(frame);
        self.socket.is_some()
    }
}

impl GatewayState {
    pub(super) fn push(&mut self, name: &str, data: &Value) {
        self.last = Some((name.to_owned(), data.clone()));
        if self.sessions.is_empty() {
            self.early.push((name.to_owned(), data.clone()));
        }
        for session in self.sessions.values_mut() {
            self.delivered += usize::from(session.push(name, data));
        }
    }

    pub(super) fn repeat(&mut self, times: usize) {
        let Some((name, data)) = self.last.clone() else { return };
        for _ in 0..times {
            self.push(&name, &data);
        }
    }

    pub(super) fn fail(&mut self, fault: GatewayFault) {
        let sockets: Vec<ClientSocket> = self.sockets().cloned().collect();
        for socket in sockets {
            match fault {
                GatewayFault::Close(code) => socket.close(code, "closed by the test"),
                GatewayFault::Cut => socket.cut(),
                GatewayFault::Reconnect => socket.send_json(&json!({"op": 7, "d": null})),
                GatewayFault::Invalidate(can_resume) => {
                    socket.send_json(&json!({"op": 9, "d": can_resume}));
                }
                _ => continue,
            }
            // Whatever comes from now on is for the next connection.
            self.forget(&socket);
        }
        match fault {
            GatewayFault::RefuseResumes(count) => self.refused_resumes = count,
            GatewayFault::ForgetSessions | GatewayFault::Invalidate(false) => self.sessions.clear(),
            GatewayFault::Close(_)
            | GatewayFault::Cut
            | GatewayFault::Reconnect
            | GatewayFault::Invalidate(true) => {}
            lasting => self.fault = lasting,
        }
    }

    pub(super) fn send_frame(&self, text: &str) {
        for socket in self.sockets() {
            socket.send_text(text);
        }
    }

    fn sockets(&self) -> impl Iterator<Item = &ClientSocket> {
        let live = self.sessions.values().filter_map(|session| session.socket.as_ref());
        live.chain(&self.new_sockets)
    }

    pub(super) fn greet(&mut self, request: &PlatformRequest, socket: &ClientSocket) {
        let asked = |name: &str| request.query.get(name).map(String::as_str);
        if asked("v") != Some("10") || asked("encoding") != Some("json") {
            socket.close(4012, "Invalid API version");
            return;
        }
        self.new_sockets.push(socket.clone());
        if self.fault != GatewayFault::NoHello {
            let interval = u64::try_from(self.heartbeat_interval.as_millis()).unwrap_or(u64::MAX);
            socket.send_json(&json!({
                "op": 10, "s": null, "t": null, "d": {"heartbeat_interval": interval},
            }));
        }
    }

    pub(super) fn forget(&mut self, socket: &ClientSocket) {
        self.new_sockets.retain(|one| one.id() != socket.id());
        for session in self.sessions.values_mut() {
            session.socket.take_if(|one| one.id() == socket.id());
        }
    }

    fn has_session(&self, socket: &ClientSocket) -> bool {
        self.new_sockets.iter().all(|one| one.id() != socket.id())
    }

    fn resume(&mut self, fields: &Value, socket: &ClientSocket) {
        if self.refused_resumes > 0 {
            self.refused_resumes -= 1;
            socket.close(4000, "Unknown error");
            return;
        }
        let id = fields["session_id"].as_str().unwrap_or_default();
        let Some(session) = self.sessions.get_mut(id) else {
            socket.send_json(&json!({"op": 9, "d": false}));
            return;
        };
        let seq = fields["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok());
        let Some(missed) = seq.and_then(|seq| session.events.get(seq..)) else {
            socket.close(4007, "Invalid seq");
            return;
        };
        for frame in missed {
            socket.send_json(frame);
            self.delivered += 1;
        }
        self.new_sockets.retain(|one| one.id() != socket.id());
        session.socket = Some(socket.clone());
        session.push("RESUMED", &json!({"_trace": []}));
    }
}

/// Handles a frame from a client.
pub(super) fn take_frame(state: &mut ServerState, socket: &ClientSocket, frame: &SocketFrame) {
    let Some(frame) = frame.json() else {
        socket.close(4002, "Error while decoding payload.");
        return;
    };
    state.gateway.frames.push(frame.clone());
    let fields = &frame["d"];
    let is_token_right = fields["token"] == TOKEN;
    match frame["op"].as_u64() {
        Some(1) => {
            if state.gateway.fault != GatewayFault::NoAck {
                socket.send_json(&json!({"op": 11, "d": null}));
            }
        }
        Some(2 | 6) if state.gateway.has_session(socket) => {
            socket.close(4005, "Already authenticated.");
        }
        Some(2 | 6) if !is_token_right => socket.close(4004, "Authentication failed."),
        Some(2) => identify(state, fields, socket),
        Some(6) if state.gateway.fault == GatewayFault::NoReady => {}
        Some(6) => state.gateway.resume(fields, socket),
        _ => socket.close(4001, "Unknown opcode."),
    }
}

fn identify(state: &mut ServerState, fields: &Value, socket: &ClientSocket) {
    let Some(intents) = fields["intents"].as_u64().filter(|_| fields["properties"].is_object())
    else {
        socket.close(4013, "Invalid intent(s).");
        return;
    };
    if intents & MESSAGE_CONTENT != 0 && state.flags == 0 {
        socket.close(4014, "Disallowed intent(s).");
        return;
    }
    if state.gateway.fault == GatewayFault::NoReady {
        return;
    }
    state.sessions_left = state.sessions_left.saturating_sub(1);
    let id = format!("session-{}", state.fresh_id());
    let address = format!("{}/gw", state.address.replace("http://", "ws://"));
    let guild = describe_guild(state);
    let gateway = &mut state.gateway;
    gateway.forget(socket);
    // A bot has only one session here, so an older one ends.
    gateway.sessions.clear();
    let mut session = GatewaySession { socket: Some(socket.clone()), ..GatewaySession::default() };
    session.push(
        "READY",
        &json!({
            "v": 10, "session_id": id, "resume_gateway_url": address,
            "user": {
                "id": BOT_ID, "username": BOT_NAME, "discriminator": "0", "avatar": null,
                "bot": true, "verified": true, "flags": 0,
            },
            "application": {"id": BOT_ID, "flags": state.flags},
            "guilds": [{"id": GUILD, "unavailable": true}],
        }),
    );
    session.push("GUILD_CREATE", &guild);
    for (name, data) in gateway.early.drain(..) {
        session.push(&name, &data);
        gateway.delivered += 1;
    }
    gateway.sessions.insert(id, session);
}

fn describe_guild(state: &ServerState) -> Value {
    let threads: Vec<Value> =
        state.threads.keys().map(|thread| state.describe_channel(thread)).collect();
    json!({
        "id": GUILD, "name": "team", "owner_id": "1", "unavailable": false, "member_count": 2,
        "channels": [state.describe_channel(CHANNEL)], "threads": threads, "members": [],
        "roles": [{"id": GUILD, "name": "@everyone", "permissions": "0", "position": 0, "color": 0,
            "hoist": false, "managed": false, "mentionable": false}],
        "emojis": [], "stickers": [], "features": [], "voice_states": [], "presences": [],
        "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
        "verification_level": 0, "explicit_content_filter": 0, "default_message_notifications": 0,
        "mfa_level": 0, "nsfw_level": 0, "premium_tier": 0, "preferred_locale": "en-US",
        "joined_at": "2020-01-01T00:00:00+00:00", "large": false, "afk_timeout": 0,
        "premium_progress_bar_enabled": false, "system_channel_flags": 0,
    })
}
