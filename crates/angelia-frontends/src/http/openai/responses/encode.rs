//! Encodes chunks as the events of a stream.

use angelia_core::model::ToolId;
use serde::Serialize;

use super::{
    super::super::dialect::{AnswerChunk, AnswerEncoder, AnswerEnd, AnswerHeader, BlockKind},
    ResponseId,
    events::{
        ArgumentsDelta, ArgumentsDone, CustomInputDone, ItemEvent, PartEvent, ResponseEvent,
        SummaryDelta, SummaryDone, SummaryPartEvent, TextDelta, TextDone, event,
    },
    object::{ResponseStatus, call_item, message, metadata, reasoning, response},
    tool_names::{CallFormat, custom_input_text},
    wire::{RequestEcho, ResponseItem, ResponseUsage, SummaryPart, TextPart},
};

/// The state of one stream.
#[derive(Debug)]
pub struct ResponsesEncoder {
    echo: RequestEcho,
    header: AnswerHeader,
    id: ResponseId,
    /// The number of the next event.
    sequence_number: u64,
    /// The complete items. Their number is the index of the next one.
    output: Vec<ResponseItem>,
    open: Option<OpenItem>,
}

/// The item in progress.
#[derive(Debug)]
struct OpenItem {
    id: String,
    kind: OpenItemKind,
    /// The content so far.
    text: String,
}

#[derive(Debug)]
enum OpenItemKind {
    Text,
    Reasoning,
    Call {
        id: ToolId,
        spelled: CallFormat,
    },
    /// The input of a custom tool is text inside JSON, so it is sent only when complete.
    Custom {
        id: ToolId,
        spelled: CallFormat,
    },
}

impl ResponsesEncoder {
    pub(super) fn new(echo: RequestEcho, header: &AnswerHeader) -> Self {
        Self {
            echo,
            header: header.clone(),
            id: ResponseId::from_header(header),
            sequence_number: 0,
            output: Vec::new(),
            open: None,
        }
    }

    fn index(&self) -> u32 {
        u32::try_from(self.output.len()).unwrap_or(u32::MAX)
    }

    fn emit(&mut self, name: &str, body: &impl Serialize, out: &mut Vec<u8>) {
        event(self.sequence_number, name, body, out);
        self.sequence_number += 1;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            let ending = ResponseStatus::with_status("in_progress");
            let echo = &self.echo;
            let response = response(echo, &self.header, ending, &[], &echo.metadata);
            event(self.sequence_number, name, &ResponseEvent { response }, out);
            self.sequence_number += 1;
        }
    }

    fn open(&mut self, block: &BlockKind, out: &mut Vec<u8>) {
        let index = self.index();
        let (id, kind, item) = match block {
            BlockKind::Text => {
                let item = message(self.id, index, "in_progress", Vec::new());
                (self.id.item("msg", index), OpenItemKind::Text, item)
            }
            BlockKind::Reasoning => {
                let item = reasoning(self.id, index, Vec::new());
                (self.id.item("rs", index), OpenItemKind::Reasoning, item)
            }
            BlockKind::Call { id: call, name } => {
                let spelled = self.echo.tool_names.call_format(name);
                let item = call_item(spelled.clone(), self.id, index, call, "in_progress", "");
                let call = call.clone();
                if matches!(spelled, CallFormat::Custom { .. }) {
                    let kind = OpenItemKind::Custom { id: call, spelled };
                    (self.id.item("ctc", index), kind, item)
                } else {
                    let kind = OpenItemKind::Call { id: call, spelled };
                    (self.id.item("fc", index), kind, item)
                }
            }
        };
        let added = ItemEvent { output_index: index, item: &item };
        self.emit("response.output_item.added", &added, out);
        let item_id = id.as_str();
        match kind {
            OpenItemKind::Text => {
                let part = PartEvent {
                    item_id,
                    output_index: index,
                    content_index: 0,
                    part: &TextPart::new(""),
                };
                self.emit("response.content_part.added", &part, out);
            }
            OpenItemKind::Reasoning => {
                let part = SummaryPartEvent {
                    item_id,
                    output_index: index,
                    summary_index: 0,
                    part: &SummaryPart { text: String::new() },
                };
                self.emit("response.reasoning_summary_part.added", &part, out);
            }
            OpenItemKind::Call { .. } | OpenItemKind::Custom { .. } => {}
        }
        self.open = Some(OpenItem { id, kind, text: String::new() });
    }

    fn more(&mut self, delta: &str, out: &mut Vec<u8>) {
        let output_index = self.index();
        let Some(open) = &mut self.open else { return };
        open.text.push_str(delta);
        if matches!(open.kind, OpenItemKind::Custom { .. }) {
            return;
        }
        let number = self.sequence_number;
        self.sequence_number += 1;
        let item_id = open.id.as_str();
        match open.kind {
            OpenItemKind::Text => {
                let body =
                    TextDelta { item_id, output_index, content_index: 0, delta, logprobs: [] };
                event(number, "response.output_text.delta", &body, out);
            }
            OpenItemKind::Reasoning => {
                let body = SummaryDelta { item_id, output_index, summary_index: 0, delta };
                event(number, "response.reasoning_summary_text.delta", &body, out);
            }
            OpenItemKind::Call { .. } | OpenItemKind::Custom { .. } => {
                let body = ArgumentsDelta { item_id, output_index, delta };
                event(number, "response.function_call_arguments.delta", &body, out);
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(OpenItem { kind: OpenItemKind::Call { .. }, text, .. }) = &self.open
            && text.is_empty()
        {
            // Clients parse the arguments, and an empty string is not JSON.
            self.more("{}", out);
        }
        let Some(open) = self.open.take() else { return };
        let output_index = self.index();
        let item_id = open.id.as_str();
        let item = match open.kind {
            OpenItemKind::Text => self.close_text(item_id, &open.text, out),
            OpenItemKind::Reasoning => self.close_reasoning(item_id, &open.text, out),
            OpenItemKind::Call { id, spelled } => {
                let done = ArgumentsDone {
                    item_id,
                    output_index,
                    name: spelled.name(),
                    arguments: &open.text,
                };
                self.emit("response.function_call_arguments.done", &done, out);
                call_item(spelled, self.id, output_index, &id, "completed", &open.text)
            }
            OpenItemKind::Custom { id, spelled } => {
                self.custom_input(item_id, &custom_input_text(&open.text), out);
                call_item(spelled, self.id, output_index, &id, "completed", &open.text)
            }
        };
        let done = ItemEvent { output_index, item: &item };
        self.emit("response.output_item.done", &done, out);
        self.output.push(item);
    }

    fn custom_input(&mut self, item_id: &str, input: &str, out: &mut Vec<u8>) {
        let output_index = self.index();
        let delta = ArgumentsDelta { item_id, output_index, delta: input };
        self.emit("response.custom_tool_call_input.delta", &delta, out);
        let done = CustomInputDone { item_id, output_index, input };
        self.emit("response.custom_tool_call_input.done", &done, out);
    }

    fn close_text(&mut self, item_id: &str, text: &str, out: &mut Vec<u8>) -> ResponseItem {
        let output_index = self.index();
        let done = TextDone { item_id, output_index, content_index: 0, text, logprobs: [] };
        self.emit("response.output_text.done", &done, out);
        let part = TextPart::new(text);
        let done = PartEvent { item_id, output_index, content_index: 0, part: &part };
        self.emit("response.content_part.done", &done, out);
        message(self.id, output_index, "completed", vec![part])
    }

    fn close_reasoning(&mut self, item_id: &str, text: &str, out: &mut Vec<u8>) -> ResponseItem {
        let output_index = self.index();
        let done = SummaryDone { item_id, output_index, summary_index: 0, text };
        self.emit("response.reasoning_summary_text.done", &done, out);
        let part = SummaryPart { text: text.into() };
        let done = SummaryPartEvent { item_id, output_index, summary_index: 0, part: &part };
        self.emit("response.reasoning_summary_part.done", &done, out);
        reasoning(self.id, output_index, vec![part])
    }

    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>) {
        let ending = ResponseStatus::of_live_answer(end, !self.output.is_empty());
        let name = match ending.status {
            "failed" => "response.failed",
            _ => "response.completed",
        };
        let metadata = metadata(&self.echo, end);
        let mut response = response(&self.echo, &self.header, ending, &self.output, &metadata);
        response.usage = Some(ResponseUsage::from(&end.usage));
        event(self.sequence_number, name, &ResponseEvent { response }, out);
        self.sequence_number += 1;
    }
}

impl AnswerEncoder for ResponsesEncoder {
    fn encode(&mut self, piece: &AnswerChunk, out: &mut Vec<u8>) {
        match piece {
            AnswerChunk::Start(_) => self.begin(out),
            AnswerChunk::Open(block) => self.open(block, out),
            AnswerChunk::More(text) => self.more(text, out),
            AnswerChunk::Close => self.close(out),
            AnswerChunk::End(end) => self.end(end, out),
        }
    }
}
