//! E17: a summary that cannot be had, and compactions that do not help.

use std::time::Duration;

use angelia_core::model::{SummaryFailurePolicy, TurnStatus};
use angelia_executors::scripted_model::{ApiError, Reply};
use serde_json::json;
use tokio::time::advance;

use crate::{
    compaction_lab::{
        SUMMARY, TRIGGER, answer, assert_paired, codes, in_small_windows, plain, prompt, sent,
        too_long, turn,
    },
    loop_lab::{bash, call, calls, detail_of},
};

const WORDS: &str = "no summaries today";

#[tokio::test(start_paused = true)]
async fn e17_a_failure_drops_nothing_and_is_not_repeated_soon() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        too_long(&lab, &mut session).await;
        let mut number = 8;
        for (cool_down, replies) in [
            (60, vec![Reply::status_with(400, WORDS)]),
            (300, vec![Reply::text("  \n")]),
            (900, vec![Reply::status_with(400, WORDS)]),
            (900, vec![Reply::status_with(400, WORDS)]),
        ] {
            number += 1;
            let replies = replies.into_iter().chain([answer(number, TRIGGER)]);
            let output = turn(&lab, &mut session, &prompt(number), replies).await;
            assert_eq!(output.answer(), format!("answer {number}."), "the turn goes on");
            assert_eq!(codes(&output), ["compacting", "compaction_failed"]);
            let detail = detail_of(&output, "compaction_failed");
            assert_eq!(detail["retry_after_seconds"], cool_down, "{detail}");
            let notices = output.notices();
            let failed = notices.iter().find(|one| &*one.code == "compaction_failed").unwrap();
            let words = if cool_down == 300 { "empty summary" } else { WORDS };
            assert!(failed.text.contains(words), "{failed:?}");
            let all: Vec<u64> = (1..=number).collect();
            assert_eq!(sent(&lab).pop().unwrap().prompts(), all, "nothing is left out");

            // One second before the end of the cool-down, nothing is tried.
            advance(Duration::from_secs(cool_down - 1)).await;
            number += 1;
            let output = turn(&lab, &mut session, &prompt(number), [answer(number, TRIGGER)]).await;
            assert!(codes(&output).is_empty(), "{output:#?}");
            advance(Duration::from_secs(1)).await;
        }
        // A person does not have to wait.
        number += 1;
        let replies = [Reply::status_with(400, WORDS), answer(number, TRIGGER)];
        turn(&lab, &mut session, &prompt(number), replies).await;
        lab.model.script([Reply::text(SUMMARY)]);
        let output = session.compact().await;
        assert_eq!(output.outcome.status, TurnStatus::Completed, "{output:#?}");
        assert_eq!(&*output.outcome.reason, "compacted");
        assert_eq!(detail_of(&output, "compacting")["trigger"], "demand");
        let output = turn(&lab, &mut session, "and now?", [answer(99, 3_000)]).await;
        assert!(codes(&output).is_empty());
        let last = sent(&lab).pop().unwrap();
        assert_eq!((last.count(SUMMARY), last.count("and now?")), (1, 1), "{last:#?}");
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_where_the_owner_wants_it_a_failure_leaves_out_the_middle() {
    in_small_windows(async |lab| {
        let mut spec = plain(&lab);
        spec.native.compaction.on_summary_failure = SummaryFailurePolicy::Truncate;
        let mut session = lab.open_with(&spec).await;
        too_long(&lab, &mut session).await;
        let replies = [Reply::status_with(400, WORDS), answer(9, 3_000)];
        let output = turn(&lab, &mut session, &prompt(9), replies).await;
        assert_eq!(codes(&output), ["compacting", "compaction_failed", "compacted"]);
        let last = sent(&lab).pop().unwrap();
        assert_eq!(last.prompts(), [1, 2, 9]);
        assert_eq!(last.count("could not be summarised"), 1, "{last:#?}");
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_a_call_instead_of_a_summary_is_refused_and_asked_about_once() {
    in_small_windows(async |lab| {
        let mut spec = lab.spec();
        spec.tools = angelia_core::model::ToolSet::List(vec!["bash".into()]);
        let mut session = lab.open_with(&spec).await;
        too_long(&lab, &mut session).await;
        let run = || calls([bash("echo run >> runs")]);
        let replies = [run(), Reply::text(SUMMARY), answer(9, TRIGGER)];
        let output = turn(&lab, &mut session, &prompt(9), replies).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        assert!(output.tool_results().is_empty(), "{output:#?}");
        let requests = sent(&lab);
        let [.., first, second, _] = &*requests else { panic!("{requests:#?}") };
        assert!(second.entries.starts_with(&first.entries));
        assert_eq!(second.count("no tool may be called"), 1, "{second:#?}");
        lab.requests().iter().for_each(assert_paired);

        // A model that calls and calls gives no summary.
        let replies = [run(), run(), answer(10, 3_000)];
        let output = turn(&lab, &mut session, &prompt(10), replies).await;
        assert_eq!(codes(&output), ["compacting", "compaction_failed"]);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_a_summary_request_that_overflows_loses_its_oldest_results_first() {
    in_small_windows(async |lab| {
        let mut spec = lab.spec();
        spec.tools = angelia_core::model::ToolSet::List(vec!["read".into()]);
        let mut session = lab.open_with(&spec).await;
        for number in 1..=6 {
            lab.write(&format!("file{number}"), &format!("content {number}\n").repeat(250));
            let read = calls([call("read", json!({"path": format!("file{number}")}))]);
            let tokens = if number == 6 { TRIGGER } else { 3_000 };
            let replies = [read.with_tokens(2_000, 10), answer(number, tokens)];
            turn(&lab, &mut session, &format!("question {number}"), replies).await;
        }
        let overflow = || Reply::error(ApiError::Overflow { window: 8_000 });
        let replies = [overflow(), Reply::text(SUMMARY), answer(7, 3_000)];
        let output = turn(&lab, &mut session, "question 7", replies).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        let requests = sent(&lab);
        let [.., whole, shorter, _] = &*requests else { panic!("{requests:#?}") };
        let digests = |request: &crate::compaction_lab::SentRequest| {
            request.count("left out when the conversation was shortened")
        };
        assert_eq!(digests(whole), 0, "the prefix stays warm");
        assert!((1..6).contains(&digests(shorter)), "{shorter:#?}");
        assert_eq!(shorter.entries.len(), whole.entries.len(), "no message goes yet");
        assert_eq!(shorter.entries.last(), whole.entries.last());

        // Then the oldest messages go, until nothing is left.
        let replies = [answer(8, TRIGGER)];
        turn(&lab, &mut session, "question 8", replies).await;
        let mut replies: Vec<_> = (0..3).map(|_| overflow()).collect();
        replies.extend([Reply::text(SUMMARY), answer(9, 3_000)]);
        let output = turn(&lab, &mut session, "question 9", replies).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        let requests = sent(&lab);
        let [.., first, _, last, _] = &*requests else { panic!("{requests:#?}") };
        assert!(last.entries.len() < first.entries.len(), "{last:#?}");
        lab.requests().iter().for_each(assert_paired);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_two_compactions_that_do_not_help_are_the_last_and_that_is_said_once() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        too_long(&lab, &mut session).await;
        let again = |number| [Reply::text(SUMMARY), answer(number, TRIGGER)];
        let output = turn(&lab, &mut session, &prompt(9), again(9)).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        let output = turn(&lab, &mut session, &prompt(10), again(10)).await;
        assert_eq!(codes(&output), ["compacting", "compacted", "compaction_failed"]);
        assert_eq!(detail_of(&output, "compaction_failed")["is_off"], true);
        for number in 11..=12 {
            let output = turn(&lab, &mut session, &prompt(number), [answer(number, TRIGGER)]).await;
            assert!(codes(&output).is_empty(), "{output:#?}");
        }
        lab.model.script([Reply::text(SUMMARY)]);
        let output = session.compact().await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        // From now on it is tried again.
        turn(&lab, &mut session, &prompt(13), [answer(13, 3_000)]).await;
        turn(&lab, &mut session, &prompt(14), [answer(14, TRIGGER)]).await;
        let output = turn(&lab, &mut session, &prompt(15), again(15)).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_a_short_conversation_has_nothing_to_shorten() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        let output = session.compact().await;
        assert_eq!(&*output.outcome.reason, "not_compacted", "{output:#?}");
        turn(&lab, &mut session, "hello", [answer(1, 200)]).await;
        let output = session.compact().await;
        assert_eq!(&*output.outcome.reason, "not_compacted", "{output:#?}");
        assert!(codes(&output).is_empty(), "{output:#?}");
        session.close().await;
    })
    .await;
}
