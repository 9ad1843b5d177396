//! Conversations that outlive their process: resumed, copied, forgotten.

use super::{
    ExecutorFixture, json_contains_text,
    session::{open, resume, try_open},
};

const FIRST: &str = "said in the first process";

pub async fn a_conversation_is_resumed_by_the_next_process(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let mut session = open(fixture, &spec).await;
    let first = session.prompt(fixture.say_prompt(FIRST)).await;
    session.close().await;
    assert_ne!(fixture.has_record(&first.native_session_id()), Some(false));

    let mut session = resume(fixture, &spec, &first.native_session_id()).await;
    let second = session.prompt(fixture.say_prompt("said in the second")).await;
    assert!(second.answer_or_blocks().contains("said in the second"));
    if fixture.executor().capabilities().resume {
        assert!(second.started().resumed, "{:?}", second.started());
        assert_eq!(second.native_session_id(), first.native_session_id());
        assert!(second.notices().is_empty(), "{:?}", second.notices());
        assert!(fixture.last_model_request().is_none_or(|told| json_contains_text(&told, FIRST)));
    } else {
        assert!(!second.started().resumed, "{:?}", second.started());
    }
    session.close().await;

    // With resuming switched off, every process starts a new conversation.
    let mut fresh = spec.clone();
    fresh.resume = false;
    let mut session = resume(fixture, &fresh, &first.native_session_id()).await;
    let third = session.prompt(fixture.say_prompt("said in the third")).await;
    assert!(!third.started().resumed);
    assert_ne!(third.native_session_id(), first.native_session_id());
    assert!(!fixture.last_model_request().is_some_and(|told| json_contains_text(&told, FIRST)));
    session.close().await;
}

pub async fn a_copy_goes_its_own_way(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let executor = fixture.executor();
    let mut session = open(fixture, &spec).await;
    let native = session.prompt(fixture.say_prompt(FIRST)).await.native_session_id();
    let copy = executor.fork(&spec, &native).await;
    if !executor.capabilities().fork {
        assert!(copy.is_err(), "it says that it cannot: {copy:?}");
        session.close().await;
        return;
    }
    let copy = copy.unwrap();
    assert_ne!(copy, native);
    assert_ne!(fixture.has_record(&copy), Some(false));

    // The original continues in the process that has been running all along.
    let went_on = session.prompt(fixture.say_prompt("only in the original")).await;
    assert_eq!(went_on.native_session_id(), native);
    session.close().await;

    let mut session = resume(fixture, &spec, &copy).await;
    let heard = session.prompt(fixture.say_prompt("only in the copy")).await;
    assert!(heard.answer_or_blocks().contains("only in the copy"));
    assert_eq!(heard.native_session_id(), copy);
    if let Some(told) = fixture.last_model_request() {
        assert!(json_contains_text(&told, FIRST));
        assert!(!json_contains_text(&told, "only in the original"));
    }
    session.close().await;

    let mut session = resume(fixture, &spec, &native).await;
    let heard = session.prompt(fixture.say_prompt("the original again")).await;
    assert_eq!(heard.native_session_id(), native);
    if let Some(told) = fixture.last_model_request() {
        assert!(json_contains_text(&told, "only in the original"));
        assert!(!json_contains_text(&told, "only in the copy"));
    }
    session.close().await;
}

pub async fn a_forgotten_conversation_is_gone(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let executor = fixture.executor();
    let mut session = open(fixture, &spec).await;
    let native = session.prompt(fixture.say_prompt(FIRST)).await.native_session_id();
    session.close().await;
    let kept = fixture.has_record(&native);
    executor.delete_conversation(&spec, &native).await.unwrap();
    assert_ne!(fixture.has_record(&native), Some(true));
    // Forgetting twice is not an error.
    executor.delete_conversation(&spec, &native).await.unwrap();

    // The agent may refuse to resume or start a new conversation; it must not hang, and must not
    // pretend to have resumed.
    let Ok(mut session) = try_open(fixture, &spec, Some(&native)).await else {
        return;
    };
    let heard = session.prompt(fixture.say_prompt("said afterwards")).await;
    assert!(heard.answer_or_blocks().contains("said afterwards"));
    if kept.is_some() {
        assert!(!heard.started().resumed, "{heard:#?}");
        assert_ne!(heard.native_session_id(), native);
        assert!(!heard.notices().is_empty(), "it says so: {heard:#?}");
    }
    assert!(!fixture.last_model_request().is_some_and(|told| json_contains_text(&told, FIRST)));
    session.close().await;
}
