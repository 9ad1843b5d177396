//! E30: reasoning goes back to who issued it, in the form that the API demands, and not again after it
//! was refused.

use angelia_executors::{
    native::provider::{Api, quirks::ReasoningEcho},
    scripted_model::{ApiError, Reply, ReplyBlock},
};

use crate::loop_lab::{calls, in_each_api, in_each_api_with, run_call};

fn thinking_call() -> Reply {
    calls([ReplyBlock::Thinking("a deep thought".into()), run_call()])
}

/// The sign of the reasoning in a request: its seal, or its text where it has none.
fn seal_of(api: Api) -> &'static str {
    match api {
        Api::Messages => "c2ln",
        Api::Chat => "a deep thought",
        Api::Responses => "c2VhbGVk",
    }
}

#[tokio::test]
async fn e30_reasoning_is_echoed_to_its_issuer() {
    let echo = |provider: &mut angelia_executors::native::providers::Provider| {
        provider.quirks.reasoning_echo = Some(match provider.api {
            Api::Messages => ReasoningEcho::Signature,
            Api::Chat => ReasoningEcho::ReasoningContent,
            Api::Responses => ReasoningEcho::Encrypted,
        });
    };
    in_each_api_with(echo, async |lab| {
        let output = lab.turn([thinking_call(), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let asked = lab.last_request();
        assert!(asked.contains(seal_of(lab.api)), "{:?}: {asked:#?}", lab.api);
    })
    .await;
}

#[tokio::test]
async fn e30_where_it_is_not_wanted_it_is_not_sent() {
    let quiet = |provider: &mut angelia_executors::native::providers::Provider| {
        provider.quirks.reasoning_echo = Some(ReasoningEcho::None);
    };
    in_each_api_with(quiet, async |lab| {
        let output = lab.turn([thinking_call(), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let asked = lab.last_request();
        assert!(!asked.contains(seal_of(lab.api)), "{:?}: {asked:#?}", lab.api);
        assert!(!asked.contains("a deep thought"), "{:?}: {asked:#?}", lab.api);
    })
    .await;
}

#[tokio::test]
async fn e30_reasoning_that_is_refused_is_left_out_once_and_the_call_is_not_repeated() {
    in_each_api(async |lab| {
        let refused = Reply::error(ApiError::ReasoningRejected);
        let output = lab.turn([thinking_call(), refused, Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
        assert!(!lab.last_request().contains(seal_of(lab.api)));
        assert_eq!(lab.last_request().results().len(), 1);
    })
    .await;
}
