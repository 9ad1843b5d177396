//! E17, E18: a conversation that gets too long is shortened: when, to what, and that nothing of it is
//! lost to the person.

use std::fs;

use angelia_core::{
    model::{EventKind, MemoryUse, ToolSet, TurnStatus},
    ports::{Activity, AgentEvent},
};
use angelia_executors::scripted_model::{ApiError, Reply, ReplyBlock};
use angelia_testkit::direct_session::TurnHandle;
use serde_json::json;

use crate::{
    compaction_lab::{
        SUMMARY, TRIGGER, answer, assert_paired, codes, in_small_windows, long_prompt, plain,
        prompt, sent, shown, too_long, turn,
    },
    loop_lab::{call, calls, detail_of},
    paused_lab::{in_each_api_paused, in_each_api_paused_with},
};

#[tokio::test(start_paused = true)]
async fn e17_the_reported_tokens_decide_and_the_summary_is_asked_for_on_the_same_prefix() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        too_long(&lab, &mut session).await;
        let replies = [Reply::text(SUMMARY), answer(9, 3_000)];
        let output = turn(&lab, &mut session, &prompt(9), replies).await;
        assert_eq!(output.answer(), "answer 9.");
        assert!(!shown(&output).contains(SUMMARY), "{output:#?}");
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        let begun = detail_of(&output, "compacting");
        assert_eq!((&begun["before_tokens"], &begun["window"]), (&json!(TRIGGER), &json!(10_000)));
        let done = detail_of(&output, "compacted");
        assert_eq!(done["before_tokens"], TRIGGER, "{done}");
        assert!(done["after_tokens"].as_u64().unwrap() < TRIGGER / 2, "{done}");

        let requests = sent(&lab);
        let [.., eighth, summary, ninth] = &*requests else { panic!("{requests:#?}") };
        assert_eq!(eighth.fields, summary.fields, "system, tools and settings stay");
        assert_eq!(ninth.fields, eighth.fields);
        assert!(summary.entries.starts_with(&eighth.entries), "the prefix is warm");
        assert_eq!(summary.prompts(), [1, 2, 3, 4, 5, 6, 7, 8], "the new prompt needs no summary");
        assert_eq!(ninth.entries[..3], eighth.entries[..3], "the head stays");
        assert_eq!((ninth.count(SUMMARY), ninth.prompts()), (1, vec![1, 2, 9]));
        assert!(ninth.entries.last().unwrap().contains("prompt 9:"));
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_one_token_less_is_not_too_long() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        for number in 1..=8 {
            let replies = [answer(number, TRIGGER - 1)];
            let output = turn(&lab, &mut session, &prompt(number), replies).await;
            assert!(codes(&output).is_empty(), "{output:#?}");
        }
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_a_request_that_cannot_fit_is_not_sent() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        for number in 1..=5 {
            let replies = [answer(number, 150 + number * 1_000)];
            turn(&lab, &mut session, &prompt(number), replies).await;
        }
        let long = (6..=11).map(prompt).collect::<String>();
        let replies = [Reply::text(SUMMARY), answer(6, 9_000)];
        let output = turn(&lab, &mut session, &long, replies).await;
        assert_eq!(detail_of(&output, "compacting")["trigger"], "estimate");
        let requests = sent(&lab);
        let [.., summary, last] = &*requests else { panic!("{requests:#?}") };
        assert_eq!(summary.prompts(), [1, 2, 3, 4, 5]);
        assert!(last.entries.last().unwrap().contains("prompt 11:"), "{last:#?}");
        assert_eq!(last.count(SUMMARY), 1);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_an_overflow_is_answered_by_one_compaction_and_what_was_done_stays_done() {
    in_each_api_paused(async |lab| {
        lab.write("notes", "a line\n");
        let read = || calls([call("read", json!({"path": "notes"}))]);
        let overflow = || Reply::error(ApiError::Overflow { window: 4_096 });
        let replies = [read(), overflow(), Reply::text(SUMMARY), Reply::text("done")];
        let output = lab.turn(replies).await;
        assert_eq!(output.answer(), "done");
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        assert_eq!(detail_of(&output, "compacting")["trigger"], "overflow");
        let last = sent(&lab).pop().unwrap();
        assert_eq!((last.count(SUMMARY), last.count("go on")), (1, 1), "{last:#?}");

        // One that overflows again is not summarised again.
        let replies = [read(), overflow(), Reply::text(SUMMARY), overflow()];
        let output = lab.turn(replies).await;
        assert!(output.failure().message.contains("4096"), "{output:#?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_where_nobody_knows_the_window_only_an_overflow_counts() {
    in_each_api_paused_with(
        |provider| provider.models.clear(),
        async |lab| {
            let mut session = lab.open_with(&plain(&lab)).await;
            for number in 1..=4 {
                let replies = [answer(number, 1_000_000)];
                let output = turn(&lab, &mut session, &prompt(number), replies).await;
                assert!(codes(&output).is_empty(), "{output:#?}");
            }
            let overflow = Reply::status_with(400, "prompt is too long");
            let replies = [overflow, Reply::text(SUMMARY), answer(5, 2_000)];
            let output = turn(&lab, &mut session, &prompt(5), replies).await;
            assert_eq!(codes(&output), ["compacting", "compacted"]);
            session.close().await;
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn e18_after_five_compactions_the_head_is_the_same_and_there_is_one_summary() {
    in_small_windows(async |lab| {
        lab.write("notes", &"a line of the file\n".repeat(60));
        let mut spec = lab.spec();
        spec.tools = ToolSet::List(vec!["read".into()]);
        let mut session = lab.open_with(&spec).await;
        let read = |tokens: u64| {
            let text = ReplyBlock::Text("I read it.".into());
            calls([text, call("read", json!({"path": "notes"}))]).with_tokens(tokens - 10, 10)
        };
        let mut head = Vec::new();
        let mut number = 0;
        for round in 0..5 {
            for tokens in [3_000, 5_000, TRIGGER] {
                number += 1;
                let replies = [read(tokens - 500), answer(number, tokens)];
                turn(&lab, &mut session, &prompt(number), replies).await;
            }
            number += 1;
            let summary = Reply::text(format!("{SUMMARY} Round {round}."));
            let replies = [summary, read(2_000), answer(number, 2_500)];
            let output = turn(&lab, &mut session, &prompt(number), replies).await;
            assert_eq!(codes(&output), ["compacting", "compacted"], "{output:#?}");
            let last = sent(&lab).pop().unwrap();
            let is_summary = |entry: &String| entry.contains(SUMMARY);
            let now = &last.entries[..last.entries.iter().position(is_summary).unwrap()];
            if round == 0 {
                head = now.to_vec();
            }
            assert_eq!(now, head, "{:?}, round {round}", lab.api);
            assert_eq!(last.count(SUMMARY), 1, "{last:#?}");
            assert_eq!(last.count(&format!("Round {round}.")), 1, "{last:#?}");
        }
        lab.requests().iter().for_each(assert_paired);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e18_no_message_has_to_be_protected() {
    in_small_windows(async |lab| {
        let mut spec = plain(&lab);
        spec.native.compaction.protect_first_n = 0;
        let mut session = lab.open_with(&spec).await;
        too_long(&lab, &mut session).await;
        let replies = [Reply::text(SUMMARY), answer(9, 3_000)];
        turn(&lab, &mut session, &prompt(9), replies).await;
        let last = sent(&lab).pop().unwrap();
        assert!(last.entries[0].contains(SUMMARY), "{last:#?}");
        assert_eq!(last.prompts(), [9]);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e18_a_long_head_is_cut_to_a_tenth_of_the_window() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        for number in 1..=8 {
            let tokens = if number == 8 { TRIGGER } else { 2_000 };
            turn(&lab, &mut session, &long_prompt(number), [answer(number, tokens)]).await;
        }
        let replies = [Reply::text(SUMMARY), answer(9, 3_000)];
        turn(&lab, &mut session, &prompt(9), replies).await;
        let last = sent(&lab).pop().unwrap();
        let head: usize = last.entries[..3].iter().map(String::len).sum();
        assert!(head < 1_000 * 4, "{head}: {last:#?}");
        assert!(last.entries[0].contains("bytes left out"), "{last:#?}");
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e29_a_compaction_costs_no_iteration() {
    in_small_windows(async |lab| {
        lab.write("notes", "a line\n");
        let mut spec = lab.spec();
        spec.native.max_iterations = 2;
        let mut session = lab.open_with(&spec).await;
        for number in 1..=4 {
            turn(&lab, &mut session, &prompt(number), [answer(number, 5_000)]).await;
        }
        let read = calls([call("read", json!({"path": "notes"}))]).with_tokens(TRIGGER, 10);
        let replies = [read, Reply::text(SUMMARY), answer(5, 3_000)];
        let output = turn(&lab, &mut session, &prompt(5), replies).await;
        assert_eq!(output.answer(), "answer 5.");
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_an_interrupt_ends_a_summary_and_the_conversation_stays() {
    in_small_windows(async |lab| {
        let mut session = lab.open_with(&plain(&lab)).await;
        too_long(&lab, &mut session).await;
        lab.model.script([Reply::fault(angelia_executors::scripted_model::Fault::HangHeaders)]);
        let mut activities = Vec::new();
        let watch = move |event: &AgentEvent, hands: &TurnHandle| match event {
            AgentEvent::Activity(activity) => {
                activities.push(*activity);
                // The engine's clock for compactions runs while the summary is waited for.
                if activities.ends_with(&[Activity::Compacting, Activity::Compacting]) {
                    hands.cancel.cancel();
                }
            }
            AgentEvent::Event(EventKind::Notice(notice)) => {
                assert_eq!(&*notice.code, "compacting");
            }
            _ => {}
        };
        let output = session.prompt_watched(&prompt(9), watch).await;
        assert!(matches!(output.outcome.status, TurnStatus::Interrupted), "{output:#?}");
        let replies = [Reply::text(SUMMARY), answer(9, 3_000)];
        let output = turn(&lab, &mut session, &prompt(10), replies).await;
        assert_eq!(output.answer(), "answer 9.");
        let requests = sent(&lab);
        assert_eq!(requests[requests.len() - 2].prompts(), [1, 2, 3, 4, 5, 6, 7, 8]);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e17_notes_that_have_changed_are_read_again_and_nothing_else_of_the_prefix_changes() {
    in_small_windows(async |lab| {
        let note = lab.place.host.work_dir.with_file_name("memory/default/everywhere/style.md");
        fs::create_dir_all(note.parent().unwrap()).unwrap();
        fs::write(&note, "Be brief.\n").unwrap();
        let mut spec = lab.spec();
        spec.tools = ToolSet::List(vec!["memory".into()]);
        spec.native.memory = MemoryUse::FromOwner;
        let mut session = lab.open_with(&spec).await;
        too_long(&lab, &mut session).await;
        fs::write(&note, "Be very brief.\n").unwrap();
        let replies = [Reply::text(SUMMARY), answer(9, 3_000)];
        let output = turn(&lab, &mut session, &prompt(9), replies).await;
        assert_eq!(codes(&output), ["compacting", "compacted"]);
        turn(&lab, &mut session, &prompt(10), [answer(10, TRIGGER)]).await;

        let requests = sent(&lab);
        let [.., eighth, summary, ninth, tenth] = &*requests else { panic!("{requests:#?}") };
        assert_eq!(summary.fields, eighth.fields, "the summary is asked for on the old prefix");
        let updated = |field: &String| field.replace("Be brief.", "Be very brief.");
        let expected: Vec<String> = eighth.fields.iter().map(updated).collect();
        assert_ne!(expected, eighth.fields);
        assert_eq!(ninth.fields, expected, "{:?}", lab.api);
        assert_eq!(ninth.entries[..3], eighth.entries[..3], "the head stays");
        assert_eq!(tenth.fields, ninth.fields);
        assert!(tenth.entries.starts_with(&ninth.entries));
        let hashes: Vec<_> = output
            .events()
            .filter_map(|event| match event {
                EventKind::Usage(usage) => usage.prefix_sha256.clone(),
                _ => None,
            })
            .collect();
        assert_ne!(hashes.first(), hashes.last(), "the hash explains the cold cache");

        // Without a change, a further compaction leaves the prefix as it is.
        let replies = [Reply::text(SUMMARY), answer(11, 3_000)];
        turn(&lab, &mut session, &prompt(11), replies).await;
        assert_eq!(sent(&lab).last().unwrap().fields, expected);
        session.close().await;
    })
    .await;
}
