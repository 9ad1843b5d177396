//! Tests of rules: matching, rendering, and that the text of a message is never parsed as a
//! template.

mod deciding;
mod templates;

use jiff::Timestamp;

use super::RuleInput;
use crate::model::{
    EndpointName,
    bus::{BusMessage, Destination},
};

const SENT: i64 = 1_700_000_000;

fn seen(body: &str) -> RuleInput {
    let envelope = format!(r#"{{"type":"message","ts":{SENT}.5,"body":{body}}}"#);
    seen_in(&envelope)
}

fn seen_in(envelope: &str) -> RuleInput {
    let message = BusMessage {
        id: "m-1".into(),
        from: Some("alice".into()),
        verified: true,
        to: Destination::Endpoint(EndpointName::new("bob").unwrap()),
        envelope: envelope.to_owned().into(),
    };
    RuleInput::from_message(&message, Timestamp::UNIX_EPOCH)
}

#[test]
fn every_body_can_be_seen() {
    let table = [
        (r#"{"type":"t","text":"hi"}"#, Some("t"), "hi"),
        (r#"{"type":"t"}"#, Some("t"), r#"{"type":"t"}"#),
        (r#"{"type":7,"text":["a",1]}"#, None, r#"{"type":7,"text":["a",1]}"#),
        (r#"{"text":""}"#, None, ""),
        (r#""only text""#, None, "only text"),
        ("[1]", None, "[1]"),
        ("null", None, ""),
    ];
    for (body, kind, text) in table {
        let seen = seen(body);
        assert_eq!(seen.kind.as_deref(), kind, "{body}");
        assert_eq!(&*seen.text, text, "{body}");
        assert_eq!(seen.at.as_second(), SENT);
    }
    assert_eq!(seen(r#"{"channel":""}"#).channel, None);
    assert_eq!(seen(r#"{"channel":"a:b"}"#).channel.as_deref(), Some("a:b"));
    for odd in ["{broken", "[]", r#"{"ts":"soon"}"#, r#"{"ts":1e300}"#, r#"{"ts":-5}"#] {
        assert_eq!(seen_in(odd).at, Timestamp::UNIX_EPOCH, "{odd}");
    }
}

#[test]
fn a_terminal_is_given_nothing_to_obey() {
    let table = [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x07b\rc\td\ne", "abc\td\ne"),
        ("\x1b(Bplain", "plain"),
        ("\u{9b}2Jgone", "gone"),
        ("cut off \x1b", "cut off "),
        ("cut off \x1b[", "cut off "),
        ("\x1b[1\nnext", "\nnext"),
        ("ünï \u{1f600}", "ünï \u{1f600}"),
    ];
    for (text, left) in table {
        assert_eq!(super::strip_terminal_codes(text), left, "{text:?}");
    }
    let bad = seen(r#"{"type":"\u001b[1mt","text":"\u001b]0;x\u0007hi"}"#).for_terminal();
    assert_eq!((bad.kind.as_deref(), &*bad.text), (Some("t"), "hi"));
}
