//! The error table: every kind of failure has an entry.

use std::fmt::Write as _;

use angelia_core::model::{Failure, FailureKind};
use angelia_frontends::http::{
    ErrorKind, HttpError,
    anthropic::{MessagesDialect, decode},
    dialect::Dialect as _,
};

#[test]
fn every_kind_of_error_has_its_status_and_word() {
    let mut table = String::new();
    for kind in ErrorKind::ALL {
        let error = HttpError::new(kind, "what failed");
        let body = String::from_utf8(MessagesDialect::encode_error(&error)).unwrap();
        writeln!(table, "{kind:?}: {} {body}", error.status().as_u16()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn an_error_says_what_failed_and_what_to_do() {
    let failure = Failure::new(FailureKind::Auth, "claude is not logged in")
        .with_hint("run `claude` once in a terminal");
    let error = HttpError::from(failure);
    assert_eq!(error.status(), 424);
    let body = MessagesDialect::encode_error(&error);
    insta::assert_snapshot!(String::from_utf8(body).unwrap(), @r#"{"type":"error","error":{"type":"authentication_error","message":"claude is not logged in; run `claude` once in a terminal"}}"#);
}

#[test]
fn a_refused_request_names_the_field() {
    let refused = decode(br#"{"model":"m","messages":[{"role":"narrator","content":"x"}]}"#);
    let error = refused.unwrap_err();
    assert_eq!(error.status(), 400);
    let body = MessagesDialect::encode_error(&error);
    insta::assert_snapshot!(String::from_utf8(body).unwrap(), @r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.role: `narrator` is not known; use user, assistant or system"}}"#);
}
