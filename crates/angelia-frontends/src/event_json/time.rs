//! Timestamps as text: RFC 3339 in UTC, always with microseconds, so that they sort as text.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};
use serde_with::{DeserializeAs, SerializeAs};

/// Formats a time as `2026-11-15T12:00:00.000000Z`. Fields use it with `As::<Rfc3339>`.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl SerializeAs<Timestamp> for Rfc3339 {
    fn serialize_as<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        Self(*time).serialize(to)
    }
}

impl<'de> DeserializeAs<'de, Timestamp> for Rfc3339 {
    fn deserialize_as<D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(from)
    }
}
