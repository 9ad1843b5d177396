//! Encodes the events of one turn as the events of one run. The order of the output depends only on
//! the turn. Pure. Pending lines are written in bounded amounts, so that a giant text with small
//! synthetic deltas is never held in memory in encoded form.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use angelia_core::model::{
    Approval, BlockId, EventKind, Notice, NoticeLevel, Outcome, Resolution, TextChannel, ToolCall,
    ToolResult,
};

use super::{
    chunks,
    event::{BridgeEvent, FinalFields, RunIds, RunInfo},
    run_spec::DeltaMode,
    transcript::RunTranscript,
};

/// [`RunEncoder::write`] returns once it has written about this much.
const WRITE_BYTES: usize = 64 * 1024;

/// Encodes one run.
#[derive(Debug)]
pub struct RunEncoder {
    request_id: Arc<str>,
    session_id: Arc<str>,
    streaming: DeltaMode,
    /// The assistant messages of the run, by the agent's block.
    messages: HashMap<BlockId, AssistantMessage>,
    next_index: u32,
    transcript: RunTranscript,
    /// The host's reason for interrupting the run.
    interrupt_message: Option<Arc<str>>,
    pending: VecDeque<PendingLine>,
}

#[derive(Debug)]
struct AssistantMessage {
    index: u32,
    /// The native deltas sent so far. Shared with the turn's own events.
    sent_deltas: Vec<Arc<str>>,
    /// The full text, once it has been sent as `assistant_message`.
    full_text: Option<Arc<str>>,
}

/// A line that has not been written yet.
#[derive(Debug)]
enum PendingLine {
    Started(Box<RunInfo>),
    Delta(u32, Arc<str>),
    /// A full text to send as synthetic deltas, and the byte offset of the next one.
    SyntheticDeltas {
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

impl RunEncoder {
    pub fn new(
        request_id: Arc<str>,
        session_id: Arc<str>,
        message: &Arc<str>,
        streaming: DeltaMode,
    ) -> Self {
        let mut said = RunTranscript::default();
        said.add_prompt(message);
        Self {
            request_id,
            session_id,
            streaming,
            messages: HashMap::new(),
            next_index: 0,
            transcript: said,
            interrupt_message: None,
            pending: VecDeque::new(),
        }
    }

    pub fn run_started(&mut self, about: RunInfo) {
        self.pending.push_back(PendingLine::Started(Box::new(about)));
    }

    /// Adds one of the bridge's own notices.
    pub fn notice(&mut self, notice: Notice) {
        self.pending.push_back(PendingLine::Notice(notice));
    }

    /// Sets the host's reason for interrupting the run, which `final` repeats.
    pub fn set_interrupt_message(&mut self, message: Option<Arc<str>>) {
        self.interrupt_message = message;
    }

    /// Encodes the next event of the turn.
    pub fn encode_event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Delta { block, channel: TextChannel::Answer, text } => {
                self.delta(*block, text);
            }
            EventKind::Block { block, channel: TextChannel::Answer, text } => {
                self.block(*block, text);
            }
            EventKind::ToolCall(call) => {
                self.transcript.add_call(call);
                self.pending.push_back(PendingLine::ToolStarted(Box::new(call.clone())));
            }
            EventKind::ToolResult(result) => {
                self.transcript.add_result(result);
                self.pending.push_back(PendingLine::ToolFinished(result.clone()));
            }
            EventKind::Approval(approval) => {
                self.pending.push_back(PendingLine::Approval(Box::new(approval.clone())));
            }
            EventKind::Resolved(resolution) => {
                self.pending.push_back(PendingLine::Resolved(resolution.clone()));
            }
            EventKind::Notice(notice) => {
                self.pending.push_back(PendingLine::Notice(notice.clone()));
            }
            EventKind::Finished(outcome) => self.finish(outcome),
            // Hosts get answer text, tools, approvals and notices; everything else is in the
            // record.
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
        self.transcript.note_output();
        if self.streaming == DeltaMode::Native {
            let message = Self::message_of_block(&mut self.messages, &mut self.next_index, block);
            if message.full_text.is_some() {
                // The full text is authoritative, so drop a delta that arrives after it.
                return;
            }
            message.sent_deltas.push(Arc::clone(text));
            self.pending.push_back(PendingLine::Delta(message.index, Arc::clone(text)));
        }
    }

    /// Returns the message of a block. A new one gets the next index.
    fn message_of_block<'a>(
        messages: &'a mut HashMap<BlockId, AssistantMessage>,
        next: &mut u32,
        block: BlockId,
    ) -> &'a mut AssistantMessage {
        messages.entry(block).or_insert_with(|| {
            let index = *next;
            *next += 1;
            AssistantMessage { index, sent_deltas: Vec::new(), full_text: None }
        })
    }

    fn block(&mut self, block: BlockId, text: &Arc<str>) {
        if text.is_empty() && !self.messages.contains_key(&block) {
            return;
        }
        self.transcript.note_output();
        let message = Self::message_of_block(&mut self.messages, &mut self.next_index, block);
        let index = message.index;
        let told = std::mem::take(&mut message.sent_deltas);
        let before = message.full_text.replace(Arc::clone(text));
        self.transcript.set_text(index, text);
        if let Some(before) = before {
            // The block was sent before; its latest text counts.
            if before != *text {
                self.pending.push_back(PendingLine::Message(index, Arc::clone(text)));
            }
            return;
        }
        self.push_remaining_deltas(index, &told, text);
        self.pending.push_back(PendingLine::Message(index, Arc::clone(text)));
    }

    /// Adds the deltas of a full text that were not sent yet, and their end.
    fn push_remaining_deltas(&mut self, index: u32, told: &[Arc<str>], text: &Arc<str>) {
        match self.streaming {
            DeltaMode::Off => {}
            DeltaMode::Synthetic(_) => {
                let text = Arc::clone(text);
                self.pending.push_back(PendingLine::SyntheticDeltas { index, text, at: 0 });
                self.pending.push_back(PendingLine::DeltaEnd(index));
            }
            DeltaMode::Native => {
                // The agent's own deltas may stop short of the full text: the rest becomes the last
                // delta. If the text does not start with the deltas, there is no such rest.
                let rest = told.iter().try_fold(&**text, |rest, piece| rest.strip_prefix(&**piece));
                if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                    self.pending.push_back(PendingLine::Delta(index, rest.into()));
                }
                self.pending.push_back(PendingLine::DeltaEnd(index));
            }
        }
    }

    fn finish(&mut self, outcome: &Outcome) {
        if self.next_index == 0 && !outcome.text.is_empty() {
            // The turn had no text events: its answer is only in the outcome.
            self.transcript.note_output();
            self.transcript.set_text(0, &outcome.text);
            self.next_index = 1;
            self.push_remaining_deltas(0, &[], &outcome.text);
            self.pending.push_back(PendingLine::Message(0, Arc::clone(&outcome.text)));
        }
        self.pending.push_back(PendingLine::Final(Box::new(outcome.clone())));
    }

    /// Writes a bounded amount of pending lines. Returns `true` if more are pending.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let ids = RunIds { request_id: &self.request_id, session_id: &self.session_id };
        let begin = out.len();
        while out.len() - begin < WRITE_BYTES {
            let Some(line) = self.pending.front_mut() else {
                return false;
            };
            if let (PendingLine::SyntheticDeltas { index, text, at }, DeltaMode::Synthetic(size)) =
                (&mut *line, self.streaming)
                && *at < text.len()
            {
                let rest = &text[*at..];
                let (piece, _) = rest.split_at(chunks::first_chunk_len(rest, size));
                *at += piece.len();
                let index = *index;
                let text = piece;
                BridgeEvent::AssistantDelta { ids, index, text }.write(out);
                continue;
            }
            write_line(line, ids, &self.transcript, self.interrupt_message.as_deref(), out);
            self.pending.pop_front();
        }
        !self.pending.is_empty()
    }
}

fn write_line(
    line: &PendingLine,
    ids: RunIds<'_>,
    said: &RunTranscript,
    interrupt: Option<&str>,
    out: &mut Vec<u8>,
) {
    let event = match line {
        PendingLine::Started(about) => BridgeEvent::RunStarted { ids, about },
        PendingLine::Delta(index, text) => BridgeEvent::AssistantDelta { ids, index: *index, text },
        // All deltas of this text are written.
        PendingLine::SyntheticDeltas { .. } => return,
        PendingLine::DeltaEnd(index) => BridgeEvent::AssistantDeltaEnd { ids, index: *index },
        PendingLine::Message(index, text) => {
            BridgeEvent::AssistantMessage { ids, index: *index, text }
        }
        PendingLine::ToolStarted(call) => BridgeEvent::tool_started(ids, call),
        PendingLine::ToolFinished(result) => BridgeEvent::tool_finished(ids, result),
        PendingLine::Approval(approval) => BridgeEvent::approval(ids, approval),
        PendingLine::Resolved(resolution) => BridgeEvent::resolved(ids, resolution),
        PendingLine::Notice(notice) => BridgeEvent::notice(ids, notice),
        PendingLine::Final(outcome) => {
            BridgeEvent::Final { ids, end: FinalFields::new(outcome, said, interrupt) }
        }
    };
    event.write(out);
}

/// Returns a warning that names the unknown fields of a request.
pub(super) fn unknown_fields_notice(names: &[Box<str>]) -> Option<Notice> {
    if names.is_empty() {
        return None;
    }
    let text = format!("unknown fields were ignored: {}", names.join(", "));
    Some(Notice::new(NoticeLevel::Warning, "unknown_field", text))
}
