//! Limits what a key may cost in a day.

use std::time::Duration;

use jiff::Timestamp;

use crate::http::{ApiState, ErrorKind, HttpError, Principal};

const DAY: Duration = Duration::from_hours(24);

/// Returns what the next turn of this key may cost; `None` if the key has no limit. Fails if the
/// limit is reached.
pub(super) async fn remaining_usd(
    state: &ApiState,
    principal: &Principal,
) -> Result<Option<f64>, HttpError> {
    let Some(limit) = principal.grant.max_cost_usd_per_day else {
        return Ok(None);
    };
    let since = Timestamp::now().checked_sub(DAY).unwrap_or(Timestamp::MIN);
    let spent = state.engine.cost_since(&principal.name, since).await?;
    if spent < limit {
        return Ok(Some(limit - spent));
    }
    let message =
        format!("this key has used what it may cost in 24 hours: ${spent:.2} of ${limit:.2}");
    let mut error = HttpError::new(ErrorKind::Busy, message)
        .with_hint("wait, or ask the owner to raise `max_cost_usd_per_day` in http.keys");
    error.retry_after = Some(Duration::from_hours(1));
    Err(error)
}
