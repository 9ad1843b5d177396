//! What a turn has spent: tokens from its answer, and money from what the whole conversation has
//! cost before and after it.

use angelia_core::model::Usage;

use crate::acp::protocol::incoming::Tokens;

/// What the conversation has cost, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    total: Option<f64>,
    /// When the turn began. `None`: nobody has said.
    before: Option<f64>,
    /// The agent tells it at all.
    is_told: bool,
}

impl Spent {
    /// `is_new`: nothing can have been spent yet.
    pub(super) fn new(is_new: bool) -> Self {
        let total = is_new.then_some(0.0);
        Self { total, before: total, is_told: false }
    }

    pub(super) fn begin_turn(&mut self) {
        self.before = self.total;
    }

    /// `true`: it costs more than before.
    pub(super) fn total(&mut self, dollars: f64) -> bool {
        let known = self.total.unwrap_or(0.0);
        // Some begin anew with every process; what was counted stays counted.
        self.total = Some(dollars);
        self.is_told = true;
        if dollars < known {
            self.before = Some(0.0);
        }
        dollars > known
    }

    pub(super) fn of_turn(&self) -> Option<f64> {
        let spent = self.total? - self.before?;
        (self.is_told && spent >= 0.0).then_some(spent)
    }
}

pub(super) fn add(usage: &mut Usage, tokens: Tokens) {
    let count = |count: crate::lenient::Soft<u64>| count.get().unwrap_or(0);
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
        let mut spent = Spent::new(true);
        spent.begin_turn();
        assert_eq!(spent.of_turn(), None);
        assert!(spent.total(0.25));
        assert_eq!(spent.of_turn(), Some(0.25));
        spent.begin_turn();
        assert!(!spent.total(0.25));
        assert_eq!(spent.of_turn(), Some(0.0));
        assert!(spent.total(1.0));
        assert_eq!(spent.of_turn(), Some(0.75));
    }

    #[test]
    fn of_a_conversation_taken_up_the_first_turn_is_not_known() {
        let mut spent = Spent::new(false);
        spent.begin_turn();
        spent.total(3.0);
        assert_eq!(spent.of_turn(), None);
        spent.begin_turn();
        spent.total(3.5);
        assert_eq!(spent.of_turn(), Some(0.5));
    }
}
