//! Two peers that talk to each other.

use std::collections::HashMap;

use angelia_wire::jsonrpc::{DecodeError, ErrorObject, Peer, Received, RpcId, VersionField};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_response_reaches_the_waiter_of_its_request() {
    let (mut ours, mut theirs) =
        (Peer::new(VersionField::Include), Peer::<()>::new(VersionField::Omit));
    let (first, line) = ours.request("add", &[1, 2], "first").unwrap();
    let (second, _) = ours.request("wait", &json!({}), "second").unwrap();
    let Received::Request { id, method, params } = theirs.receive(line.trim_ascii_end()) else {
        unreachable!("{line:?}")
    };
    assert_eq!((&*method, params.unwrap().get()), ("add", "[1,2]"));
    let answer = theirs.response(&id, Ok(&3));
    let Received::Response { waiter, result } = ours.receive(answer.trim_ascii_end()) else {
        unreachable!("{answer:?}")
    };
    assert_eq!((waiter, result.unwrap().get()), ("first", "3"));
    assert!(matches!(ours.receive(answer.trim_ascii_end()), Received::UnexpectedResponse));

    let error = ErrorObject::new(-1, "no");
    let refusal = theirs.response::<Value>(&second, Err(&error));
    let Received::Response { waiter, result } = ours.receive(refusal.trim_ascii_end()) else {
        unreachable!("{refusal:?}")
    };
    assert_eq!((waiter, result.unwrap_err().to_string()), ("second", "no (-1)".to_owned()));
    assert!(ours.is_idle());
    assert_eq!(ours.cancel(&first), None);
}

#[test]
fn responses_requests_and_notifications_are_told_apart() {
    let receive = |line: &str| {
        let mut peer = Peer::new(VersionField::Omit);
        peer.request("m", &0, "waiter").unwrap();
        format!("{:?}", peer.receive(line.as_bytes()))
    };
    assert!(
        receive(r#"{"id":0,"result":{}}"#).contains(r#"Response { waiter: "waiter", result: Ok"#)
    );
    assert!(receive(r#"{"id":0,"error":{"code":-1,"message":"m"}}"#).contains("code: -1"));
    assert!(receive(r#"{"id":0,"method":"a/b","params":{}}"#).contains("Request"));
    assert!(receive(r#"{"method":"a/b","emittedAtMs":1}"#).contains("Notification"));
    assert!(receive(r#"{"id":"x","result":1}"#).contains("UnexpectedResponse"));
    for odd in ["{}", "[1]", r#"{"method":[],"id":{}}"#] {
        assert!(receive(odd).contains("Invalid"), "{odd}");
    }
    assert!(receive("{").contains("NotJson"));
}

#[test]
fn what_is_not_a_message_is_invalid() {
    let mut peer = Peer::<()>::new(VersionField::Omit);
    assert!(matches!(peer.receive(b"{"), Received::Invalid(DecodeError::NotJson)));
    assert!(matches!(peer.receive(b"[1]"), Received::Invalid(DecodeError::NotAMessage)));
    let unread = br#"{"id":null,"error":{"code":-32700,"message":"?"}}"#;
    assert!(matches!(peer.receive(unread), Received::Invalid(DecodeError::BadId)));
    let unsent = br#"{"id":7,"result":1}"#;
    assert!(matches!(peer.receive(unsent), Received::UnexpectedResponse));
}

#[test]
fn parameters_that_are_not_json_leave_nobody_waiting() {
    let mut peer = Peer::new(VersionField::Omit);
    let bad = HashMap::from([(vec![1], 1)]);
    assert_eq!(peer.request("m", &bad, "waiter").unwrap_err(), "waiter");
    assert!(peer.is_idle());
    assert!(peer.notification("m", Some(&bad)).is_empty());
}

proptest! {
    /// Responses in any order, repeated or missing: each waiter gets its own response, once.
    #[test]
    fn every_waiter_gets_its_own_response(
        count in 1..20i64,
        answers in prop::collection::vec((0..24i64, any::<bool>()), 0..60),
        cancelled in prop::collection::hash_set(0..20i64, 0..5),
    ) {
        let mut peer = Peer::new(VersionField::Include);
        for waiter in 0..count {
            let (id, _) = peer.request("m", &waiter, waiter).unwrap();
            prop_assert_eq!(id, RpcId::Number(waiter));
        }
        let mut waiting: Vec<i64> = (0..count).filter(|id| !cancelled.contains(id)).collect();
        peer.retain(|waiter| !cancelled.contains(waiter));
        for (id, ok) in answers {
            let line = if ok {
                json!({"id": id, "result": id})
            } else {
                json!({"id": id, "error": {"code": id, "message": "m"}})
            };
            let line = line.to_string();
            match peer.receive(line.as_bytes()) {
                Received::Response { waiter, result } => {
                    prop_assert_eq!(waiter, id);
                    prop_assert_eq!(result.is_ok(), ok);
                    let at = waiting.iter().position(|waiting| *waiting == id);
                    prop_assert!(at.is_some());
                    waiting.remove(at.unwrap());
                }
                Received::UnexpectedResponse => prop_assert!(!waiting.contains(&id)),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(peer.is_idle(), waiting.is_empty());
    }

    #[test]
    fn no_line_is_too_odd_for_a_peer(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Peer::<()>::new(VersionField::Omit).receive(&line);
    }
}
