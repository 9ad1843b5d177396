//! Plain turns: the order of events, and whether texts arrive unchanged.

use std::time::Duration;

use angelia_core::model::{Content, EventKind, TurnOrigin, TurnStatus};

use super::{
    ExecutorFixture, json_contains_text,
    processes::agent_pids,
    session::{TurnSettings, open},
};

const MEBIBYTE: usize = 1 << 20;

/// Text that a shell, a terminal, JSON or a line-based protocol might misinterpret.
const UNUSUAL_TEXT: &str =
    "quotes \" ' ` and \\ \\n \\\" \\u0041 and {\"a\":[1]} </user> --flag ${HOME} %PATH%
    $(rm -rf x) & | ; > < !! \n\n lines \r\n\ttabbed \r returned \u{b}\u{c}
    controls \u{1}\u{2}\u{7}\u{8}\u{1b}[31mred\u{1b}[0m\u{1f}\u{7f}\u{80}\u{9f}
    αβγ 漢字 🦜👩‍👩‍👧 e\u{301} \u{200b}\u{2028}\u{2029}\u{feff}\u{fffd}\u{10ffff} end";

pub async fn it_is_installed_and_says_which_version(fixture: &impl ExecutorFixture) {
    let health = fixture.executor().probe(&fixture.spec()).await;
    assert!(health.is_ready(), "{health:#?}");
    let installed = health.installation.unwrap();
    assert!(!installed.version.is_empty(), "{installed:?}");
    // An executor without a program reports an address instead of a path.
    if fixture.has_process() {
        assert!(installed.path.is_absolute(), "{installed:?}");
        assert!(installed.version.contains(|c: char| c.is_ascii_digit()), "{installed:?}");
    }
    assert!(!fixture.executor().name().is_empty());
}

pub async fn a_turn_starts_speaks_and_ends_and_so_does_the_next(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let mut session = open(fixture, &spec).await;
    let before = agent_pids(fixture);
    let first = session.prompt(fixture.words_prompt(20, Duration::from_millis(2))).await;
    let answer = first.answer_or_blocks();
    assert_eq!(answer.split_whitespace().count(), 20, "{answer}");
    assert_eq!(first.deltas().trim(), answer.trim());
    assert_eq!(first.blocks().concat().trim(), answer.trim());
    let event = first.events().next();
    assert!(matches!(event, Some(EventKind::Started(_))), "{first:#?}");
    let started = first.started();
    assert_eq!(*started.executor, *fixture.executor().name());
    assert_eq!(started.profile, spec.profile);
    assert!(started.model.is_some() && started.native_session_id.is_some());
    assert!(!started.resumed && !started.warm, "{started:?}");
    assert!(session.is_usable());

    let second = session.prompt(fixture.say_prompt("the second turn")).await;
    assert!(second.answer_or_blocks().contains("the second turn"));
    assert_eq!(second.native_session_id(), first.native_session_id());
    assert!(session.is_usable());
    assert_eq!(agent_pids(fixture), before, "one process for both");
    let remembered =
        fixture.last_model_request().is_none_or(|told| json_contains_text(&told, answer.trim()));
    assert!(remembered, "{second:#?}");
    session.close().await;
}

pub async fn two_agents_do_not_mix(fixture: &impl ExecutorFixture) {
    let spec = fixture.spec();
    let (mut one, mut two) = tokio::join!(open(fixture, &spec), open(fixture, &spec));
    let (heard, other) = tokio::join!(
        one.prompt_watched(fixture.words_prompt(2_000, Duration::from_millis(20)), async |view| {
            view.until_delta().await;
            view.cancel();
        }),
        two.prompt(fixture.words_prompt(40, Duration::from_millis(5))),
    );
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
    assert_eq!(other.answer_or_blocks().split_whitespace().count(), 40);
    assert_ne!(heard.native_session_id(), other.native_session_id());
    one.close().await;
    assert!(two.is_usable());
    let again = two.prompt(fixture.say_prompt("still here")).await;
    assert!(again.answer_or_blocks().contains("still here"));
    assert_eq!(again.native_session_id(), other.native_session_id());
    two.close().await;
}

pub async fn text_arrives_byte_for_byte_and_whole(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    for origin in [TurnOrigin::Owner, TurnOrigin::Remote] {
        let input = vec![Content::text(fixture.say_prompt(UNUSUAL_TEXT))];
        let manner = TurnSettings { origin, ..TurnSettings::default() };
        let heard = session.turn(input, manner, async |_| {}).await;
        let answer = heard.answer_or_blocks();
        assert!(fixture.reached_agent(UNUSUAL_TEXT, &answer), "by {origin:?}: {answer:?}");
    }

    let mut long = String::new();
    while long.len() < MEBIBYTE {
        let line = format!("{} bytes so far\n", long.len());
        long.push_str(&line);
    }
    long.push_str("end");
    let heard = session.prompt(fixture.say_prompt(&long)).await;
    let answer = heard.answer_or_blocks();
    assert!(fixture.reached_agent(&long, &answer), "{} bytes", answer.len());
    session.close().await;
}
