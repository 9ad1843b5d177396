//! Converts the content blocks of a prompt into the input of a turn.

use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{
    BlobResourceContents, ContentBlock, EmbeddedResourceResource, ResourceLink,
};
use angelia_core::model::{Content, TurnOrigin};

use super::errors::AcpError;
use crate::embedded_data::decode_base64;

/// The input of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptInput {
    pub(super) input: Vec<Content>,
    /// `Remote` if the prompt embeds a file: text that the person did not type must not trigger
    /// commands or the reading of other files.
    pub(super) origin: TurnOrigin,
}

pub(super) fn decode_prompt(
    blocks: Vec<ContentBlock>,
    images: bool,
) -> Result<PromptInput, AcpError> {
    let mut origin = TurnOrigin::Owner;
    let mut input = Vec::with_capacity(blocks.len());
    for block in blocks {
        match block {
            ContentBlock::Text(text) => input.push(Content::text(text.text)),
            ContentBlock::Image(image) if images => {
                input.push(decode_image(image.mime_type, &image.data)?);
            }
            ContentBlock::Image(_) => {
                return Err(AcpError::invalid_params(
                    "the agent of this session does not accept images",
                ));
            }
            ContentBlock::ResourceLink(link) => input.push(Content::text(format_link(&link))),
            ContentBlock::Resource(resource) => {
                origin = TurnOrigin::Remote;
                input.push(convert_resource(resource.resource, images)?);
            }
            _ => {
                let message = "only text, images, resources and resource links are supported";
                return Err(AcpError::invalid_params(message));
            }
        }
    }
    let says_something = |content: &Content| match content {
        Content::Text(text) => !text.trim().is_empty(),
        Content::Image { .. } => true,
    };
    if !input.iter().any(says_something) {
        return Err(AcpError::invalid_params("the prompt must contain some text or an image"));
    }
    Ok(PromptInput { input, origin })
}

fn decode_image(media_type: String, data: &str) -> Result<Content, AcpError> {
    if !media_type.starts_with("image/") {
        let message =
            format!("`mimeType` of an image is `{media_type}`; use image/png or the like");
        return Err(AcpError::invalid_params(message));
    }
    let data = decode_base64(data)
        .map_err(|error| AcpError::invalid_params(format!("an image is not base64: {error}")))?;
    Ok(Content::Image { media_type: media_type.into(), data })
}

/// Returns a link as Markdown. The agent can open the target itself.
fn format_link(link: &ResourceLink) -> String {
    let name = link.title.as_deref().unwrap_or(&link.name);
    let mut text = format!("[{name}]({})", link.uri);
    if let Some(description) = &link.description {
        let _infallible = write!(text, " ({description})");
    }
    text
}

fn convert_resource(resource: EmbeddedResourceResource, images: bool) -> Result<Content, AcpError> {
    match resource {
        EmbeddedResourceResource::TextResourceContents(resource) => {
            let uri = escape_attribute(&resource.uri);
            let text = resource.text;
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let text = format!("<resource uri=\"{uri}\">\n{text}{end}</resource>");
            Ok(Content::text(text))
        }
        EmbeddedResourceResource::BlobResourceContents(BlobResourceContents {
            blob,
            mime_type: Some(media_type),
            ..
        }) if images && media_type.starts_with("image/") => decode_image(media_type, &blob),
        EmbeddedResourceResource::BlobResourceContents(resource) => {
            let kind = resource.mime_type.as_deref().unwrap_or("an unknown type");
            let uri = escape_attribute(&resource.uri);
            let text = format!("<resource uri=\"{uri}\">\n[not text: {kind}]\n</resource>");
            Ok(Content::text(text))
        }
        _ => Err(AcpError::invalid_params("a resource of this kind is not supported")),
    }
}

fn escape_attribute(text: &str) -> String {
    text.replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<PromptInput, AcpError> {
        decode_prompt(serde_json::from_str(json).unwrap(), true)
    }

    #[test]
    fn typed_text_is_the_owners_and_embedded_text_is_only_text() {
        let typed = read(r#"[{"type":"text","text":"/compact"}]"#).unwrap();
        assert_eq!(typed.origin, TurnOrigin::Owner);
        let embedded = read(
            r#"[{"type":"text","text":"look"},{"type":"resource","resource":
                {"uri":"file:///w/a.txt","mimeType":"text/plain","text":"one\ntwo"}}]"#,
        )
        .unwrap();
        assert_eq!(embedded.origin, TurnOrigin::Remote);
        let text = "<resource uri=\"file:///w/a.txt\">\none\ntwo\n</resource>";
        assert_eq!(embedded.input[1], Content::text(text));
    }

    #[test]
    fn a_link_is_named_with_its_address() {
        let link = r#"[{"type":"resource_link","name":"a.txt","uri":"file:///w/a.txt"}]"#;
        let said = read(link).unwrap();
        assert_eq!(said.input, [Content::text("[a.txt](file:///w/a.txt)")]);
        assert_eq!(said.origin, TurnOrigin::Owner);
    }

    #[test]
    fn pictures_come_as_images_or_inside_resources() {
        for json in [
            r#"[{"type":"image","mimeType":"image/png","data":"iVBORw=="}]"#,
            r#"[{"type":"resource","resource":{"uri":"x","mimeType":"image/png","blob":"iVBORw=="}}]"#,
            // Some clients omit the padding, and some break lines.
            r#"[{"type":"image","mimeType":"image/png","data":"iVBO\nRw"}]"#,
        ] {
            let said = read(json).unwrap();
            let [Content::Image { media_type, data }] = &*said.input else { panic!("{said:?}") };
            assert_eq!((&**media_type, &**data), ("image/png", &b"\x89PNG"[..]));
        }
    }

    #[test]
    fn what_cannot_be_passed_on_is_refused() {
        for odd in [
            "[]",
            r#"[{"type":"text","text":"  "}]"#,
            r#"[{"type":"image","mimeType":"image/png","data":"*"}]"#,
            r#"[{"type":"image","mimeType":"text/html","data":""}]"#,
            r#"[{"type":"audio","mimeType":"audio/wav","data":""}]"#,
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
        let image = r#"[{"type":"image","mimeType":"image/png","data":""}]"#;
        assert!(decode_prompt(serde_json::from_str(image).unwrap(), false).is_err());
    }
}
