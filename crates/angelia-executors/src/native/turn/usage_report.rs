//! Reports the tokens of answers: as the server has counted them, or estimated if it does not count
//! them, so that a cost limit still works.

use angelia_core::{
    model::{ContextWindow, EventKind, Notice, NoticeLevel, Usage},
    ports::AgentEvent,
};

use super::{TurnRun, answer_collector::Answer, engine_link::EngineLink};
use crate::native::{compaction::size::text_tokens, provider::ReportedTokens};

/// The approximate number of bytes per token of a request. It is a little too high, so that the
/// number of sent tokens is underestimated and there are no false alarms.
const BYTES_PER_TOKEN: u64 = 4;

impl TurnRun<'_> {
    /// Reports the tokens of an answer. If the answer broke off, only what the server has counted
    /// is reported.
    pub(super) async fn report_usage(&mut self, answer: &Answer, link: &EngineLink) {
        let counted = answer.tokens.filter(|tokens| *tokens != ReportedTokens::default());
        let (tokens, notices) = match counted {
            Some(tokens) => (tokens, [self.truncation_notice(tokens), self.gauge_context(tokens)]),
            None if answer.stop.is_some() => {
                (self.estimated_usage(answer), [self.estimate_notice(), None])
            }
            None => return,
        };
        let notices = notices.into_iter().flatten().map(EventKind::Notice);
        let events = std::iter::once(EventKind::Usage(self.count(tokens))).chain(notices);
        link.send(events.map(AgentEvent::Event).collect()).await;
    }

    /// Estimates the tokens of the last request and its answer.
    fn estimated_usage(&self, answer: &Answer) -> ReportedTokens {
        let asked = self.aside.as_ref().unwrap_or_else(|| self.state.log.conversation());
        let (input, output) = (self.expected_tokens(asked), text_tokens(answer.bytes()));
        ReportedTokens { input, output, ..ReportedTokens::default() }
    }

    /// Returns a notice, once per turn, that the usage is estimated.
    fn estimate_notice(&mut self) -> Option<Notice> {
        let text = "the server does not count tokens, so the usage of this turn is estimated";
        let is_told = std::mem::replace(&mut self.told_estimate, true);
        (!is_told).then(|| Notice::new(NoticeLevel::Info, "usage_estimated", text))
    }

    /// Returns a notice, once per turn, if the server has read much less than it was sent: some
    /// local servers silently cut a conversation that is too long.
    fn truncation_notice(&mut self, tokens: ReportedTokens) -> Option<Notice> {
        let sent = self.request_bytes / BYTES_PER_TOKEN;
        let is_cut = self.route.model.provider.is_local() && tokens.prompt() * 2 < sent;
        // Images have many bytes but few tokens.
        if !is_cut
            || self.state.log.has_images()
            || std::mem::replace(&mut self.told_truncation, true)
        {
            return None;
        }
        let text = format!(
            "the server read {} tokens of about {sent}: its context window is probably smaller than the \
             conversation; enlarge it there (for Ollama: `num_ctx`)",
            tokens.prompt()
        );
        Some(Notice::new(NoticeLevel::Warning, "context_truncated", text))
    }

    /// Counts the tokens of an answer, and returns the usage of the turn so far.
    fn count(&mut self, tokens: ReportedTokens) -> Usage {
        let model = &self.route.model;
        let mut more = Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_tokens: tokens.cache_read,
            cache_write_tokens: tokens.cache_write,
            context: model.limits.context.and_then(|size| {
                ContextWindow::from_reported(tokens.prompt() + tokens.output, size)
            }),
            ..Usage::default()
        };
        more.cost_usd = model.price.map(|price| price.cost_usd(&more));
        self.is_cost_unknown |= more.cost_usd.is_none();
        self.usage = self.usage.plus(&more);
        if self.is_cost_unknown {
            self.usage.cost_usd = None;
        }
        self.usage.clone()
    }
}
