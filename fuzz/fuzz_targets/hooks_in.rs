//! Feeds any headers and body to the signature schemes of webhooks: without the secret, no request is accepted.

#![no_main]

use angelia_frontends::hooks_in::{HookRequest, HookScheme};

const NOW: i64 = 1_780_000_000;

libfuzzer_sys::fuzz_target!(|input: (&str, &str, &[u8])| {
    let (time, signature, body) = input;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [
        header("x-hub-signature-256", signature),
        header("x-angelia-timestamp", time),
        header("x-angelia-signature-256", signature),
        header("x-slack-request-timestamp", time),
        header("x-slack-signature", signature),
        header("stripe-signature", signature),
    ];
    let request = HookRequest { headers: &headers, body };
    for scheme in
        [HookScheme::Angelia, HookScheme::GitHub, HookScheme::Slack, HookScheme::Stripe]
    {
        assert_eq!(scheme.verify("a secret that nobody can guess", request, NOW), None);
    }
});
