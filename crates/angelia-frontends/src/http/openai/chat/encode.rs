//! Encodes answer chunks as stream chunks, and a complete answer as one object.

use serde::Serialize;

use super::{
    super::super::dialect::{
        AnswerBlock, AnswerChunk, AnswerEncoder, AnswerEnd, AnswerHeader, BlockKind,
        CompleteAnswer, ParagraphJoiner, StopReason,
    },
    ChatDialect,
    wire::{
        ChatChoice, ChatCompletion, ChatDelta, ChatFunction, ChatMessage, ChatToolCall, ChatUsage,
        FunctionDelta, ToolCallDelta,
    },
};

/// The state of one stream.
#[derive(Debug)]
pub struct ChatEncoder {
    chat: ChatDialect,
    /// The constant beginning of every chunk, up to its choices.
    head: Vec<u8>,
    open: Option<OpenChatBlock>,
    /// The number of tool calls so far.
    calls: u32,
    text: ParagraphJoiner,
    reasoning: ParagraphJoiner,
}

#[derive(Clone, Copy, Debug)]
enum OpenChatBlock {
    Text,
    Reasoning,
    Call { index: u32, has_arguments: bool },
}

impl ChatEncoder {
    pub(super) fn new(chat: ChatDialect, header: &AnswerHeader) -> Self {
        let mut head = br#"data: {"id":"#.to_vec();
        append(&mut head, &id(header));
        head.extend_from_slice(br#","object":"chat.completion.chunk","created":"#);
        append(&mut head, &header.at.as_second());
        head.extend_from_slice(br#","model":"#);
        append(&mut head, &header.model);
        Self {
            chat,
            head,
            open: None,
            calls: 0,
            text: ParagraphJoiner::default(),
            reasoning: ParagraphJoiner::default(),
        }
    }

    fn delta(&self, delta: &ChatDelta<'_>, out: &mut Vec<u8>) {
        self.chunk(delta, None, out);
    }

    fn chunk(&self, delta: &ChatDelta<'_>, finish_reason: Option<&'static str>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#","choices":[{"index":0,"delta":"#);
        append(out, delta);
        out.extend_from_slice(br#","logprobs":null,"finish_reason":"#);
        append(out, &finish_reason);
        out.extend_from_slice(b"}]");
        if self.chat.include_usage {
            out.extend_from_slice(br#","usage":null"#);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn open(&mut self, block: &BlockKind, out: &mut Vec<u8>) {
        let (id, name) = match block {
            BlockKind::Text => {
                self.text.start_block();
                return self.open = Some(OpenChatBlock::Text);
            }
            BlockKind::Reasoning => {
                self.reasoning.start_block();
                return self.open = Some(OpenChatBlock::Reasoning);
            }
            BlockKind::Call { id, name } => (id, name),
        };
        let index = self.calls;
        self.calls += 1;
        self.open = Some(OpenChatBlock::Call { index, has_arguments: false });
        let function = FunctionDelta { name: Some(name), arguments: "" };
        let tool_call =
            ToolCallDelta { index, id: Some(id.as_str()), kind: Some("function"), function };
        self.call(tool_call, out);
    }

    fn call(&self, call: ToolCallDelta<'_>, out: &mut Vec<u8>) {
        let mut delta = ChatDelta::default();
        if !self.chat.legacy {
            delta.tool_calls = Some([call]);
        } else if call.index == 0 {
            delta.function_call = Some(call.function);
        } else {
            // The legacy format has no place for a second call.
            return;
        }
        self.delta(&delta, out);
    }

    fn arguments(&self, index: u32, arguments: &str, out: &mut Vec<u8>) {
        let function = FunctionDelta { name: None, arguments };
        let call = ToolCallDelta { index, id: None, kind: None, function };
        self.call(call, out);
    }

    fn more(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut delta = ChatDelta::default();
        let spaced;
        match &mut self.open {
            Some(OpenChatBlock::Text) => {
                spaced = self.text.join_next(text);
                delta.content = Some(&spaced);
            }
            Some(OpenChatBlock::Reasoning) => {
                spaced = self.reasoning.join_next(text);
                delta.reasoning_content = Some(&spaced);
            }
            Some(OpenChatBlock::Call { index, has_arguments }) => {
                *has_arguments = true;
                let index = *index;
                return self.arguments(index, text, out);
            }
            None => return,
        }
        self.delta(&delta, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(OpenChatBlock::Call { index, has_arguments: false }) = self.open.take() {
            // Clients parse the arguments, and an empty string is not JSON.
            self.arguments(index, "{}", out);
        }
    }

    fn end(&self, end: &AnswerEnd, out: &mut Vec<u8>) {
        let reason = finish_reason(&end.stop, self.chat);
        self.chunk(&ChatDelta::default(), Some(reason), out);
        if self.chat.include_usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(br#","choices":[],"usage":"#);
            append(out, &ChatUsage::from(&end.usage));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl AnswerEncoder for ChatEncoder {
    fn encode(&mut self, piece: &AnswerChunk, out: &mut Vec<u8>) {
        match piece {
            AnswerChunk::Start(_) => {
                let delta = ChatDelta {
                    role: Some("assistant"),
                    content: Some(""),
                    ..ChatDelta::default()
                };
                self.delta(&delta, out);
            }
            AnswerChunk::Open(block) => self.open(block, out),
            AnswerChunk::More(text) => self.more(text, out),
            AnswerChunk::Close => self.close(out),
            AnswerChunk::End(end) => self.end(end, out),
        }
    }
}

pub(super) fn encode_complete(chat: ChatDialect, answer: &CompleteAnswer) -> Vec<u8> {
    let mut content = None;
    let mut reasoning = None;
    let (mut said, mut thought) = (ParagraphJoiner::default(), ParagraphJoiner::default());
    let mut tool_calls = Vec::new();
    for block in &answer.blocks {
        match block {
            AnswerBlock::Text(text) => append_block(&mut content, &mut said, text),
            AnswerBlock::Reasoning(text) => append_block(&mut reasoning, &mut thought, text),
            AnswerBlock::Call { id, name, input } => tool_calls.push(ChatToolCall {
                id: id.as_str(),
                kind: "function",
                function: ChatFunction { name, arguments: input.get() },
            }),
        }
    }
    let mut function_call = None;
    if chat.legacy {
        function_call = tool_calls.first().map(|call| call.function);
        tool_calls.clear();
    }
    if content.is_none() && tool_calls.is_empty() && function_call.is_none() {
        // Only an answer with calls may lack content.
        content = Some(String::new());
    }
    let completion = ChatCompletion {
        id: id(&answer.header),
        object: "chat.completion",
        created: answer.header.at.as_second(),
        model: &answer.header.model,
        choices: [ChatChoice {
            index: 0,
            message: ChatMessage {
                role: "assistant",
                content,
                refusal: None,
                reasoning_content: reasoning,
                tool_calls,
                function_call,
            },
            logprobs: None,
            finish_reason: finish_reason(&answer.end.stop, chat),
        }],
        usage: ChatUsage::from(&answer.end.usage),
    };
    let mut out = Vec::new();
    append(&mut out, &completion);
    out
}

fn append_block(all: &mut Option<String>, paragraphs: &mut ParagraphJoiner, text: &str) {
    let all = all.get_or_insert_default();
    paragraphs.start_block();
    all.push_str(&paragraphs.join_next(text));
}

/// Returns the finish reason. An unfinished answer is `length`, which clients accept without
/// retrying on their own.
const fn finish_reason(stop: &StopReason, chat: ChatDialect) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::Word(_) => "stop",
        StopReason::Calls if chat.legacy => "function_call",
        StopReason::Calls => "tool_calls",
        StopReason::Partial
        | StopReason::MaxTokens
        | StopReason::Failed(_)
        | StopReason::Interrupted => "length",
        StopReason::Refusal => "content_filter",
    }
}

/// Returns the id of the answer. A turn has several answers if it calls the caller's tools.
fn id(header: &AnswerHeader) -> String {
    let turn = header.turn.as_uuid().simple();
    match header.part {
        0 => format!("chatcmpl-{turn}"),
        part => format!("chatcmpl-{turn}-{part}"),
    }
}

fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, value);
}
