//! Projects the events of a turn onto the chunks of one answer. Pure: events in, chunks out.
//!
//! One turn spans several answers when the model calls the caller's tools. A projector emits one of
//! them and skips the earlier ones. It emits nothing until there is content, so that any earlier
//! failure can still be an HTTP error. Text that was sent cannot be taken back: a block that the
//! agent withdraws stays, followed by a notice.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    engine::AWAITING_TOOL_RESULT as AWAITING,
    model::{
        BlockId, EventKind, Failure, FailureKind, Level, Notice, Outcome, Seq, Status, TextChannel,
        ToolCall, ToolClass, ToolId, TurnEvent, Usage,
    },
};

use super::{Begin, Block, End, Piece, Stop, estimate, stop_words::StopWords};

const WITHDRAWN: &str = "\n\n[the text above was cut off; the answer begins anew]\n\n";

/// Selects the answer of a turn that is projected, and how.
#[derive(Clone, Debug)]
pub struct View {
    /// The model id of the request.
    pub model: Arc<str>,
    pub from: From,
    /// The names of the caller's tools.
    pub tools: HashSet<Arc<str>>,
    /// Reports calls of the agent's own tools, as lines of reasoning.
    pub activity: bool,
    /// Emits nothing until the turn has ended; for answers that must satisfy a constraint.
    pub hold: bool,
    /// An upper bound for the text, in estimated tokens.
    pub max_tokens: Option<u64>,
}

/// The answer of a turn to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The answer after this many others.
    Part(u32),
    /// The first answer that begins after this event.
    After(Seq),
}

/// The state of the answer after an event.
#[derive(Clone, Debug)]
pub enum Step {
    More,
    /// The answer is complete: `End` was the last chunk.
    Over,
    /// The answer reached its length limit or a stop word. The turn still runs, but its output is
    /// no longer wanted.
    Cut,
    /// The turn failed before anything was emitted.
    Failed(Failure),
    /// The turn was interrupted before anything was emitted.
    Interrupted,
}

/// The origin of the content of the open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Block(BlockId),
    /// Lines that report what the agent does.
    Lines,
}

#[derive(Debug)]
pub struct Shown {
    view: View,
    /// The number of answers that were skipped.
    part: u32,
    showing: bool,
    began: bool,
    open: Option<Source>,
    /// The text emitted so far of blocks that are not complete.
    unfinished: HashMap<BlockId, String>,
    /// Calls of the caller's tools; emitted once the agent waits for their results.
    calls: Vec<ToolCall>,
    /// The agent's own tools that are running, by name.
    running: HashMap<ToolId, Arc<str>>,
    /// The turn has produced answer text, in this answer or an earlier one.
    said: bool,
    usage: Usage,
    usage_before: Usage,
    quarters: u64,
    words: StopWords,
    /// The block whose text is held back as a possible stop word.
    held_of: Option<BlockId>,
    /// Set once the answer must end here, although the turn goes on.
    cut: Option<Stop>,
}

impl Shown {
    pub fn new(view: View) -> Self {
        Self {
            view,
            part: 0,
            showing: false,
            began: false,
            open: None,
            unfinished: HashMap::new(),
            calls: Vec::new(),
            running: HashMap::new(),
            said: false,
            usage: Usage::default(),
            usage_before: Usage::default(),
            quarters: 0,
            words: StopWords::default(),
            held_of: None,
            cut: None,
        }
    }

    /// Ends the answer before the first of these words.
    #[must_use]
    pub fn ending_at(mut self, words: &[Arc<str>]) -> Self {
        self.words = StopWords::new(words);
        self
    }

    /// Returns whether anything has been emitted.
    pub const fn began(&self) -> bool {
        self.began
    }

    /// Returns the usage of this answer alone, given the usage of its whole turn.
    pub fn used(&self, whole: &Usage) -> Usage {
        since(whole, &self.usage_before)
    }

    /// Projects the next event of the turn. After anything but [`AnswerProgress::More`] the answer
    /// has ended.
    pub fn event(&mut self, event: &TurnEvent, out: &mut Vec<Piece>) -> Step {
        self.showing = match self.view.from {
            From::Part(part) => self.part >= part,
            From::After(seq) => event.seq > seq,
        };
        match &event.kind {
            EventKind::Delta { block, channel, text } if !self.view.hold => {
                self.text(event, *block, *channel, text, out);
                self.unfinished.entry(*block).or_default().push_str(text);
            }
            EventKind::Block { block, channel, text } if !self.view.hold => {
                self.whole(event, *block, *channel, text, out);
            }
            EventKind::ToolCall(call) => self.call(event, call, out),
            EventKind::ToolResult(result) => {
                self.calls.retain(|call| call.id != result.id);
                if let Some(name) = self.running.remove(&result.id)
                    && !result.ok
                {
                    self.line(event, &format!("{name}: failed"), out);
                }
            }
            EventKind::Usage(usage) => self.usage = usage.clone(),
            EventKind::Notice(notice) => return self.notice(event, notice, out),
            EventKind::Finished(outcome) => return self.finish(event, outcome, out),
            EventKind::Started(_)
            | EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Plan(_)
            | EventKind::Approval(_)
            | EventKind::Resolved(_)
            | EventKind::Native { .. } => {}
        }
        if self.cut.is_some() {
            return self.cut_off(event, out);
        }
        Step::More
    }

    fn cut_off(&mut self, event: &TurnEvent, out: &mut Vec<Piece>) -> Step {
        let stop = self.cut.take().unwrap_or(Stop::MaxTokens);
        let status = match stop {
            // A stop word means the caller has everything it asked for.
            Stop::Word(_) => "completed",
            _ => "partial",
        };
        self.end(event, stop, status, out);
        Step::Cut
    }

    /// Projects a complete block. It is authoritative: text beyond its deltas is emitted too.
    fn whole(
        &mut self,
        event: &TurnEvent,
        block: BlockId,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<Piece>,
    ) {
        let shown = self.unfinished.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&*shown) {
            self.text(event, block, channel, rest, out);
        } else if shown.trim() != text.trim() {
            // The agent withdrew the block or rewrote it.
            if channel == TextChannel::Answer {
                self.text(event, block, channel, WITHDRAWN, out);
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
        out: &mut Vec<Piece>,
    ) {
        if text.is_empty() || self.cut.is_some() {
            return;
        }
        if channel == TextChannel::Reasoning {
            return self.more(event, Source::Block(block), Block::Reasoning, text, out);
        }
        self.said = true;
        if !self.showing || self.words.is_empty() {
            return self.answer(event, block, text, out);
        }
        if self.held_of != Some(block) {
            self.release(event, out);
        }
        let free = self.words.push(text);
        self.held_of = Some(block);
        self.answer(event, block, &free.text, out);
        if self.cut.is_none() {
            self.cut = free.found.map(Stop::Word);
        }
    }

    /// Emits the text that was held back: it is not part of a stop word after all.
    fn release(&mut self, event: &TurnEvent, out: &mut Vec<Piece>) {
        if let Some(block) = self.held_of.take() {
            let rest = self.words.rest();
            self.answer(event, block, &rest, out);
        }
    }

    /// Emits text of the answer, up to `max_tokens`.
    fn answer(&mut self, event: &TurnEvent, block: BlockId, text: &str, out: &mut Vec<Piece>) {
        let mut text = text;
        if self.showing
            && let Some(allowed) = self.view.max_tokens
            && let Some(at) = estimate::cut(text, allowed, &mut self.quarters)
        {
            self.cut = Some(Stop::MaxTokens);
            text = text.get(..at).unwrap_or_default();
        }
        if !text.is_empty() {
            self.put(event, Source::Block(block), Block::Text, text, out);
        }
    }

    /// Emits a line that reports an action of the agent itself.
    fn line(&mut self, event: &TurnEvent, line: &str, out: &mut Vec<Piece>) {
        if self.view.activity && !self.view.hold {
            let line = format!("{line}\n");
            self.more(event, Source::Lines, Block::Reasoning, &line, out);
        }
    }

    fn call(&mut self, event: &TurnEvent, call: &ToolCall, out: &mut Vec<Piece>) {
        let callers = call.class == ToolClass::Other
            && call.parent.is_none()
            && self.view.tools.contains(&call.name);
        if callers {
            self.calls.push(call.clone());
        } else if self.view.activity {
            let line = if *call.title == *call.name || call.title.is_empty() {
                call.name.to_string()
            } else {
                format!("{}: {}", call.name, call.title)
            };
            self.line(event, &line, out);
            self.running.insert(call.id.clone(), Arc::clone(&call.name));
        }
    }

    fn notice(&mut self, event: &TurnEvent, notice: &Notice, out: &mut Vec<Piece>) -> Step {
        if *notice.code != *AWAITING {
            if notice.level == Level::Warning {
                self.line(event, &notice.text, out);
            }
            return Step::More;
        }
        if self.calls.is_empty() {
            return Step::More;
        }
        let calls = std::mem::take(&mut self.calls);
        if self.showing {
            self.release(event, out);
            if self.cut.is_some() {
                return self.cut_off(event, out);
            }
            self.close_any(out);
            for call in calls {
                self.begin(event, out);
                let (id, name) = (call.id, call.name);
                out.push(Piece::Open(Block::Call { id, name }));
                out.push(Piece::More(call.input.get().into()));
                out.push(Piece::Close);
            }
            self.end(event, Stop::Calls, AWAITING, out);
            return Step::Over;
        }
        // The calls belong to an answer that this projector skips: count it and start over.
        self.part += 1;
        self.open = None;
        self.unfinished.clear();
        self.usage_before = self.usage.clone();
        Step::More
    }

    fn finish(&mut self, event: &TurnEvent, outcome: &Outcome, out: &mut Vec<Piece>) -> Step {
        // A turn that ended before the requested answer still reports its outcome.
        self.showing = true;
        if !self.began {
            match &outcome.status {
                Status::Failed(failure) => return Step::Failed(failure.clone()),
                Status::Interrupted => return Step::Interrupted,
                Status::Completed | Status::Partial | Status::Parked { .. } => {}
            }
        }
        self.usage = outcome.usage.clone();
        // If no answer text has been emitted, because none arrived or it was held, the text of the
        // outcome is the answer.
        let unsaid = self.view.hold || !self.said;
        if unsaid && matches!(outcome.status, Status::Completed | Status::Partial) {
            let block = BlockId::MAX;
            self.text(event, block, TextChannel::Answer, &outcome.text, out);
        }
        self.release(event, out);
        if self.cut.is_some() {
            return self.cut_off(event, out);
        }
        let stop = match &outcome.status {
            Status::Completed => match &*outcome.reason {
                "max_tokens" => Stop::MaxTokens,
                "refusal" => Stop::Refusal,
                _ => Stop::EndTurn,
            },
            Status::Partial | Status::Parked { .. } => Stop::Partial,
            Status::Interrupted => Stop::Interrupted,
            Status::Failed(failure) => {
                self.close_any(out);
                let sentence = format!("\n\n[the turn failed: {failure}]");
                self.more(event, Source::Lines, Block::Text, &sentence, out);
                match failure.kind {
                    FailureKind::Refused => Stop::Refusal,
                    _ => Stop::Failed(failure.clone()),
                }
            }
        };
        self.end(event, stop, outcome.status.as_str(), out);
        Step::Over
    }

    /// Emits content other than answer text. Answer text that was held back goes first.
    fn more(
        &mut self,
        event: &TurnEvent,
        source: Source,
        block: Block,
        text: &str,
        out: &mut Vec<Piece>,
    ) {
        self.release(event, out);
        if self.cut.is_none() {
            self.put(event, source, block, text, out);
        }
    }

    fn put(
        &mut self,
        event: &TurnEvent,
        source: Source,
        block: Block,
        text: &str,
        out: &mut Vec<Piece>,
    ) {
        if !self.showing {
            return;
        }
        if self.open != Some(source) {
            self.close_any(out);
            self.begin(event, out);
            out.push(Piece::Open(block));
            self.open = Some(source);
        }
        out.push(Piece::More(text.into()));
    }

    fn begin(&mut self, event: &TurnEvent, out: &mut Vec<Piece>) {
        if !self.began {
            self.began = true;
            out.push(Piece::Begin(Begin {
                turn: event.turn,
                session: event.session,
                part: self.part,
                model: Arc::clone(&self.view.model),
                at: event.at,
            }));
        }
    }

    fn close(&mut self, event: &TurnEvent, block: BlockId, out: &mut Vec<Piece>) {
        if self.held_of == Some(block) {
            self.release(event, out);
        }
        if self.open == Some(Source::Block(block)) {
            self.close_any(out);
        }
    }

    fn close_any(&mut self, out: &mut Vec<Piece>) {
        if self.open.take().is_some() {
            out.push(Piece::Close);
        }
    }

    fn end(&mut self, event: &TurnEvent, stop: Stop, status: &'static str, out: &mut Vec<Piece>) {
        self.close_any(out);
        self.begin(event, out);
        let usage = self.used(&self.usage);
        out.push(Piece::End(End { stop, usage, status }));
    }
}

/// Returns the usage after `before`; the counts of a turn only grow.
fn since(usage: &Usage, before: &Usage) -> Usage {
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
