//! Projects the events of a turn onto the chunks of one answer. Pure: events in, chunks out.
//!
//! A turn spans several answers if the model calls the caller's tools. A projector emits one of
//! them and skips the earlier ones. It emits nothing until there is content, so that an earlier
//! failure can still become an HTTP error. Text that was sent cannot be taken back: a block that
//! the agent withdraws stays, followed by a notice.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    engine::AWAITING_TOOL_RESULT_NOTICE as AWAITING,
    model::{
        BlockId, EventKind, FailureKind, Notice, NoticeLevel, Outcome, Seq, TextChannel, ToolCall,
        ToolClass, ToolId, TurnEvent, TurnStatus, Usage,
    },
};

use super::{
    AnswerChunk, AnswerEnd, AnswerHeader, AnswerProgress, BlockKind, StopReason, estimate,
    fenced_json::fenced_json, stop_words::StopWordScanner,
};

const WITHDRAWN_NOTICE: &str = "\n\n[the text above was cut off; the answer begins anew]\n\n";

/// Selects which answer of a turn to project, and how.
#[derive(Clone, Debug)]
pub struct ProjectorOptions {
    /// The model id of the request.
    pub model: Arc<str>,
    pub start: AnswerStart,
    /// The names of the caller's tools.
    pub tools: HashSet<Arc<str>>,
    /// Whether to report calls of the agent's own tools, as lines of reasoning.
    pub report_activity: bool,
    /// Whether to emit nothing until the turn has ended. For answers that must satisfy a
    /// constraint.
    pub hold_until_end: bool,
    /// An upper bound for the text, in estimated tokens.
    pub max_tokens: Option<u64>,
}

/// Which answer of a turn to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStart {
    /// The answer after this many earlier ones.
    Part(u32),
    /// The first answer that begins after this event.
    AfterEvent(Seq),
}

/// Where the content of the open block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSource {
    Block(BlockId),
    /// Lines that report the agent's own actions.
    Activity,
}

#[derive(Debug)]
pub struct AnswerProjector {
    view: ProjectorOptions,
    /// The number of skipped answers.
    part: u32,
    is_selected: bool,
    started: bool,
    /// Whether the agent has started to work on the turn.
    is_agent_started: bool,
    open: Option<BlockSource>,
    /// The text emitted so far for incomplete blocks.
    unfinished: HashMap<BlockId, String>,
    /// Calls of the caller's tools, emitted once the agent waits for their results.
    calls: Vec<ToolCall>,
    /// The agent's own running tools, by id.
    running: HashMap<ToolId, Arc<str>>,
    /// Whether the turn has produced answer text, in this answer or an earlier one.
    has_answer_text: bool,
    usage: Usage,
    usage_before: Usage,
    used_quarter_tokens: u64,
    words: StopWordScanner,
    /// The block whose text is held back as a possible stop word.
    held_block: Option<BlockId>,
    /// Set once the answer must end here, although the turn continues.
    cut: Option<StopReason>,
}

impl AnswerProjector {
    pub fn new(view: ProjectorOptions) -> Self {
        Self {
            view,
            part: 0,
            is_selected: false,
            started: false,
            is_agent_started: false,
            open: None,
            unfinished: HashMap::new(),
            calls: Vec::new(),
            running: HashMap::new(),
            has_answer_text: false,
            usage: Usage::default(),
            usage_before: Usage::default(),
            used_quarter_tokens: 0,
            words: StopWordScanner::default(),
            held_block: None,
            cut: None,
        }
    }

    /// Ends the answer before the first of these words.
    #[must_use]
    pub fn with_stop_words(mut self, words: &[Arc<str>]) -> Self {
        self.words = StopWordScanner::new(words);
        self
    }

    pub const fn has_started(&self) -> bool {
        self.started
    }

    /// Returns the usage of this answer alone, given that of the whole turn.
    pub fn answer_usage(&self, whole: &Usage) -> Usage {
        usage_since(whole, &self.usage_before)
    }

    /// Projects the next event of the turn. Any result other than [`AnswerProgress::More`] ends the
    /// answer.
    pub fn project(&mut self, event: &TurnEvent, out: &mut Vec<AnswerChunk>) -> AnswerProgress {
        self.is_selected = match self.view.start {
            AnswerStart::Part(part) => self.part >= part,
            AnswerStart::AfterEvent(seq) => event.seq > seq,
        };
        match &event.kind {
            EventKind::Delta { block, channel, text } if !self.view.hold_until_end => {
                self.text(event, *block, *channel, text, out);
                self.unfinished.entry(*block).or_default().push_str(text);
            }
            EventKind::Block { block, channel, text } if !self.view.hold_until_end => {
                self.project_block(event, *block, *channel, text, out);
            }
            EventKind::ToolCall(call) => self.call(event, call, out),
            EventKind::ToolResult(result) => {
                self.calls.retain(|call| call.id != result.id);
                if let Some(name) = self.running.remove(&result.id)
                    && !result.ok
                {
                    self.emit_activity_line(event, &format!("{name}: failed"), out);
                }
            }
            EventKind::Usage(usage) => self.usage = usage.clone(),
            EventKind::Notice(notice) => return self.notice(event, notice, out),
            EventKind::Finished(outcome) => return self.finish(event, outcome, out),
            EventKind::Started(_) => self.is_agent_started = true,
            EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Plan(_)
            | EventKind::Approval(_)
            | EventKind::Resolved(_)
            | EventKind::Native { .. } => {}
        }
        if self.cut.is_some() {
            return self.end_cut_answer(event, out);
        }
        AnswerProgress::More
    }

    fn end_cut_answer(&mut self, event: &TurnEvent, out: &mut Vec<AnswerChunk>) -> AnswerProgress {
        let stop = self.cut.take().unwrap_or(StopReason::MaxTokens);
        let status = match stop {
            // A stop word means the caller has everything it asked for.
            StopReason::Word(_) => "completed",
            _ => "partial",
        };
        self.end(event, stop, status, out);
        AnswerProgress::Cut
    }

    /// Projects a complete block. It is authoritative: text beyond its deltas is emitted too.
    fn project_block(
        &mut self,
        event: &TurnEvent,
        block: BlockId,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<AnswerChunk>,
    ) {
        let shown = self.unfinished.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&*shown) {
            self.text(event, block, channel, rest, out);
        } else if shown.trim() != text.trim() {
            // The agent withdrew the block or rewrote it.
            if channel == TextChannel::Answer {
                self.text(event, block, channel, WITHDRAWN_NOTICE, out);
            }
            self.close(event, block, out);
            self.text(event, block, channel, text, out);
        }
        self.close(event, block, out);
    }

    fn text(
        &mut self,
        event: &TurnEvent,
        block: BlockId,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<AnswerChunk>,
    ) {
        if text.is_empty() || self.cut.is_some() {
            return;
        }
        if channel == TextChannel::Reasoning {
            return self.emit_after_held(
                event,
                BlockSource::Block(block),
                BlockKind::Reasoning,
                text,
                out,
            );
        }
        self.has_answer_text = true;
        if !self.is_selected || self.words.is_empty() {
            return self.emit_answer_text(event, block, text, out);
        }
        if self.held_block != Some(block) {
            self.release(event, out);
        }
        let free = self.words.push(text);
        self.held_block = Some(block);
        self.emit_answer_text(event, block, &free.text, out);
        if self.cut.is_none() {
            self.cut = free.stop_word.map(StopReason::Word);
        }
    }

    /// Emits held-back text, which is not part of a stop word after all.
    fn release(&mut self, event: &TurnEvent, out: &mut Vec<AnswerChunk>) {
        if let Some(block) = self.held_block.take() {
            let rest = self.words.take_held();
            self.emit_answer_text(event, block, &rest, out);
        }
    }

    /// Emits answer text, up to `max_tokens`.
    fn emit_answer_text(
        &mut self,
        event: &TurnEvent,
        block: BlockId,
        text: &str,
        out: &mut Vec<AnswerChunk>,
    ) {
        let mut text = text;
        if self.is_selected
            && let Some(allowed) = self.view.max_tokens
            && let Some(at) = estimate::cut_position(text, allowed, &mut self.used_quarter_tokens)
        {
            self.cut = Some(StopReason::MaxTokens);
            text = text.get(..at).unwrap_or_default();
        }
        if !text.is_empty() {
            self.emit_text(event, BlockSource::Block(block), BlockKind::Text, text, out);
        }
    }

    /// Emits a line that reports one of the agent's own actions.
    fn emit_activity_line(&mut self, event: &TurnEvent, line: &str, out: &mut Vec<AnswerChunk>) {
        if self.view.report_activity && !self.view.hold_until_end {
            let line = format!("{line}\n");
            self.emit_after_held(event, BlockSource::Activity, BlockKind::Reasoning, &line, out);
        }
    }

    fn call(&mut self, event: &TurnEvent, call: &ToolCall, out: &mut Vec<AnswerChunk>) {
        let callers = call.class == ToolClass::Other
            && call.parent.is_none()
            && self.view.tools.contains(&call.name);
        if callers {
            self.calls.push(call.clone());
        } else if self.view.report_activity {
            let line = if *call.title == *call.name || call.title.is_empty() {
                call.name.to_string()
            } else {
                format!("{}: {}", call.name, call.title)
            };
            self.emit_activity_line(event, &line, out);
            self.running.insert(call.id.clone(), Arc::clone(&call.name));
        }
    }

    fn notice(
        &mut self,
        event: &TurnEvent,
        notice: &Notice,
        out: &mut Vec<AnswerChunk>,
    ) -> AnswerProgress {
        if *notice.code != *AWAITING {
            if notice.level == NoticeLevel::Warning {
                self.emit_activity_line(event, &notice.text, out);
            }
            return AnswerProgress::More;
        }
        if self.calls.is_empty() {
            return AnswerProgress::More;
        }
        let calls = std::mem::take(&mut self.calls);
        if self.is_selected {
            self.release(event, out);
            if self.cut.is_some() {
                return self.end_cut_answer(event, out);
            }
            self.close_any(out);
            for call in calls {
                self.begin(event, out);
                let (id, name) = (call.id, call.name);
                out.push(AnswerChunk::Open(BlockKind::Call { id, name }));
                out.push(AnswerChunk::More(call.input.get().into()));
                out.push(AnswerChunk::Close);
            }
            self.end(event, StopReason::Calls, AWAITING, out);
            return AnswerProgress::Over;
        }
        // The calls belong to an answer that this projector skips: count it and start over.
        self.part += 1;
        self.open = None;
        self.unfinished.clear();
        self.usage_before = self.usage.clone();
        AnswerProgress::More
    }

    fn finish(
        &mut self,
        event: &TurnEvent,
        outcome: &Outcome,
        out: &mut Vec<AnswerChunk>,
    ) -> AnswerProgress {
        // A turn that ended before the requested answer still reports its outcome.
        self.is_selected = true;
        if !self.started
            && let Some(progress) = AnswerProgress::of_silent_turn(outcome, self.is_agent_started)
        {
            return progress;
        }
        self.usage = outcome.usage.clone();
        // If no answer text was emitted, because none arrived or it was held back, the text of the
        // outcome is the answer.
        let unsaid = self.view.hold_until_end || !self.has_answer_text;
        if unsaid && matches!(outcome.status, TurnStatus::Completed | TurnStatus::Partial) {
            let block = BlockId::MAX;
            let text = if self.view.hold_until_end {
                fenced_json(&outcome.text).unwrap_or(&outcome.text)
            } else {
                &outcome.text
            };
            self.text(event, block, TextChannel::Answer, text, out);
        }
        self.release(event, out);
        if self.cut.is_some() {
            return self.end_cut_answer(event, out);
        }
        let stop = match &outcome.status {
            TurnStatus::Completed => match &*outcome.reason {
                "max_tokens" => StopReason::MaxTokens,
                "refusal" => StopReason::Refusal,
                _ => StopReason::EndTurn,
            },
            TurnStatus::Partial | TurnStatus::Parked { .. } => StopReason::Partial,
            TurnStatus::Interrupted => StopReason::Interrupted,
            TurnStatus::Failed(failure) => {
                self.close_any(out);
                let sentence = format!("\n\n[the turn failed: {failure}]");
                self.emit_after_held(event, BlockSource::Activity, BlockKind::Text, &sentence, out);
                match failure.kind {
                    FailureKind::Refused => StopReason::Refusal,
                    _ => StopReason::Failed(failure.clone()),
                }
            }
        };
        self.end(event, stop, outcome.status.as_str(), out);
        AnswerProgress::Over
    }

    /// Emits content other than answer text, after any held-back answer text.
    fn emit_after_held(
        &mut self,
        event: &TurnEvent,
        source: BlockSource,
        block: BlockKind,
        text: &str,
        out: &mut Vec<AnswerChunk>,
    ) {
        self.release(event, out);
        if self.cut.is_none() {
            self.emit_text(event, source, block, text, out);
        }
    }

    fn emit_text(
        &mut self,
        event: &TurnEvent,
        source: BlockSource,
        block: BlockKind,
        text: &str,
        out: &mut Vec<AnswerChunk>,
    ) {
        if !self.is_selected {
            return;
        }
        if self.open != Some(source) {
            self.close_any(out);
            self.begin(event, out);
            out.push(AnswerChunk::Open(block));
            self.open = Some(source);
        }
        out.push(AnswerChunk::More(text.into()));
    }

    fn begin(&mut self, event: &TurnEvent, out: &mut Vec<AnswerChunk>) {
        if !self.started {
            self.started = true;
            out.push(AnswerChunk::Start(AnswerHeader {
                turn: event.turn,
                session: event.session,
                part: self.part,
                model: Arc::clone(&self.view.model),
                at: event.at,
            }));
        }
    }

    fn close(&mut self, event: &TurnEvent, block: BlockId, out: &mut Vec<AnswerChunk>) {
        if self.held_block == Some(block) {
            self.release(event, out);
        }
        if self.open == Some(BlockSource::Block(block)) {
            self.close_any(out);
        }
    }

    fn close_any(&mut self, out: &mut Vec<AnswerChunk>) {
        if self.open.take().is_some() {
            out.push(AnswerChunk::Close);
        }
    }

    fn end(
        &mut self,
        event: &TurnEvent,
        stop: StopReason,
        status: &'static str,
        out: &mut Vec<AnswerChunk>,
    ) {
        self.close_any(out);
        self.begin(event, out);
        let usage = self.answer_usage(&self.usage);
        out.push(AnswerChunk::End(AnswerEnd { stop, usage, status }));
    }
}

/// Returns the usage since `before`. The counts of a turn only grow.
fn usage_since(usage: &Usage, before: &Usage) -> Usage {
    let cost = |now: f64| (now - before.cost_usd.unwrap_or(0.0)).max(0.0);
    Usage {
        input_tokens: usage.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: usage.output_tokens.saturating_sub(before.output_tokens),
        cache_read_tokens: (usage.cache_read_tokens).saturating_sub(before.cache_read_tokens),
        cache_write_tokens: (usage.cache_write_tokens).saturating_sub(before.cache_write_tokens),
        cost_usd: usage.cost_usd.map(cost),
        lane: usage.lane.clone(),
        prefix_sha256: usage.prefix_sha256.clone(),
        context: usage.context,
    }
}
