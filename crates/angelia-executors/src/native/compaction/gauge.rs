//! Measures how full a model's window is, and decides when it is too full.

use super::size::TokenScale;

/// At most this many tokens of the window are reserved for an answer.
const MAX_RESERVE: u64 = 20_000;

/// The size of a window, and the size at which a conversation is too long for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimit {
    pub window: u64,
    /// A conversation of this many tokens is compacted.
    pub trigger: u64,
}

impl WindowLimit {
    /// `output` is the token limit of an answer, if there is one.
    pub fn new(window: u64, output: Option<u64>, at_permille: u16) -> Self {
        // Some models claim that they can write as much as they can read. Half the window is enough
        // then, and a fifth if the limit is unknown.
        let reserve = match output {
            Some(output) => output.min(MAX_RESERVE).min(window / 2),
            None => MAX_RESERVE.min(window / 5),
        };
        let usable = window.saturating_sub(reserve);
        Self { window, trigger: usable.saturating_mul(at_permille.into()) / 1_000 }
    }
}

/// The size of a conversation, as its provider last counted it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextGauge {
    /// The tokens of the last request and its answer; `None` if the conversation was replaced
    /// since.
    used: Option<u64>,
    /// The reported and the estimated tokens of the last prompt.
    counted: Option<(u64, u64)>,
}

impl ContextGauge {
    /// Records what a provider has counted: the tokens of a `prompt`, which we estimated at
    /// `estimated`, and of the `output`.
    pub fn note_report(&mut self, prompt: u64, output: u64, estimated: u64) {
        if prompt > 0 {
            *self = Self { used: Some(prompt + output), counted: Some((prompt, estimated)) };
        }
    }

    /// Forgets the count of a conversation that was replaced.
    pub fn forget(&mut self) {
        self.used = None;
    }

    pub const fn used(&self) -> Option<u64> {
        self.used
    }

    pub fn scale(&self) -> TokenScale {
        let scale = |(reported, estimated)| TokenScale::new(reported, estimated);
        self.counted.map(scale).unwrap_or_default()
    }

    /// Predicts how many tokens the provider will count for a request with this estimate: its last
    /// count, plus the estimate of what was added since.
    pub fn expect(&self, estimated: u64) -> u64 {
        match self.counted {
            Some((reported, before)) if estimated >= before => reported + (estimated - before),
            _ => self.scale().to_reported(estimated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_window_is_kept_free_for_the_answer() {
        let trigger = |window, output| WindowLimit::new(window, output, 850).trigger;
        assert_eq!(trigger(200_000, Some(64_000)), 153_000);
        assert_eq!(trigger(4_000, Some(500)), 2_975);
        assert_eq!(trigger(4_000, Some(4_000)), 1_700);
        assert_eq!(trigger(100_000, None), 68_000);
        assert_eq!(trigger(4_000, None), 2_720);
        assert_eq!(trigger(0, None), 0);
    }

    #[test]
    fn a_report_without_a_count_changes_nothing() {
        let mut gauge = ContextGauge::default();
        gauge.note_report(900, 100, 450);
        gauge.note_report(0, 7, 450);
        assert_eq!((gauge.used(), gauge.scale().to_reported(10)), (Some(1_000), 20));
        assert_eq!((gauge.expect(500), gauge.expect(225)), (950, 450));
        gauge.forget();
        assert_eq!((gauge.used(), gauge.scale().to_reported(10)), (None, 20));
        assert_eq!(ContextGauge::default().expect(7), 7);
    }
}
