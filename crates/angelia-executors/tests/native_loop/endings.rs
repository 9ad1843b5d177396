//! E29 and E31: the iteration budget, answers that were cut at the limit of output, empty answers, and
//! calls that repeat themselves.

use angelia_core::model::TurnStatus;
use angelia_executors::{
    native::providers::Provider,
    scripted_model::{Reply, ReplyStop},
};
use serde_json::json;

use crate::loop_lab::{bash, call, calls, in_each_api, in_each_api_with, run_call};

#[tokio::test]
async fn e29_after_the_last_iteration_the_model_answers_and_its_calls_are_refused() {
    in_each_api(async |lab| {
        let mut spec = lab.spec();
        spec.native.max_iterations = 2;
        let other = |number: u32| calls([bash(&format!("echo {number} >> runs"))]);
        let output = lab.turn_with(&spec, [other(1), other(2), Reply::text("that is all")]).await;
        assert!(matches!(output.outcome.status, TurnStatus::Partial), "{output:#?}");
        assert_eq!(output.outcome.text.as_deref(), Some("that is all"));
        assert_eq!(lab.runs(), 2);
        let requests = lab.requests();
        assert_eq!(requests[0].body["tools"], requests[2].body["tools"], "the prefix stays warm");
        assert!(requests[2].ends_with_the_user());

        // A model that calls a tool nevertheless gets nothing run.
        let stubborn = [other(3), other(4), other(5)];
        let output = lab.turn_with(&spec, stubborn).await;
        assert!(matches!(output.outcome.status, TurnStatus::Partial), "{output:#?}");
        assert_eq!(lab.runs(), 4);
    })
    .await;
}

#[tokio::test]
async fn e29_attempts_that_fail_cost_no_iteration() {
    in_each_api(async |lab| {
        let mut spec = lab.spec();
        spec.native.max_iterations = 2;
        let down = || Reply::status(500).with_header("retry-after-ms", "5");
        let replies = [down(), down(), calls([run_call()]), down(), Reply::text("done")];
        let output = lab.turn_with(&spec, replies).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1));
    })
    .await;
}

#[tokio::test]
async fn e31_an_answer_at_the_limit_of_output_is_continued() {
    in_each_api(async |lab| {
        let first = Reply::text("The first part, and").with_stop(ReplyStop::MaxTokens);
        let output = lab.turn([first, Reply::text(" the second.")]).await;
        let answer = output.answer();
        assert!(answer.contains("The first part") && answer.contains("the second."), "{answer}");
        assert!(lab.last_request().ends_with_the_user(), "never a trailing assistant message");
    })
    .await;
}

#[tokio::test]
async fn e31_an_empty_answer_is_asked_for_again_and_never_success() {
    in_each_api(async |lab| {
        let empty = || Reply::message(Vec::new());
        let output = lab.turn([empty(), Reply::text("something")]).await;
        assert_eq!(output.answer(), "something", "{output:#?}");
        let output = lab.turn([empty(), empty(), empty()]).await;
        assert!(output.outcome.status.failure().is_some(), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e31_where_stop_cannot_be_trusted_the_last_words_decide() {
    let unreliable = |provider: &mut Provider| {
        provider.quirks.stop_unreliable = Some(true);
    };
    in_each_api_with(unreliable, async |lab| {
        for ending in ["It is done ⚡", "It is done.", "これで終わりです。", "```\ncode\n```"]
        {
            let output = lab.turn([Reply::text(ending)]).await;
            assert_eq!(output.answer(), ending);
        }
        let sudden = Reply::text("Now I will look at the");
        let output = lab.turn([sudden, Reply::text(" last file.")]).await;
        assert!(output.answer().ends_with("last file."), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn a_call_that_repeats_itself_is_refused_the_fourth_time() {
    in_each_api(async |lab| {
        lab.write("same", "nothing new\n");
        let again = || calls([call("read", json!({"path": "same"}))]);
        let replies = [again(), again(), again(), again(), Reply::text("done")];
        let output = lab.turn(replies).await;
        assert_eq!(output.answer(), "done");
        let ok: Vec<bool> = output.tool_results().iter().map(|result| result.ok).collect();
        assert_eq!(ok, [true, true, true, false], "{output:#?}");
    })
    .await;
}
