//! Viewers: any number, from any place, at any pace.

use crate::stage::{Stage, all_events, outcome};

#[tokio::test(start_paused = true)]
async fn any_viewer_resumes_from_any_number_and_sees_the_same() {
    let stage = Stage::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.strings.next_run().await;
    run.start().await;
    for block in 0..20 {
        run.say(block, &format!("block {block}")).await;
    }
    let mut watchers = Vec::new();
    for after in 0..=41 {
        watchers.push((
            after,
            stage.engine.watch(submitted.turn, after).await.unwrap(),
        ));
    }
    run.complete("done");
    let whole = all_events(submitted.watch).await;
    assert_eq!(whole.len(), 42);
    for (after, watch) in watchers {
        let tail = all_events(watch).await;
        let expected: Vec<_> = whole
            .iter()
            .filter(|e| e.seq > after)
            .map(|e| e.seq)
            .collect();
        assert_eq!(tail.iter().map(|e| e.seq).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_never_reads_holds_nobody_up() {
    let stage = Stage::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let _asleep = stage.engine.watch(submitted.turn, 0).await.unwrap();
    let run = stage.strings.next_run().await;
    for block in 0..10_000 {
        run.say(block, "x").await;
    }
    run.complete("done");
    assert_eq!(&*outcome(submitted.watch).await.text, "done");
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_is_replayed_from_the_store_without_its_deltas() {
    let stage = Stage::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.strings.next_run().await;
    run.start().await;
    run.say(0, "hello").await;
    run.complete("hello");
    outcome(submitted.watch).await;
    let replay = all_events(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
    assert_eq!(
        replay.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [1, 3, 4]
    );
}
