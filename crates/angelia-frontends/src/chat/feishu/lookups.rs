//! Looks up what events do not contain: names, the kind of a chat, and the message being answered. Each is
//! requested once, with a short time limit, and a failure only means that the information is missing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use angelia_core::ports::{InboundEvent, InboundKind};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    adapter::Feishu,
    content::read_content,
    decode::DecodedEvent,
    open_api::{ApiRequest, OpenApiError},
};

/// The acknowledgement waits for the lookups and must be sent within three seconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Above this number, all entries are forgotten and looked up again.
const MAX_KNOWN: usize = 10_000;

/// The results so far.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Names by person; empty if the app may not see the name.
    names: Mutex<HashMap<Arc<str>, Arc<str>>>,
    /// Whether a chat is direct.
    direct_chats: Mutex<HashMap<Arc<str>, bool>>,
}

impl Lookups {
    pub(super) fn is_direct(&self, chat: &str) -> Option<bool> {
        self.direct_chats.lock().get(chat).copied()
    }
}

fn remember<T>(known: &Mutex<HashMap<Arc<str>, T>>, key: &str, value: T) {
    let mut known = known.lock();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(key.into(), value);
}

impl Feishu {
    /// Completes an event with what the platform returns in time.
    pub(super) async fn complete(&self, decoded: DecodedEvent) -> InboundEvent {
        let DecodedEvent { mut event, parent, is_direct } = decoded;
        let chat = event.chat.split('#').next().unwrap_or_default().to_owned();
        if let (InboundKind::Message(_), Some(is_direct)) = (&event.kind, is_direct) {
            remember(&self.lookups.direct_chats, &chat, is_direct);
        }
        let sender = Arc::clone(&event.sender.id);
        let name = timeout(LOOKUP_TIMEOUT, self.name_of(&sender));
        let (name, asked) = match &mut event.kind {
            InboundKind::Press(press) => {
                let asked = timeout(LOOKUP_TIMEOUT, self.is_direct_chat(&chat));
                let asked = async {
                    if is_direct.is_none() { asked.await.ok().flatten() } else { is_direct }
                };
                let (name, is_direct) = tokio::join!(name, asked);
                // An unknown chat counts as a group, which is stricter.
                press.is_direct = is_direct.unwrap_or_default();
                (name, None)
            }
            InboundKind::Message(_) => match &parent {
                Some(parent) => {
                    let asked = timeout(LOOKUP_TIMEOUT, self.look_up_message(parent));
                    let (name, asked) = tokio::join!(name, asked);
                    (name, asked.ok().flatten())
                }
                None => (name.await, None),
            },
            _ => return event,
        };
        if let Ok(Some(name)) = name {
            event.sender.name = name;
        }
        if let (InboundKind::Message(message), Some(asked)) = (&mut event.kind, asked) {
            message.is_addressed |= asked.is_ours;
            message.quoted = asked.text.filter(|_| !asked.is_ours);
        }
        event
    }

    async fn name_of(&self, person: &str) -> Option<Arc<str>> {
        if let Some(name) = self.lookups.names.lock().get(person) {
            return Some(Arc::clone(name));
        }
        let request = ApiRequest::get(format!("contact/v3/users/{}", plain_id(person)?));
        let answer = self.api.call(&request.query("user_id_type", "open_id")).await;
        let name: Arc<str> = match answer {
            Ok(answer) => answer["data"]["user"]["name"].as_str().unwrap_or_default().into(),
            // The app may not see who the person is.
            Err(OpenApiError::Refused(_)) => "".into(),
            Err(OpenApiError::Transport(_)) => return None,
        };
        remember(&self.lookups.names, person, Arc::clone(&name));
        Some(name)
    }

    async fn is_direct_chat(&self, chat: &str) -> Option<bool> {
        if let Some(is_direct) = self.lookups.is_direct(chat) {
            return Some(is_direct);
        }
        let request = ApiRequest::get(format!("im/v1/chats/{}", plain_id(chat)?));
        let answer = self.api.call(&request).await.ok()?;
        let is_direct = answer["data"]["chat_mode"].as_str()? == "p2p";
        remember(&self.lookups.direct_chats, chat, is_direct);
        Some(is_direct)
    }

    async fn look_up_message(&self, id: &str) -> Option<AskedMessage> {
        let request = ApiRequest::get(format!("im/v1/messages/{}", plain_id(id)?));
        let answer = self.api.call(&request).await.ok()?;
        let message = &answer["data"]["items"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let sender = &message["sender"];
        let is_ours = sender["sender_type"] == "app" && sender["id"] == *self.api.app_id;
        let (kind, content) = (text(&message["msg_type"]), text(&message["body"]["content"]));
        let words = read_content(id, &kind, &content).text;
        let words = (!words.trim().is_empty()).then(|| words.trim().into());
        Some(AskedMessage { is_ours, text: words })
    }
}

/// A message that somebody answers.
struct AskedMessage {
    is_ours: bool,
    text: Option<Arc<str>>,
}

/// Returns the id if it is safe inside a path.
pub(super) fn plain_id(id: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!id.is_empty() && id.len() <= 256 && id.chars().all(is_plain)).then_some(id)
}
