//! Vendor quotas: how much of each is used, and when it resets.

use std::sync::Arc;

use jiff::Timestamp;

/// An agent's report about one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaReport {
    /// The vendor's name for the quota: `five_hour`, `weekly` …
    pub window: Arc<str>,
    /// The used fraction, from 0 to 1; `None` if the agent does not report it.
    pub used: Option<f64>,
    pub is_exhausted: bool,
    pub resets_at: Option<Timestamp>,
}

/// The newest report about a quota, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    pub executor: Arc<str>,
    pub report: QuotaReport,
    pub reported_at: Timestamp,
}
