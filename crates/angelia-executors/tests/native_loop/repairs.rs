//! E24: arguments that are not quite JSON are mended outside strings, and what was cut is never run.

use angelia_executors::scripted_model::{Reply, ReplyBlock, ReplyStop};
use serde_json::json;

use crate::loop_lab::{call, calls, detail_of, in_each_api, run_call};

#[tokio::test]
async fn e24_a_trailing_comma_is_dropped_and_strings_are_not_touched() {
    in_each_api(async |lab| {
        let arguments = r#"{"command": "printf 'a,}b' >> out",}"#;
        let output = lab.turn([Reply::raw_tool("bash", arguments), Reply::text("done")]).await;
        assert_eq!((output.answer(), &*lab.read("out")), ("done", "a,}b"), "{output:#?}");
        let detail = detail_of(&output, "arguments_repaired");
        assert_eq!(detail["tool"], "bash", "{detail}");
        // The history has what was run, as JSON.
        assert!(lab.last_request().contains("printf 'a,}b' >> out"));
    })
    .await;
}

#[tokio::test]
async fn e24_arguments_that_were_cut_are_never_run() {
    in_each_api(async |lab| {
        let cut = Reply::raw_tool("bash", r#"{"command": "echo run >> runs; rm -rf"#);
        let replies = [cut.with_stop(ReplyStop::MaxTokens), Reply::text("done")];
        let output = lab.turn(replies).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 0), "{output:#?}");
        let results = lab.last_request().results();
        assert!(results.len() == 1 && results[0].contains("cut"), "{results:?}");

        // Also where the server says that all is well.
        let cut = Reply::raw_tool("bash", r#"{"command": "echo run >> runs"#);
        let output = lab.turn([cut, Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 0), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e24_arguments_that_are_no_object_are_refused_in_words() {
    in_each_api(async |lab| {
        for arguments in ["[1]", "\"text\"", "7", "not json at all"] {
            let output = lab.turn([Reply::raw_tool("bash", arguments), Reply::text("done")]).await;
            assert_eq!(output.answer(), "done", "{arguments}: {output:#?}");
            assert!(output.tool_results().iter().all(|result| !result.ok), "{arguments}");
            assert_eq!(lab.last_request().results().len(), 1, "{arguments}");
        }
    })
    .await;
}

#[tokio::test]
async fn e24_a_name_in_another_case_is_the_same_tool() {
    in_each_api(async |lab| {
        let input = json!({"command": "echo run >> runs"});
        let output = lab.turn([calls([call("Bash_Tool", input)]), Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e24_an_unknown_name_runs_nothing_and_the_nearest_are_named() {
    in_each_api(async |lab| {
        let unknown = call("bsh", json!({"command": "echo run >> runs"}));
        let output = lab.turn([calls([unknown, run_call()]), Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "the other call runs: {output:#?}");
        let results = lab.last_request().results();
        assert_eq!(results.len(), 2);
        assert!(results[0].contains("bash"), "{results:?}");
    })
    .await;
}

#[tokio::test]
async fn e24_arguments_are_checked_against_the_schema_and_the_path_is_named() {
    in_each_api(async |lab| {
        let wrong =
            ReplyBlock::RawTool { name: "bash".into(), arguments: r#"{"cmd":"ls"}"#.into() };
        let output = lab.turn([calls([wrong]), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let results = lab.last_request().results();
        assert!(results[0].contains("command"), "{results:?}");
    })
    .await;
}

/// llama.cpp calls an answer complete that reached the limit of output.
#[tokio::test]
async fn e24_a_call_at_the_limit_of_output_is_cut_whatever_the_server_calls_it() {
    in_each_api(async |lab| {
        let mut spec = lab.spec();
        spec.native.max_output_tokens = Some(500);
        let open = Reply::raw_tool("bash", r#"{"command": "echo run >> runs""#);
        let replies = [open.clone().with_tokens(100, 500), Reply::text("done")];
        let output = lab.turn_with(&spec, replies).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 0), "{output:#?}");
        assert!(lab.last_request().results()[0].contains("cut"), "{output:#?}");
        // Below the limit only its closer is missing.
        let output = lab.turn_with(&spec, [open.with_tokens(100, 50), Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
    })
    .await;
}
