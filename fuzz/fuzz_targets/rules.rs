//! Feeds any text to the parser of rules files: it returns rules or an error with a line, and
//! parsed rules can decide about any message.

#![no_main]

use angelia_core::{
    engine::rules::RuleInput,
    model::bus::{BusMessage, Destination},
};
use angelia_frontends::bus_rules::file::parse;

// The input is a rules file and an envelope, separated by a zero.
libfuzzer_sys::fuzz_target!(|data: &str| {
    let (text, envelope) = data.split_once('\0').unwrap_or((data, "{}"));
    let verified = data.len() % 2 == 0;
    let message = BusMessage {
        id: "1".into(),
        from: Some("a".into()),
        verified,
        to: Destination::Everyone,
        envelope: envelope.to_owned().into(),
    };
    let seen = RuleInput::from_message(&message, jiff::Timestamp::UNIX_EPOCH);
    match parse(text) {
        Ok(reading) => {
            let decision = reading.rules.decide(&seen);
            assert!(decision.line.is_some() || decision.print.is_some(), "nothing is lost");
        }
        Err(remark) => assert!(remark.line >= 1 && !remark.what.is_empty()),
    }
});
