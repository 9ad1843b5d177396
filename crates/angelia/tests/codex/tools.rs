//! The caller's tools through the real program, which waits for the results in the same turn.

use serde_json::Value;

use crate::{
    daemon_fixture::DaemonFixture,
    dialects::{ALL_DIALECTS, ApiDialect, ToolInvocation},
};

const CALL: &str = r#"TOOL:{"name":"find","input":{"city":"Paris"}}:END ECHO:done"#;
const CALLS: &str = r#"TOOL:[{"name":"find","input":{"city":"Paris"}},{"name":"find","input":{"city":"Rome"}}]:END ECHO:done"#;

/// Answers tool calls until there are no more; returns all calls, and the conversation with its
/// answer.
fn run_tool_calls(
    bench: &DaemonFixture,
    dialect: ApiDialect,
    prompt: &str,
) -> (Vec<ToolInvocation>, Vec<Value>) {
    let mut told = vec![ApiDialect::user(prompt)];
    let mut all = Vec::new();
    let mut turn: Option<String> = None;
    loop {
        let answer = dialect.post(bench, &dialect.with_tool(&told, "find"));
        let calls = dialect.tool_calls(&answer);
        let this = answer.header("x-angelia-turn").to_owned();
        assert_eq!(*turn.get_or_insert(this.clone()), this, "one turn");
        told.extend(dialect.answer_messages(&answer));
        if calls.is_empty() {
            assert_eq!(dialect.text(&answer), "done", "{answer:?}");
            return (all, told);
        }
        let weather =
            |call: &ToolInvocation| format!("sunny in {}", call.input["city"].as_str().unwrap());
        let results: Vec<(String, String)> =
            calls.iter().map(|call| (call.id.clone(), weather(call))).collect();
        told.extend(dialect.results(&results));
        all.extend(calls);
        assert!(all.len() < 10, "it does not end");
    }
}

#[test]
fn real_a_call_and_its_result_in_every_dialect() {
    let bench = DaemonFixture::new();
    for dialect in ALL_DIALECTS {
        let before = bench.model_requests().len();
        let (calls, told) = run_tool_calls(&bench, dialect, &format!("{dialect:?} {CALL}"));
        assert_eq!(calls.len(), 1);
        assert_eq!((&*calls[0].name, &calls[0].input["city"]), ("find", &"Paris".into()));
        let asked = bench.model_requests();
        assert_eq!(asked.len(), before + 2, "{dialect:?}");
        assert!(asked[before + 1].contains("sunny in Paris"), "{dialect:?}");

        // The conversation continues.
        let mut told = told;
        told.push(ApiDialect::user("ECHO:and on"));
        let answer = dialect.post(&bench, &dialect.with_tool(&told, "find"));
        assert_eq!(dialect.text(&answer), "and on", "{dialect:?}");
        assert_eq!(bench.model_requests().len(), before + 3, "{dialect:?}");
    }
    bench.end();
}

#[test]
fn real_two_calls_at_once_in_every_dialect() {
    let bench = DaemonFixture::new();
    for dialect in ALL_DIALECTS {
        let before = bench.model_requests().len();
        let (calls, _) = run_tool_calls(&bench, dialect, &format!("{dialect:?} {CALLS}"));
        assert_eq!(calls.len(), 2, "{dialect:?}");
        let asked = bench.model_requests();
        assert_eq!(asked.len(), before + 2, "{dialect:?}");
        for city in ["Paris", "Rome"] {
            let said = format!("sunny in {city}");
            assert!(asked[before + 1].contains(&said), "{dialect:?} {city}");
        }
    }
    bench.end();
}
