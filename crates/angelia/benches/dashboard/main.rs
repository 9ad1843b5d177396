//! Measures the dashboard in a real browser: `cargo xtask bench dashboard [--rounds N]`. A record with
//! 100,000 sessions, 30 days of usage and a turn of 20,000 events is written first, which takes minutes; then
//! a script of `tests/dashboard` opens the page on `angelia serve` and reports what it has measured.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_backends::{owners::OwnerRegistry, store::SqliteStore};
use angelia_core::{
    model::{
        AgentStart, Content, EventKind, Outcome, SessionRecord, TextChannel, ToolCall, ToolClass,
        ToolId, ToolResult, TurnRecord, TurnStatus, Usage,
    },
    ports::Store,
};
use angelia_testkit::{
    benchmark::{
        BenchOptions, MeasuredProcess, angelia_command,
        process_usage::{cpu_time, private_megabytes},
        report::{self, GoalReport},
    },
    conformance::store::{event, plain_session, plain_turn},
    isolated_home::IsolatedHome,
    programs::workspace_root,
};
use anyhow::{Context as _, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json, value::to_raw_value};
use tokio::task::JoinSet;

const PROGRAM: &str = env!("CARGO_BIN_EXE_angelia");
const SESSIONS: usize = 100_000;
const SESSIONS_AT_ONCE: usize = 250;
/// Two for each call of a tool.
const LONG_TURN_EVENTS: u64 = 20_000;
const READY_TIMEOUT: Duration = Duration::from_mins(2);

async fn write_turn(store: &dyn Store, session: &SessionRecord, number: usize) -> Result<()> {
    let lease = store.acquire_lease(session.id).await?;
    // Over the last thirty days.
    let ago = SignedDuration::from_secs(i64::try_from(number * 26)?);
    let created_at = Timestamp::now().checked_sub(ago)?;
    let input = vec![Content::text(format!("please look at item {number}"))];
    let turn = TurnRecord { input, created_at, ..plain_turn(session.id) };
    store.create_turn(&lease, &turn.clone().into()).await?;
    let started = EventKind::Started(AgentStart {
        profile: ["work", "default", "ops"][number % 3].into(),
        executor: "claude".into(),
        model: Some(["sonnet", "opus"][number % 2].into()),
        native_session_id: None,
        resumed: false,
        warm: true,
    });
    let usage = Usage {
        input_tokens: 1_000,
        output_tokens: 400,
        cache_read_tokens: 40_000,
        cost_usd: Some(0.02),
        ..Usage::default()
    };
    let end = EventKind::Finished(Outcome {
        status: TurnStatus::Completed,
        text: "done".into(),
        reason: "end_turn".into(),
        usage,
    });
    store.append(&lease, vec![event(&turn, 1, started), event(&turn, 2, end)]).await?.await?;
    store.release_lease(lease).await?;
    Ok(())
}

async fn write_session(store: Arc<SqliteStore>, number: usize) -> Result<()> {
    let title = Some(format!("session number {number}").into());
    let session = SessionRecord { title, ..plain_session() };
    store.create_session(&session).await?;
    write_turn(&*store, &session, number).await
}

/// Writes a turn with many tool calls, and returns its session.
async fn write_long_turn(store: &dyn Store) -> Result<String> {
    let session = SessionRecord { title: Some("a long turn".into()), ..plain_session() };
    store.create_session(&session).await?;
    let lease = store.acquire_lease(session.id).await?;
    let turn = plain_turn(session.id);
    store.create_turn(&lease, &turn.clone().into()).await?;
    let mut events = Vec::new();
    for seq in (1..LONG_TURN_EVENTS).step_by(4) {
        let id = ToolId::new(format!("t{seq}"));
        let input = to_raw_value(&json!({"command": format!("echo {seq}")}))?;
        let call = ToolCall {
            id: id.clone(),
            name: "Bash".into(),
            class: ToolClass::Execute,
            title: "echo".into(),
            input: input.into(),
            parent: None,
        };
        let text = format!("Step **{seq}** is done.").into();
        let block = u32::try_from(seq)?;
        events.push(event(&turn, seq, EventKind::ToolCall(call)));
        let result = ToolResult::new(id, true, format!("output of {seq}"));
        events.push(event(&turn, seq + 1, EventKind::ToolResult(result)));
        let block = EventKind::Block { block, channel: TextChannel::Answer, text };
        events.push(event(&turn, seq + 2, block));
    }
    let end = EventKind::Finished(Outcome {
        status: TurnStatus::Completed,
        text: "done".into(),
        reason: "end_turn".into(),
        usage: Usage::default(),
    });
    events.push(event(&turn, LONG_TURN_EVENTS + 1, end));
    store.append(&lease, events).await?.await?;
    store.release_lease(lease).await?;
    Ok(session.id.to_string())
}

/// Writes the record that the daemon serves.
async fn write_record(home: &Path) -> Result<String> {
    let owner = OwnerRegistry::new(home.join("run/owners")).register("bench")?;
    let store = Arc::new(SqliteStore::open(&home.join("state.db"), Arc::new(owner))?);
    for first in (0..SESSIONS).step_by(SESSIONS_AT_ONCE) {
        let mut writers = JoinSet::new();
        for number in first..first + SESSIONS_AT_ONCE {
            writers.spawn(write_session(Arc::clone(&store), number));
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
    }
    let session = write_long_turn(&*store).await?;
    store.close().await;
    Ok(session)
}

fn wait_until_ready(home: &Path, serving: &mut MeasuredProcess) -> Result<()> {
    let begun = Instant::now();
    while !home.join("run/http.addr").exists() {
        if begun.elapsed() > READY_TIMEOUT || serving.has_ended()? {
            bail!("the daemon did not start: {}", fs::read_to_string(home.join("serve.log"))?);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the script that measures, which finds Node.js and maybe a browser by our own variables.
#[expect(clippy::disallowed_methods, reason = "the browser measures the page")]
fn measuring_script(place: &IsolatedHome, home: &Path, packages: &Path) -> Command {
    let mut script = Command::new("node");
    script.arg(workspace_root().join("tests/dashboard/measure.mjs"));
    script.env_clear().envs(place.environment()).current_dir(place.work_dir());
    script.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    script.env("ANGELIA", PROGRAM).env("ANGELIA_HOME", home).env("DASHBOARD_MODULES", packages);
    script.env("WORK", place.work_dir());
    if let Some(chromium) = std::env::var_os("ANGELIA_TEST_CHROMIUM") {
        script.env("ANGELIA_TEST_CHROMIUM", chromium);
    }
    script
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = BenchOptions::read(&[], &[])?;
    let packages = workspace_root().join("target/npm/dashboard");
    ensure!(packages.exists(), "run `cargo xtask setup` first");
    let place = IsolatedHome::new()?;
    let home = place.home().join(".angelia");
    fs::create_dir_all(home.join("run"))?;
    let session = write_record(&home).await.context("cannot write the record")?;
    let mut command = angelia_command(PROGRAM);
    let log = fs::File::create(home.join("serve.log"))?;
    command.env_clear().envs(place.environment()).current_dir(place.work_dir());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut serving = MeasuredProcess::start(&mut command)?;
    wait_until_ready(&home, &mut serving)?;
    let pid = serving.pid();
    let (memory, cpu) = (private_megabytes(pid)?, cpu_time(pid)?);
    let mut script = measuring_script(&place, &home, &packages);
    script.env("LONG_SESSION", session);
    script.env("ROUNDS", options.rounds.unwrap_or(20).to_string());
    let measured = script.stderr(Stdio::inherit()).output()?;
    ensure!(measured.status.success(), "the script failed");
    let mut goals = GoalReport::default();
    for line in String::from_utf8(measured.stdout)?.lines() {
        let Ok(found) = serde_json::from_str::<Value>(line) else { continue };
        let name = found["name"].as_str().unwrap_or_default();
        let unit = found["unit"].as_str().unwrap_or_default();
        let value = found["value"].as_f64().unwrap_or(f64::NAN);
        match found["limit"].as_f64() {
            Some(limit) => goals.at_most(name, value, limit, unit),
            None => report::print_line(&format!("{name}: {value:.3} {unit}")),
        }
    }
    let grown = private_megabytes(pid)? - memory;
    report::print_line(&format!(
        "the daemon: {grown:.1} MB more than before, {:.1} s of a core",
        cpu_time(pid)?.saturating_sub(cpu).as_secs_f64()
    ));
    goals.print_goals();
    Ok(())
}
