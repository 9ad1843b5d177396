//! Measures Codex against the scripted model: (a) a hot thread of an app-server driven directly,
//! (b) our hot session, (a') a thread that was started in advance, (c) our new session on the
//! running app-server, (a'') a thread that is started for the turn; and the number of processes
//! that several sessions of one profile use.

use std::{
    ffi::OsString,
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_core::model::SessionSpec;
use angelia_testkit::{
    codex_home::{self, CodexLogin, KEY_VARIABLE},
    model_server::ModelServer,
    process_table,
    real::RealCodex,
};
use anyhow::Result;
use serde_json::json;

use crate::{
    BenchHome,
    angelia_variants::{AngeliaVariants, PROMPT, VariantResults},
    app_server::AppServer,
    daemon::SocketDaemon,
    local::InProcessEngine,
    report::{self, GoalReport, SampleSeries, ms},
    rounds::RoundPlan,
};

/// The time a pool needs to replace a process that was taken from it.
const POOL_REFILL: Duration = Duration::from_millis(800);

/// The number of concurrent sessions of one profile.
const SESSIONS: usize = 5;

const PLAN: RoundPlan<CodexSetup, CodexResults> = RoundPlan {
    hot: [
        CodexSetup::hot_direct,
        |stage, found| stage.ours.hot_local(&mut found.local),
        |stage, found| stage.ours.hot_daemon(&mut found.daemon),
    ],
    others: [
        CodexSetup::started_direct,
        |stage, found| stage.ours.new_local(&mut found.local),
        CodexSetup::new_direct,
        |stage, found| stage.ours.new_daemon(&mut found.daemon),
    ],
    pause: Duration::from_millis(60),
};

#[derive(Default)]
struct CodexResults {
    hot: SampleSeries,
    hot_end: SampleSeries,
    started: SampleSeries,
    new: SampleSeries,
    local: VariantResults,
    daemon: VariantResults,
}

struct CodexSetup {
    direct: AppServer,
    thread: String,
    ours: AngeliaVariants,
    place: BenchHome,
}

impl CodexSetup {
    fn prepare(model: &ModelServer) -> Result<Self> {
        let codex = RealCodex::find()?;
        let place = BenchHome::new(&codex.path, &model.base_url())?;
        // Each variant gets its own `CODEX_HOME`, because a process locks its conversations.
        let home = |name: &str| {
            let folder = place.angelia_home(&format!("codex-{name}"));
            codex_home::create(folder, &model.base_url(), CodexLogin::Key, "")
        };
        let mut environment = place.bare_environment();
        environment.push(("CODEX_HOME".into(), home("direct")?.into()));
        environment.push((KEY_VARIABLE.into(), OsString::from("dummy")));
        let mut direct = AppServer::start(&codex.path, &environment, &place.work_dir())?;
        let thread = direct.thread(&place.work_dir())?;

        let variables = json!({"CODEX_HOME": home("daemon")?, KEY_VARIABLE: "dummy"});
        let profile = json!({"executor": "codex", "binary": codex.path, "cwd": place.work_dir(),
            "trust": "off", "env": variables, "warm": 1});
        let daemon = SocketDaemon::start_with(&place, &json!({"default": profile}))?;

        let mut spec = SessionSpec::new("codex", place.work_dir());
        spec.binary = Some(codex.path);
        spec.warm = 1;
        let folder = home("local")?.display().to_string();
        spec.env.insert("CODEX_HOME".into(), folder.into());
        spec.env.insert(KEY_VARIABLE.into(), "dummy".into());
        let local = InProcessEngine::start_with(&place, spec)?;
        let ours = AngeliaVariants::start(local, daemon, POOL_REFILL)?;
        let mut this = Self { direct, thread, ours, place };
        // Warm up: one-time costs must not count.
        PLAN.hot_turns(&mut this, &mut CodexResults::default())?;
        sleep(POOL_REFILL);
        Ok(this)
    }

    fn hot_direct(&mut self, found: &mut CodexResults) -> Result<()> {
        let turn = self.direct.turn(&self.thread, PROMPT)?;
        found.hot.add(turn.first);
        found.hot_end.add(turn.end);
        Ok(())
    }

    fn started_direct(&mut self, found: &mut CodexResults) -> Result<()> {
        let thread = self.direct.thread(&self.place.work_dir())?;
        sleep(PLAN.pause);
        found.started.add(self.direct.turn(&thread, PROMPT)?.first);
        Ok(())
    }

    fn new_direct(&mut self, found: &mut CodexResults) -> Result<()> {
        let begun = Instant::now();
        let thread = self.direct.thread(&self.place.work_dir())?;
        let turn = self.direct.turn_since(begun, &thread, PROMPT)?;
        found.new.add(turn.first);
        Ok(())
    }

    /// Runs a turn in each of several sessions and counts the processes that serve them.
    fn processes(&mut self) -> Result<usize> {
        for _ in 0..SESSIONS {
            let session = self.ours.client.create_session()?;
            self.ours.client.turn(&session, PROMPT)?;
        }
        Ok(count_app_servers(self.ours.daemon.pid()))
    }
}

/// Counts the children of a process that are app-servers.
fn count_app_servers(parent: u32) -> usize {
    let is_server = |pid: &i32| process_table::command_line(*pid).contains(" app-server ");
    process_table::children(parent).iter().filter(|pid| is_server(pid)).count()
}

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    let mut stage = CodexSetup::prepare(&model)?;
    let mut found = CodexResults::default();
    PLAN.run(rounds, &mut stage, &mut found)?;
    let processes = stage.processes()?;
    report_results(report, &found, processes);
    Ok(())
}

fn report_results(report: &mut GoalReport, found: &CodexResults, processes: usize) {
    let version = RealCodex::VERSION;
    report::print_table(
        &format!("real: Codex {version}, first text delta"),
        &[
            ("(a)   hot thread, directly", &found.hot),
            ("(b)   hot session, engine in this process", &found.local.hot),
            ("(b)   hot session, angelia serve over its socket", &found.daemon.hot),
            ("(a')  thread that was started before, directly", &found.started),
            ("(a'') thread that is started for it, directly", &found.new),
            ("(c)   new session, engine in this process", &found.local.new),
            ("(c)   new session, angelia serve over its socket", &found.daemon.new),
        ],
    );
    report::print_table(
        &format!("real: Codex {version}, end of the turn"),
        &[
            ("(a)   hot thread, directly", &found.hot_end),
            ("(b)   hot session, engine in this process", &found.local.hot_end),
            ("(b)   hot session, angelia serve over its socket", &found.daemon.hot_end),
        ],
    );
    report::print_line(&format!("{SESSIONS} sessions and more: {processes} app-server"));
    let ways = [("engine", &found.local), ("socket", &found.daemon)];
    for (way, VariantResults { hot, hot_end, new }) in ways {
        for (what, ours, directly) in [("first", hot, &found.hot), ("end", hot_end, &found.hot_end)]
        {
            let limit = 1.02 * ms(directly.median());
            let what = format!("codex, {way}, hot {what}, b ≤ 1.02 × a");
            report.at_most(&what, ms(ours.median()), limit, "ms");
        }
        let limit = ms(hot.median()) + 25.0;
        let what = format!("codex, {way}, new session, c ≤ b + 25 ms");
        report.at_most(&what, ms(new.median()), limit, "ms");
    }
    let processes = u32::try_from(processes).unwrap_or(u32::MAX);
    report.at_most("codex, processes of one profile", f64::from(processes), 1.0, "");
}
