//! Decodes the content of a message: a string, or parts. The two dialects use different names for
//! the same parts, so one decoder handles all names.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::Content;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::dialect::{
    InvalidRequest,
    content::{DataUrl, decode_base64, decode_image, decode_image_url, file_text, unknown_text},
    json,
};

/// The `type` of a part, an item or a tool.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct TypeTag<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Cow<'a, str>>,
}

/// Decodes `"text"`, `[parts]`, or nothing.
pub(super) fn contents(
    raw: Option<&RawValue>,
    place: &str,
) -> Result<Vec<Content>, InvalidRequest> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let text: Arc<str> = json::parse_part(raw, place)?;
            Ok(text_content(text).into_iter().collect())
        }
        Some(b'[') => {
            let parts: Vec<&RawValue> = json::parse_part(raw, place)?;
            let mut contents = Vec::with_capacity(parts.len());
            for (index, part) in parts.into_iter().enumerate() {
                contents.extend(content(part, &format!("{place}.{index}"))?);
            }
            Ok(contents)
        }
        _ => Err(InvalidRequest::in_field(place, "this must be a string or a list of parts")),
    }
}

/// Returns the text as content; empty text is dropped.
fn text_content(text: Arc<str>) -> Option<Content> {
    (!text.is_empty()).then_some(Content::Text(text))
}

fn content(raw: &RawValue, place: &str) -> Result<Option<Content>, InvalidRequest> {
    if raw.get().starts_with('"') {
        return Ok(text_content(json::parse_part(raw, place)?));
    }
    let kind: TypeTag<'_> = json::parse_part(raw, place)?;
    let kind = kind.kind.as_deref().unwrap_or("text");
    match kind {
        "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => {
            let part: TextPart = json::parse_part(raw, place)?;
            Ok(text_content(part.text))
        }
        "refusal" => {
            let part: RefusalPart = json::parse_part(raw, place)?;
            Ok(text_content(part.refusal))
        }
        "image_url" | "input_image" => {
            let part: ImagePart<'_> = json::parse_part(raw, place)?;
            let place = format!("{place}.image_url");
            let Some(url) = part.image_url else {
                let why = "there must be a data URL; files are not kept here";
                return Err(InvalidRequest::in_field(place, why));
            };
            let url = match url {
                ImageUrl::Plain(url) | ImageUrl::Object { url } => url,
            };
            decode_image_url(&url)
                .map(Some)
                .map_err(|invalid| InvalidRequest::in_field(place, invalid))
        }
        "file" => {
            let part: FilePart<'_> = json::parse_part(raw, place)?;
            file(&part.file, &format!("{place}.file")).map(Some)
        }
        "input_file" => {
            let part: File<'_> = json::parse_part(raw, place)?;
            file(&part, place).map(Some)
        }
        "input_audio" => {
            Err(InvalidRequest::in_field(place, "audio is not accepted; send text or images"))
        }
        other => Ok(Some(unknown_text(other, raw.get()))),
    }
}

/// Decodes a file: text becomes marked text, an image becomes an image.
fn file(file: &File<'_>, place: &str) -> Result<Content, InvalidRequest> {
    let refused = |why: &str| Err(InvalidRequest::in_field(place, why));
    let Some(data) = file.file_data.as_deref() else {
        return refused("files are not kept or fetched here; send the file itself as `file_data`");
    };
    let name = file.filename.as_deref().unwrap_or("file");
    let (media_type, data) = match DataUrl::parse(data) {
        Some(url) => (url.media_type, url.data),
        None => ("", data),
    };
    if media_type.starts_with("image/") {
        return decode_image(media_type, data)
            .map_err(|invalid| InvalidRequest::in_field(place, invalid));
    }
    let bytes = decode_base64(data)
        .map_err(|invalid| InvalidRequest::in_field(format!("{place}.file_data"), invalid))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) if !text.contains('\0') => Ok(file_text(name, text)),
        _ => refused("only files of text and images can be shown to the agent; convert it first"),
    }
}

#[derive(Debug, Deserialize)]
struct TextPart {
    text: Arc<str>,
}

#[derive(Debug, Deserialize)]
struct RefusalPart {
    refusal: Arc<str>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct ImagePart<'a> {
    #[serde(borrow)]
    image_url: Option<ImageUrl<'a>>,
}

/// An object in Chat, a string in Responses.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ImageUrl<'a> {
    Plain(#[serde(borrow)] Cow<'a, str>),
    Object {
        #[serde(borrow)]
        url: Cow<'a, str>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct FilePart<'a> {
    #[serde(borrow)]
    file: File<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct File<'a> {
    #[serde(borrow)]
    file_data: Option<Cow<'a, str>>,
    #[serde(borrow)]
    filename: Option<Cow<'a, str>>,
}
