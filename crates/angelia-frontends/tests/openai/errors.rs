//! The whole error table: every kind of error.

use std::fmt::Write;

use angelia_core::{engine::EngineError, model::FailureKind, ports::StoreError};
use angelia_frontends::http::{
    ErrorKind, HttpError,
    dialect::{CompleteAnswer, Dialect, StopReason},
    openai::{chat::ChatDialect, responses::ResponsesDialect},
};

use crate::sample_answers::{begin, end, failure, streamed};

#[test]
fn every_kind_of_error_has_its_status_and_words() {
    let mut table = String::new();
    for kind in ErrorKind::ALL {
        let error = HttpError {
            field: (kind == ErrorKind::Refused).then(|| "messages.0".to_owned()),
            ..HttpError::new(kind, "it broke").with_hint("mend it")
        };
        let body = ChatDialect::encode_error(&error);
        assert_eq!(body, ResponsesDialect::encode_error(&error));
        let body = String::from_utf8(body).unwrap();
        writeln!(table, "{kind:?}\n  {} {body}", error.status().as_u16()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_failure_keeps_its_kind_on_the_way_through_the_engine() {
    for kind in FailureKind::ALL {
        let error = HttpError::from(EngineError::Failed(failure(kind)));
        assert_eq!(error.kind, ErrorKind::Failed(kind));
    }
    let away = HttpError::from(EngineError::Failed(failure(FailureKind::Unavailable)));
    let body = String::from_utf8(ChatDialect::encode_error(&away)).unwrap();
    assert!(body.contains(r#""code":"server_is_overloaded""#), "{body}");
}

#[test]
fn a_session_of_another_process_is_not_the_callers_mistake() {
    for error in [StoreError::LeaseLost, StoreError::Conflict] {
        let error = HttpError::from(error);
        assert_eq!((error.status().as_u16(), error.kind.code()), (409, "busy"));
        let body = String::from_utf8(ChatDialect::encode_error(&error)).unwrap();
        assert!(body.contains(r#""type":"server_error""#), "{body}");
        assert!(body.contains(r#""code":"session_is_busy""#), "{body}");
    }
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
        let stream = streamed(&ResponsesDialect::default(), &whole);
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
    let stream = streamed(&ResponsesDialect::default(), &whole);
    assert!(stream.contains(r#""code":"insufficient_quota""#), "{stream}");
}
