//! Bytes that clients embed in their requests as base64. Every frontend reads and writes them in
//! the same way.

use std::sync::Arc;

use base64::{
    DecodeError, Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Accepts base64 with and without padding, and any value of the spare bits of the last character,
/// because clients differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64, even if it is broken into lines.
pub(crate) fn decode_base64(data: &str) -> Result<Arc<[u8]>, DecodeError> {
    if data.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let joined: String = data.split_ascii_whitespace().collect();
        return Ok(BASE64.decode(joined)?.into());
    }
    Ok(BASE64.decode(data)?.into())
}

/// Encodes bytes with padding, which every client accepts.
pub(crate) fn encode_base64(data: &[u8]) -> String {
    BASE64.encode(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        for spelling in ["iVBORw==", "iVBORw=", "iVBORw", "iVB\nORw==\n", "iVBORx=="] {
            assert_eq!(&*decode_base64(spelling).unwrap(), b"\x89PNG", "{spelling:?}");
        }
        assert!(decode_base64("*").is_err());
        assert_eq!(encode_base64(b"\x89PNG"), "iVBORw==");
    }
}
