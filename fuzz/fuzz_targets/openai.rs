//! Feeds any body to the decoders of the OpenAI APIs: they return a request or an error.

#![no_main]

use angelia_frontends::http::openai::{chat, responses};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    let _ = chat::decode(body);
    let _ = responses::references(body);
    let _ = responses::decode(body, |_| None);
});
