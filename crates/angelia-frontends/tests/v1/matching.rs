//! Matching a stateless request to its session by its history.

use angelia_core::model::SystemPrompt;
use serde_json::json;

use crate::harness::{
    ModelApiHarness, ModelApiRequest, assistant, format_history, full_grant, input_text, key, user,
};

#[tokio::test]
async fn a_conversation_of_three_turns_is_one_session_and_one_agent() {
    let stage = ModelApiHarness::new();
    let one = stage.run_turn(&ModelApiRequest::new([user("one")]), "first").await;
    assert_eq!(one.content(), "first");
    assert_eq!(one.header("x-angelia-status"), "completed");

    let two = ModelApiRequest::new([user("one"), assistant("first"), user("two")]);
    let answer = stage.send(&two);
    let run = stage.run().await;
    assert_eq!(input_text(&run), "two", "only what is new is sent");
    run.emit_answer(0, "second").await;
    run.complete("second");
    assert_eq!(answer.await.unwrap().session(), one.session());

    // Clients rewrite the history: blocks for strings, whitespace trimmed or added, split messages.
    let three = ModelApiRequest::new([
        json!({"role": "user", "content": [{"type": "text", "text": " one\n"}]}),
        assistant("first "),
        json!({"role": "user", "content": [{"type": "text", "text": "tw"}, {"type": "text", "text": "o"}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "second"}]}),
        user("three"),
    ]);
    let answer = stage.send(&three.streamed());
    let run = stage.run().await;
    assert_eq!(input_text(&run), "three");
    run.emit_answer(0, "third").await;
    run.complete("third");
    let answer = answer.await.unwrap();
    assert_eq!(answer.streamed(), "third");
    assert_eq!(answer.session(), one.session());
    assert_eq!(answer.trailers["x-angelia-status"], "completed");
    assert_eq!(stage.agents_opened(), 1);
}

#[tokio::test]
async fn what_is_regenerated_branches_with_true_roles() {
    let stage = ModelApiHarness::new();
    let one = stage.run_turn(&ModelApiRequest::new([user("one")]), "first").await;
    let two = ModelApiRequest::new([user("one"), assistant("first"), user("two")]);
    let second = stage.run_turn(&two, "second").await;
    assert_eq!(second.session(), one.session());

    let answer = stage.send(&two);
    let run = stage.run().await;
    assert_eq!(format_history(&run.spec.history), ["user: one", "assistant: first"]);
    assert_eq!(input_text(&run), "two");
    run.complete("another second");
    let branch = answer.await.unwrap();
    assert_ne!(branch.session(), one.session());

    // Both branches continue, each in its own session.
    let on = |second: &str| {
        ModelApiRequest::new([
            user("one"),
            assistant("first"),
            user("two"),
            assistant(second),
            user("3"),
        ])
    };
    let left = stage.run_turn(&on("second"), "left").await;
    assert_eq!(left.session(), one.session());
    let right = stage.run_turn(&on("another second"), "right").await;
    assert_eq!(right.session(), branch.session());
    assert_eq!(stage.agents_opened(), 2);
}

#[tokio::test]
async fn a_foreign_history_is_carried_and_an_edited_one_too() {
    let stage = ModelApiHarness::new();
    let foreign =
        ModelApiRequest::new([user("a"), assistant("b"), user("c"), assistant("d"), user("e")]);
    let answer = stage.send(&foreign);
    let run = stage.run().await;
    let history = ["user: a", "assistant: b", "user: c", "assistant: d"];
    assert_eq!(format_history(&run.spec.history), history);
    assert_eq!(input_text(&run), "e");
    run.complete("f");
    let first = answer.await.unwrap();

    let edited =
        ModelApiRequest::new([user("a"), assistant("B!"), user("c"), assistant("d"), user("e")]);
    let second = stage.run_turn(&edited, "f").await;
    assert_ne!(first.session(), second.session());
}

#[tokio::test]
async fn callers_never_share_and_an_empty_history_never_matches() {
    let stage = ModelApiHarness::with_settings(
        |models| {
            models.keys =
                vec![key("a", "key-a", full_grant()), key("b", "key-b", full_grant())].into();
        },
        angelia_core::engine::EngineLimits::default(),
    );
    let begin = ModelApiRequest::new([user("one")]);
    let a = stage.run_turn(&begin.clone().with_token("key-a"), "first").await;
    let again = stage.run_turn(&begin.clone().with_token("key-a"), "first").await;
    assert_ne!(a.session(), again.session());
    let go_on = ModelApiRequest::new([user("one"), assistant("first"), user("two")]);
    let b = stage.run_turn(&go_on.clone().with_token("key-b"), "second").await;
    assert!(![a.session(), again.session()].contains(&b.session()));
    let owner = stage.run_turn(&go_on.clone(), "second").await;
    assert_ne!(owner.session(), b.session());
    // Of equal matches, the most recent session is used.
    let a2 = stage.run_turn(&go_on.with_token("key-a"), "second").await;
    assert_eq!(a2.session(), again.session());
}

#[tokio::test]
async fn names_of_conversations_narrow_the_search() {
    let stage = ModelApiHarness::new();
    let begin = ModelApiRequest::new([user("one")]);
    let go_on = ModelApiRequest::new([user("one"), assistant("first"), user("two")]);
    for header in [
        "x-arch-claude-cli-session",
        "x-claude-code-session-id",
        "session-id",
        "thread-id",
        "x-openwebui-chat-id",
    ] {
        let a = stage.run_turn(&begin.clone().header(header, "a"), "first").await;
        let b = stage.run_turn(&begin.clone().header(header, "b"), "first").await;
        let a2 = stage.run_turn(&go_on.clone().header(header, "a"), "2a").await;
        let b2 = stage.run_turn(&go_on.clone().header(header, "b"), "2b").await;
        assert_eq!((a.session(), b.session()), (a2.session(), b2.session()), "{header}");
    }
}

#[tokio::test]
async fn a_named_session_without_a_history_takes_the_next_turn() {
    let stage = ModelApiHarness::new();
    let named =
        |text: &str| ModelApiRequest::new([user(text)]).header("x-angelia-session", "my chat");
    let one = stage.run_turn(&named("one"), "first").await;
    let answer = stage.send(&named("two"));
    let run = stage.run().await;
    assert_eq!(input_text(&run), "two");
    run.complete("second");
    assert_eq!(answer.await.unwrap().session(), one.session());
    // Our own session id works as well.
    let by_id = ModelApiRequest::new([user("three")]).header("x-angelia-session", one.session());
    let three = stage.run_turn(&by_id, "third").await;
    assert_eq!(three.session(), one.session());
    let nobody = ModelApiRequest::new([user("x")])
        .header("x-angelia-session", &uuid::Uuid::nil().to_string());
    assert_eq!(stage.send_and_wait(&nobody).await.status, 404);
    assert_eq!(stage.agents_opened(), 1);
}

#[tokio::test]
async fn another_prompt_restarts_the_process_on_the_same_history() {
    let stage = ModelApiHarness::new();
    let system = |text: &str| json!({"role": "system", "content": text});
    let mut messages = vec![user("one")];
    let mut session = None;
    // Twice, because a history that was carried once must not be sent twice.
    for (prompt, says) in [("be brief", "1st"), ("be long", "2nd"), ("be loud", "3rd")] {
        let ask = ModelApiRequest::new([vec![system(prompt)], messages.clone()].concat());
        let answer = stage.send(&ask);
        let run = stage.run().await;
        assert_eq!(run.spec.system, SystemPrompt::Replace(prompt.into()));
        assert_eq!(run.spec.history.len(), messages.len() - 1);
        run.emit_answer(0, says).await;
        run.complete(says);
        let answer = answer.await.unwrap();
        let session = session.get_or_insert_with(|| answer.session().to_owned());
        assert_eq!(answer.session(), session, "the session is the same");
        messages.extend([assistant(says), user("and?")]);
    }
    assert_eq!(stage.agents_opened(), 3);
}

#[tokio::test]
async fn another_prompt_for_a_conversation_that_is_only_named_tells_it_whole() {
    let stage = ModelApiHarness::new();
    let system = |text: &str| json!({"role": "system", "content": text});
    let foreign = ModelApiRequest::new([user("zero"), assistant("0th"), user("one")]);
    let session = stage.run_turn(&foreign, "1st").await.session().to_owned();
    let mut told_so_far = vec![
        "user: zero".to_owned(),
        "assistant: 0th".to_owned(),
        "user: one".to_owned(),
        "assistant: 1st".to_owned(),
    ];
    for (prompt, asks, says) in [("be brief", "two", "2nd"), ("be loud", "three", "3rd")] {
        let ask = ModelApiRequest::new([system(prompt), user(asks)])
            .header("x-angelia-session", &session);
        let answer = stage.send(&ask);
        let run = stage.run().await;
        assert_eq!(format_history(&run.spec.history), told_so_far);
        assert_eq!(input_text(&run), asks);
        run.emit_answer(0, says).await;
        run.complete(says);
        assert_eq!(answer.await.unwrap().session(), session);
        told_so_far.extend([format!("user: {asks}"), format!("assistant: {says}")]);
    }
}

#[tokio::test]
async fn a_response_is_continued_by_its_name() {
    let stage = ModelApiHarness::new();
    let one = ModelApiRequest::responses(json!({"model": "puppet/wood", "input": "one"}));
    let first = stage.run_turn(&one, "first").await;
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let next = |text: &str| {
        ModelApiRequest::responses(
            json!({"model": "puppet/wood", "input": text, "previous_response_id": id}),
        )
    };
    let answer = stage.send(&next("two"));
    let run = stage.run().await;
    assert_eq!(input_text(&run), "two");
    run.emit_answer(0, "second").await;
    run.complete("second");
    assert_eq!(answer.await.unwrap().session(), first.session());
    assert_eq!(stage.agents_opened(), 1);

    // Continuing from the first response again makes a branch.
    let answer = stage.send(&next("another two"));
    let run = stage.run().await;
    assert_eq!(format_history(&run.spec.history), ["user: one", "assistant: first"]);
    assert_eq!(input_text(&run), "another two");
    run.complete("x");
    assert_ne!(answer.await.unwrap().session(), first.session());
    let unknown = next("x").with("previous_response_id", "resp_00000000000000000000000000000000");
    assert_eq!(stage.send_and_wait(&unknown).await.status, 404);
}

/// A client may send several texts of one answer back as one, with or without a blank line between
/// them.
#[tokio::test]
async fn an_answer_in_several_texts_is_found_again() {
    for stream in [false, true] {
        for joined in ["I look.\n\nFound.", "I look.Found."] {
            let stage = ModelApiHarness::new();
            let answer = stage.send(&ModelApiRequest::new([user("one")]).with("stream", stream));
            let run = stage.run().await;
            run.emit_answer(0, "I look.").await;
            run.emit_answer(1, "Found.").await;
            run.complete("Found.");
            let first = answer.await.unwrap();
            let said = if stream { first.streamed() } else { first.content() };
            assert_eq!(said, "I look.\n\nFound.");
            let next = ModelApiRequest::new([user("one"), assistant(joined), user("two")]);
            let second = stage.run_turn(&next, "yes").await;
            assert_eq!(first.session(), second.session(), "{joined:?}");
        }
    }
}
