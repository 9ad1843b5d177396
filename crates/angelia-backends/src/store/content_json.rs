//! The JSON form of content on disk: the input of a turn, and the messages of a carried history.
//! All enums are externally tagged, because `RawValue` works in no other kind of enum.

use std::sync::Arc;

use angelia_core::model::{Content, HistoryMessage, MessagePart, RawJson, Role, ToolId};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::{
    As, DeserializeAs, DisplayFromStr, SerializeAs, de::DeserializeAsWrap, ser::SerializeAsWrap,
};

use super::unreadable::Unreadable;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Content", rename_all = "snake_case")]
enum ContentBody {
    Text(Arc<str>),
    Image {
        media_type: Arc<str>,
        #[serde(rename = "base64", with = "As::<Base64Text>")]
        data: Arc<[u8]>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HistoryMessage")]
pub(super) struct MessageBody {
    #[serde(with = "RoleBody")]
    role: Role,
    #[serde(with = "As::<Vec<PartBody>>")]
    parts: Vec<MessagePart>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Role", rename_all = "snake_case")]
enum RoleBody {
    User,
    Assistant,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MessagePart", rename_all = "snake_case")]
enum PartBody {
    Content(#[serde(with = "ContentBody")] Content),
    Thinking {
        text: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    ToolUse {
        #[serde(with = "As::<DisplayFromStr>")]
        id: ToolId,
        name: Arc<str>,
        input: RawJson,
    },
    ToolResult {
        #[serde(with = "As::<DisplayFromStr>")]
        id: ToolId,
        ok: bool,
        #[serde(with = "As::<Vec<ContentBody>>")]
        content: Vec<Content>,
    },
}

/// Encodes the input of a turn.
pub(super) fn encode(input: &[Content]) -> Result<String, Unreadable> {
    let body = SerializeAsWrap::<[Content], [ContentBody]>::new(input);
    Ok(serde_json::to_string(&body)?)
}

pub(super) fn decode(body: &str) -> Result<Vec<Content>, Unreadable> {
    let body: DeserializeAsWrap<Vec<Content>, Vec<ContentBody>> = serde_json::from_str(body)?;
    Ok(body.into_inner())
}

/// Bytes as Base64.
struct Base64Text;

impl SerializeAs<Arc<[u8]>> for Base64Text {
    fn serialize_as<S: Serializer>(bytes: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64.encode(bytes))
    }
}

impl<'de> DeserializeAs<'de, Arc<[u8]>> for Base64Text {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64.decode(text).map(Into::into).map_err(serde::de::Error::custom)
    }
}

// A remote derive makes two functions. These impls let lists use them.

impl SerializeAs<Content> for ContentBody {
    fn serialize_as<S: Serializer>(content: &Content, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(content, to)
    }
}

impl<'de> DeserializeAs<'de, Content> for ContentBody {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<Content, D::Error> {
        Self::deserialize(from)
    }
}

impl SerializeAs<MessagePart> for PartBody {
    fn serialize_as<S: Serializer>(part: &MessagePart, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(part, to)
    }
}

impl<'de> DeserializeAs<'de, MessagePart> for PartBody {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<MessagePart, D::Error> {
        Self::deserialize(from)
    }
}

impl SerializeAs<HistoryMessage> for MessageBody {
    fn serialize_as<S: Serializer>(message: &HistoryMessage, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(message, to)
    }
}

impl<'de> DeserializeAs<'de, HistoryMessage> for MessageBody {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<HistoryMessage, D::Error> {
        Self::deserialize(from)
    }
}
