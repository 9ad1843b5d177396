//! Encodes answer chunks as stream chunks, and a complete answer as one object.

use serde::Serialize;

use super::{
    super::super::dialect::{
        Begin, Block, Encoder, End, Paragraphs, Piece, Stop, Whole, WholeBlock,
    },
    Chat,
    wire::{
        AnswerMessage, Choice, Completion, Delta, Function, FunctionDelta, ToolCall, ToolCallDelta,
        UsageJson,
    },
};

/// The state of one stream.
#[derive(Debug)]
pub struct ChunkEncoder {
    chat: Chat,
    /// The constant beginning of every chunk, up to its choices.
    head: Vec<u8>,
    open: Option<Open>,
    /// The number of tool calls so far.
    calls: u32,
    text: Paragraphs,
    reasoning: Paragraphs,
}

#[derive(Clone, Copy, Debug)]
enum Open {
    Text,
    Reasoning,
    Call { index: u32, has_arguments: bool },
}

impl ChunkEncoder {
    pub(super) fn new(chat: Chat, begin: &Begin) -> Self {
        let mut head = br#"data: {"id":"#.to_vec();
        append(&mut head, &id(begin));
        head.extend_from_slice(br#","object":"chat.completion.chunk","created":"#);
        append(&mut head, &begin.at.as_second());
        head.extend_from_slice(br#","model":"#);
        append(&mut head, &begin.model);
        Self {
            chat,
            head,
            open: None,
            calls: 0,
            text: Paragraphs::default(),
            reasoning: Paragraphs::default(),
        }
    }

    fn delta(&self, delta: &Delta<'_>, out: &mut Vec<u8>) {
        self.chunk(delta, None, out);
    }

    fn chunk(&self, delta: &Delta<'_>, finish_reason: Option<&'static str>, out: &mut Vec<u8>) {
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

    fn open(&mut self, block: &Block, out: &mut Vec<u8>) {
        let (id, name) = match block {
            Block::Text => {
                self.text.begin();
                return self.open = Some(Open::Text);
            }
            Block::Reasoning => {
                self.reasoning.begin();
                return self.open = Some(Open::Reasoning);
            }
            Block::Call { id, name } => (id, name),
        };
        let index = self.calls;
        self.calls += 1;
        self.open = Some(Open::Call { index, has_arguments: false });
        let function = FunctionDelta { name: Some(name), arguments: "" };
        let tool_call =
            ToolCallDelta { index, id: Some(id.as_str()), kind: Some("function"), function };
        self.call(tool_call, out);
    }

    fn call(&self, call: ToolCallDelta<'_>, out: &mut Vec<u8>) {
        let mut delta = Delta::default();
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
        let mut delta = Delta::default();
        let spaced;
        match &mut self.open {
            Some(Open::Text) => {
                spaced = self.text.next(text);
                delta.content = Some(&spaced);
            }
            Some(Open::Reasoning) => {
                spaced = self.reasoning.next(text);
                delta.reasoning_content = Some(&spaced);
            }
            Some(Open::Call { index, has_arguments }) => {
                *has_arguments = true;
                let index = *index;
                return self.arguments(index, text, out);
            }
            None => return,
        }
        self.delta(&delta, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(Open::Call { index, has_arguments: false }) = self.open.take() {
            // Clients parse the arguments; an empty string is not JSON.
            self.arguments(index, "{}", out);
        }
    }

    fn end(&self, end: &End, out: &mut Vec<u8>) {
        let reason = finish_reason(&end.stop, self.chat);
        self.chunk(&Delta::default(), Some(reason), out);
        if self.chat.include_usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(br#","choices":[],"usage":"#);
            append(out, &UsageJson::from(&end.usage));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl Encoder for ChunkEncoder {
    fn piece(&mut self, piece: &Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Begin(_) => {
                let delta =
                    Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
                self.delta(&delta, out);
            }
            Piece::Open(block) => self.open(block, out),
            Piece::More(text) => self.more(text, out),
            Piece::Close => self.close(out),
            Piece::End(end) => self.end(end, out),
        }
    }
}

pub(super) fn whole(chat: Chat, whole: &Whole) -> Vec<u8> {
    let mut content = None;
    let mut reasoning = None;
    let (mut said, mut thought) = (Paragraphs::default(), Paragraphs::default());
    let mut tool_calls = Vec::new();
    for block in &whole.blocks {
        match block {
            WholeBlock::Text(text) => append_block(&mut content, &mut said, text),
            WholeBlock::Reasoning(text) => append_block(&mut reasoning, &mut thought, text),
            WholeBlock::Call { id, name, input } => tool_calls.push(ToolCall {
                id: id.as_str(),
                kind: "function",
                function: Function { name, arguments: input.get() },
            }),
        }
    }
    let mut function_call = None;
    if chat.legacy {
        function_call = tool_calls.first().map(|call| call.function);
        tool_calls.clear();
    }
    if content.is_none() && tool_calls.is_empty() && function_call.is_none() {
        // Only an answer with calls may have no content.
        content = Some(String::new());
    }
    let completion = Completion {
        id: id(&whole.begin),
        object: "chat.completion",
        created: whole.begin.at.as_second(),
        model: &whole.begin.model,
        choices: [Choice {
            index: 0,
            message: AnswerMessage {
                role: "assistant",
                content,
                refusal: None,
                reasoning_content: reasoning,
                tool_calls,
                function_call,
            },
            logprobs: None,
            finish_reason: finish_reason(&whole.end.stop, chat),
        }],
        usage: UsageJson::from(&whole.end.usage),
    };
    let mut out = Vec::new();
    append(&mut out, &completion);
    out
}

fn append_block(all: &mut Option<String>, paragraphs: &mut Paragraphs, text: &str) {
    let all = all.get_or_insert_default();
    paragraphs.begin();
    all.push_str(&paragraphs.next(text));
}

/// Returns the finish reason. An unfinished answer is `length`: clients accept it and do not retry
/// by themselves.
const fn finish_reason(stop: &Stop, chat: Chat) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::Word(_) => "stop",
        Stop::Calls if chat.legacy => "function_call",
        Stop::Calls => "tool_calls",
        Stop::Partial | Stop::MaxTokens | Stop::Failed(_) | Stop::Interrupted => "length",
        Stop::Refusal => "content_filter",
    }
}

/// Returns the id of the answer; a turn has several answers if it calls the caller's tools.
fn id(begin: &Begin) -> String {
    let turn = begin.turn.as_uuid().simple();
    match begin.part {
        0 => format!("chatcmpl-{turn}"),
        part => format!("chatcmpl-{turn}-{part}"),
    }
}

fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, value);
}
