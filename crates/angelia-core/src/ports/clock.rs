//! Wall-clock time and new ids. Durations are measured with tokio's clock, which tests can pause.

use jiff::Timestamp;
use uuid::Uuid;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Returns a new id that sorts after all earlier ones.
    fn fresh_uuid(&self) -> Uuid;
}
