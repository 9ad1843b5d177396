//! Conversations that outlive their process: resumed, copied, forgotten.

use super::{
    ExecutorFixture, says,
    session::{open, resume, try_open},
};

const FIRST: &str = "said in the first process";

pub async fn a_conversation_is_resumed_by_the_next_process(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let mut session = open(fixture, &spec).await;
    let first = session.say(fixture.say(FIRST)).await;
    session.close().await;
    assert_ne!(fixture.has_record(&first.native()), Some(false));

    let mut session = resume(fixture, &spec, &first.native()).await;
    let second = session.say(fixture.say("said in the second")).await;
    assert!(second.answer().contains("said in the second"));
    if fixture.executor().capabilities().resume {
        assert!(second.started().resumed, "{:?}", second.started());
        assert_eq!(second.native(), first.native());
        assert!(second.notices().is_empty(), "{:?}", second.notices());
        assert!(fixture.told().is_none_or(|told| says(&told, FIRST)));
    } else {
        assert!(!second.started().resumed, "{:?}", second.started());
    }
    session.close().await;

    // With resuming switched off, every process starts a new conversation.
    let mut fresh = spec.clone();
    fresh.resume = false;
    let mut session = resume(fixture, &fresh, &first.native()).await;
    let third = session.say(fixture.say("said in the third")).await;
    assert!(!third.started().resumed);
    assert_ne!(third.native(), first.native());
    assert!(!fixture.told().is_some_and(|told| says(&told, FIRST)));
    session.close().await;
}

pub async fn a_copy_goes_its_own_way(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let executor = fixture.executor();
    let mut session = open(fixture, &spec).await;
    let native = session.say(fixture.say(FIRST)).await.native();
    let copy = executor.fork(&spec, &native).await;
    if !executor.capabilities().fork {
        assert!(copy.is_err(), "it says that it cannot: {copy:?}");
        session.close().await;
        return;
    }
    let copy = copy.unwrap();
    assert_ne!(copy, native);
    assert_ne!(fixture.has_record(&copy), Some(false));

    // The original continues, in the process that has been running all the while.
    let went_on = session.say(fixture.say("only in the original")).await;
    assert_eq!(went_on.native(), native);
    session.close().await;

    let mut session = resume(fixture, &spec, &copy).await;
    let heard = session.say(fixture.say("only in the copy")).await;
    assert!(heard.answer().contains("only in the copy"));
    assert_eq!(heard.native(), copy);
    if let Some(told) = fixture.told() {
        assert!(says(&told, FIRST));
        assert!(!says(&told, "only in the original"));
    }
    session.close().await;

    let mut session = resume(fixture, &spec, &native).await;
    let heard = session.say(fixture.say("the original again")).await;
    assert_eq!(heard.native(), native);
    if let Some(told) = fixture.told() {
        assert!(says(&told, "only in the original"));
        assert!(!says(&told, "only in the copy"));
    }
    session.close().await;
}

pub async fn a_forgotten_conversation_is_gone(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let executor = fixture.executor();
    let mut session = open(fixture, &spec).await;
    let native = session.say(fixture.say(FIRST)).await.native();
    session.close().await;
    let kept = fixture.has_record(&native);
    executor.forget(&spec, &native).await.unwrap();
    assert_ne!(fixture.has_record(&native), Some(true));
    // Forgetting twice is not an error.
    executor.forget(&spec, &native).await.unwrap();

    // The agent may refuse to resume or start a new conversation; it must not hang, and must not
    // pretend to have resumed.
    let Ok(mut session) = try_open(fixture, &spec, Some(&native)).await else {
        return;
    };
    let heard = session.say(fixture.say("said afterwards")).await;
    assert!(heard.answer().contains("said afterwards"));
    if kept.is_some() {
        assert!(!heard.started().resumed, "{heard:#?}");
        assert_ne!(heard.native(), native);
        assert!(!heard.notices().is_empty(), "it says so: {heard:#?}");
    }
    assert!(!fixture.told().is_some_and(|told| says(&told, FIRST)));
    session.close().await;
}
