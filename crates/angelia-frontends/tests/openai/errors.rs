//! The whole error table: every kind of error.

use std::fmt::Write;

use angelia_core::model::FailureKind;
use angelia_frontends::http::{
    dialect::{CompleteAnswer, Dialect, DialectError, ErrorKind, StopReason},
    openai::{chat::ChatDialect, responses::ResponsesDialect},
};

use crate::sample_answers::{any_request, begin, end, failure, streamed};

#[test]
fn every_kind_of_error_has_its_status_and_words() {
    let mut table = String::new();
    for kind in ErrorKind::ALL {
        let error = DialectError {
            field: (kind == ErrorKind::Refused).then(|| "messages.0".to_owned()),
            ..DialectError::new(kind, "it broke").with_hint("mend it")
        };
        let (status, body) = ChatDialect::encode_error(&error);
        assert_eq!((status, body.clone()), ResponsesDialect::encode_error(&error));
        let body = String::from_utf8(body).unwrap();
        writeln!(table, "{kind:?}\n  {} {body}", status.as_u16()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn every_failure_has_a_code_that_clients_act_on() {
    let mut table = String::new();
    for kind in FailureKind::ALL {
        let whole = CompleteAnswer {
            header: begin(0),
            blocks: Vec::new(),
            end: end(StopReason::Failed(failure(kind)), "failed"),
        };
        let stream = streamed(&ResponsesDialect::default(), &any_request(), &whole);
        let last = stream.trim_end().rsplit("\n\n").next().unwrap();
        let (event, data) = last.split_once("\ndata: ").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let error = &data["response"]["error"];
        writeln!(table, "{} {event} {error}", kind.as_str()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_long_wait_is_not_to_be_waited_for() {
    let mut long = failure(FailureKind::RateLimited);
    long.retry_after = Some(std::time::Duration::from_hours(3));
    let whole = CompleteAnswer {
        header: begin(0),
        blocks: Vec::new(),
        end: end(StopReason::Failed(long), "failed"),
    };
    let stream = streamed(&ResponsesDialect::default(), &any_request(), &whole);
    assert!(stream.contains(r#""code":"insufficient_quota""#), "{stream}");
}
