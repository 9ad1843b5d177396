//! Plain turns: several on one process, interrupts, images, work in the background.

use std::time::{Duration, Instant};

use angelia_core::{
    model::{Content, EventKind, TurnOrigin, TurnStatus},
    ports::{Activity, AgentEvent},
};
use angelia_testkit::model_server::{DEFAULT_TEXT, Fault, Reply};
use serde_json::json;

use crate::harness::{call, on_both};

pub(crate) fn is_delta(emitted: &AgentEvent) -> bool {
    matches!(emitted, AgentEvent::Event(EventKind::Delta { .. }))
}

#[tokio::test]
async fn real_two_turns_on_one_process() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let first = session.prompt("hello").await;
        assert_eq!(first.answer(), DEFAULT_TEXT);
        assert_eq!(first.deltas(), DEFAULT_TEXT);
        let started = first.started();
        assert_eq!(&*started.profile, "default");
        assert!(!started.resumed && !started.warm);
        assert!(started.model.as_deref().unwrap().contains("sonnet"));

        let second = session.prompt("WORDS:5:2").await;
        assert_eq!(second.answer().trim(), "w0 w1 w2 w3 w4");
        assert_eq!(second.deltas().trim(), "w0 w1 w2 w3 w4");
        assert_eq!(second.native_session_id(), first.native_session_id(), "the same conversation");
        assert!(session.agent.is_usable());
        session.close().await;
        assert_eq!(lab.server.model_requests().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn real_words_of_any_length_and_kind_arrive_as_they_are() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let odd = "ECHO:$(rm -rf x) `y` \"z\" 'w' %PATH% !! \\ & | ; > < \u{2028} ✓ \r\n\t end";
        session.prompt(odd).await.answer();
        let request = lab.last_request().to_string();
        assert!(request.contains(&*json!(odd).to_string()), "{request}");
        let long = format!("ECHO:done {}", "0123456789abcdef".repeat(20_000));
        let heard = session.prompt(&long).await;
        assert!(heard.answer().starts_with("done 0123"));
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_an_image_arrives() {
    const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\
        \x15\xc4\x89\0\0\0\rIDATx\xdacd`\xf8_\x0f\0\x02\x87\x01\x80\xeb\x47\xba\x92\0\0\0\0IEND\
        \xaeB`\x82";
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let image = Content::Image { media_type: "image/png".into(), data: PIXEL.into() };
        let input = vec![Content::text("ECHO:seen"), image];
        let heard = session.turn(TurnOrigin::Owner, input, Box::new(|_, _| {})).await;
        assert_eq!(heard.answer(), "seen");
        let request = lab.last_request().to_string();
        assert!(request.contains(r#""media_type":"image/png""#), "{request}");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_an_interrupted_process_takes_the_next_turn() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let heard = session
            .prompt_watched("WORDS:1000:20", |emitted, hands| {
                if is_delta(emitted) {
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
        assert!(heard.deltas().starts_with("w0"));
        assert!(session.agent.is_usable());
        assert_eq!(session.prompt("ECHO:again").await.answer(), "again");

        // An interrupt also works before the model has answered anything.
        for fault in [Fault::HangHeaders, Fault::HangBody] {
            lab.server.script([Reply::fault(fault)]);
            let seen = lab.server.model_requests().len();
            let began = Instant::now();
            let heard = session
                .prompt_watched("hello", |emitted, hands| {
                    if matches!(emitted, AgentEvent::Event(EventKind::Started(_))) {
                        hands.cancel.cancel();
                    }
                })
                .await;
            assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
            assert!(began.elapsed() < Duration::from_secs(5), "{seen}");
            assert!(session.agent.is_usable());
        }
        lab.server.script([]);
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_turn_goes_on_while_its_work_does() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let input = json!({"command": "sleep 1; echo in the background > made-late.txt",
            "description": "write later", "run_in_background": true});
        let heard = session
            .prompt_watched(&call("Bash", &input), |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    hands.decide(request, angelia_core::model::Verdict::Once);
                }
            })
            .await;
        heard.answer();
        let in_background = (heard.agent_events.iter())
            .any(|one| matches!(one, AgentEvent::Activity(Activity::Background)));
        assert!(in_background, "{heard:#?}");
        assert!(lab.place.work_dir().join("made-late.txt").exists());
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_work_in_the_background_is_stopped_and_the_answer_stands() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let input = json!({"command": "timeout 40 tail -f /dev/null",
            "description": "wait", "run_in_background": true});
        let began = Instant::now();
        let heard = session
            .prompt_watched(&call("Bash", &input), |emitted, hands| match emitted {
                AgentEvent::ApprovalRequest(request) => {
                    hands.decide(request, angelia_core::model::Verdict::Once);
                }
                // The engine does the same when the background grace is over.
                AgentEvent::Activity(Activity::Background) => hands.cancel.cancel(),
                _ => {}
            })
            .await;
        heard.answer();
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_words_reach_a_running_turn() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let input = json!({"command": "sleep 2; echo slept", "description": "wait a little"});
        let heard = session
            .prompt_watched(&call("Bash", &input), |emitted, hands| match emitted {
                AgentEvent::ApprovalRequest(request) => {
                    hands.decide(request, angelia_core::model::Verdict::Once);
                }
                AgentEvent::Event(EventKind::ToolCall(_)) => {
                    let words = vec![Content::text("and also STEERED")];
                    hands.send_control(angelia_core::ports::TurnControl::Steer(words));
                }
                _ => {}
            })
            .await;
        heard.answer();
        assert!(lab.last_request().to_string().contains("and also STEERED"));
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}
