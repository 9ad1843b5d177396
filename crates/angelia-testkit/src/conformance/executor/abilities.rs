//! Capabilities: an executor does what it claims to support. A capability that it does not claim is
//! not checked.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        CallerTool, Content, EventKind, Message, Mode, Part, RawJson, Role, SystemPrompt, Verdict,
    },
    ports::{Emitted, TurnControl},
};
use serde_json::{Value, json};

use super::{
    ExecutorFixture, says,
    session::{Manner, Session, View, open},
};

const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\
    \x89\0\0\0\rIDATx\xdacd`\xf8_\x0f\0\x02\x87\x01\x80\xeb\x47\xba\x92\0\0\0\0IEND\xaeB`\x82";

/// The beginning of the image's bytes in base64.
const PIXEL_BEGINS: &str = "iVBORw0KGgo";

fn raw(value: &Value) -> RawJson {
    serde_json::value::to_raw_value(value).unwrap().into()
}

/// Panics if the last model request does not contain the text. Does nothing where the fixture
/// cannot see the requests.
fn assert_told(fixture: &impl ExecutorFixture, text: &str) {
    if let Some(told) = fixture.told() {
        assert!(says(&told, text), "{text} is not in {told:#}");
    }
}

pub async fn images_and_an_added_prompt_reach_the_model(fixture: &impl ExecutorFixture) {
    let can = fixture.executor().capabilities();
    let mut spec = fixture.spec();
    if can.append_prompt {
        spec.system = SystemPrompt::Append("MARK-OF-THE-ADDED-PROMPT".into());
    }
    let mut input = vec![Content::text(fixture.say("seen"))];
    if can.images {
        input.push(Content::Image { media_type: "image/png".into(), data: PIXEL.into() });
    }
    let mut session = open(fixture, &spec).await;
    let heard = session.turn(input, Manner::default(), async |_| {}).await;
    assert!(heard.answer().contains("seen"), "{heard:#?}");
    if can.append_prompt {
        assert_told(fixture, "MARK-OF-THE-ADDED-PROMPT");
    }
    if can.images {
        assert_told(fixture, PIXEL_BEGINS);
    }
    session.close().await;
}

pub async fn model_mode_has_the_callers_prompt_and_tools_and_nothing_else(
    fixture: &impl ExecutorFixture,
) {
    let can = fixture.executor().capabilities();
    let mut spec = fixture.spec();
    let path = spec.cwd.join("made-in-model-mode");
    if can.model_mode {
        spec.mode = Mode::Model;
    }
    if can.replace_prompt {
        spec.system = SystemPrompt::Replace("MARK-OF-THE-ONLY-PROMPT".into());
    }
    if can.caller_tools {
        spec.caller_tools.push(CallerTool {
            name: "lookup".into(),
            description: "MARK-OF-THE-TOOL".into(),
            input_schema: raw(&json!({"type": "object", "properties": {}})),
        });
    }
    let mut session = open(fixture, &spec).await;
    let heard = session.say(fixture.say("a word")).await;
    assert!(heard.answer().contains("a word"));
    if can.replace_prompt {
        assert_told(fixture, "MARK-OF-THE-ONLY-PROMPT");
    }
    if can.caller_tools {
        assert_told(fixture, "MARK-OF-THE-TOOL");
        call_lookup(fixture, &mut session).await;
    }
    if can.model_mode {
        // Even if every approval request is allowed, the command must have no effect.
        let prompt = fixture.ask(&format!("mkdir {}", path.display()));
        session.decided(prompt, Verdict::Once).await.answer();
        assert!(!path.exists());
    }
    session.close().await;
}

async fn call_lookup(fixture: &impl ExecutorFixture, session: &mut Session) {
    let viewer = async |view: &mut View| {
        let call = view.until(|one| match one {
            Emitted::Event(EventKind::ToolCall(call)) => Some(call),
            _ => None,
        });
        let call = call.await;
        assert_eq!(&*call.name, "lookup", "by the caller's name");
        let content = vec![Content::text("FOUND-BY-THE-CALLER")];
        let (id, ok) = (call.id, true);
        view.tell(TurnControl::ToolResult { id, ok, content }).await;
    };
    let prompt = fixture.call("lookup").unwrap();
    let heard = session.watched(prompt, viewer).await;
    assert!(!heard.answer().is_empty());
    assert!(heard.asked().is_empty(), "the caller decides: {heard:#?}");
    let result = heard.tool_results()[0];
    assert!(result.ok && result.output.contains("FOUND-BY-THE-CALLER"));
    assert_told(fixture, "FOUND-BY-THE-CALLER");
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
    let heard = session.say(fixture.structured(&value).unwrap()).await;
    let answer: Value = serde_json::from_str(&heard.answer()).unwrap();
    assert_eq!(answer, value);
    session.close().await;
}

pub async fn a_carried_history_reaches_the_model(fixture: &impl ExecutorFixture) {
    if !fixture.executor().capabilities().carry_history {
        return;
    }
    let mut spec = fixture.spec();
    for (role, text) in [(Role::User, "carried question"), (Role::Assistant, "carried answer")] {
        let parts = vec![Part::Content(Content::text(text))];
        spec.history.push(Message { role, parts });
    }
    let mut session = open(fixture, &spec).await;
    let heard = session.say(fixture.say("a new word")).await;
    assert!(heard.answer().contains("a new word"));
    assert!(!heard.started().resumed, "it is not the agent's own");
    assert_told(fixture, "carried question");
    assert_told(fixture, "carried answer");
    session.close().await;
}

pub async fn words_reach_a_running_turn(fixture: &impl ExecutorFixture) {
    if !fixture.executor().capabilities().steer {
        return;
    }
    let mut session = open(fixture, &fixture.spec()).await;
    let viewer = async |view: &mut View| {
        let request = view.until_asked().await;
        let words = vec![Content::text("and also STEERED")];
        view.tell(TurnControl::Steer(words)).await;
        view.decide(&request, Verdict::Once).await;
    };
    let heard = session.watched(fixture.ask("mkdir steered"), viewer).await;
    assert!(!heard.answer().is_empty());
    assert_told(fixture, "and also STEERED");

    // These words come too late for the answer in progress, but not for the turn.
    let late: Arc<str> = fixture.say("the late words").into();
    let viewer = async |view: &mut View| {
        view.until_delta().await;
        let words = vec![Content::Text(late)];
        view.tell(TurnControl::Steer(words)).await;
    };
    let words = fixture.words(50, Duration::from_millis(15));
    let heard = session.watched(words, viewer).await;
    // An agent that cannot take late words says so; the words never become a turn of their own.
    let declined = heard
        .events()
        .any(|event| matches!(event, EventKind::Notice(notice) if &*notice.code == "not_steered"));
    if !declined {
        assert!(heard.deltas().contains("the late words"), "{heard:#?}");
        assert!(heard.answer().contains("the late words"), "{heard:#?}");
    }

    let heard = session.say(fixture.say("the next turn")).await;
    assert!(heard.answer().contains("the next turn"), "{heard:#?}");
    session.close().await;
}
