//! Turns of an engine on a real database that has no room at any step: every turn has one end, the
//! same in the stream, in the record and after a restart.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts, NewSession, TurnWatch},
    model::{
        Content, EventKind, SessionId, SessionSpec, TextChannel, ToolCall, ToolClass, ToolId,
        ToolResult, TurnEvent, TurnOptions, TurnOrigin, TurnState, TurnStatus,
    },
    ports::{AgentEvent, AgentOutcome, Store as _, StoreError},
    task::TaskGroup,
};
use angelia_testkit::{
    clock::SystemClock,
    conformance::store::raw_json,
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor, ManualTurn},
};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::open_store;
use crate::store::SqliteStore;

/// Longer than any pause between two attempts to write.
const LONG_ENOUGH: Duration = Duration::from_secs(20);

struct Stage {
    engine: Engine,
    control: ExecutorControl,
    store: Arc<SqliteStore>,
    tasks: TaskGroup,
}

impl Stage {
    fn open(home: &TempDir) -> Self {
        let store = Arc::new(open_store(home));
        let (executor, control) = ManualExecutor::new();
        let tasks = TaskGroup::new();
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store) as _,
            clock: Arc::new(SystemClock),
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![executor],
            limits: EngineLimits::default(),
            tasks: tasks.clone(),
        });
        Self { engine, control, store, tasks }
    }

    /// Allows the database no more pages than this, or than it has.
    async fn set_max_pages(&self, pages: i64) {
        let set = self.store.writer.write(move |db| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(db.connection.query_row(&sql, [], |_| Ok(()))?)
        });
        set.await.unwrap();
    }

    async fn session(&self) -> SessionId {
        let spec = SessionSpec::new("puppet", "/project");
        let new = NewSession { spec, title: None, name: None, source: None };
        self.engine.create_session(new).await.unwrap().id
    }
}

/// More than a page, so that it needs new ones.
fn long_text(step: usize) -> Arc<str> {
    format!("step {step} ").repeat(3000).into()
}

/// The events of the agent, one write each.
fn steps() -> Vec<AgentEvent> {
    let block = |block, step| {
        let channel = TextChannel::Answer;
        EventKind::Block { block, channel, text: long_text(step) }
    };
    let call = ToolCall {
        id: ToolId::new("t"),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input: raw_json(&serde_json::to_string(&*long_text(1)).unwrap()),
        title: "ls".into(),
        parent: None,
    };
    let result = ToolResult::new(ToolId::new("t"), true, long_text(2));
    let kinds =
        [block(0, 0), EventKind::ToolCall(call), EventKind::ToolResult(result), block(1, 3)];
    kinds.map(AgentEvent::Event).into()
}

async fn all_events(mut watch: TurnWatch) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    while let Some(batch) = watch.next().await.unwrap() {
        events.extend_from_slice(&batch);
    }
    events
}

/// Plays the agent; the disk is full from `full_at` on, until the step after it or until the end.
async fn play(stage: &Stage, run: ManualTurn, full_at: usize, heals_at: Option<usize>) {
    let steps = steps();
    let end = steps.len();
    for (number, step) in steps.into_iter().enumerate() {
        set_disk(stage, number, full_at, heals_at).await;
        run.emit(vec![step]).await;
        // Let the recorder pass it on, and the writer fail.
        sleep(Duration::from_millis(20)).await;
        if run.io.cancel.is_cancelled() {
            return run.end(AgentOutcome::interrupted("stopped"));
        }
    }
    set_disk(stage, end, full_at, heals_at).await;
    run.complete(&long_text(end));
}

async fn set_disk(stage: &Stage, now: usize, full_at: usize, heals_at: Option<usize>) {
    if now == full_at {
        stage.set_max_pages(1).await;
        let refused = stage.store.check_writable().await;
        assert!(matches!(refused, Err(StoreError::Failed { .. })), "there is no room: {refused:?}");
    }
    if Some(now) == heals_at {
        stage.set_max_pages(1_000_000).await;
    }
}

async fn run_with_full_disk(full_at: usize, heals_at: Option<usize>) {
    let home = tempfile::tempdir().unwrap();
    let stage = Stage::open(&home);
    let session = stage.session().await;
    let options = TurnOptions::new(TurnOrigin::Owner);
    let submitted = stage.engine.submit(session, vec![Content::text("go")], options).await.unwrap();
    let run = stage.control.next_turn().await;
    let shown = async { all_events(submitted.watch).await };
    let (shown, ()) = tokio::join!(shown, play(&stage, run, full_at, heals_at));
    let Some(TurnEvent { at, kind: EventKind::Finished(end), .. }) = shown.last() else {
        panic!("no end: {shown:?}");
    };
    let finished = TurnState::Finished { at: *at, outcome: end.clone() };
    let record = stage.engine.turn(submitted.turn).await.unwrap();
    assert_eq!(record.state, finished, "while the disk is full");
    if heals_at.is_none() {
        stage.engine.check_writable().await.unwrap_err();
    } else {
        assert_eq!(end.status, TurnStatus::Completed, "a short disturbance changes nothing");
    }

    stage.set_max_pages(1_000_000).await;
    let written = async {
        while stage.store.turn(submitted.turn).await.unwrap().unwrap().state != finished {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG_ENOUGH, written).await.expect("the end is written when there is room");
    let stored = stage.store.replay(submitted.turn, 0, 100).await.unwrap();
    let kept: Vec<_> = shown.iter().filter(|event| event.kind.is_stored()).collect();
    assert_eq!(format!("{stored:?}"), format!("{kept:?}"));

    assert!(stage.tasks.shutdown(LONG_ENOUGH).await);
    stage.store.close().await;
    drop(stage);
    let stage = Stage::open(&home);
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 0);
    assert_eq!(stage.engine.turn(submitted.turn).await.unwrap().state, finished, "after a restart");
}

#[tokio::test]
async fn a_disk_without_room_at_any_step_loses_no_end() {
    let count = steps().len();
    let mut cases = Vec::new();
    for full_at in 0..=count {
        cases.push(run_with_full_disk(full_at, None));
        if full_at < count {
            cases.push(run_with_full_disk(full_at, Some(full_at + 1)));
        }
    }
    for case in cases {
        case.await;
    }
}

#[tokio::test]
async fn a_value_that_is_too_big_for_sqlite_is_named() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let written = store.writer.write(|db| {
        let sql = "INSERT INTO write_checks (id, body) VALUES (1, randomblob(2000000000))";
        Ok(db.connection.execute(sql, [])?)
    });
    let refused = written.await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    store.check_writable().await.unwrap();
}
