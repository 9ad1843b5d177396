//! Agents that cannot be opened, and the model chosen for those that can.

use angelia_core::model::{Content, Failure, FailureKind, Mode, SessionSpec, TurnOrigin};
use angelia_testkit::direct_session::DirectSession;

use crate::harness::AcpHarness;

async fn refused(lab: &AcpHarness, spec: &SessionSpec) -> Failure {
    let failure = DirectSession::open(&*lab.place.executor, spec, None).await.unwrap_err();
    assert!(failure.hint.is_some(), "{failure}");
    failure
}

#[tokio::test]
async fn what_is_no_agent_says_so() {
    let lab = AcpHarness::new();
    let table: [(&[&str], FailureKind); 5] = [
        (&[], FailureKind::Invalid),
        (&["no-such-agent-anywhere"], FailureKind::Unavailable),
        (&["true"], FailureKind::Agent),
        (&["cat"], FailureKind::Agent),
        (&["sh", "-c", "echo 'cannot start' >&2; exit 1"], FailureKind::Agent),
    ];
    for (command, kind) in table {
        let mut spec = lab.spec(&[]);
        spec.command = command.iter().map(|word| (*word).into()).collect();
        let failure = refused(&lab, &spec).await;
        assert_eq!(failure.kind, kind, "{command:?}: {failure}");
        if command.len() == 3 {
            assert!(failure.message.contains("cannot start"), "{failure}");
        }
        let health = lab.place.executor.probe(&spec).await;
        assert!(health.problem.is_some());
    }
    let failure = refused(&lab, &lab.spec(&["--greeting", r#"{"protocolVersion":2}"#])).await;
    assert!(failure.message.contains("version 2"), "{failure}");
}

#[tokio::test]
async fn a_missing_login_is_named_with_the_ways_to_log_in() {
    let lab = AcpHarness::new();
    let greeting = r#"{"authMethods":[{"id":"x","name":"X","description":"Run `fake login`"}]}"#;
    for method in ["initialize", "session/new"] {
        let spec = lab.spec(&["--greeting", greeting, "--refuse", method]);
        let failure = refused(&lab, &spec).await;
        assert_eq!(failure.kind, FailureKind::Auth, "{failure}");
        if method == "session/new" {
            assert!(failure.hint.unwrap().contains("fake login"));
        }
    }
}

#[tokio::test]
async fn a_model_is_chosen_where_there_is_one() {
    let lab = AcpHarness::new();
    let mut spec = lab.spec(&[]);
    for (wanted, found) in [(None, "m"), (Some("m"), "m"), (Some("n"), "n"), (Some("N"), "n")] {
        spec.model = wanted.map(Into::into);
        let mut session = lab.open_as(&spec, None).await;
        let heard = session.prompt("say hello").await;
        assert_eq!(heard.started().model.as_deref(), Some(found));
        session.close().await;
    }
    spec.model = Some("other".into());
    let failure = refused(&lab, &spec).await;
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.hint.unwrap().contains("m, n"));
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_and_images_are_left_out_with_a_word() {
    let lab = AcpHarness::new();
    let mut spec = lab.spec(&[]);
    spec.mode = Mode::Model;
    let failure = refused(&lab, &spec).await;
    assert!(failure.message.contains("model mode"), "{failure}");

    let mut session = lab.open().await;
    let image = Content::Image { media_type: "image/png".into(), data: (*b"x").into() };
    let input = vec![image, Content::text("say hello")];
    let heard = session.turn(TurnOrigin::Owner, input, Box::new(|_, _| {})).await;
    assert_eq!(heard.deltas(), "hello");
    assert_eq!(&*heard.notices()[0].code, "images_left_out");
    session.close().await;
}
