//! Failed `accept` calls. When file descriptors have run out, every attempt fails until some are
//! free again. This must not fill the log.

use std::{io, time::Duration};

use tokio::time::Instant;

/// The pause after a failed `accept`, which nearly always means that file descriptors ran out.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Waits after each failure. Warns about the first one, then about all failures of a minute
/// together.
#[derive(Debug, Default)]
pub(crate) struct AcceptErrors {
    last_warning: Option<Instant>,
    unreported: usize,
}

impl AcceptErrors {
    pub(crate) async fn wait_after(&mut self, error: &io::Error) {
        if let Some(failures) = self.count_failure(Instant::now()) {
            tracing::warn!(%error, failures, "cannot accept a connection; clients wait meanwhile");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }

    /// Returns the number of failures to report, if a warning is due.
    fn count_failure(&mut self, now: Instant) -> Option<usize> {
        self.unreported += 1;
        if self.last_warning.is_some_and(|last| now < last + WARNING_INTERVAL) {
            return None;
        }
        self.last_warning = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_is_a_few_warnings_that_count_them() {
        let mut errors = AcceptErrors::default();
        let start = Instant::now();
        let warnings: Vec<usize> = (0..1500)
            .filter_map(|number| errors.count_failure(start + RETRY_DELAY * number))
            .collect();
        assert_eq!(warnings, [1, 600, 600]);
    }
}
