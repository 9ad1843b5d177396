//! Shortens long texts and tool results. Every function returns the same bytes for the same
//! content, and leaves its own output unchanged.

use std::sync::Arc;

use angelia_core::model::Content;
use serde_json::value::RawValue;

use super::size::messages_tokens;
use crate::native::provider::{
    AssistantMessage, AssistantPart, CallResult, Message, ModelCall, ResultBatch,
};

/// A result of at most this length stays as it is.
const DIGEST_BYTES: usize = 240;

/// How much of the first line a digest shows. The whole digest is at most [`DIGEST_BYTES`] long, so
/// it is not digested again.
const FIRST_LINE_BYTES: usize = 100;

/// No text is cut below this length, because the marker would take up too much of it.
const MIN_TEXT_BYTES: usize = 96;

const NO_IMAGE: &str = "[an image was left out when the conversation was shortened]";

/// Replaces long tool results with one line each.
pub fn digest_results(batch: &ResultBatch) -> ResultBatch {
    let results = batch.results.iter().map(digest_result).collect();
    ResultBatch { results, steering: batch.steering.clone() }
}

/// Returns whether [`digest_results`] makes a batch shorter.
pub fn can_be_digested(batch: &ResultBatch) -> bool {
    batch.results.iter().any(is_long)
}

fn is_long(result: &CallResult) -> bool {
    let bytes = result.content.iter().map(|part| match part {
        Content::Text(text) => text.len(),
        Content::Image { .. } => DIGEST_BYTES,
    });
    bytes.sum::<usize>() > DIGEST_BYTES
}

fn digest_result(result: &CallResult) -> CallResult {
    if !is_long(result) {
        return result.clone();
    }
    let texts = result.content.iter().filter_map(|part| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let first = text.trim().lines().next().unwrap_or_default();
    let first = &first[..first.floor_char_boundary(FIRST_LINE_BYTES)];
    let digest = format!(
        "[left out when the conversation was shortened: {} lines, {} bytes; it began: {first}]",
        text.lines().count(),
        text.len()
    );
    CallResult { content: vec![Content::text(digest)], ..result.clone() }
}

/// Cuts the texts of results to at most `bytes` each.
pub fn cut_results(batch: &ResultBatch, bytes: usize) -> ResultBatch {
    let results = batch.results.iter().map(|result| CallResult {
        content: result.content.iter().map(|part| cut_content(part, bytes)).collect(),
        ..result.clone()
    });
    ResultBatch { results: results.collect(), steering: batch.steering.clone() }
}

/// Cuts messages that have more than `tokens` in total: drops their images, and cuts the longest
/// texts to the same length.
pub fn cut_messages(messages: &[Message], tokens: u64) -> Vec<Message> {
    let mut out = messages.to_vec();
    if messages_tokens(&out) <= tokens {
        return out;
    }
    for message in &mut out {
        drop_images(message);
    }
    let mut bytes = messages.iter().map(longest_text).max().unwrap_or_default();
    while messages_tokens(&out) > tokens && bytes > MIN_TEXT_BYTES {
        bytes = (bytes - bytes / 4).max(MIN_TEXT_BYTES);
        for message in &mut out {
            *message = cut_message(message, bytes);
        }
    }
    out
}

fn drop_images(message: &mut Message) {
    for part in message.contents_mut() {
        if matches!(part, Content::Image { .. }) {
            *part = Content::text(NO_IMAGE);
        }
    }
}

fn longest_text(message: &Message) -> usize {
    let said = message.contents().map(|part| match part {
        Content::Text(text) => text.len(),
        Content::Image { .. } => 0,
    });
    let answered = match message {
        Message::Assistant(answer) => &*answer.parts,
        Message::User(_) | Message::Results(_) => &[],
    };
    let answered = answered.iter().map(|part| match part {
        AssistantPart::Text(text) => text.len(),
        AssistantPart::Call(call) => call.arguments.get().len(),
        AssistantPart::Reasoning(_) => 0,
    });
    said.chain(answered).max().unwrap_or_default()
}

fn cut_message(message: &Message, bytes: usize) -> Message {
    let cut = |content: &[Content]| -> Vec<Content> {
        content.iter().map(|part| cut_content(part, bytes)).collect()
    };
    match message {
        Message::User(content) => Message::User(cut(content)),
        Message::Assistant(answer) => Message::Assistant(cut_answer(answer, bytes)),
        Message::Results(batch) => {
            let ResultBatch { results, steering } = cut_results(batch, bytes);
            Message::Results(ResultBatch { results, steering: cut(&steering) })
        }
    }
}

/// Cuts an answer. Drops its reasoning, which a provider accepts only with the original answer.
fn cut_answer(answer: &AssistantMessage, bytes: usize) -> AssistantMessage {
    let is_long = |part: &AssistantPart| match part {
        AssistantPart::Text(text) => text.len() > bytes,
        AssistantPart::Call(call) => call.arguments.get().len() > bytes,
        AssistantPart::Reasoning(_) => false,
    };
    if !answer.parts.iter().any(is_long) {
        return answer.clone();
    }
    let parts = answer.parts.iter().filter_map(|part| match part {
        AssistantPart::Reasoning(_) => None,
        AssistantPart::Text(text) => Some(AssistantPart::Text(cut_text(text, bytes))),
        AssistantPart::Call(call) if is_long(part) => {
            let size = call.arguments.get().len();
            let left_out = format!(r#"{{"left_out":"{size} bytes of arguments"}}"#);
            let arguments =
                RawValue::from_string(left_out).map_or_else(|_| call.arguments.clone(), Into::into);
            Some(AssistantPart::Call(ModelCall { arguments, ..call.clone() }))
        }
        AssistantPart::Call(call) => Some(AssistantPart::Call(call.clone())),
    });
    AssistantMessage { issuer: answer.issuer.clone(), parts: parts.collect() }
}

fn cut_content(part: &Content, bytes: usize) -> Content {
    match part {
        Content::Text(text) => Content::Text(cut_text(text, bytes)),
        Content::Image { .. } => part.clone(),
    }
}

/// Cuts out the middle of a text, so that it has at most `bytes`.
pub fn cut_text(text: &Arc<str>, bytes: usize) -> Arc<str> {
    if text.len() <= bytes.max(MIN_TEXT_BYTES) {
        return Arc::clone(text);
    }
    let marker = format!("\n[… {} bytes left out …]\n", text.len());
    let room = bytes.max(MIN_TEXT_BYTES).saturating_sub(marker.len());
    let start = text.floor_char_boundary(room * 2 / 3);
    let end = text.ceil_char_boundary(text.len() - room / 3);
    [&text[..start], &marker, &text[end..]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &Content) -> &str {
        match content {
            Content::Text(text) => text,
            Content::Image { .. } => "image",
        }
    }

    #[test]
    fn a_text_is_cut_once() {
        let long: Arc<str> = "wörter ".repeat(100).into();
        let cut = cut_text(&long, 200);
        assert!(cut.len() <= 200 && cut.contains("bytes left out"), "{cut}");
        assert_eq!(cut_text(&cut, 200), cut);
        assert_eq!(cut_text(&"short".into(), 0).as_ref(), "short");
    }

    #[test]
    fn messages_are_cut_until_they_fit_and_then_stay() {
        let long = |words: usize| Content::text("a word ".repeat(words));
        let messages = [Message::User(vec![long(3)]), Message::User(vec![long(900), long(500)])];
        let cut = cut_messages(&messages, 400);
        assert!(messages_tokens(&cut) <= 400, "{cut:#?}");
        let Message::User(first) = &cut[0] else { unreachable!() };
        assert_eq!(text(&first[0]), "a word a word a word ");
        assert_eq!(format!("{:?}", cut_messages(&cut, 400)), format!("{cut:?}"));
    }

    #[test]
    fn a_result_becomes_one_line() {
        let content = vec![Content::text("first line\n".to_owned() + &"x\n".repeat(300))];
        let result = CallResult { id: "1".into(), name: "read".into(), ok: true, content };
        let batch = ResultBatch { results: vec![result], steering: Vec::new() };
        let digest = digest_results(&batch);
        let line = text(&digest.results[0].content[0]);
        assert!(line.contains("301 lines, 611 bytes") && line.contains("first line"), "{line}");
        assert_eq!(format!("{:?}", digest_results(&digest)), format!("{digest:?}"));
        assert!(can_be_digested(&batch) && !can_be_digested(&digest));
    }
}
