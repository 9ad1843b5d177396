//! Tests of matches on a wide and on a narrow terminal, with colours, and in a pipe.

use angelia_core::model::{SessionId, TurnId};
use uuid::Uuid;

use super::*;

fn found(words: &str, text: &str, speaker: &str, title: Option<&str>) -> SearchResource {
    let id = Uuid::from_u128(0x0193_a2b4_c1d2_7000_8000_0000_0000_0000);
    let excerpt = SearchTerms::parse(words).unwrap().excerpt(text);
    SearchResource {
        id: TurnId::from_uuid(id),
        session_id: SessionId::from_uuid(id),
        title: title.map(str::to_owned),
        time: Timestamp::from_second(-7300).unwrap(),
        speaker: speaker.to_owned(),
        snippet: excerpt.text,
        marks: excerpt.marks.iter().map(|mark| [mark.start, mark.end]).collect(),
    }
}

fn matches() -> Vec<SearchResource> {
    let long = "The lexer was wrong: \x1b[2J it took the second parser for the first one, and the \
                PARSER never saw the end of the file, which is why the tests were slow";
    vec![
        found("parser", long, "agent", Some("why the tests are slow")),
        found("世界 你好", "你好，世界", "person", None),
    ]
}

#[test]
fn matches_fit_the_terminal() {
    for width in [80, 40] {
        let view = View { width, has_colour: false, is_terminal: true };
        let text = render(&matches(), &view, Timestamp::UNIX_EPOCH);
        let widest = text.lines().map(crate::cli::text_width::columns).max();
        assert!(widest <= Some(width), "{text}");
        insta::assert_snapshot!(format!("matches_{width}"), text);
    }
    insta::assert_snapshot!(
        "matches_pipe",
        render(&matches(), &View::PLAIN, Timestamp::UNIX_EPOCH)
    );
    let view = View { width: 80, has_colour: true, is_terminal: true };
    let coloured = render(&matches(), &view, Timestamp::UNIX_EPOCH);
    insta::assert_snapshot!("matches_colour", coloured.replace('\x1b', "␛"));
}
