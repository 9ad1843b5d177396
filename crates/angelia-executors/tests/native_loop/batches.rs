//! E25: several calls in one answer, whatever the server does to their indices and ids.

use angelia_executors::{
    native::{provider::Api, providers::Provider},
    scripted_model::{Reply, WireQuirk},
};
use serde_json::json;

use crate::loop_lab::{LoopLab, bash, call, calls, in_each_api, in_each_api_with};

#[tokio::test]
async fn e25_two_calls_are_both_run_once_with_any_mistake_of_the_server() {
    in_each_api(async |lab| {
        let quirks = [
            WireQuirk::SharedIndex,
            WireQuirk::NoCallId,
            WireQuirk::RepeatedCallId,
            WireQuirk::ObjectArguments,
            WireQuirk::StopWithCalls,
        ];
        for quirk in quirks {
            let name = format!("{quirk:?}");
            let two = calls([
                bash(&format!("echo first >> {name}; echo one")),
                bash(&format!("echo second >> {name}; echo two")),
            ]);
            let output = lab.turn([two.with_quirk(quirk), Reply::text("done")]).await;
            assert_eq!(output.answer(), "done", "{quirk:?}: {output:#?}");
            assert_eq!(lab.read(&name), "first\nsecond\n", "{quirk:?}: {output:#?}");
            let results = lab.last_request().results();
            assert_eq!(results.len(), 2, "{quirk:?}: {results:?}");
            assert!(results[0].contains("one") && results[1].contains("two"), "{results:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn e25_sixty_four_reads_at_once_answer_in_the_order_of_the_calls() {
    in_each_api(async |lab| {
        let many = (0..64).map(|number| {
            lab.write(&format!("file-{number}"), &format!("content of {number}.\n"));
            call("read", json!({"path": format!("file-{number}")}))
        });
        let many: Vec<_> = many.collect();
        let output = lab.turn([calls(many), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let results = lab.last_request().results();
        assert_eq!(results.len(), 64);
        for (number, result) in results.iter().enumerate() {
            assert!(result.contains(&format!("content of {number}.")), "{number}: {result}");
        }
    })
    .await;
}

#[tokio::test]
async fn e25_changes_of_one_file_happen_one_after_the_other() {
    in_each_api(async |lab| {
        lab.write("a.txt", "0");
        let step = |from: u32| {
            call(
                "edit",
                json!({"path": "a.txt", "old_string": from.to_string(),
                "new_string": (from + 1).to_string()}),
            )
        };
        let read = call("read", json!({"path": "a.txt"}));
        let steps: Vec<_> = (0..6).map(step).collect();
        let output = lab.turn([calls([read]), calls(steps), Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.read("a.txt").trim()), ("done", "6"), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e25_a_call_that_fails_affects_only_itself() {
    in_each_api(async |lab| {
        lab.write("here", "it is here\n");
        let batch = calls([
            call("read", json!({"path": "not-here"})),
            call("read", json!({"path": "here"})),
            bash("exit 3"),
            bash("echo after"),
        ]);
        let output = lab.turn([batch, Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let results = lab.last_request().results();
        assert_eq!(results.len(), 4);
        assert!(results[1].contains("it is here") && results[3].contains("after"), "{results:?}");
    })
    .await;
}

/// One API after the other: so much takes a program that is not optimised some seconds.
#[tokio::test]
async fn e25_an_argument_of_sixteen_megabytes_arrives_whole() {
    for api in Api::ALL {
        // A window in which even this fits.
        let lab = LoopLab::new(api, |provider| {
            provider.models.values_mut().for_each(|model| model.context = Some(100_000_000));
        });
        let content = "0123456789abcde\n".repeat(1024 * 1024);
        let write = call("write", json!({"path": "large", "content": content}));
        let output = lab.turn([calls([write]), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        assert!(lab.read("large") == content, "it is not the same");
    }
}

#[tokio::test]
async fn a_model_that_calls_no_tools_is_offered_none() {
    let toolless = |provider: &mut Provider| {
        provider.models.values_mut().for_each(|model| model.tools = Some(false));
    };
    in_each_api_with(toolless, async |lab| {
        let output = lab.turn([Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        assert!(lab.last_request().body.get("tools").is_none(), "{:?}", lab.last_request());
    })
    .await;
}
