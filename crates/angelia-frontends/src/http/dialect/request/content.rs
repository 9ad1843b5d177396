//! Content that every dialect reads in the same way: images, and items without a counterpart in a
//! message, which become marked text.

use std::sync::Arc;

use angelia_core::model::Content;

use super::InvalidRequest;
use crate::embedded_data;

/// The image types that every agent accepts.
pub const IMAGE_MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Decodes an image embedded in the request.
pub fn decode_image(media_type: &str, data: &str) -> Result<Content, InvalidRequest> {
    let media_type = media_type.trim().to_ascii_lowercase();
    let media_type = match media_type.as_str() {
        "image/jpg" => "image/jpeg",
        other => other,
    };
    if !IMAGE_MEDIA_TYPES.contains(&media_type) {
        let known = IMAGE_MEDIA_TYPES.join(", ");
        let message = format!("images of type `{media_type}` cannot be shown; use one of {known}");
        return Err(InvalidRequest::new(message));
    }
    Ok(Content::Image { media_type: media_type.into(), data: decode_base64(data)? })
}

/// Decodes bytes embedded in the request.
pub fn decode_base64(data: &str) -> Result<Arc<[u8]>, InvalidRequest> {
    embedded_data::decode_base64(data)
        .map_err(|error| InvalidRequest::new(format!("this is not base64: {error}")))
}

/// Decodes an image from a data URL. Refuses other addresses, because images are never fetched.
pub fn decode_image_url(url: &str) -> Result<Content, InvalidRequest> {
    let Some(DataUrl { media_type, data }) = DataUrl::parse(url) else {
        return Err(InvalidRequest::new(
            "images are not fetched from addresses; send the image itself as a data URL \
             (`data:image/png;base64,…`)",
        ));
    };
    decode_image(media_type, data)
}

/// `data:MEDIA_TYPE;base64,DATA`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataUrl<'a> {
    pub media_type: &'a str,
    pub data: &'a str,
}

impl<'a> DataUrl<'a> {
    pub fn parse(url: &'a str) -> Option<Self> {
        let url = url.trim();
        let (scheme, rest) = url.split_at_checked("data:".len())?;
        if !scheme.eq_ignore_ascii_case("data:") {
            return None;
        }
        let (head, data) = rest.split_once(',')?;
        let (media_type, coding) = head.rsplit_once(';')?;
        if !coding.eq_ignore_ascii_case("base64") {
            return None;
        }
        // Parameters (`;charset=…`) do not change the bytes.
        let media_type = media_type.split(';').next().unwrap_or(media_type);
        Some(Self { media_type, data })
    }
}

/// Returns whether the content is blank text.
pub fn is_blank(content: &Content) -> bool {
    matches!(content, Content::Text(text) if text.trim().is_empty())
}

/// Marks the text of a `system` message in the middle of a conversation.
pub fn system_text(text: &str) -> Content {
    Content::text(format!("<system>\n{text}\n</system>"))
}

/// Marks the text of a file, or a description of it.
pub fn file_text(name: &str, text: &str) -> Content {
    let name = name.replace(['"', '\n'], "'");
    Content::text(format!("<file name=\"{name}\">\n{text}\n</file>"))
}

/// Marks an item without a counterpart here. Its JSON is included verbatim.
pub fn unknown_text(kind: &str, json: &str) -> Content {
    let kind = kind.replace(['"', '\n'], "'");
    Content::text(format!("<item type=\"{kind}\">\n{json}\n</item>"))
}
