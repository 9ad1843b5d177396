//! An interrupt ends the turn at once, whatever the loop is waiting for.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use angelia_core::{
    model::{Content, EventKind, SessionSpec, TurnStatus},
    ports::{AgentEvent, TurnControl},
};
use angelia_executors::scripted_model::{Fault, Reply};
use angelia_testkit::direct_session::{TurnHandle, TurnOutput, wait_until};

use crate::loop_lab::{LoopLab, bash, calls, in_each_api};

/// The goal is 100 ms on a quiet machine; the benchmark measures it. A turn that waits for a timeout
/// takes much longer than this.
const LIMIT: Duration = Duration::from_secs(3);

/// Interrupts the turn as soon as the condition holds, and asserts that it ends soon after.
async fn interrupt_when(
    lab: &LoopLab,
    reply: Reply,
    condition: impl Fn(&LoopLab) -> bool + Send,
) -> TurnOutput {
    interrupt_session_when(lab, &lab.spec(), reply, condition).await
}

/// Like [`interrupt_when`], in a session with this specification.
pub(crate) async fn interrupt_session_when(
    lab: &LoopLab,
    spec: &SessionSpec,
    reply: Reply,
    condition: impl Fn(&LoopLab) -> bool + Send,
) -> TurnOutput {
    let asked = lab.server.model_requests().len();
    lab.server.script([reply]);
    let mut session = lab.open_with(spec).await;
    let hands: Arc<OnceLock<TurnHandle>> = Arc::default();
    let known = Arc::clone(&hands);
    let watch = move |_: &AgentEvent, hands: &TurnHandle| {
        let _known = known.set(hands.clone());
    };
    let running = session.prompt_watched("go on", watch);
    let cancelling = async {
        let holds = || lab.server.model_requests().len() > asked && condition(lab);
        wait_until("the turn is where it is interrupted", || hands.get().is_some() && holds())
            .await;
        let begun = Instant::now();
        hands.get().unwrap().cancel.cancel();
        begun
    };
    let (output, cancelled_at) = tokio::join!(
        async {
            let output = running.await;
            (output, Instant::now())
        },
        cancelling
    );
    let (output, ended_at) = output;
    assert!(matches!(output.outcome.status, TurnStatus::Interrupted), "{output:#?}");
    let took = ended_at.duration_since(cancelled_at);
    assert!(took < LIMIT, "it took {took:?}");
    // The session goes on.
    lab.server.script([Reply::text("still here")]);
    assert_eq!(session.prompt("and then").await.answer(), "still here");
    session.close().await;
    output
}

#[tokio::test]
async fn in_every_kind_of_stalled_answer() {
    in_each_api(async |lab| {
        for fault in [Fault::HangHeaders, Fault::HangBody, Fault::KeepAlives] {
            interrupt_when(&lab, Reply::fault(fault), |_| true).await;
        }
    })
    .await;
}

#[tokio::test]
async fn while_it_waits_for_a_rate_limit() {
    in_each_api(async |lab| {
        let limit = Reply::status(429).with_header("retry-after", "50");
        interrupt_when(&lab, limit, |_| true).await;
    })
    .await;
}

#[tokio::test]
async fn while_a_command_runs_and_every_open_call_gets_a_result() {
    in_each_api(async |lab| {
        let two = calls([bash("touch running; exec sleep 60"), bash("echo never >> runs")]);
        let running = |lab: &LoopLab| lab.place.isolated.work_dir().join("running").exists();
        let output = interrupt_when(&lab, two, running).await;
        let results = output.tool_results();
        // The second call was never begun, so viewers have not seen it.
        assert_eq!((output.tool_calls().len(), results.len()), (1, 1), "{output:#?}");
        assert!(!results[0].ok, "{output:#?}");
        assert_eq!(lab.runs(), 0);
        // The model is told what became of both.
        assert_eq!(lab.last_request().results().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn words_that_were_not_delivered_are_given_back() {
    in_each_api(async |lab| {
        lab.server.script([Reply::fault(Fault::HangBody)]);
        let mut session = lab.open().await;
        let watch = |event: &AgentEvent, hands: &TurnHandle| {
            if matches!(event, AgentEvent::Event(EventKind::Delta { .. })) {
                hands.send_control(TurnControl::Steer(vec![Content::text("by the way")]));
                hands.cancel.cancel();
            }
        };
        let output = session.prompt_watched("go on", watch).await;
        let given_back = output
            .notices()
            .iter()
            .any(|notice| &*notice.code == "undelivered" && notice.text.contains("by the way"));
        assert!(given_back, "{output:#?}");
        session.close().await;
    })
    .await;
}
