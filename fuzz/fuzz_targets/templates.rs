//! Feeds any template and any message to the renderer: the message's text arrives unchanged, and a
//! sender cannot send control sequences to a terminal.

#![no_main]

use angelia_core::engine::rules::{ColourMode, RuleInput, Template, strip_terminal_codes};
use jiff::{Timestamp, tz::TimeZone};

// The input is a template, a text and a sender, separated by zeros.
libfuzzer_sys::fuzz_target!(|data: &str| {
    let mut parts = data.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (template, text, from) = (next(), next(), next());
    let at = data.bytes().fold(0_i64, |at, byte| at.wrapping_mul(257) ^ i64::from(byte)) >> 24;
    let seen = |from: &str, text: &str| RuleInput {
        id: "1".into(),
        from: from.into(),
        verified: false,
        kind: None,
        text: text.into(),
        channel: None,
        at: Timestamp::from_second(at).unwrap_or(Timestamp::UNIX_EPOCH),
        sender_session: None,
    };
    let render = |seen: &RuleInput| Template::parse(template).render(seen, &TimeZone::UTC, ColourMode::Colour);
    let rendered = render(&seen(from, text));
    let (mark, other) = ("\u{10fffd}", "\u{10fffc}");
    if !template.contains(mark) && !template.contains(other) && !from.contains(other) {
        let marked = render(&seen(mark, other));
        let filled = marked.replace(mark, from).replace(other, text);
        assert_eq!(rendered, filled);
    }
    let safe = strip_terminal_codes(text);
    assert!(!safe.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    assert_eq!(strip_terminal_codes(&safe), safe);
});
