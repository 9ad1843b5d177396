//! The events of a stream, one frame each.

use serde::Serialize;

use super::wire::{ResponseItem, ResponseObject, SummaryPart, TextPart};

/// Writes one frame. The fields of `body`, which must not be empty, follow `type` and
/// `sequence_number`.
pub(super) fn event(sequence_number: u64, name: &str, body: &impl Serialize, out: &mut Vec<u8>) {
    let head =
        format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{sequence_number}");
    out.extend_from_slice(head.as_bytes());
    let brace = out.len();
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, body);
    // Splice the body into the open object: its opening brace becomes a comma.
    if let Some(brace) = out.get_mut(brace) {
        *brace = b',';
    }
    out.extend_from_slice(b"\n\n");
}

#[derive(Debug, Serialize)]
pub(super) struct ResponseEvent<'a> {
    pub(super) response: ResponseObject<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct ItemEvent<'a> {
    pub(super) output_index: u32,
    pub(super) item: &'a ResponseItem,
}

#[derive(Debug, Serialize)]
pub(super) struct PartEvent<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) content_index: u32,
    pub(super) part: &'a TextPart,
}

#[derive(Debug, Serialize)]
pub(super) struct SummaryPartEvent<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) summary_index: u32,
    pub(super) part: &'a SummaryPart,
}

#[derive(Debug, Serialize)]
pub(super) struct TextDelta<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) content_index: u32,
    pub(super) delta: &'a str,
    pub(super) logprobs: [(); 0],
}

#[derive(Debug, Serialize)]
pub(super) struct TextDone<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) content_index: u32,
    pub(super) text: &'a str,
    pub(super) logprobs: [(); 0],
}

#[derive(Debug, Serialize)]
pub(super) struct SummaryDelta<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) summary_index: u32,
    pub(super) delta: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct SummaryDone<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) summary_index: u32,
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct ArgumentsDelta<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) delta: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct ArgumentsDone<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct CustomInputDone<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: u32,
    pub(super) input: &'a str,
}
