//! Quotas of the vendors: the used part of each, and its reset time.

use std::sync::Arc;

use jiff::Timestamp;

/// A report of an agent about one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaReport {
    /// The vendor's name for the quota: `five_hour`, `weekly` …
    pub window: Arc<str>,
    /// The used part, from 0 to 1; `None` if the agent does not say.
    pub used: Option<f64>,
    pub is_exhausted: bool,
    pub resets_at: Option<Timestamp>,
}

/// The newest report of a quota, as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    pub executor: Arc<str>,
    pub report: QuotaReport,
    pub reported_at: Timestamp,
}
