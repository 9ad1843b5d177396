//! A clock that shows this machine's time, for tests that do not control the time.

use angelia_core::ports::Clock;
use jiff::Timestamp;
use uuid::Uuid;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}
