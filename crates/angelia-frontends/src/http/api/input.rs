//! The `input` of a turn: a string, or blocks of text and images.

use std::{fmt, sync::Arc};

use angelia_core::model::Content;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::{Value, json};

use super::super::dialect::content::{IMAGE_MEDIA_TYPES, is_blank};
use crate::embedded_data::{decode_base64, encode_base64};

/// Returns the JSON schema of an input.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    let text = |text: Value| {
        json!({
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": text},
            "required": ["type", "text"],
            "additionalProperties": false,
        })
    };
    let words = json!({"type": "string", "pattern": "\\S"});
    let base64 = json!({
        "type": "string",
        "contentEncoding": "base64",
        "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    });
    let image = json!({
        "type": "object",
        "properties": {
            "type": {"const": "image"},
            "media_type": {"enum": IMAGE_MEDIA_TYPES},
            "data": base64,
        },
        "required": ["type", "media_type", "data"],
        "additionalProperties": false,
    });
    json_schema!({"anyOf": [
        words,
        {
            "type": "array",
            "items": {"anyOf": [text(json!({"type": "string"})), image]},
            // At least one block must not be blank.
            "contains": {"anyOf": [text(words), image]},
        },
    ]})
}

/// The input of a turn. A deserialized input is never blank.
#[derive(Clone, Debug, Default)]
pub struct TurnInput(pub Vec<Content>);

impl Serialize for TurnInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let [Content::Text(text)] = &*self.0 {
            return serializer.serialize_str(text);
        }
        serializer.collect_seq(self.0.iter().map(|content| match content {
            Content::Text(text) => json!({"type": "text", "text": &**text}),
            Content::Image { media_type, data } => json!({
                "type": "image",
                "media_type": &**media_type,
                "data": encode_base64(data),
            }),
        }))
    }
}

impl<'de> Deserialize<'de> for TurnInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputVisitor).map(Self)
    }
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = Vec<Content>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of blocks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.trim().is_empty() {
            return Err(E::custom("there must be some text"));
        }
        Ok(vec![Content::text(text)])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Self::Value, A::Error> {
        let mut contents = Vec::new();
        while let Some(InputBlock(content)) = blocks.next_element()? {
            contents.push(content);
        }
        if contents.iter().all(is_blank) {
            return Err(A::Error::custom("there must be some text or an image"));
        }
        Ok(contents)
    }
}

struct InputBlock(Content);

impl<'de> Deserialize<'de> for InputBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The fields of all block types. The code below checks which ones belong together, with
        /// better error messages.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(rename = "type")]
            kind: String,
            text: Option<Arc<str>>,
            media_type: Option<Arc<str>>,
            data: Option<String>,
        }
        let fields = Fields::deserialize(deserializer)?;
        match (fields.kind.as_str(), fields.text, fields.media_type, fields.data) {
            ("text", Some(text), None, None) => Ok(Self(Content::Text(text))),
            ("text", ..) => Err(D::Error::custom("a text block has `text` and nothing else")),
            ("image", None, Some(media_type), Some(data)) => {
                if !IMAGE_MEDIA_TYPES.contains(&&*media_type) {
                    let known = IMAGE_MEDIA_TYPES.join(", ");
                    let message = format!("`media_type` must be one of {known}");
                    return Err(D::Error::custom(message));
                }
                let data = decode_base64(&data)
                    .map_err(|error| D::Error::custom(format!("`data` is not base64: {error}")))?;
                Ok(Self(Content::Image { media_type, data }))
            }
            ("image", ..) => Err(D::Error::custom(
                "an image block has `media_type`, `data` in base64, and nothing else",
            )),
            (other, ..) => Err(D::Error::custom(format!(
                "a block of type `{other}` is not known; use `text` or `image`"
            ))),
        }
    }
}
