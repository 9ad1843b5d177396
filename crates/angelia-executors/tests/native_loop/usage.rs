//! The tokens of a turn where the server does not count them: a cost limit must hold all the same.

use angelia_core::model::{TokenPrice, Usage};
use angelia_executors::{native::providers::Provider, scripted_model::Reply};
use angelia_testkit::direct_session::TurnOutput;

use crate::loop_lab::{calls, in_each_api_with, run_call};

fn with_price(provider: &mut Provider) {
    let price = TokenPrice { input: 10.0, output: 10.0, cache_read: 0.0, cache_write: 0.0 };
    for model in provider.models.values_mut() {
        model.price = Some(price);
    }
}

fn last_usage(output: &TurnOutput) -> Usage {
    output.usages().last().copied().cloned().unwrap()
}

#[tokio::test]
async fn tokens_that_nobody_counts_are_estimated_and_that_is_said_once() {
    in_each_api_with(with_price, async |lab| {
        let replies =
            [calls([run_call()]).with_tokens(0, 0), Reply::text("done").with_tokens(0, 0)];
        let output = lab.turn(replies).await;
        let told = output.notices().iter().filter(|one| &*one.code == "usage_estimated").count();
        assert_eq!(told, 1, "{output:#?}");
        let usage = last_usage(&output);
        let sent: usize = lab.requests().iter().map(|request| request.body.to_string().len()).sum();
        // A token has between two and eight bytes.
        let bytes = sent as u64;
        assert!((bytes / 8..bytes / 2).contains(&usage.input_tokens), "{usage:?} of {bytes} bytes");
        assert!(usage.output_tokens > 0 && usage.cost_usd.unwrap() > 0.0, "{usage:?}");

        let output = lab.turn([Reply::text("done").with_tokens(1500, 7)]).await;
        let usage = last_usage(&output);
        assert_eq!((usage.input_tokens, usage.output_tokens), (1500, 7));
        assert!(output.notices().is_empty(), "{output:#?}");
    })
    .await;
}
