//! Usage and latency of the turns of this process, by executor, for metrics.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::model::Usage;

/// The upper bounds of [`LatencyHistogram`], in seconds.
pub const LATENCY_BOUNDS: [f64; 12] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0];

/// Counts durations by their upper bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyHistogram {
    /// Number of durations up to each bound. As in Prometheus, each count includes those of lower
    /// bounds.
    pub up_to: [u64; LATENCY_BOUNDS.len()],
    pub count: u64,
    pub sum_seconds: f64,
}

impl LatencyHistogram {
    fn add(&mut self, taken: Duration) {
        let seconds = taken.as_secs_f64();
        for (count, bound) in self.up_to.iter_mut().zip(LATENCY_BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum_seconds += seconds;
    }
}

/// Totals of the turns of one executor since the start of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorTotals {
    pub usage: Usage,
    /// From the submission of a turn to the first text of its answer.
    pub first_word: LatencyHistogram,
}

/// The totals of all executors.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnStatistics(BTreeMap<Arc<str>, ExecutorTotals>);

impl TurnStatistics {
    pub(super) fn add(&mut self, executor: &Arc<str>, usage: &Usage, first_word: Option<Duration>) {
        let totals = self.0.entry(Arc::clone(executor)).or_default();
        totals.usage = totals.usage.plus(usage);
        if let Some(taken) = first_word {
            totals.first_word.add(taken);
        }
    }

    pub(super) fn list(&self) -> Vec<(Arc<str>, ExecutorTotals)> {
        self.0.iter().map(|(name, totals)| (Arc::clone(name), totals.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_the_smaller_ones() {
        let mut histogram = LatencyHistogram::default();
        for millis in [40, 700, 90_000] {
            histogram.add(Duration::from_millis(millis));
        }
        assert_eq!(histogram.up_to, [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(histogram.count, 3);
        assert!((histogram.sum_seconds - 90.74).abs() < 1e-9);
    }
}
