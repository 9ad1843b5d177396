//! Feeds any line of a program to the decoder of adapters: it returns an event with a key and a chat, or an error.

#![no_main]

use angelia_frontends::chat::program::{ProgramLine, decode_line};
use jiff::Timestamp;

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    if let Ok(ProgramLine::Event { event: Ok((event, _cursor)), .. }) =
        decode_line(line, Timestamp::UNIX_EPOCH)
    {
        assert!(!event.dedupe_key.is_empty());
        assert!(!event.chat.is_empty());
        assert!(!event.sender.id.is_empty());
    }
});
