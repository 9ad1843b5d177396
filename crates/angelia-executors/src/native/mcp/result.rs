//! Converts the answer of an MCP server for the model: text without terminal codes and within the
//! limits of every tool, images that models can see, and a line for everything else.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::Content;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};

use crate::native::tools::{CallOutput, MAX_IMAGE_BYTES, OutputCapture, OutputFolder, image_type};

/// Further images of a result are only mentioned.
const MAX_IMAGES: usize = 8;

/// The name of the file for text that is too long to be shown.
const FILE_NAME: &str = "mcp";

#[derive(Debug, Default)]
struct ResultParts {
    text: String,
    images: Vec<Content>,
}

pub(super) async fn to_output(result: CallToolResult, folder: Arc<OutputFolder>) -> CallOutput {
    let ok = result.is_error != Some(true);
    // Decoding images and writing a file may take a while.
    let converted = tokio::task::spawn_blocking(move || {
        let mut parts = ResultParts::default();
        for block in &result.content {
            parts.add(block);
        }
        // A server that returns structured data should also return it as text, so this is only a
        // fallback.
        if let (true, Some(data)) = (result.content.is_empty(), &result.structured_content) {
            parts.line(&data.to_string());
        }
        let mut capture = OutputCapture::new(folder, FILE_NAME);
        capture.push(parts.text.as_bytes());
        let mut content = Vec::new();
        let text = capture.finish().text;
        if !text.is_empty() || parts.images.is_empty() {
            content.push(Content::text(text));
        }
        content.extend(parts.images);
        content
    });
    match converted.await {
        Ok(content) => CallOutput { ok, content, changed: Vec::new() },
        Err(error) => CallOutput::failure(format!("the result cannot be read: {error}")),
    }
}

impl ResultParts {
    fn add(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.line(&text.text),
            ContentBlock::Image(image) => self.add_data("image", &image.mime_type, &image.data),
            ContentBlock::Audio(audio) => self.add_data("audio", &audio.mime_type, &audio.data),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.line(&format!("[resource {uri}]"));
                    self.line(text);
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let kind = mime_type.as_deref().unwrap_or("unknown type");
                    self.add_data(&format!("resource {uri}"), kind, blob);
                }
                _ => self.line("[a resource of an unknown kind]"),
            },
            ContentBlock::ResourceLink(link) => self.line(&describe_link(link)),
            _ => self.line("[content of an unknown kind]"),
        }
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// Adds an image, or a line about other data. The type is detected from the data, because
    /// servers state wrong types.
    fn add_data(&mut self, what: &str, stated_type: &str, base64: &str) {
        let Ok(bytes) = STANDARD.decode(base64.trim()) else {
            return self.line(&format!("[{what}: {stated_type}, not readable]"));
        };
        let size = bytes.len();
        match image_type(&bytes) {
            Some(media_type) if size <= MAX_IMAGE_BYTES && self.images.len() < MAX_IMAGES => {
                self.images
                    .push(Content::Image { media_type: media_type.into(), data: bytes.into() });
            }
            Some(media_type) => {
                self.line(&format!("[{what}: {media_type}, {size} bytes; too much to be shown]"));
            }
            None => self.line(&format!("[{what}: {stated_type}, {size} bytes; cannot be shown]")),
        }
    }
}

fn describe_link(link: &Resource) -> String {
    let mut text = format!("[resource {}: {}", link.uri, link.name);
    if let Some(kind) = &link.mime_type {
        let _infallible = write!(text, ", {kind}");
    }
    if let Some(size) = link.size {
        let _infallible = write!(text, ", {size} bytes");
    }
    text.push(']');
    if let Some(description) = &link.description {
        let _infallible = write!(text, " {description}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    async fn output(result: serde_json::Value) -> (CallOutput, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        let folder = Arc::new(OutputFolder::new(place.path().join("output")));
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        (to_output(result, folder).await, place)
    }

    #[tokio::test]
    async fn every_kind_of_content_is_shown_or_named() {
        let (output, _place) = output(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/jpeg", "data": PIXEL},
            {"type": "image", "mimeType": "image/png", "data": "bm8="},
            {"type": "audio", "mimeType": "audio/wav", "data": "bm8="},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "bm8="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "\u{1b}[31mthird"},
        ]}))
        .await;
        assert!(output.ok);
        insta::assert_snapshot!(output.all_text(), @r"
        one
        [image: image/png, 2 bytes; cannot be shown]
        [audio: audio/wav, 2 bytes; cannot be shown]
        [resource file:///a]
        inside
        [resource file:///b: unknown type, 2 bytes; cannot be shown]
        [resource file:///c: c] third
        ");
        let [Content::Text(_), Content::Image { media_type, .. }] = &*output.content else {
            panic!("{output:?}");
        };
        assert_eq!(&**media_type, "image/png");
    }

    #[tokio::test]
    async fn data_without_text_is_shown_and_errors_are_errors() {
        let (data, _place) = output(json!({"content": [], "structuredContent": {"a": 1}})).await;
        assert_eq!((data.ok, data.all_text().trim()), (true, r#"{"a":1}"#));
        let wrong = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
        let (wrong, _place) = output(wrong).await;
        assert_eq!((wrong.ok, wrong.all_text().trim()), (false, "no"));
        let (nothing, _place) = output(json!({"content": []})).await;
        assert_eq!((nothing.ok, nothing.content.len(), &*nothing.all_text()), (true, 1, ""));
    }

    #[tokio::test]
    async fn a_long_text_is_in_a_file() {
        let long = "0123456789\n".repeat(20_000);
        let (output, place) = output(json!({"content": [{"type": "text", "text": long}]})).await;
        let shown = output.all_text();
        assert!(shown.len() < 50_000 && shown.contains("all of it is in"), "{}", shown.len());
        let whole = std::fs::read_to_string(place.path().join("output/mcp-1.txt")).unwrap();
        assert_eq!(whole, long);
    }
}
