//! The byte form of one record of the log.
//!
//! `length u32 · link u32 · checksum u64 · payload`, little-endian. The checksum covers all other
//! fields and is seeded by the segment, so that the old content of a reused file is never taken for
//! a record. The link is a part of the checksum of the record before, so that the records behind a
//! torn write do not become valid again when the torn part is overwritten.

use angelia_core::model::EndpointName;

pub(super) const RECORD_HEADER_BYTES: usize = 16;

const KIND_MESSAGE: u8 = 1;
const KIND_DONE: u8 = 2;
const KIND_DEAD: u8 = 3;
const KIND_END: u8 = 4;

/// A record to be written. [`DecodedRecord`] is the same record, read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Message(MessageRecord<'a>),
    /// Positions of messages that were acknowledged or dropped.
    Done(Vec<u64>),
    Dead {
        position: u64,
        at: i64,
        reason: &'a str,
    },
    /// The segment is complete; the log continues in the next one.
    End,
}

/// A message and the endpoints it is for, which have the positions from `first_position` on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageRecord<'a> {
    pub(super) first_position: u64,
    pub(super) accepted_at_ms: i64,
    pub(super) is_verified: bool,
    /// Sent to everyone.
    pub(super) is_broadcast: bool,
    pub(super) from: Option<&'a str>,
    pub(super) id: &'a str,
    pub(super) to: Vec<&'a EndpointName>,
    pub(super) envelope: &'a [u8],
}

/// A [`MessageRecord`], read back. Its endpoint names are not validated yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecodedMessage<'a> {
    pub(super) first_position: u64,
    pub(super) accepted_at_ms: i64,
    pub(super) is_verified: bool,
    pub(super) is_broadcast: bool,
    pub(super) from: Option<&'a str>,
    pub(super) id: &'a str,
    pub(super) to: Vec<&'a str>,
    pub(super) envelope: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodedRecord<'a> {
    Message(DecodedMessage<'a>),
    Done(Vec<u64>),
    Dead { position: u64, at: i64, reason: &'a str },
    End,
}

/// Encodes records one after the other.
#[derive(Debug)]
pub(super) struct RecordEncoder {
    pub(super) bytes: Vec<u8>,
    pub(super) seed: u64,
    pub(super) link: u32,
}

impl RecordEncoder {
    pub(super) fn push(&mut self, record: &Record<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        encode_payload(&mut self.bytes, record);
        let length = to_u32(self.bytes.len() - start - RECORD_HEADER_BYTES);
        let check =
            checksum(self.seed, length, self.link, &self.bytes[start + RECORD_HEADER_BYTES..]);
        let head = &mut self.bytes[start..start + RECORD_HEADER_BYTES];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&self.link.to_le_bytes());
        head[8..].copy_from_slice(&check.to_le_bytes());
        self.link = next_link(check);
    }
}

/// Returns the link of the record that follows one with this checksum.
fn next_link(check: u64) -> u32 {
    let [a, b, c, d, ..] = check.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn encode_payload(bytes: &mut Vec<u8>, record: &Record<'_>) {
    match record {
        Record::Message(message) => {
            bytes.push(KIND_MESSAGE);
            bytes.extend_from_slice(&message.first_position.to_le_bytes());
            bytes.extend_from_slice(&message.accepted_at_ms.to_le_bytes());
            let flags = u8::from(message.is_verified)
                | u8::from(message.is_broadcast) << 1
                | u8::from(message.from.is_some()) << 2;
            bytes.push(flags);
            put_text(bytes, message.from.unwrap_or_default());
            put_text(bytes, message.id);
            bytes.extend_from_slice(&to_u32(message.to.len()).to_le_bytes());
            for name in &message.to {
                put_text(bytes, name.as_str());
            }
            bytes.extend_from_slice(message.envelope);
        }
        Record::Done(positions) => {
            bytes.push(KIND_DONE);
            let mut last = 0;
            for position in positions {
                put_varint(bytes, position.wrapping_sub(last));
                last = *position;
            }
        }
        Record::Dead { position, at, reason } => {
            bytes.push(KIND_DEAD);
            bytes.extend_from_slice(&position.to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(reason.as_bytes());
        }
        Record::End => bytes.push(KIND_END),
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Converts a length. No record comes near 4 GiB; a record that did would not decode.
fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Decodes the record at the front of `bytes`. Returns the record, its length with the header, and
/// the link of the next record. With `expected: None` the link is not checked, to read a record out
/// of order.
pub(super) fn decode(
    bytes: &[u8],
    seed: u64,
    expected: Option<u32>,
) -> Option<(DecodedRecord<'_>, usize, u32)> {
    let (head, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?);
    let own_link = u32::from_le_bytes(head[4..8].try_into().ok()?);
    let own_check = u64::from_le_bytes(head[8..].try_into().ok()?);
    if length == 0 || expected.is_some_and(|expected| expected != own_link) {
        return None;
    }
    let payload = rest.get(..length as usize)?;
    if checksum(seed, length, own_link, payload) != own_check {
        return None;
    }
    let record = decode_payload(payload)?;
    Some((record, RECORD_HEADER_BYTES + payload.len(), next_link(own_check)))
}

/// Returns the length of a record, with its header, from the bytes of that header.
pub(super) fn record_length(head: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(head.get(..4)?.try_into().ok()?);
    Some(RECORD_HEADER_BYTES + length as usize)
}

fn decode_payload(payload: &[u8]) -> Option<DecodedRecord<'_>> {
    let (kind, rest) = payload.split_first()?;
    let mut rest = ByteReader(rest);
    match *kind {
        KIND_MESSAGE => {
            let first = rest.u64()?;
            let at = rest.u64()?.cast_signed();
            let flags = rest.take(1)?[0];
            let from = rest.text()?;
            let id = rest.text()?;
            let count = u32::from_le_bytes(rest.take(4)?.try_into().ok()?);
            let to = (0..count).map(|_| rest.text()).collect::<Option<_>>()?;
            Some(DecodedRecord::Message(DecodedMessage {
                first_position: first,
                accepted_at_ms: at,
                is_verified: flags & 1 != 0,
                is_broadcast: flags & 2 != 0,
                from: (flags & 4 != 0).then_some(from),
                id,
                to,
                envelope: rest.0,
            }))
        }
        KIND_DONE => {
            let mut positions = Vec::new();
            let mut last = 0_u64;
            while !rest.0.is_empty() {
                last = last.wrapping_add(rest.varint()?);
                positions.push(last);
            }
            Some(DecodedRecord::Done(positions))
        }
        KIND_DEAD => Some(DecodedRecord::Dead {
            position: rest.u64()?,
            at: rest.u64()?.cast_signed(),
            reason: std::str::from_utf8(rest.0).ok()?,
        }),
        KIND_END => Some(DecodedRecord::End),
        _ => None,
    }
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

/// Returns the checksum that tells a complete record from a torn or stale one. It protects against
/// accidents, not against attackers: anyone who can write this file can also write valid records.
#[expect(clippy::cast_possible_truncation, reason = "both halves of the product are used")]
fn checksum(seed: u64, length: u32, link: u32, payload: &[u8]) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd6e8_feb8_6659_fd93;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let mut state = fold(seed ^ A, (u64::from(length) << 32 | u64::from(link)) ^ B);
    let mut pairs = payload.chunks_exact(16);
    for pair in &mut pairs {
        let (a, b) = pair.split_at(8);
        state = fold(word(a) ^ A, word(b) ^ state ^ B);
    }
    let rest = pairs.remainder();
    let (a, b) = rest.split_at(rest.len().min(8));
    state = fold(word(a) ^ A, word(b) ^ state ^ B);
    fold(state ^ A, B)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let name = EndpointName::new("receiver").unwrap();
        let mut encoder = RecordEncoder { bytes: Vec::new(), seed: 7, link: 0 };
        encoder.push(&Record::Message(MessageRecord {
            first_position: 300,
            accepted_at_ms: -5,
            is_verified: true,
            is_broadcast: false,
            from: None,
            id: "id",
            to: vec![&name, &name],
            envelope: b"{}",
        }));
        let second = encoder.bytes.len();
        encoder.push(&Record::Done(vec![5, 300, 2]));
        encoder.push(&Record::End);
        let bytes = encoder.bytes;

        let (record, length, link) = decode(&bytes, 7, Some(0)).unwrap();
        let DecodedRecord::Message(message) = record else {
            panic!("{record:?}");
        };
        assert_eq!((message.first_position, message.accepted_at_ms, message.from), (300, -5, None));
        assert_eq!(message.to, ["receiver", "receiver"]);
        assert_eq!((message.envelope, length), (&b"{}"[..], second));
        let (record, _, _) = decode(&bytes[second..], 7, Some(link)).unwrap();
        assert_eq!(record, DecodedRecord::Done(vec![5, 300, 2]));

        assert!(decode(&bytes, 8, Some(0)).is_none(), "another segment's");
        assert!(decode(&bytes[second..], 7, Some(0)).is_none(), "not its turn");
        for cut in 0..second {
            assert!(decode(&bytes[..cut], 7, None).is_none(), "cut at {cut}");
        }
        for broken in 0..second {
            let mut bytes = bytes.clone();
            bytes[broken] ^= 0x40;
            assert!(decode(&bytes, 7, None).is_none(), "broken at {broken}");
        }
    }
}
