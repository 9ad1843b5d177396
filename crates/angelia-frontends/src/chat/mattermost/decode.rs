//! Decodes Mattermost frames and posts into events. Pure. Unreadable ones are skipped and never stop later
//! ones.

use std::sync::Arc;

use angelia_core::ports::{InboundFile, InboundMessage};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// A frame from the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFrame {
    /// Events are numbered from zero; responses have no number.
    pub number: Option<u64>,
    pub kind: FrameKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrameKind {
    Hello,
    /// The server rejects the token.
    Refused(String),
    Posted {
        post: Box<Post>,
        is_direct: bool,
        /// The ids of the mentioned people.
        mentions: Vec<String>,
    },
    Edited(Box<Post>),
    Deleted(Box<Post>),
    Reaction(Reaction),
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Post {
    pub id: Arc<str>,
    /// In milliseconds, like all times here.
    pub create_at: i64,
    pub(super) edit_at: i64,
    pub(super) delete_at: i64,
    pub user_id: Arc<str>,
    pub channel_id: Arc<str>,
    /// The first post of its thread; empty for a post outside threads.
    pub(super) root_id: Arc<str>,
    message: String,
    /// Empty for posts that people write.
    #[serde(rename = "type")]
    kind: String,
    pub(super) props: Value,
    metadata: PostMetadata,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PostMetadata {
    files: Option<Vec<FileInfo>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct FileInfo {
    id: Arc<str>,
    #[serde(default)]
    name: Arc<str>,
    mime_type: Option<Arc<str>>,
    size: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Reaction {
    pub(super) user_id: Arc<str>,
    pub(super) post_id: Arc<str>,
    pub(super) emoji_name: String,
    #[serde(default)]
    pub(super) create_at: i64,
}

/// The bot's identity.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MattermostBot {
    pub(super) id: Arc<str>,
    #[serde(default)]
    pub(super) username: String,
    #[serde(default)]
    pub(super) is_bot: bool,
}

impl ServerFrame {
    /// Parses a frame. Returns `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let frame: Value = serde_json::from_str(text).ok()?;
        if frame.get("seq_reply").is_some() {
            let why = frame["error"]["message"].as_str().unwrap_or("no reason");
            let is_refusal = frame["status"] == "FAIL";
            let refused = is_refusal.then(|| FrameKind::Refused(why.to_owned()));
            return Some(Self { number: None, kind: refused.unwrap_or(FrameKind::Other) });
        }
        let number = frame["seq"].as_u64();
        let data = &frame["data"];
        let post = || read_inner::<Post>(&data["post"]).filter(Post::is_whole).map(Box::new);
        let kind = match frame["event"].as_str()? {
            "hello" => Some(FrameKind::Hello),
            "posted" => post().map(|post| FrameKind::Posted {
                post,
                is_direct: data["channel_type"] == "D",
                mentions: read_inner(&data["mentions"]).unwrap_or_default(),
            }),
            "post_edited" => post().map(FrameKind::Edited),
            "post_deleted" => post().map(FrameKind::Deleted),
            "reaction_added" => read_inner(&data["reaction"]).map(FrameKind::Reaction),
            _ => None,
        };
        Some(Self { number, kind: kind.unwrap_or(FrameKind::Other) })
    }
}

/// Parses JSON inside a string.
fn read_inner<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(value.as_str()?).ok()
}

impl Post {
    fn is_whole(&self) -> bool {
        !self.id.is_empty() && !self.user_id.is_empty() && !self.channel_id.is_empty()
    }

    /// Returns whether a person wrote the post, not the server or another program.
    pub(super) fn is_of_person(&self) -> bool {
        let is_set = |name: &str| self.props[name] == "true" || self.props[name] == true;
        self.kind.is_empty() && !is_set("from_bot") && !is_set("from_webhook")
    }

    /// Returns the address of the post's conversation. A top-level post in a channel begins a thread; direct
    /// messages form one conversation.
    pub(super) fn chat(&self, is_direct: bool) -> Arc<str> {
        match (&*self.root_id, is_direct) {
            ("", true) => Arc::clone(&self.channel_id),
            ("", false) => format!("{}#{}", self.channel_id, self.id).into(),
            (root, _) => format!("{}#{root}", self.channel_id).into(),
        }
    }

    /// Returns whether the text mentions the bot.
    pub(super) fn mentions(&self, bot: &MattermostBot) -> bool {
        find_name(&self.message, &bot.username).is_some()
    }

    /// Converts the post for the host. Returns `None` if it has neither words nor files.
    pub(super) fn to_message(
        &self,
        bot: &MattermostBot,
        is_direct: bool,
        is_addressed: bool,
    ) -> Option<InboundMessage> {
        let mut text = self.message.clone();
        if let Some(at) = find_name(&text, &bot.username) {
            text.replace_range(at..=at + bot.username.len(), "");
        }
        let files: Vec<InboundFile> = self
            .metadata
            .files
            .iter()
            .flatten()
            .map(|file| InboundFile {
                id: Arc::clone(&file.id),
                name: Arc::clone(&file.name),
                media_type: file.mime_type.clone(),
                size: file.size,
            })
            .collect();
        let text = text.trim().trim_start_matches([':', ',']).trim_start();
        if text.is_empty() && files.is_empty() {
            return None;
        }
        Some(InboundMessage {
            id: Arc::clone(&self.id),
            text: text.into(),
            is_direct,
            is_addressed,
            quoted: None,
            files,
            sent_at: Timestamp::from_millisecond(self.create_at).unwrap_or(Timestamp::UNIX_EPOCH),
        })
    }
}

/// Returns the position of `@name` as a whole word.
fn find_name(text: &str, name: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let mentions = text.match_indices('@').map(|(at, _)| at);
    let mut mentions = mentions.filter(|at| {
        let before = text[..*at].chars().next_back();
        let rest = &text[at + 1..];
        let head = rest.get(..name.len()).filter(|_| !name.is_empty());
        let after = rest.get(name.len()..).and_then(|rest| rest.chars().next());
        head.is_some_and(|head| head.eq_ignore_ascii_case(name))
            && !before.is_some_and(is_word)
            && !after.is_some_and(is_word)
    });
    mentions.next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bot() -> MattermostBot {
        MattermostBot { id: "b".into(), username: "ada-bot".into(), is_bot: true }
    }

    fn post(fields: &Value) -> Post {
        let mut all = json!({"id": "p", "user_id": "u", "channel_id": "c", "create_at": 5});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let frame = json!({
            "event": "posted", "seq": 3, "data": {
                "channel_type": "O", "post": all.to_string(), "mentions": "[\"x\"]",
            },
        });
        let frame = ServerFrame::parse(&frame.to_string()).unwrap();
        assert_eq!(frame.number, Some(3));
        match frame.kind {
            FrameKind::Posted { post, is_direct, mentions } => {
                assert_eq!((is_direct, mentions), (false, vec!["x".to_owned()]));
                *post
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn posts_are_read_with_their_place() {
        let plain = post(&json!({"message": "hello all"}));
        assert!(plain.is_of_person() && !plain.mentions(&bot()));
        assert_eq!((&*plain.chat(true), &*plain.chat(false)), ("c", "c#p"));
        let named = post(&json!({"message": "@Ada-Bot: do it", "root_id": "r"}));
        assert_eq!(&*named.chat(true), "c#r");
        let words = named.to_message(&bot(), false, true).unwrap();
        assert_eq!((&*words.text, named.mentions(&bot())), ("do it", true));
        for other in ["@ada-bottom", "x@ada-bot", "@ada", "ada-bot"] {
            assert!(!post(&json!({"message": other})).mentions(&bot()), "{other}");
        }
        assert!(!post(&json!({"type": "system_join_channel"})).is_of_person());
        assert!(!post(&json!({"props": {"from_bot": "true"}})).is_of_person());
        assert_eq!(post(&json!({"message": " "})).to_message(&bot(), true, true), None);
        let file = post(&json!({"metadata": {"files": [{"id": "f", "name": "a.txt", "size": 7}]}}));
        let message = file.to_message(&bot(), true, true).unwrap();
        assert_eq!((&*message.files[0].name, message.files[0].size), ("a.txt", Some(7)));
    }

    #[test]
    fn frames_are_read() {
        let kind = |text: &str| ServerFrame::parse(text).map(|frame| frame.kind);
        assert_eq!(kind(r#"{"event": "hello", "seq": 0}"#), Some(FrameKind::Hello));
        assert_eq!(kind(r#"{"status": "OK", "seq_reply": 1}"#), Some(FrameKind::Other));
        let refusal = r#"{"status": "FAIL", "error": {"message": "no"}, "seq_reply": 1}"#;
        assert_eq!(kind(refusal), Some(FrameKind::Refused("no".to_owned())));
        assert_eq!(kind(r#"{"event": "posted", "data": {"post": "{"}}"#), Some(FrameKind::Other));
        for nothing in ["", "[1]", "{}", r#"{"event": 7}"#] {
            assert_eq!(kind(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_decoder(message in "[@a-z \\PC]{0,30}", name in "[a-z@é-]{0,4}") {
            let bot = MattermostBot { username: name, ..bot() };
            let _message = post(&json!({"message": message})).to_message(&bot, true, true);
        }
    }
}
