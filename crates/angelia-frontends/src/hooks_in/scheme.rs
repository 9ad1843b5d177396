//! The signatures of webhooks. Each scheme verifies the sender and the freshness of a request, and finds
//! an id by which repetitions are recognised. Pure.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::chat::webhook::hmac_sha256;

/// How far the signed time may differ from ours, in seconds.
const MAX_CLOCK_DIFFERENCE: i64 = 5 * 60;

/// Whose signature a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookScheme {
    /// Our own webhooks: `x-angelia-signature-256` over the time and the body.
    Angelia,
    /// `x-hub-signature-256` over the body. It signs neither a time nor an id.
    GitHub,
    /// `x-slack-signature` over the time and the body.
    Slack,
    /// `stripe-signature` with the time and one or more signatures.
    Stripe,
}

/// A request as received.
#[derive(Clone, Copy, Debug)]
pub struct HookRequest<'a> {
    /// The headers, with names in lower case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

impl HookRequest<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        // With two such headers, the sender could choose which one is checked.
        found.next().is_none().then_some(value.as_str())
    }
}

impl HookScheme {
    /// Verifies a request and returns its id, or `None` if the signature is not valid.
    pub fn verify(self, secret: &str, request: HookRequest<'_>, now: i64) -> Option<String> {
        let body = request.body;
        match self {
            Self::GitHub => {
                let given = request.header("x-hub-signature-256")?.strip_prefix("sha256=")?;
                check(secret, &[body], given)?;
                Some(hex::encode(Sha256::digest(body)))
            }
            Self::Angelia => {
                let time = fresh_time(request.header("x-angelia-timestamp")?, now)?;
                let given = request.header("x-angelia-signature-256")?.strip_prefix("sha256=")?;
                check(secret, &[time.as_bytes(), b".", body], given)?;
                Some(named_by(body, "id", time))
            }
            Self::Slack => {
                let time = fresh_time(request.header("x-slack-request-timestamp")?, now)?;
                let given = request.header("x-slack-signature")?.strip_prefix("v0=")?;
                check(secret, &[b"v0:", time.as_bytes(), b":", body], given)?;
                Some(named_by(body, "event_id", time))
            }
            Self::Stripe => {
                let fields: Vec<(&str, &str)> = request
                    .header("stripe-signature")?
                    .split(',')
                    .filter_map(|field| field.trim().split_once('='))
                    .collect();
                let time = fields.iter().find(|(name, _)| *name == "t").map(|(_, value)| *value)?;
                let time = fresh_time(time, now)?;
                // There are two signatures while a secret is being replaced.
                let mut given = fields.iter().filter(|(name, _)| *name == "v1");
                given.find_map(|(_, one)| check(secret, &[time.as_bytes(), b".", body], one))?;
                Some(named_by(body, "id", time))
            }
        }
    }
}

/// Returns the time if it is close to now.
fn fresh_time(text: &str, now: i64) -> Option<&str> {
    let time: i64 = text.parse().ok()?;
    (now.checked_sub(time)?.checked_abs()? <= MAX_CLOCK_DIFFERENCE).then_some(text)
}

/// Compares signatures in constant time.
fn check(secret: &str, signed: &[&[u8]], given: &str) -> Option<()> {
    let expected = hmac_sha256(secret.as_bytes(), signed);
    let given = hex::decode(given).ok().filter(|given| given.len() == expected.len())?;
    let difference = expected.iter().zip(&given).fold(0, |all, (a, b)| all | (a ^ b));
    (!secret.is_empty() && difference == 0).then_some(())
}

/// Returns the sender's id of the event or, without one, a hash of the signed time and body.
fn named_by(body: &[u8], key: &str, time: &str) -> String {
    let id = serde_json::from_slice::<Value>(body).ok();
    match id.as_ref().and_then(|event| event.get(key)?.as_str()) {
        Some(id) => id.to_owned(),
        None => hex::encode(Sha256::new_with_prefix(time).chain_update(body).finalize()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn headers(pairs: &[(&str, String)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn sign(secret: &str, parts: &[&[u8]]) -> String {
        hex::encode(hmac_sha256(secret.as_bytes(), parts))
    }

    /// The example from GitHub's documentation.
    #[test]
    fn the_published_example_of_github() {
        let given = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let headers = headers(&[("x-hub-signature-256", given.to_owned())]);
        let request = HookRequest { headers: &headers, body: b"Hello, World!" };
        let secret = "It's a Secret to Everybody";
        assert!(HookScheme::GitHub.verify(secret, request, 0).is_some());
        assert_eq!(HookScheme::GitHub.verify("another", request, 0), None);
        assert_eq!(HookScheme::GitHub.verify("", request, 0), None);
        let changed = HookRequest { body: b"Hello, World?", ..request };
        assert_eq!(HookScheme::GitHub.verify(secret, changed, 0), None);
    }

    #[test]
    fn signed_times_must_be_fresh_and_ids_name_the_request() {
        let body = br#"{"id":"evt_1","event_id":"Ev1"}"#;
        let time = NOW.to_string();
        let ours = sign("s", &[time.as_bytes(), b".", body]);
        let slack = sign("s", &[b"v0:", time.as_bytes(), b":", body]);
        let table = [
            (
                HookScheme::Angelia,
                headers(&[
                    ("x-angelia-timestamp", time.clone()),
                    ("x-angelia-signature-256", format!("sha256={ours}")),
                ]),
                "evt_1",
            ),
            (
                HookScheme::Slack,
                headers(&[
                    ("x-slack-request-timestamp", time.clone()),
                    ("x-slack-signature", format!("v0={slack}")),
                ]),
                "Ev1",
            ),
            (
                HookScheme::Stripe,
                headers(&[(
                    "stripe-signature",
                    format!("t={time},v1={},v1={ours},v0=x", "0".repeat(64)),
                )]),
                "evt_1",
            ),
        ];
        for (scheme, headers, key) in &table {
            let request = HookRequest { headers, body };
            assert_eq!(scheme.verify("s", request, NOW + 299).as_deref(), Some(*key), "{scheme:?}");
            assert_eq!(scheme.verify("s", request, NOW + 301), None, "{scheme:?} is old");
            assert_eq!(
                scheme.verify("s", request, NOW - 301),
                None,
                "{scheme:?} is from the future"
            );
            assert_eq!(scheme.verify("t", request, NOW), None, "{scheme:?}");
            let twice: Vec<_> = headers.iter().chain(headers).cloned().collect();
            let request = HookRequest { headers: &twice, body };
            assert_eq!(scheme.verify("s", request, NOW), None, "{scheme:?} twice");
        }
    }
}
