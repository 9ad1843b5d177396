//! Any line of a host: the bridge's decoder gives a request or says why it is none; and a request
//! that is written again is read as the same one.

#![no_main]

use angelia_frontends::bridge::{Request, decode};

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

/// Fields that mean nothing here are not written again.
fn known(mut request: Request) -> Request {
    if let Request::Run(run) = &mut request {
        run.unknown.clear();
    }
    request
}
