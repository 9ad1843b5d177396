//! Durations as people write them: `90`, `90s`, `10m`, `2h`, `7d`; and limits, which cannot be
//! zero.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use crate::config::{
    schema::inline_schema,
    setting::{Setting, ValueCursor},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Period {
    seconds: u64,
}

/// Largest first, so that a period is printed with the coarsest unit that divides it.
const UNITS: &[(char, u64)] = &[('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// A hundred years. A longer period is a typing error, and timers can add this much without
/// overflow.
const MAX_SECONDS: u64 = 36_500 * 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeriodError {
    #[error("seconds, or a duration such as 90s, 10m, 2h or 7d")]
    Unreadable,
    #[error("a duration of at most a hundred years")]
    TooLong,
}

impl Period {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self { seconds }
    }

    pub(crate) const fn minutes(minutes: u64) -> Self {
        Self::seconds(minutes * 60)
    }

    pub(crate) const fn hours(hours: u64) -> Self {
        Self::seconds(hours * 3_600)
    }

    pub(crate) const fn days(days: u64) -> Self {
        Self::seconds(days * 86_400)
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, PeriodError> {
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
        let (number, factor) = match unit {
            Some((unit, factor)) => (text.trim_end_matches(*unit), *factor),
            None => (text, 1),
        };
        let has_one_unit = text.len() - number.len() <= 1;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if !has_one_unit || !is_number {
            return Err(PeriodError::Unreadable);
        }
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .filter(|seconds| *seconds <= MAX_SECONDS)
            .map(Self::seconds)
            .ok_or(PeriodError::TooLong)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS
            .iter()
            .find(|(_, factor)| self.seconds >= *factor && self.seconds.is_multiple_of(*factor));
        match fits {
            Some((unit, factor)) => write!(f, "{}{unit}", self.seconds / factor),
            None => write!(f, "{}", self.seconds),
        }
    }
}

impl Setting for Period {
    fn expects() -> String {
        PeriodError::Unreadable.to_string()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let text = place.text().unwrap_or_default().trim();
        Self::parse(text).map_or_else(|error| place.mismatch(&error.to_string()), Some)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

inline_schema!(Period, {
    "type": ["integer", "string"],
    "minimum": 0,
    "pattern": "^[0-9]+[smhd]?$",
});

/// A period that ends something when it is over: a clock or a budget. A limit of 0 would end every
/// turn before it starts, so it is always a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Limit(pub(crate) Period);

impl Limit {
    pub(crate) const fn duration(self) -> Duration {
        self.0.duration()
    }
}

impl Setting for Limit {
    fn expects() -> String {
        Period::expects()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let period = Period::read(place)?;
        if period.seconds == 0 {
            return place.mismatch("at least one second");
        }
        Some(Self(period))
    }
}

inline_schema!(Limit, {
    "type": ["integer", "string"],
    "minimum": 1,
    "pattern": "^0*[1-9][0-9]*[smhd]?$",
});
