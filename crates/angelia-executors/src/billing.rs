//! Refuses a login that bills another lane than the profile wants, before the first prompt is sent.

use angelia_core::model::{Billing, Failure, FailureKind};

/// What to do about the wrong lane, for each lane that a profile can want.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BillingHints {
    pub(crate) subscription: &'static str,
    pub(crate) api_key: &'static str,
}

/// Checks that the lane `agent` reports is the one the profile wants.
pub(crate) fn check_billing(
    agent: &str,
    wanted: Billing,
    reported: Option<&str>,
    hints: BillingHints,
) -> Result<(), Failure> {
    let hint = match wanted {
        Billing::Any => return Ok(()),
        Billing::Subscription => hints.subscription,
        Billing::ApiKey => hints.api_key,
    };
    let wanted = wanted.as_str();
    if reported == Some(wanted) {
        return Ok(());
    }
    let reported = reported.unwrap_or("unknown");
    let message =
        format!("this profile wants billing `{wanted}`, but {agent} reports `{reported}`");
    Err(Failure::new(FailureKind::Auth, message).with_hint(hint))
}
