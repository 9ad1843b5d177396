//! The JSON form of content on disk: the input of a turn, and the messages of a carried history.
//! All enums are externally tagged, because `RawValue` works in no other kind of enum.

use std::borrow::Cow;

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role, ToolId};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::SqliteError;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ContentBody<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Image {
        #[serde(borrow)]
        media_type: Cow<'a, str>,
        #[serde(borrow)]
        base64: Cow<'a, str>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MessageBody<'a> {
    role: RoleBody,
    #[serde(borrow)]
    parts: Vec<PartBody<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleBody {
    User,
    Assistant,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartBody<'a> {
    #[serde(borrow)]
    Content(ContentBody<'a>),
    Thinking {
        #[serde(borrow)]
        text: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Cow<'a, str>>,
    },
    ToolUse {
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        input: &'a RawValue,
    },
    ToolResult {
        #[serde(borrow)]
        id: Cow<'a, str>,
        ok: bool,
        #[serde(borrow)]
        content: Vec<ContentBody<'a>>,
    },
}

/// Encodes the input of a turn.
pub(super) fn encode(input: &[Content]) -> Result<String, SqliteError> {
    let bodies: Vec<_> = input.iter().map(ContentBody::of).collect();
    Ok(serde_json::to_string(&bodies)?)
}

pub(super) fn decode(body: &str) -> Result<Vec<Content>, SqliteError> {
    decode_contents(serde_json::from_str(body)?)
}

fn decode_contents(bodies: Vec<ContentBody<'_>>) -> Result<Vec<Content>, SqliteError> {
    bodies.into_iter().map(ContentBody::into_content).collect()
}

impl<'a> ContentBody<'a> {
    fn of(content: &'a Content) -> Self {
        match content {
            Content::Text(text) => Self::Text((&**text).into()),
            Content::Image { media_type, data } => Self::Image {
                media_type: (&**media_type).into(),
                base64: BASE64.encode(data).into(),
            },
        }
    }

    fn into_content(self) -> Result<Content, SqliteError> {
        Ok(match self {
            Self::Text(text) => Content::Text(text.into()),
            Self::Image { media_type, base64 } => Content::Image {
                media_type: media_type.into(),
                data: BASE64
                    .decode(&*base64)
                    .map_err(|error| SqliteError::Unreadable(format!("an image: {error}")))?
                    .into(),
            },
        })
    }
}

impl<'a> MessageBody<'a> {
    pub(super) fn of(message: &'a HistoryMessage) -> Self {
        Self {
            role: match message.role {
                Role::User => RoleBody::User,
                Role::Assistant => RoleBody::Assistant,
            },
            parts: message.parts.iter().map(PartBody::of).collect(),
        }
    }

    pub(super) fn into_message(self) -> Result<HistoryMessage, SqliteError> {
        Ok(HistoryMessage {
            role: match self.role {
                RoleBody::User => Role::User,
                RoleBody::Assistant => Role::Assistant,
            },
            parts: self.parts.into_iter().map(PartBody::into_part).collect::<Result<_, _>>()?,
        })
    }
}

impl<'a> PartBody<'a> {
    fn of(part: &'a MessagePart) -> Self {
        match part {
            MessagePart::Content(content) => Self::Content(ContentBody::of(content)),
            MessagePart::Thinking { text, signature } => Self::Thinking {
                text: (&**text).into(),
                signature: signature.as_deref().map(Cow::Borrowed),
            },
            MessagePart::ToolUse { id, name, input } => {
                Self::ToolUse { id: id.as_str().into(), name: (&**name).into(), input }
            }
            MessagePart::ToolResult { id, ok, content } => Self::ToolResult {
                id: id.as_str().into(),
                ok: *ok,
                content: content.iter().map(ContentBody::of).collect(),
            },
        }
    }

    fn into_part(self) -> Result<MessagePart, SqliteError> {
        Ok(match self {
            Self::Content(content) => MessagePart::Content(content.into_content()?),
            Self::Thinking { text, signature } => {
                MessagePart::Thinking { text: text.into(), signature: signature.map(Into::into) }
            }
            Self::ToolUse { id, name, input } => MessagePart::ToolUse {
                id: ToolId::new(id),
                name: name.into(),
                input: input.to_owned().into(),
            },
            Self::ToolResult { id, ok, content } => MessagePart::ToolResult {
                id: ToolId::new(id),
                ok,
                content: decode_contents(content)?,
            },
        })
    }
}
