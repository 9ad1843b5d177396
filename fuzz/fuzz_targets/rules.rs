//! Any text: a rules file is read or its line is told, and rules that were read can decide about
//! any message.

#![no_main]

use angelia_core::{
    engine::rules::Seen,
    model::bus::{Destination, Message},
};
use angelia_frontends::bus_rules::file::parse;

// A file and an envelope, with a zero between them.
libfuzzer_sys::fuzz_target!(|data: &str| {
    let (text, envelope) = data.split_once('\0').unwrap_or((data, "{}"));
    let verified = data.len() % 2 == 0;
    let message = Message {
        id: "1".into(),
        from: Some("a".into()),
        verified,
        to: Destination::Everyone,
        envelope: envelope.to_owned().into(),
    };
    let seen = Seen::of(&message, jiff::Timestamp::UNIX_EPOCH);
    match parse(text) {
        Ok(reading) => {
            let decision = reading.rules.decide(&seen);
            assert!(decision.line.is_some() || decision.print.is_some(), "nothing is lost");
        }
        Err(remark) => assert!(remark.line >= 1 && !remark.what.is_empty()),
    }
});
