//! Files as the platform encrypts them: AES-256 in CBC mode, padded to 32 bytes.

use aes::{
    Aes256,
    cipher::{BlockEncrypt as _, KeyInit as _, generic_array::GenericArray},
};

pub(super) fn encrypt(key: &[u8; 32], bytes: &[u8]) -> Vec<u8> {
    let cipher = Aes256::new(GenericArray::from_slice(key));
    let padding = 32 - bytes.len() % 32;
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len() + padding, u8::try_from(padding).unwrap_or_default());
    let mut before = key[..16].to_vec();
    for block in padded.chunks_exact_mut(16) {
        for (byte, mask) in block.iter_mut().zip(&before) {
            *byte ^= mask;
        }
        cipher.encrypt_block(GenericArray::from_mut_slice(block));
        before = block.to_vec();
    }
    padded
}
