//! Plain turns: text, several on one process, images, interrupts, ends of all kinds.

use angelia_core::{
    model::{Content, EventKind, FailureKind, Origin, Status},
    ports::Emitted,
};
use angelia_testkit::model_server::DEFAULT_TEXT;

use crate::harness::{Heard, on_both};

fn is_delta(emitted: &Emitted) -> bool {
    matches!(emitted, Emitted::Event(EventKind::Delta { .. }))
}

#[tokio::test]
async fn real_two_turns_on_one_process() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let first = session.say("hello").await;
        assert_eq!(first.text(), DEFAULT_TEXT);
        assert_eq!(first.deltas(), DEFAULT_TEXT);
        let started = first.started();
        assert_eq!(&*started.profile, "default");
        assert!(!started.resumed && !started.warm);
        assert!(started.model.as_deref().unwrap().contains("sonnet"));

        let second = session.say("WORDS:5:2").await;
        assert_eq!(second.text().trim(), "w0 w1 w2 w3 w4");
        assert_eq!(second.deltas().trim(), "w0 w1 w2 w3 w4");
        assert_eq!(second.native(), first.native(), "the same conversation");
        assert!(session.agent.is_usable());
        session.close().await;
        assert_eq!(lab.server.model_requests().len(), 2);
    })
    .await;
}
