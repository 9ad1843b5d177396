//! The frames of the WebSocket: a protobuf message with a list of headers. The codec is written by hand
//! because there are only these two message types. Pure.

/// A frame. Unknown fields are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeishuFrame {
    pub seq_id: u64,
    pub log_id: u64,
    /// The service id of the connection, which a ping must name.
    pub service: i32,
    pub method: i32,
    pub headers: Vec<(String, String)>,
    pub payload_encoding: Option<String>,
    pub payload_type: Option<String>,
    pub payload: Option<Vec<u8>>,
    pub log_id_new: Option<String>,
}

/// The method of frames that concern the connection itself.
pub(super) const CONTROL: i32 = 0;
/// The method of frames with events.
pub(super) const DATA: i32 = 1;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

impl FeishuFrame {
    /// Decodes a frame. Returns `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader { rest: bytes };
        let mut frame = Self::default();
        // The first four fields are required.
        let mut found = [false; 4];
        while !reader.rest.is_empty() {
            let (number, value) = reader.field()?;
            match (number, value) {
                (1, FieldValue::Number(number)) => frame.seq_id = number,
                (2, FieldValue::Number(number)) => frame.log_id = number,
                (3, FieldValue::Number(number)) => frame.service = low_bits(number),
                (4, FieldValue::Number(number)) => frame.method = low_bits(number),
                (5, FieldValue::Bytes(bytes)) => frame.headers.push(decode_header(bytes)?),
                (6, FieldValue::Bytes(bytes)) => frame.payload_encoding = Some(text(bytes)?),
                (7, FieldValue::Bytes(bytes)) => frame.payload_type = Some(text(bytes)?),
                (8, FieldValue::Bytes(bytes)) => frame.payload = Some(bytes.to_vec()),
                (9, FieldValue::Bytes(bytes)) => frame.log_id_new = Some(text(bytes)?),
                (1..=9, _) => return None,
                _ => {}
            }
            if let 1..=4 = number
                && let Some(slot) =
                    usize::try_from(number - 1).ok().and_then(|at| found.get_mut(at))
            {
                *slot = true;
            }
        }
        found.iter().all(|found| *found).then_some(frame)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let numbers =
            [self.seq_id, self.log_id, extend_sign(self.service), extend_sign(self.method)];
        for (index, value) in numbers.into_iter().enumerate() {
            push_varint(&mut bytes, ((index as u64 + 1) << 3) | VARINT);
            push_varint(&mut bytes, value);
        }
        for (key, value) in &self.headers {
            let mut header = Vec::new();
            push_bytes(&mut header, 1, key.as_bytes());
            push_bytes(&mut header, 2, value.as_bytes());
            push_bytes(&mut bytes, 5, &header);
        }
        let texts = [
            (6, self.payload_encoding.as_deref().map(str::as_bytes)),
            (7, self.payload_type.as_deref().map(str::as_bytes)),
            (8, self.payload.as_deref()),
            (9, self.log_id_new.as_deref().map(str::as_bytes)),
        ];
        for (number, value) in texts {
            if let Some(value) = value {
                push_bytes(&mut bytes, number, value);
            }
        }
        bytes
    }

    pub fn header(&self, key: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, key: &str) -> Option<usize> {
        self.header(key)?.parse().ok()
    }

    /// Returns a ping frame.
    pub(super) fn ping(service: i32) -> Self {
        let headers = vec![("type".to_owned(), "ping".to_owned())];
        Self { service, method: CONTROL, headers, ..Self::default() }
    }
}

enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-size number, which none of our fields uses.
    Fixed,
}

struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    fn field(&mut self) -> Option<(u64, FieldValue<'a>)> {
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 {
            return None;
        }
        let value = match key & 7 {
            VARINT => FieldValue::Number(self.varint()?),
            BYTES => {
                let length = usize::try_from(self.varint()?).ok()?;
                FieldValue::Bytes(self.take(length)?)
            }
            FIXED64 => {
                self.take(8)?;
                FieldValue::Fixed
            }
            FIXED32 => {
                self.take(4)?;
                FieldValue::Fixed
            }
            _ => return None,
        };
        Some((number, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

fn decode_header(bytes: &[u8]) -> Option<(String, String)> {
    let mut reader = FieldReader { rest: bytes };
    let (mut key, mut value) = (None, None);
    while !reader.rest.is_empty() {
        match reader.field()? {
            (1, FieldValue::Bytes(bytes)) => key = Some(text(bytes)?),
            (2, FieldValue::Bytes(bytes)) => value = Some(text(bytes)?),
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((key?, value?))
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Protobuf sign-extends 32-bit numbers to 64 bits.
fn extend_sign(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

#[expect(clippy::cast_possible_truncation, reason = "protobuf keeps the low bits")]
const fn low_bits(number: u64) -> i32 {
    (number as u32).cast_signed()
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let bits = (value & 0x7f).to_le_bytes()[0];
        value >>= 7;
        if value == 0 {
            bytes.push(bits);
            return;
        }
        bytes.push(bits | 0x80);
    }
}

fn push_bytes(bytes: &mut Vec<u8>, number: u64, value: &[u8]) {
    push_varint(bytes, (number << 3) | BYTES);
    push_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_the_bytes_that_protobuf_writes() {
        let frame =
            FeishuFrame { service: -1, payload: Some(b"{}".to_vec()), ..FeishuFrame::ping(-1) };
        let bytes = frame.encode();
        assert_eq!(
            hex::encode(&bytes),
            "0800100018ffffffffffffffffff0120002a0c0a0474797065120470696e6742027b7d"
        );
        assert_eq!(FeishuFrame::decode(&bytes), Some(frame));
    }

    #[test]
    fn unknown_fields_are_skipped_and_broken_ones_refused() {
        let mut bytes = FeishuFrame::ping(7).encode();
        // Field 20 as bytes, field 21 with 64 bits, field 22 with 32 bits.
        bytes
            .extend([0xa2, 0x01, 1, 9, 0xa9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0xb5, 0x01, 1, 2, 3, 4]);
        assert_eq!(FeishuFrame::decode(&bytes), Some(FeishuFrame::ping(7)));
        for broken in [
            &b""[..],
            b"\x08",
            b"\x08\x00\x10\x00\x18\x00",
            b"\x0a\x00",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08\x00\x10\x00\x18\x00\x20\x00\x42\xff\x01a",
            b"\x08\x00\x10\x00\x18\x00\x20\x00\x2a\x03\x0a\x01\xff",
            b"\x08\x00\x10\x00\x18\x00\x20\x00\x03",
            b"<html>",
        ] {
            assert_eq!(FeishuFrame::decode(broken), None, "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn every_frame_comes_back(
            numbers in any::<(u64, u64, i32, i32)>(),
            headers in prop::collection::vec(("\\PC{0,8}", "\\PC{0,200}"), 0..5),
            texts in any::<(Option<String>, Option<String>, Option<String>)>(),
            payload in any::<Option<Vec<u8>>>(),
        ) {
            let (seq_id, log_id, service, method) = numbers;
            let (payload_encoding, payload_type, log_id_new) = texts;
            let frame = FeishuFrame {
                seq_id, log_id, service, method, headers, payload_encoding, payload_type, payload, log_id_new,
            };
            prop_assert_eq!(FeishuFrame::decode(&frame.encode()), Some(frame));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(frame) = FeishuFrame::decode(&bytes) {
                prop_assert_eq!(FeishuFrame::decode(&frame.encode()), Some(frame));
            }
        }
    }
}
