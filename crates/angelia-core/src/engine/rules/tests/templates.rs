//! The grammar of templates, and that the text of a message is inserted unchanged.

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::{
    super::{ColourMode, RuleInput, Template},
    seen,
};

fn render(template: &str, seen: &RuleInput, ink: ColourMode) -> String {
    Template::parse(template).render(seen, &TimeZone::UTC, ink)
}

#[test]
fn every_placeholder() {
    let message = seen(r#"{"type":"ci","text":"done"}"#);
    let table = [
        ("[{from}] {text} ({type})", "[alice] done (ci)"),
        ("{ts}", "1700000000"),
        ("{ts:%Y-%m-%d %H:%M:%S}", "2023-11-14 22:13:20"),
        ("{ts:%-d. %b}", "14. Nov"),
        ("{ts:%~ is nothing}", "%~ is nothing"),
        ("{ts:}", "{ts:}"),
        ("{color:red}x{reset}", "\x1b[31mx\x1b[0m"),
        ("{color:BOLD_Cyan}x", "\x1b[1;36mx"),
        ("{color:mauve}x", "x"),
        ("{bold}x", "\x1b[1mx"),
        ("{unknown} {text", "{unknown} {text"),
        ("{{text}}", "{done}"),
        ("{\"a\": \"{text}\"}", "{\"a\": \"done\"}"),
        ("", ""),
    ];
    for (template, text) in table {
        assert_eq!(render(template, &message, ColourMode::Colour), text, "{template}");
    }
    let uncoloured = render("{color:red}{bold}x{reset}", &message, ColourMode::Plain);
    assert_eq!(uncoloured, "x");
}

#[test]
fn a_message_brings_no_placeholders() {
    let message = seen(r#"{"type":"{text}","text":"{from} {type} {color:red} {ts:%Y}"}"#);
    assert_eq!(
        render("{text}|{type}", &message, ColourMode::Colour),
        "{from} {type} {color:red} {ts:%Y}|{text}"
    );
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{from}".to_owned()),
        Just("{text}".to_owned()),
        Just("{type}".to_owned()),
        Just("{ts}".to_owned()),
        Just("{ts:%H:%M}".to_owned()),
        Just("{color:red}".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        "[a-z{}:%]{0,6}",
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Rendering markers and then replacing them by the message's fields gives the same text as
    /// rendering the fields.
    #[test]
    fn text_is_never_expanded_again(template in pieces(), from in pieces(), text in pieces(), kind in pieces()) {
        let marks = ["\u{e000}", "\u{e001}", "\u{e002}"];
        let message = |from: &str, text: &str, kind: &str| RuleInput {
            from: from.into(),
            text: text.into(),
            kind: Some(kind.into()),
            ..seen("{}")
        };
        let marked = render(&template, &message(marks[0], marks[1], marks[2]), ColourMode::Colour);
        let expected = marked
            .split('\u{e000}').collect::<Vec<_>>().join(&from)
            .split('\u{e001}').collect::<Vec<_>>().join(&text)
            .split('\u{e002}').collect::<Vec<_>>().join(&kind);
        prop_assert_eq!(render(&template, &message(&from, &text, &kind), ColourMode::Colour), expected);
    }

    #[test]
    fn any_text_is_a_template(template in "\\PC{0,40}", time in "[%a-zA-Z0-9:+-]{0,12}") {
        render(&template, &seen("{}"), ColourMode::Colour);
        render(&format!("{{ts:{time}}}"), &seen("{}"), ColourMode::Plain);
    }
}
