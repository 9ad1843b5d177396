//! `codex/…` models in all three dialects: answers, streams, conversations.

use serde_json::json;

use crate::{
    daemon_fixture::DaemonFixture,
    dialects::{ALL_DIALECTS, ApiDialect},
};

#[test]
fn real_answers_streams_and_conversations_in_every_dialect() {
    let bench = DaemonFixture::new();
    for dialect in ALL_DIALECTS {
        let before = bench.model_requests().len();
        let first = vec![ApiDialect::user(&format!("{dialect:?} ECHO:one"))];
        let answer = dialect.post(&bench, &dialect.request(&first));
        assert_eq!(dialect.text(&answer), "one", "{dialect:?}");
        let session = answer.session().to_owned();

        // The second request carries the first turn, and only the new part is sent to the agent.
        let mut told = first.clone();
        told.extend(dialect.answer_messages(&answer));
        told.push(ApiDialect::user("ECHO:two"));
        let answer = dialect.post(&bench, &dialect.request(&told));
        assert_eq!(dialect.text(&answer), "two", "{dialect:?}");
        assert_eq!(answer.session(), session, "{dialect:?}");

        // The third turn is streamed.
        told.extend(dialect.answer_messages(&answer));
        told.push(ApiDialect::user("WORDS:5"));
        let mut request = dialect.request(&told);
        request["stream"] = json!(true);
        let answer = dialect.post(&bench, &request);
        assert_eq!(dialect.streamed_text(&answer), "w0 w1 w2 w3 w4 ", "{dialect:?}");
        assert_eq!(answer.session(), session, "{dialect:?}");
        let asked = bench.model_requests();
        assert_eq!(asked.len(), before + 3, "one model request for each turn");
        for said in ["ECHO:one", "one", "ECHO:two", "two", "WORDS:5"] {
            assert!(asked.last().unwrap().contains(said), "{dialect:?} {said}");
        }
    }
    bench.end();
}

/// The caller's system prompt is the whole prompt, and an unknown history is carried over.
#[test]
fn real_the_callers_prompt_and_history_are_all_there_is() {
    let bench = DaemonFixture::with("developer_instructions = \"MARK-OF-THE-OWNER\"\n");
    let request = json!({"model": "codex/gpt-5.5", "max_tokens": 100, "system": "ONLY-PROMPT",
    "messages": [
        {"role": "user", "content": "carried question"},
        {"role": "assistant", "content": "carried answer"},
        {"role": "user", "content": "ECHO:new"},
    ]});
    let answer = ApiDialect::Messages.post(&bench, &request);
    assert_eq!(answer.message_text(), "new");
    let asked = bench.model_requests();
    let request: serde_json::Value = serde_json::from_str(&asked[0]).unwrap();
    let input = request["input"].as_array().unwrap();
    let roles: Vec<&str> = input
        .iter()
        .filter(|item| item["type"] == "message")
        .filter(|item| {
            let text = item["content"].to_string();
            text.contains("carried") || text.contains("ECHO")
        })
        .map(|item| item["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{request:#}");
    assert!(asked[0].contains("ONLY-PROMPT"));
    bench.end();
}

#[test]
fn real_what_the_model_refuses_is_an_error_of_the_dialect() {
    let bench = DaemonFixture::new();
    for dialect in ALL_DIALECTS {
        let told = [ApiDialect::user(&format!("STATUS:400 ECHO:no {dialect:?}"))];
        let answer = dialect.post(&bench, &dialect.request(&told));
        assert!(answer.status >= 400, "{answer:?}");
        let error = answer.body["error"].to_string();
        assert!(error.contains("no "), "{answer:?}");
        let again = dialect.post(&bench, &dialect.request(&[ApiDialect::user("ECHO:on")]));
        assert_eq!(dialect.text(&again), "on");
    }
    bench.end();
}
