//! Encodes the events of one turn as the events of one run. The order of the output depends on the
//! turn alone. Pure: pending lines are written a bounded amount at a time, so that a giant text
//! with small synthetic deltas is never held in memory in its encoded form.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use angelia_core::model::{
    Approval, BlockId, EventKind, Level, Notice, Outcome, Resolution, TextChannel, ToolCall,
    ToolResult,
};

use super::{
    ask::Streaming,
    chunks,
    event::{About, End, Event, Ids},
    messages::Said,
};

/// [`RunEncoder::write`] returns once it has written about this much.
const PIECE: usize = 64 * 1024;

/// Encodes one run.
#[derive(Debug)]
pub struct Encoder {
    request_id: Arc<str>,
    session_id: Arc<str>,
    streaming: Streaming,
    /// The assistant messages of the run, by the agent's block.
    messages: HashMap<BlockId, Message>,
    next: u32,
    said: Said,
    /// The host's reason for interrupting the run.
    interrupt: Option<Arc<str>>,
    waiting: VecDeque<Line>,
}

#[derive(Debug)]
struct Message {
    index: u32,
    /// The native deltas sent so far; shared with the turn's own events.
    told: Vec<Arc<str>>,
    /// The full text, once it has been sent as `assistant_message`.
    whole: Option<Arc<str>>,
}

/// A line that has not been written yet.
#[derive(Debug)]
enum Line {
    Started(Box<About>),
    Delta(u32, Arc<str>),
    /// A full text that becomes synthetic deltas, and the byte offset of the next one.
    Cut {
        index: u32,
        text: Arc<str>,
        at: usize,
    },
    DeltaEnd(u32),
    Message(u32, Arc<str>),
    ToolStarted(Box<ToolCall>),
    ToolFinished(ToolResult),
    Approval(Box<Approval>),
    Resolved(Resolution),
    Notice(Notice),
    Final(Box<Outcome>),
}

impl Encoder {
    pub fn new(
        request_id: Arc<str>,
        session_id: Arc<str>,
        message: &Arc<str>,
        streaming: Streaming,
    ) -> Self {
        let mut said = Said::default();
        said.prompt(message);
        Self {
            request_id,
            session_id,
            streaming,
            messages: HashMap::new(),
            next: 0,
            said,
            interrupt: None,
            waiting: VecDeque::new(),
        }
    }

    pub fn started(&mut self, about: About) {
        self.waiting.push_back(Line::Started(Box::new(about)));
    }

    /// Adds a notice of the bridge itself.
    pub fn notice(&mut self, notice: Notice) {
        self.waiting.push_back(Line::Notice(notice));
    }

    /// Sets the host's reason for interrupting the run, which `final` repeats.
    pub fn interrupted(&mut self, message: Option<Arc<str>>) {
        self.interrupt = message;
    }

    /// Encodes the next event of the turn.
    pub fn event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Delta { block, channel: TextChannel::Answer, text } => {
                self.delta(*block, text);
            }
            EventKind::Block { block, channel: TextChannel::Answer, text } => {
                self.block(*block, text);
            }
            EventKind::ToolCall(call) => {
                self.said.call(call);
                self.waiting.push_back(Line::ToolStarted(Box::new(call.clone())));
            }
            EventKind::ToolResult(result) => {
                self.said.result(result);
                self.waiting.push_back(Line::ToolFinished(result.clone()));
            }
            EventKind::Approval(approval) => {
                self.waiting.push_back(Line::Approval(Box::new(approval.clone())));
            }
            EventKind::Resolved(resolution) => {
                self.waiting.push_back(Line::Resolved(resolution.clone()));
            }
            EventKind::Notice(notice) => self.waiting.push_back(Line::Notice(notice.clone())),
            EventKind::Finished(outcome) => self.finish(outcome),
            // Hosts get answer text, tools, approvals and notices; the rest is in the record.
            EventKind::Started(_)
            | EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Plan(_)
            | EventKind::Usage(_)
            | EventKind::Native { .. } => {}
        }
    }

    fn delta(&mut self, block: BlockId, text: &Arc<str>) {
        if text.is_empty() {
            return;
        }
        self.said.speaks();
        if self.streaming == Streaming::Native {
            let message = Self::message(&mut self.messages, &mut self.next, block);
            if message.whole.is_some() {
                // The full text is authoritative; a delta that comes after it is dropped.
                return;
            }
            message.told.push(Arc::clone(text));
            self.waiting.push_back(Line::Delta(message.index, Arc::clone(text)));
        }
    }

    /// Returns the message of a block; a new one gets the next index.
    fn message<'a>(
        messages: &'a mut HashMap<BlockId, Message>,
        next: &mut u32,
        block: BlockId,
    ) -> &'a mut Message {
        messages.entry(block).or_insert_with(|| {
            let index = *next;
            *next += 1;
            Message { index, told: Vec::new(), whole: None }
        })
    }

    fn block(&mut self, block: BlockId, text: &Arc<str>) {
        if text.is_empty() && !self.messages.contains_key(&block) {
            return;
        }
        self.said.speaks();
        let message = Self::message(&mut self.messages, &mut self.next, block);
        let index = message.index;
        let told = std::mem::take(&mut message.told);
        let before = message.whole.replace(Arc::clone(text));
        self.said.text(index, text);
        if let Some(before) = before {
            // The block was sent before; its latest text counts.
            if before != *text {
                self.waiting.push_back(Line::Message(index, Arc::clone(text)));
            }
            return;
        }
        self.deltas_of_whole(index, &told, text);
        self.waiting.push_back(Line::Message(index, Arc::clone(text)));
    }

    /// Adds the deltas of a full text that were not sent yet, and their end.
    fn deltas_of_whole(&mut self, index: u32, told: &[Arc<str>], text: &Arc<str>) {
        match self.streaming {
            Streaming::Off => {}
            Streaming::Synthetic(_) => {
                let text = Arc::clone(text);
                self.waiting.push_back(Line::Cut { index, text, at: 0 });
                self.waiting.push_back(Line::DeltaEnd(index));
            }
            Streaming::Native => {
                // The agent's own deltas may stop short of the full text: what remains becomes the
                // last delta. A text that does not start with the deltas gets none.
                let rest = told.iter().try_fold(&**text, |rest, piece| rest.strip_prefix(&**piece));
                if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                    self.waiting.push_back(Line::Delta(index, rest.into()));
                }
                self.waiting.push_back(Line::DeltaEnd(index));
            }
        }
    }

    fn finish(&mut self, outcome: &Outcome) {
        if self.next == 0 && !outcome.text.is_empty() {
            // The turn had no text events: its answer is only in the outcome.
            self.said.speaks();
            self.said.text(0, &outcome.text);
            self.next = 1;
            self.deltas_of_whole(0, &[], &outcome.text);
            self.waiting.push_back(Line::Message(0, Arc::clone(&outcome.text)));
        }
        self.waiting.push_back(Line::Final(Box::new(outcome.clone())));
    }

    /// Writes pending lines, up to a bounded amount. Returns `true` if more are pending.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let ids = Ids { request_id: &self.request_id, session_id: &self.session_id };
        let begin = out.len();
        while out.len() - begin < PIECE {
            let Some(line) = self.waiting.front_mut() else {
                return false;
            };
            if let (Line::Cut { index, text, at }, Streaming::Synthetic(size)) =
                (&mut *line, self.streaming)
                && *at < text.len()
            {
                let rest = &text[*at..];
                let (piece, _) = rest.split_at(chunks::first(rest, size));
                *at += piece.len();
                let index = *index;
                let text = piece;
                Event::AssistantDelta { ids, index, text }.write(out);
                continue;
            }
            write_line(line, ids, &self.said, self.interrupt.as_deref(), out);
            self.waiting.pop_front();
        }
        !self.waiting.is_empty()
    }
}

fn write_line(line: &Line, ids: Ids<'_>, said: &Said, interrupt: Option<&str>, out: &mut Vec<u8>) {
    let event = match line {
        Line::Started(about) => Event::RunStarted { ids, about },
        Line::Delta(index, text) => Event::AssistantDelta { ids, index: *index, text },
        // All its deltas are written.
        Line::Cut { .. } => return,
        Line::DeltaEnd(index) => Event::AssistantDeltaEnd { ids, index: *index },
        Line::Message(index, text) => Event::AssistantMessage { ids, index: *index, text },
        Line::ToolStarted(call) => Event::tool_started(ids, call),
        Line::ToolFinished(result) => Event::tool_finished(ids, result),
        Line::Approval(approval) => Event::approval(ids, approval),
        Line::Resolved(resolution) => Event::resolved(ids, resolution),
        Line::Notice(notice) => Event::notice(ids, notice),
        Line::Final(outcome) => Event::Final { ids, end: End::new(outcome, said, interrupt) },
    };
    event.write(out);
}

/// Returns a warning that names the unknown fields of a request.
pub(super) fn unknown_fields(names: &[Box<str>]) -> Option<Notice> {
    if names.is_empty() {
        return None;
    }
    let text = format!("unknown fields were ignored: {}", names.join(", "));
    Some(Notice::new(Level::Warning, "unknown_field", text))
}
