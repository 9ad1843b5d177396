//! Decodes the content of messages: a string, or blocks. Blocks without a counterpart become marked
//! text. Only an image at an external address is refused, because nothing could replace it.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{Content, MessagePart, RawJson, Role, ToolId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::dialect::{
        InvalidRequest,
        content::{
            decode_base64, decode_image, decode_image_url, file_text, system_text, unknown_text,
        },
        json,
    },
    encode::PLACEHOLDER_SIGNATURE,
};

#[derive(Debug, Deserialize)]
pub(super) struct BlockType<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
}

/// Decodes the content of a message.
pub(super) fn parts(
    role: Role,
    content: Option<&RawValue>,
    place: &str,
) -> Result<Vec<MessagePart>, InvalidRequest> {
    read_blocks(content, place, |raw, place| part(role, raw, place))
}

/// Decodes a `system` message within the conversation. Its texts are marked.
pub(super) fn system_parts(
    content: Option<&RawValue>,
    place: &str,
) -> Result<Vec<MessagePart>, InvalidRequest> {
    let contents = read_blocks(content, place, contents)?;
    let marked = contents.into_iter().map(|content| match content {
        Content::Text(text) => system_text(&text),
        image @ Content::Image { .. } => image,
    });
    Ok(marked.map(MessagePart::Content).collect())
}

/// Returns every text of the system prompt, in order.
pub(super) fn texts(
    content: Option<&RawValue>,
    place: &str,
) -> Result<Vec<Arc<str>>, InvalidRequest> {
    Ok(only_texts(read_blocks(content, place, contents)?))
}

fn only_texts(contents: Vec<Content>) -> Vec<Arc<str>> {
    let texts = contents.into_iter().filter_map(|content| match content {
        Content::Text(text) => Some(text),
        Content::Image { .. } => None,
    });
    texts.collect()
}

/// Applies `read` to each block of the content. A string is one block of text; missing content has
/// no blocks.
fn read_blocks<T>(
    content: Option<&RawValue>,
    place: &str,
    read: impl Fn(&RawValue, &str) -> Result<Vec<T>, InvalidRequest>,
) -> Result<Vec<T>, InvalidRequest> {
    let Some(content) = content else {
        return Ok(Vec::new());
    };
    match content.get().as_bytes().first() {
        Some(b'"') => read(content, place),
        Some(b'[') => {
            let blocks: Vec<&RawValue> = json::parse_part(content, place)?;
            let mut all = Vec::with_capacity(blocks.len());
            for (index, block) in blocks.into_iter().enumerate() {
                all.extend(read(block, &format!("{place}.{index}"))?);
            }
            Ok(all)
        }
        _ => Err(InvalidRequest::in_field(place, "this must be a string or a list of blocks")),
    }
}

fn part(role: Role, raw: &RawValue, place: &str) -> Result<Vec<MessagePart>, InvalidRequest> {
    if json::is_object(raw) {
        let kind: BlockType<'_> = json::parse_part(raw, place)?;
        match (&*kind.kind, role) {
            ("tool_use", Role::Assistant) => return tool_use(raw, place).map(|part| vec![part]),
            ("tool_result", Role::User) => return tool_result(raw, place).map(|part| vec![part]),
            ("thinking", Role::Assistant) => return thinking(raw, place).map(|part| vec![part]),
            // Only the vendor can read this block.
            ("redacted_thinking", Role::Assistant) => return Ok(Vec::new()),
            _ => {}
        }
    }
    let contents = contents(raw, place)?;
    Ok(contents.into_iter().map(MessagePart::Content).collect())
}

/// Decodes a block that may occur in a message or in a tool's result.
fn contents(raw: &RawValue, place: &str) -> Result<Vec<Content>, InvalidRequest> {
    if json::is_object(raw) {
        let kind: BlockType<'_> = json::parse_part(raw, place)?;
        match &*kind.kind {
            "document" => return Ok(document(raw)),
            "search_result" => return Ok(search_result(raw)),
            _ => {}
        }
    }
    decode_plain(raw, place)
}

/// Decodes a block that may also occur in a document. Documents are excluded here, so that a
/// request cannot nest them without end.
fn decode_plain(raw: &RawValue, place: &str) -> Result<Vec<Content>, InvalidRequest> {
    if raw.get().starts_with('"') {
        return Ok(text_contents(json::parse_part(raw, place)?));
    }
    if !json::is_object(raw) {
        return Err(InvalidRequest::in_field(place, "this must be a block"));
    }
    let kind: BlockType<'_> = json::parse_part(raw, place)?;
    match &*kind.kind {
        "text" => {
            #[derive(Deserialize)]
            struct Text {
                text: Arc<str>,
            }
            let block: Text = json::parse_part(raw, place)?;
            Ok(text_contents(block.text))
        }
        "image" => {
            let block: Image<'_> = json::parse_part(raw, place)?;
            let image = block.source.image();
            image.map(|image| vec![image]).map_err(|refused| {
                InvalidRequest::in_field(format!("{place}.source"), refused.message)
            })
        }
        other => Ok(vec![unknown_text(other, raw.get())]),
    }
}

/// Returns the text as content; empty text is dropped.
fn text_contents(text: Arc<str>) -> Vec<Content> {
    if text.is_empty() { Vec::new() } else { vec![Content::Text(text)] }
}

fn tool_use(raw: &RawValue, place: &str) -> Result<MessagePart, InvalidRequest> {
    #[derive(Deserialize)]
    struct ToolUse {
        id: Arc<str>,
        name: Arc<str>,
        input: Option<Box<RawValue>>,
    }
    let block: ToolUse = json::parse_part(raw, place)?;
    let input = block.input.unwrap_or_default();
    let input: RawJson = if json::is_object(&input) { input.into() } else { json::literal("{}") };
    Ok(MessagePart::ToolUse { id: ToolId::new(block.id), name: block.name, input })
}

fn tool_result(raw: &RawValue, place: &str) -> Result<MessagePart, InvalidRequest> {
    #[derive(Deserialize)]
    struct ToolResult<'a> {
        tool_use_id: Arc<str>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        is_error: Option<bool>,
    }
    let block: ToolResult<'_> = json::parse_part(raw, place)?;
    Ok(MessagePart::ToolResult {
        id: ToolId::new(block.tool_use_id),
        ok: !block.is_error.unwrap_or(false),
        content: read_blocks(block.content, &format!("{place}.content"), contents)?,
    })
}

fn thinking(raw: &RawValue, place: &str) -> Result<MessagePart, InvalidRequest> {
    #[derive(Deserialize)]
    struct Thinking {
        thinking: Arc<str>,
        signature: Option<Arc<str>>,
    }
    let block: Thinking = json::parse_part(raw, place)?;
    // Our placeholder is not a real signature.
    let theirs =
        |signature: &Arc<str>| !signature.is_empty() && **signature != *PLACEHOLDER_SIGNATURE;
    Ok(MessagePart::Thinking { text: block.thinking, signature: block.signature.filter(theirs) })
}

#[derive(Debug, Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    source: MediaSource<'a>,
}

/// The source of an image or a document.
#[derive(Debug, Deserialize)]
struct MediaSource<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    media_type: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

impl MediaSource<'_> {
    fn image(&self) -> Result<Content, InvalidRequest> {
        match &*self.kind {
            "base64" => decode_image(&self.media_type, &self.data),
            "url" => decode_image_url(&self.url),
            other => Err(InvalidRequest::new(format!(
                "images of a `{other}` source are not kept here; send the image itself as `base64`"
            ))),
        }
    }

    /// Returns the text of a document, if it is text.
    fn text(&self) -> Option<String> {
        match &*self.kind {
            "text" => Some(self.data.clone().into_owned()),
            "base64" => {
                let bytes = decode_base64(&self.data).ok()?;
                let text = std::str::from_utf8(&bytes).ok()?;
                (!text.contains('\0')).then(|| text.to_owned())
            }
            _ => None,
        }
    }
}

/// Decodes a document. Files and pages that we cannot read are named, so that the model knows which
/// content it did not get.
fn document(raw: &RawValue) -> Vec<Content> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        source: MediaSource<'a>,
        #[serde(borrow)]
        title: Option<Cow<'a, str>>,
        #[serde(borrow)]
        context: Option<Cow<'a, str>>,
    }
    let Ok(document) = serde_json::from_str::<Document<'_>>(raw.get()) else {
        return vec![unknown_text("document", raw.get())];
    };
    let (source, name) = (&document.source, document.title.unwrap_or_default());
    let name = if name.is_empty() { "document" } else { &*name };
    let mut contents: Vec<Content> = document
        .context
        .map_or_else(Vec::new, |context| text_contents(context.into_owned().into()));
    if let Some(text) = source.text() {
        contents.push(file_text(name, &text));
    } else if let Ok(inner) = read_blocks(source.content, "", decode_plain)
        && !inner.is_empty()
    {
        for content in inner {
            contents.push(match content {
                Content::Text(text) => file_text(name, &text),
                image @ Content::Image { .. } => image,
            });
        }
    } else {
        let missing = match &*source.kind {
            "base64" => {
                let bytes = source.data.len() / 4 * 3;
                format!("({}, about {bytes} bytes: cannot be shown here)", source.media_type)
            }
            "url" => format!("(at {}: not fetched)", source.url),
            other => format!("(of a `{other}` source: not kept here)"),
        };
        contents.push(file_text(name, &missing));
    }
    contents
}

fn search_result(raw: &RawValue) -> Vec<Content> {
    #[derive(Deserialize)]
    struct SearchResult<'a> {
        #[serde(borrow)]
        title: Cow<'a, str>,
        #[serde(borrow)]
        source: Cow<'a, str>,
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let found = serde_json::from_str::<SearchResult<'_>>(raw.get()).ok();
    let found = found.and_then(|found| {
        let contents = read_blocks(Some(found.content), "", decode_plain).ok()?;
        let name = format!("{} ({})", found.title, found.source);
        Some(file_text(&name, &only_texts(contents).join("\n")))
    });
    vec![found.unwrap_or_else(|| unknown_text("search_result", raw.get()))]
}
