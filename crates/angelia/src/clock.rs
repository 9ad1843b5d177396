//! The `Clock` port on the system clock.

use angelia_core::ports::Clock;
use jiff::Timestamp;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}
