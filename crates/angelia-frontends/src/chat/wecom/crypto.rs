//! Decrypts files that people send: AES-256 in CBC mode, padded to 32 bytes. Pure.

use aes::{
    Aes256,
    cipher::{BlockDecrypt as _, KeyInit as _, generic_array::GenericArray},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const BLOCK: usize = 16;

/// The largest padding.
const MAX_PADDING: usize = 32;

/// Keys sometimes come without Base64 padding.
const KEY_ENCODING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decrypts a file. Returns `None` if the key or the file is damaged.
pub(super) fn decrypt(key: &str, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let key = KEY_ENCODING.decode(key).ok()?;
    let cipher = Aes256::new_from_slice(&key).ok()?;
    // The first half of the key is the initialization vector.
    let mut before: [u8; BLOCK] = key.get(..BLOCK)?.try_into().ok()?;
    if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK) {
        return None;
    }
    for block in bytes.chunks_exact_mut(BLOCK) {
        let encrypted: [u8; BLOCK] = (&*block).try_into().ok()?;
        cipher.decrypt_block(GenericArray::from_mut_slice(block));
        for (byte, mask) in block.iter_mut().zip(before) {
            *byte ^= mask;
        }
        before = encrypted;
    }
    let padding = usize::from(*bytes.last()?);
    let length = bytes.len().checked_sub(padding)?;
    let is_padding = (1..=MAX_PADDING).contains(&padding)
        && bytes[length..].iter().all(|byte| usize::from(*byte) == padding);
    bytes.truncate(length);
    is_padding.then_some(bytes)
}
