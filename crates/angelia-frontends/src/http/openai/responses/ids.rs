//! The ids of answers and their items. They contain the turn, so that a response can be found
//! without a table: `resp_TURN`, `resp_TURN_PART`, `msg_TURN_PART_INDEX`.

use std::{fmt, str::FromStr};

use angelia_core::model::TurnId;

use super::super::super::dialect::AnswerHeader;

/// One of a turn's answers. A turn has several if it calls the caller's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseId {
    pub turn: TurnId,
    pub part: u32,
}

/// One item of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemId {
    pub response: ResponseId,
    pub index: u32,
}

/// The error for a text that is not one of our ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an id that was issued here")]
pub struct InvalidId;

impl ResponseId {
    pub const fn from_header(header: &AnswerHeader) -> Self {
        Self { turn: header.turn, part: header.part }
    }

    /// Returns the id of the item at `index`. The prefix tells its type.
    pub(super) fn item(self, prefix: &str, index: u32) -> String {
        let (turn, part) = (self.turn.as_uuid().simple(), self.part);
        format!("{prefix}_{turn}_{part}_{index}")
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{}", self.turn.as_uuid().simple())?;
        match self.part {
            0 => Ok(()),
            part => write!(f, "_{part}"),
        }
    }
}

impl FromStr for ResponseId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let rest = text.strip_prefix("resp_").ok_or(InvalidId)?;
        match rest.split_once('_') {
            Some((turn, part)) => parse(turn, part),
            None => parse(rest, "0"),
        }
    }
}

impl FromStr for ItemId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let mut pieces = text.splitn(4, '_');
        let mut next = || pieces.next().ok_or(InvalidId);
        let (_kind, turn, part, index) = (next()?, next()?, next()?, next()?);
        Ok(Self { response: parse(turn, part)?, index: index.parse().map_err(|_| InvalidId)? })
    }
}

fn parse(turn: &str, part: &str) -> Result<ResponseId, InvalidId> {
    Ok(ResponseId {
        turn: turn.parse().map_err(|_| InvalidId)?,
        part: part.parse().map_err(|_| InvalidId)?,
    })
}
