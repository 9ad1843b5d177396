//! Refuses, before the first prompt, a login that would bill another lane than the profile wants.

use angelia_core::model::{Billing, Failure, FailureKind};

/// The advice about the wrong lane, by the lane that the profile wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BillingHints {
    pub(crate) subscription: &'static str,
    pub(crate) api_key: &'static str,
}

/// Compares the lane that `agent` reports with the lane that the profile wants.
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
