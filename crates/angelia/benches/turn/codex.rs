//! Codex against the scripted model: (a) a hot thread of an app-server driven directly, (b) our hot
//! session, (a') a thread that was started before, (c) our new session on the running app-server, (a'') a
//! thread that is started for the turn; and how many processes several sessions of one profile have.

use std::{
    ffi::OsString,
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_core::model::{SessionId, SessionSpec};
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
    http::Client,
    local::Local,
    report::{self, Report, Series, ms},
};

const PROMPT: &str = "WORDS:20";

/// Hot turns of each variant in a round.
const HOT_TURNS: u32 = 6;

/// The program works on for a while after a turn; the next one would wait for that.
const PAUSE: Duration = Duration::from_millis(60);

/// Until a pool has replaced what was taken from it.
const REFILL: Duration = Duration::from_millis(800);

/// Sessions of one profile at once.
const SESSIONS: usize = 5;

type Step = fn(&mut Stage, &mut Found) -> Result<()>;

#[derive(Default)]
struct Found {
    hot: Series,
    hot_end: Series,
    hot_local: Series,
    hot_local_end: Series,
    hot_daemon: Series,
    hot_daemon_end: Series,
    started: Series,
    new: Series,
    new_local: Series,
    new_daemon: Series,
}

struct Stage {
    direct: AppServer,
    thread: String,
    local: Local,
    local_session: SessionId,
    client: Client,
    daemon_session: String,
    /// After those who talk to it.
    daemon: Daemon,
    place: Place,
}

impl Stage {
    fn set(model: &ModelServer) -> Result<Self> {
        let codex = RealCodex::find()?;
        let place = Place::new(&codex.path, &model.base_url())?;
        // Each has a folder of its own: conversations are locked by the process that has them.
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
        let mut client = daemon.client()?;
        let daemon_session = client.create_session()?;

        let mut spec = SessionSpec::new("codex", place.work());
        spec.binary = Some(codex.path);
        spec.warm = 1;
        let folder = home("local")?.display().to_string();
        spec.env.insert("CODEX_HOME".into(), folder.into());
        spec.env.insert(KEY.into(), "dummy".into());
        let local = Local::start_with(&place, spec)?;
        let local_session = local.create_session()?;
        let mut this = Self {
            direct,
            thread,
            local,
            local_session,
            client,
            daemon_session,
            daemon,
            place,
        };
        // Whatever happens only once happens now.
        this.hot_turns(&mut Found::default())?;
        sleep(REFILL);
        Ok(this)
    }

    fn hot_turns(&mut self, found: &mut Found) -> Result<()> {
        let mut steps: [Step; 3] = [Self::hot_direct, Self::hot_local, Self::hot_daemon];
        for _ in 0..HOT_TURNS {
            for step in steps {
                sleep(PAUSE);
                step(self, found)?;
            }
            // None of them always follows the same one.
            steps.rotate_left(1);
            if found.hot.count().is_multiple_of(2) {
                steps.swap(0, 1);
            }
        }
        Ok(())
    }

    fn hot_direct(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.direct.turn(&self.thread, PROMPT)?;
        found.hot.add(turn.first);
        found.hot_end.add(turn.end);
        Ok(())
    }

    fn hot_local(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.local.turn(self.local_session, PROMPT)?;
        found.hot_local.add(turn.first);
        found.hot_local_end.add(turn.end);
        Ok(())
    }

    fn hot_daemon(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.client.turn(&self.daemon_session, PROMPT)?;
        found.hot_daemon.add(turn.first);
        found.hot_daemon_end.add(turn.end);
        Ok(())
    }

    fn started_direct(&mut self, found: &mut Found) -> Result<()> {
        let thread = self.direct.thread(&self.place.work())?;
        sleep(PAUSE);
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

    /// The clock runs from before the session is made.
    fn new_local(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let session = self.local.create_session()?;
        let turn = self.local.turn_since(begun, session, PROMPT)?;
        found.new_local.add(turn.first);
        self.local.delete_session(session)?;
        sleep(REFILL);
        Ok(())
    }

    /// The clock runs from before the session is made.
    fn new_daemon(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let session = self.client.create_session()?;
        let turn = self.client.turn_since(begun, &session, PROMPT)?;
        found.new_daemon.add(turn.first);
        self.client.delete_session(&session)?;
        sleep(REFILL);
        Ok(())
    }

    /// Several sessions, each with a turn behind it, and the processes that serve them.
    fn processes(&mut self) -> Result<usize> {
        for _ in 0..SESSIONS {
            let session = self.client.create_session()?;
            self.client.turn(&session, PROMPT)?;
        }
        servers_of(self.daemon.pid())
    }
}

/// Children of a process that are app-servers.
fn servers_of(parent: u32) -> Result<usize> {
    let parent = parent.to_string();
    let mut count = 0;
    for entry in fs::read_dir("/proc")? {
        let folder = entry?.path();
        // A process may end while we look.
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let words = stat.rsplit_once(") ").map(|(_, rest)| rest);
        let is_child = words.and_then(|rest| rest.split(' ').nth(1)) == Some(parent.as_str());
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let is_server = line
            .split(|byte| *byte == 0)
            .any(|word| word == b"app-server");
        count += usize::from(is_child && is_server);
    }
    Ok(count)
}

pub(crate) fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    let mut stage = Stage::set(&model)?;
    let mut found = Found::default();
    let mut steps: [Step; 4] = [
        Stage::started_direct,
        Stage::new_local,
        Stage::new_direct,
        Stage::new_daemon,
    ];
    for _ in 0..rounds {
        stage.hot_turns(&mut found)?;
        for step in steps {
            step(&mut stage, &mut found)?;
            sleep(PAUSE);
        }
        steps.rotate_left(1);
    }
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
            (
                "(b)   hot session, engine in this process",
                &found.hot_local,
            ),
            (
                "(b)   hot session, angelia serve over its socket",
                &found.hot_daemon,
            ),
            (
                "(a')  thread that was started before, directly",
                &found.started,
            ),
            ("(a'') thread that is started for it, directly", &found.new),
            (
                "(c)   new session, engine in this process",
                &found.new_local,
            ),
            (
                "(c)   new session, angelia serve over its socket",
                &found.new_daemon,
            ),
        ],
    );
    report::table(
        &format!("real: Codex {version}, end of the turn"),
        &[
            ("(a)   hot thread, directly", &found.hot_end),
            (
                "(b)   hot session, engine in this process",
                &found.hot_local_end,
            ),
            (
                "(b)   hot session, angelia serve over its socket",
                &found.hot_daemon_end,
            ),
        ],
    );
    report::line(&format!(
        "{SESSIONS} sessions and more: {processes} app-server"
    ));
    let ways = [
        (
            "engine",
            &found.hot_local,
            &found.hot_local_end,
            &found.new_local,
        ),
        (
            "socket",
            &found.hot_daemon,
            &found.hot_daemon_end,
            &found.new_daemon,
        ),
    ];
    for (way, hot, end, new) in ways {
        for (what, ours, directly) in [("first", hot, &found.hot), ("end", end, &found.hot_end)] {
            let limit = 1.02 * ms(directly.median());
            let what = format!("codex, {way}, hot {what}, b ≤ 1.02 × a");
            report.at_most(&what, ms(ours.median()), limit, "ms");
        }
        let limit = ms(hot.median()) + 25.0;
        let what = format!("codex, {way}, new session, c ≤ b + 25 ms");
        report.at_most(&what, ms(new.median()), limit, "ms");
    }
    let processes = u32::try_from(processes).unwrap_or(u32::MAX);
    report.at_most(
        "codex, processes of one profile",
        f64::from(processes),
        1.0,
        "",
    );
}
