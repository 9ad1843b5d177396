//! A request begins with the bytes of the one before it, so that providers' caches hold.

use angelia_executors::scripted_model::{Reply, ReplyBlock};
use angelia_testkit::request_parts::RequestParts;

use crate::loop_lab::{bash, calls, in_each_api};

#[tokio::test]
async fn requests_grow_at_their_end_only() {
    in_each_api(async |lab| {
        let mut session = lab.open().await;
        for turn in 0..3 {
            let thought = ReplyBlock::Thinking(format!("thought {turn}"));
            let text = ReplyBlock::Text("I will run it.".into());
            let step = calls([thought, text, bash(&format!("echo {turn}"))]);
            lab.server.script([step, Reply::text(format!("answer {turn}"))]);
            assert_eq!(
                session.prompt(&format!("prompt {turn}")).await.answer(),
                format!("answer {turn}")
            );
        }
        session.close().await;
        let requests: Vec<_> =
            lab.requests().iter().map(|request| RequestParts::of(&request.body)).collect();
        assert_eq!(requests.len(), 6);
        for pair in requests.windows(2) {
            assert_eq!(pair[0].fields, pair[1].fields, "{:?}: system, tools and settings", lab.api);
            assert!(pair[1].messages.starts_with(&pair[0].messages), "{:?}: {pair:#?}", lab.api);
        }
    })
    .await;
}
