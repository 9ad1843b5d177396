//! E32: words for a running turn come after all results of a batch, as the user's own.

use angelia_core::{
    model::{Content, EventKind},
    ports::{AgentEvent, TurnControl},
};
use angelia_executors::scripted_model::Reply;
use angelia_testkit::direct_session::TurnHandle;

use crate::loop_lab::{bash, calls, in_each_api};

#[tokio::test]
async fn e32_words_come_after_the_results_of_the_batch_and_never_inside_one() {
    in_each_api(async |lab| {
        let batch = calls([bash("echo one"), bash("echo two")]);
        lab.server.script([batch, Reply::text("done")]);
        let mut session = lab.open().await;
        let mut said = false;
        let watch = move |event: &AgentEvent, hands: &TurnHandle| {
            if matches!(event, AgentEvent::Event(EventKind::ToolCall(_))) && !said {
                said = true;
                let words = vec![Content::text("use the other one")];
                hands.send_control(TurnControl::Steer(words));
            }
        };
        let output = session.prompt_watched("go on", watch).await;
        assert_eq!(output.answer(), "done");
        session.close().await;
        let asked = lab.last_request();
        let results = asked.results();
        assert_eq!(results.len(), 2);
        assert!(results.iter().all(|result| !result.contains("other one")), "{results:?}");
        assert!(asked.last_text().ends_with("use the other one"), "{asked:#?}");
    })
    .await;
}

#[tokio::test]
async fn e32_words_that_come_with_the_answer_are_one_more_request() {
    in_each_api(async |lab| {
        lab.server.script([Reply::text("the answer so far"), Reply::text("and more")]);
        let mut session = lab.open().await;
        let mut said = false;
        let watch = move |event: &AgentEvent, hands: &TurnHandle| {
            if matches!(event, AgentEvent::Event(EventKind::Delta { .. })) && !said {
                said = true;
                hands.send_control(TurnControl::Steer(vec![Content::text("and this?")]));
            }
        };
        let output = session.prompt_watched("go on", watch).await;
        assert!(output.answer().contains("and more"), "{output:#?}");
        session.close().await;
        assert_eq!(lab.server.model_requests().len(), 2);
        assert!(lab.last_request().last_text().ends_with("and this?"));
    })
    .await;
}
