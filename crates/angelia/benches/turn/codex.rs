//! Measures Codex against the scripted model: (a) a hot thread of an app-server driven directly,
//! (b) our hot session, (a') a thread that was started in advance, (c) our new session on the
//! running app-server, (a'') a thread that is started for the turn; and the number of processes
//! that several sessions of one profile use.

use std::{
    ffi::OsString,
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_core::model::SessionSpec;
use angelia_testkit::{
    codex_home::{self, KEY, Login},
    model_server::ModelServer,
    real::RealCodex,
};
use anyhow::Result;
use serde_json::json;

use crate::{
    Place,
    app_server::AppServer,
    daemon::Daemon,
    local::Local,
    ours::{Ours, PROMPT, Way},
    report::{self, Report, Series, ms},
    rounds::Plan,
};

/// The time a pool needs to replace a process that was taken from it.
const REFILL: Duration = Duration::from_millis(800);

/// The number of concurrent sessions of one profile.
const SESSIONS: usize = 5;

const PLAN: Plan<Stage, Found> = Plan {
    hot: [
        Stage::hot_direct,
        |stage, found| stage.ours.hot_local(&mut found.local),
        |stage, found| stage.ours.hot_daemon(&mut found.daemon),
    ],
    others: [
        Stage::started_direct,
        |stage, found| stage.ours.new_local(&mut found.local),
        Stage::new_direct,
        |stage, found| stage.ours.new_daemon(&mut found.daemon),
    ],
    pause: Duration::from_millis(60),
};

#[derive(Default)]
struct Found {
    hot: Series,
    hot_end: Series,
    started: Series,
    new: Series,
    local: Way,
    daemon: Way,
}

struct Stage {
    direct: AppServer,
    thread: String,
    ours: Ours,
    place: Place,
}

impl Stage {
    fn set(model: &ModelServer) -> Result<Self> {
        let codex = RealCodex::find()?;
        let place = Place::new(&codex.path, &model.base_url())?;
        // Each variant gets its own `CODEX_HOME`, because a process locks its conversations.
        let home = |name: &str| {
            let folder = place.angelia_home(&format!("codex-{name}"));
            codex_home::make(folder, &model.base_url(), Login::Key, "")
        };
        let mut environment = place.bare_environment();
        environment.push(("CODEX_HOME".into(), home("direct")?.into()));
        environment.push((KEY.into(), OsString::from("dummy")));
        let mut direct = AppServer::start(&codex.path, &environment, &place.work())?;
        let thread = direct.thread(&place.work())?;

        let variables = json!({"CODEX_HOME": home("daemon")?, KEY: "dummy"});
        let profile = json!({"executor": "codex", "binary": codex.path, "cwd": place.work(),
            "trust": "off", "env": variables, "warm": 1});
        let daemon = Daemon::start_with(&place, &json!({"default": profile}))?;

        let mut spec = SessionSpec::new("codex", place.work());
        spec.binary = Some(codex.path);
        spec.warm = 1;
        let folder = home("local")?.display().to_string();
        spec.env.insert("CODEX_HOME".into(), folder.into());
        spec.env.insert(KEY.into(), "dummy".into());
        let local = Local::start_with(&place, spec)?;
        let ours = Ours::start(local, daemon, REFILL)?;
        let mut this = Self { direct, thread, ours, place };
        // Warm up: one-time costs must not count.
        PLAN.hot_turns(&mut this, &mut Found::default())?;
        sleep(REFILL);
        Ok(this)
    }

    fn hot_direct(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.direct.turn(&self.thread, PROMPT)?;
        found.hot.add(turn.first);
        found.hot_end.add(turn.end);
        Ok(())
    }

    fn started_direct(&mut self, found: &mut Found) -> Result<()> {
        let thread = self.direct.thread(&self.place.work())?;
        sleep(PLAN.pause);
        found.started.add(self.direct.turn(&thread, PROMPT)?.first);
        Ok(())
    }

    fn new_direct(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let thread = self.direct.thread(&self.place.work())?;
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
        servers_of(self.ours.daemon.pid())
    }
}

/// Counts the children of a process that are app-servers.
fn servers_of(parent: u32) -> Result<usize> {
    let parent = parent.to_string();
    let mut count = 0;
    for entry in fs::read_dir("/proc")? {
        let folder = entry?.path();
        // The process may exit between the listing and this read.
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let words = stat.rsplit_once(") ").map(|(_, rest)| rest);
        let is_child = words.and_then(|rest| rest.split(' ').nth(1)) == Some(parent.as_str());
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let is_server = line.split(|byte| *byte == 0).any(|word| word == b"app-server");
        count += usize::from(is_child && is_server);
    }
    Ok(count)
}

pub(crate) fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    let mut stage = Stage::set(&model)?;
    let mut found = Found::default();
    PLAN.run(rounds, &mut stage, &mut found)?;
    let processes = stage.processes()?;
    tell(report, &found, processes);
    Ok(())
}

fn tell(report: &mut Report, found: &Found, processes: usize) {
    let version = RealCodex::VERSION;
    report::table(
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
    report::table(
        &format!("real: Codex {version}, end of the turn"),
        &[
            ("(a)   hot thread, directly", &found.hot_end),
            ("(b)   hot session, engine in this process", &found.local.hot_end),
            ("(b)   hot session, angelia serve over its socket", &found.daemon.hot_end),
        ],
    );
    report::line(&format!("{SESSIONS} sessions and more: {processes} app-server"));
    let ways = [("engine", &found.local), ("socket", &found.daemon)];
    for (way, Way { hot, hot_end, new }) in ways {
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
