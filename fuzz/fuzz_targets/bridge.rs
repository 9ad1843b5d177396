//! Feeds any line of a host to the bridge's decoder: it returns a request or an error, and a
//! request that is encoded again decodes to the same request.

#![no_main]

use angelia_frontends::bridge::{BridgeRequest, decode};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let request = match decode(line) {
        Ok(request) => request,
        Err(bad) => {
            assert!(!bad.message.is_empty(), "an error says what is wrong");
            return;
        }
    };
    let written = serde_json::to_vec(&request).expect("a request can be written");
    assert!(!written.contains(&b'\n'), "a request is one line");
    assert_eq!(decode(&written), Ok(known(request)));
});

/// Removes unknown fields, which are not encoded again.
fn known(mut request: BridgeRequest) -> BridgeRequest {
    if let BridgeRequest::Run(run) = &mut request {
        run.unknown.clear();
    }
    request
}
