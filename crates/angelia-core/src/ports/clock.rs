//! Wall time and fresh identifiers. Durations are measured with tokio's clock, which tests pause.

use jiff::Timestamp;
use uuid::Uuid;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// A new identifier that sorts after all earlier ones.
    fn fresh_uuid(&self) -> Uuid;
}
