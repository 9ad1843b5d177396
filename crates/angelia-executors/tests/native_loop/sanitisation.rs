//! E23: what is not quite text or not taken by a model never fails a request.

use angelia_executors::scripted_model::{Reply, ReplyUsage, WireQuirk};
use serde_json::json;

use crate::loop_lab::{call, calls, in_each_api, run_call};

#[tokio::test]
async fn e23_frames_that_are_not_quite_json_are_read() {
    in_each_api(async |lab| {
        let table = [
            (WireQuirk::LoneSurrogate, "two\u{fffd}words"),
            (WireQuirk::RawTab, "two\twords"),
            (WireQuirk::NotANumber, "two words"),
        ];
        for (quirk, expected) in table {
            let output = lab.turn([Reply::text("two words").with_quirk(quirk)]).await;
            assert_eq!(output.answer(), expected, "{quirk:?}");
            assert_eq!(output.deltas(), expected, "{quirk:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn e23_a_call_in_such_frames_is_run_once() {
    in_each_api(async |lab| {
        let call = calls([run_call()]).with_quirk(WireQuirk::NotANumber);
        let output = lab.turn([call, Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e23_a_session_survives_a_turn_that_failed_or_only_thought() {
    in_each_api(async |lab| {
        let mut session = lab.open().await;
        lab.server.script([Reply::status_with(400, "not like this")]);
        assert!(session.prompt("first").await.outcome.status.failure().is_some());
        lab.server.script([Reply::text("second answer"), Reply::text("third answer")]);
        assert_eq!(session.prompt("second").await.answer(), "second answer");
        assert_eq!(session.prompt("third").await.answer(), "third answer");
        session.close().await;
        assert!(lab.last_request().contains("second answer"));
    })
    .await;
}

/// Some servers cut a conversation that is too long without a word; their count shows it.
#[tokio::test]
async fn a_prompt_that_the_server_has_cut_is_told_once() {
    in_each_api(async |lab| {
        let counted = ReplyUsage { input: 100, cache_read: 0, ..ReplyUsage::default() };
        lab.server.set_usage(counted);
        lab.write("long", &"many words in a long file\n".repeat(500));
        let read = || calls([call("read", json!({"path": "long"}))]);
        let output = lab.turn([read(), calls([run_call()]), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let told = output.notices();
        let told = told.iter().filter(|notice| &*notice.code == "context_truncated").count();
        assert_eq!(told, 1, "{output:#?}");
    })
    .await;
}
