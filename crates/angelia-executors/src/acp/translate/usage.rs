//! The usage of a turn. The tokens come from the answer to its prompt; the cost is the difference
//! between the conversation's totals before and after the turn.

use angelia_core::model::Usage;

use crate::acp::protocol::incoming::TurnTokens;

/// The conversation's total cost in dollars, and the total at the start of the turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConversationCost {
    total: Option<f64>,
    /// `None` if the agent had not reported a total when the turn began.
    before: Option<f64>,
    /// Set once the agent has reported a cost.
    is_reported: bool,
}

impl ConversationCost {
    /// Creates the cost of a conversation. If it is new, its total is known to be 0.
    pub(super) fn new(is_new: bool) -> Self {
        let total = is_new.then_some(0.0);
        Self { total, before: total, is_reported: false }
    }

    pub(super) fn begin_turn(&mut self) {
        self.before = self.total;
    }

    /// Records the total. Returns whether it has grown.
    pub(super) fn record_total(&mut self, dollars: f64) -> bool {
        let known = self.total.unwrap_or(0.0);
        // Some agents start counting from 0 in every process. A smaller total is then this turn's
        // cost alone; the cost of earlier turns is already counted.
        self.total = Some(dollars);
        self.is_reported = true;
        if dollars < known {
            self.before = Some(0.0);
        }
        dollars > known
    }

    pub(super) fn turn_cost(&self) -> Option<f64> {
        let spent = self.total? - self.before?;
        (self.is_reported && spent >= 0.0).then_some(spent)
    }
}

pub(super) fn set_tokens(usage: &mut Usage, tokens: TurnTokens) {
    let count = |count: crate::lenient::Lenient<u64>| count.get().unwrap_or(0);
    usage.input_tokens = count(tokens.input_tokens);
    usage.output_tokens = count(tokens.output_tokens);
    usage.cache_read_tokens = count(tokens.cached_read_tokens);
    usage.cache_write_tokens = count(tokens.cached_write_tokens);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_costs_what_the_conversation_costs_more() {
        let mut spent = ConversationCost::new(true);
        spent.begin_turn();
        assert_eq!(spent.turn_cost(), None);
        assert!(spent.record_total(0.25));
        assert_eq!(spent.turn_cost(), Some(0.25));
        spent.begin_turn();
        assert!(!spent.record_total(0.25));
        assert_eq!(spent.turn_cost(), Some(0.0));
        assert!(spent.record_total(1.0));
        assert_eq!(spent.turn_cost(), Some(0.75));
    }

    #[test]
    fn of_a_conversation_taken_up_the_first_turn_is_not_known() {
        let mut spent = ConversationCost::new(false);
        spent.begin_turn();
        spent.record_total(3.0);
        assert_eq!(spent.turn_cost(), None);
        spent.begin_turn();
        spent.record_total(3.5);
        assert_eq!(spent.turn_cost(), Some(0.5));
    }
}
