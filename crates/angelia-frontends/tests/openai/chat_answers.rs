//! Chat Completions: chunks and objects.

use std::fmt::Write;

use angelia_frontends::http::{dialect::Dialect, openai::chat::ChatDialect};

use crate::sample_answers::{answers, pretty, streamed};

#[test]
fn every_answer_as_a_stream() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let stream = streamed(&ChatDialect::default(), &whole);
        write!(all, "=== {name}\n{stream}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn usage_comes_in_a_chunk_of_its_own_only_when_asked_for() {
    let chat = ChatDialect { include_usage: true, ..ChatDialect::default() };
    let (_, whole) = answers().remove(0);
    insta::assert_snapshot!(streamed(&chat, &whole));
}

#[test]
fn who_speaks_of_functions_is_answered_so() {
    let chat = ChatDialect { legacy: true, ..ChatDialect::default() };
    let (_, whole) = answers().remove(2);
    let stream = streamed(&chat, &whole);
    let object = pretty(&chat.encode_complete(&whole));
    insta::assert_snapshot!(format!("{stream}\n{object}"));
}

#[test]
fn every_answer_as_an_object() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let body = ChatDialect::default().encode_complete(&whole);
        let body = String::from_utf8(body).unwrap();
        write!(all, "=== {name}\n{body}\n").unwrap();
    }
    insta::assert_snapshot!(all);
}
