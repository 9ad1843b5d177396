//! Capabilities: an executor does what it claims to support. Capabilities that it does not claim
//! are not checked.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, EventKind, HistoryMessage, MessagePart, RawJson, Role, SystemPrompt, Verdict,
    },
    ports::TurnControl,
};
use serde_json::{Value, json};

use super::{
    ExecutorFixture, json_contains_text,
    session::{TurnSettings, TurnViewer, open},
};

const PIXEL_PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\
    \x89\0\0\0\rIDATx\xdacd`\xf8_\x0f\0\x02\x87\x01\x80\xeb\x47\xba\x92\0\0\0\0IEND\xaeB`\x82";

/// The beginning of the image's bytes in base64.
const PIXEL_BASE64_PREFIX: &str = "iVBORw0KGgo";

fn raw(value: &Value) -> RawJson {
    serde_json::value::to_raw_value(value).unwrap().into()
}

/// Panics if the last model request does not contain the text. Does nothing if the fixture cannot
/// see the requests.
fn assert_reached_model(fixture: &impl ExecutorFixture, text: &str) {
    if let Some(told) = fixture.last_model_request() {
        assert!(json_contains_text(&told, text), "{text} is not in {told:#}");
    }
}

pub async fn images_and_an_added_prompt_reach_the_model(fixture: &impl ExecutorFixture) {
    let can = fixture.executor().capabilities();
    let mut spec = fixture.spec();
    if can.append_prompt {
        spec.system = SystemPrompt::Append("MARK-OF-THE-ADDED-PROMPT".into());
    }
    let mut input = vec![Content::text(fixture.say_prompt("seen"))];
    if can.images {
        input.push(Content::Image { media_type: "image/png".into(), data: PIXEL_PNG.into() });
    }
    let mut session = open(fixture, &spec).await;
    let heard = session.turn(input, TurnSettings::default(), async |_| {}).await;
    assert!(heard.answer_or_blocks().contains("seen"), "{heard:#?}");
    if can.append_prompt {
        assert_reached_model(fixture, "MARK-OF-THE-ADDED-PROMPT");
    }
    if can.images {
        assert_reached_model(fixture, PIXEL_BASE64_PREFIX);
    }
    session.close().await;
}

pub async fn a_schema_is_kept(fixture: &impl ExecutorFixture) {
    if !fixture.executor().capabilities().output_schema {
        return;
    }
    let mut spec = fixture.spec();
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer"}}});
    spec.output_schema = Some(raw(&schema));
    let mut session = open(fixture, &spec).await;
    let value = json!({"a": 7});
    let heard = session.prompt(fixture.structured_prompt(&value).unwrap()).await;
    let answer: Value = serde_json::from_str(&heard.answer_or_blocks()).unwrap();
    assert_eq!(answer, value);
    session.close().await;
}

pub async fn a_carried_history_reaches_the_model(fixture: &impl ExecutorFixture) {
    if !fixture.executor().capabilities().carry_history {
        return;
    }
    let mut spec = fixture.spec();
    for (role, text) in [(Role::User, "carried question"), (Role::Assistant, "carried answer")] {
        let parts = vec![MessagePart::Content(Content::text(text))];
        spec.history.push(HistoryMessage { role, parts });
    }
    let mut session = open(fixture, &spec).await;
    let heard = session.prompt(fixture.say_prompt("a new word")).await;
    assert!(heard.answer_or_blocks().contains("a new word"));
    assert!(!heard.started().resumed, "it is not the agent's own");
    assert_reached_model(fixture, "carried question");
    assert_reached_model(fixture, "carried answer");
    session.close().await;
}

pub async fn words_reach_a_running_turn(fixture: &impl ExecutorFixture) {
    if !fixture.executor().capabilities().steer {
        return;
    }
    let mut session = open(fixture, &fixture.spec()).await;
    let viewer = async |view: &mut TurnViewer| {
        let request = view.until_approval_request().await;
        let words = vec![Content::text("and also STEERED")];
        view.send_control(TurnControl::Steer(words));
        view.decide(&request, Verdict::Once);
    };
    let heard = session.prompt_watched(fixture.approval_prompt("mkdir steered"), viewer).await;
    assert!(!heard.answer_or_blocks().is_empty());
    assert_reached_model(fixture, "and also STEERED");

    // These words arrive too late for the answer in progress, but not for the turn.
    let late: Arc<str> = fixture.say_prompt("the late words").into();
    let viewer = async |view: &mut TurnViewer| {
        view.until_delta().await;
        let words = vec![Content::Text(late)];
        view.send_control(TurnControl::Steer(words));
    };
    let words = fixture.words_prompt(50, Duration::from_millis(15));
    let heard = session.prompt_watched(words, viewer).await;
    // An agent that cannot accept late words says so; they never become a separate turn.
    let declined = heard
        .events()
        .any(|event| matches!(event, EventKind::Notice(notice) if &*notice.code == "not_steered"));
    if !declined {
        assert!(heard.deltas().contains("the late words"), "{heard:#?}");
        assert!(heard.answer_or_blocks().contains("the late words"), "{heard:#?}");
    }

    let heard = session.prompt(fixture.say_prompt("the next turn")).await;
    assert!(heard.answer_or_blocks().contains("the next turn"), "{heard:#?}");
    session.close().await;
}
