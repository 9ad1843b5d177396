//! The limits of the REST API: five messages and five edits in five seconds per channel. The headers of each
//! answer state what is left.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::platform_server::PlatformAnswer;

const COUNT: usize = 5;
const PERIOD: Duration = Duration::from_secs(5);

/// The routes that have a limit.
const LIMITED: [&str; 2] = ["POST messages", "PATCH message"];

#[derive(Debug, Default)]
pub(super) struct RequestLimits {
    windows: HashMap<(&'static str, String), Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    used: usize,
}

impl RequestLimits {
    /// Counts a request. Returns `Err` with the time to wait if it is one too many.
    pub(super) fn count(&mut self, route: &'static str, channel: &str) -> Result<(), Duration> {
        if !LIMITED.contains(&route) {
            return Ok(());
        }
        let now = Instant::now();
        let key = (route, channel.to_owned());
        let window = self.windows.entry(key).or_insert(Window { began: now, used: 0 });
        if now.duration_since(window.began) >= PERIOD {
            *window = Window { began: now, used: 0 };
        }
        if window.used >= COUNT {
            return Err(PERIOD.saturating_sub(now.duration_since(window.began)));
        }
        window.used += 1;
        Ok(())
    }

    /// Adds the headers that state what is left.
    pub(super) fn describe(
        &self,
        route: &'static str,
        channel: &str,
        answer: PlatformAnswer,
    ) -> PlatformAnswer {
        let Some(window) = self.windows.get(&(route, channel.to_owned())) else { return answer };
        let left = PERIOD.saturating_sub(window.began.elapsed()).as_secs_f64();
        answer
            .with_header("X-RateLimit-Limit", &COUNT.to_string())
            .with_header("X-RateLimit-Remaining", &(COUNT - window.used).to_string())
            .with_header("X-RateLimit-Reset", "1800000000.000")
            .with_header("X-RateLimit-Reset-After", &format!("{left:.3}"))
            .with_header("X-RateLimit-Bucket", &format!("bucket-of-{}", route.replace(' ', "-")))
    }
}
