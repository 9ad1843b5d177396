//! HMAC-SHA256 (RFC 2104), which lets receivers authenticate our requests.

use sha2::{Digest as _, Sha256};

const BLOCK_BYTES: usize = 64;

pub fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    let mut padded = [0_u8; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        padded[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new_with_prefix(padded.map(|byte| byte ^ 0x36));
    for part in message {
        inner.update(part);
    }
    let mut outer = Sha256::new_with_prefix(padded.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Returns the value of the signature header. It covers the timestamp and the body, so that neither
/// can be replaced.
pub fn signature(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let time = timestamp.to_string();
    let hash = hmac_sha256(secret.as_bytes(), &[time.as_bytes(), b".", body]);
    format!("sha256={}", hex::encode(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn the_published_vectors() {
        let long = [0xaa; 131];
        let table: [(&[u8], &str, &str); 3] = [
            (
                &[0x0b; 20],
                "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &long,
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in table {
            let (begin, end) = message.split_at(3);
            let hash = hmac_sha256(key, &[begin.as_bytes(), end.as_bytes()]);
            assert_eq!(hex::encode(hash), expected);
        }
    }
}
