//! Any body: OpenAI's decoders give a request or refuse it.

#![no_main]

use angelia_frontends::http::openai::{chat, responses};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    let _ = chat::decode(body);
    let _ = responses::references(body);
    let _ = responses::decode(body, |_| None);
});
