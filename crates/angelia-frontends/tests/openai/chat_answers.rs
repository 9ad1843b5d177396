//! Chat Completions: chunks and objects.

use std::fmt::Write;

use angelia_frontends::http::{dialect::Dialect, openai::chat::Chat};

use crate::pieces::{answers, any_ask, pretty, streamed};

#[test]
fn every_answer_as_a_stream() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let stream = streamed(&Chat::default(), &any_ask(), &whole);
        write!(all, "=== {name}\n{stream}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn usage_comes_in_a_chunk_of_its_own_only_when_asked_for() {
    let chat = Chat { include_usage: true, ..Chat::default() };
    let (_, whole) = answers().remove(0);
    insta::assert_snapshot!(streamed(&chat, &any_ask(), &whole));
}

#[test]
fn who_speaks_of_functions_is_answered_so() {
    let chat = Chat { legacy: true, ..Chat::default() };
    let (_, whole) = answers().remove(2);
    let stream = streamed(&chat, &any_ask(), &whole);
    let object = pretty(&chat.whole(&any_ask(), &whole));
    insta::assert_snapshot!(format!("{stream}\n{object}"));
}

#[test]
fn every_answer_as_an_object() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let body = Chat::default().whole(&any_ask(), &whole);
        let body = String::from_utf8(body).unwrap();
        write!(all, "=== {name}\n{body}\n").unwrap();
    }
    insta::assert_snapshot!(all);
}
