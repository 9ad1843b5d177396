//! Both supported versions of Claude Code against the scripted model: (a) a hot process driven
//! directly, (a') a process that was started and initialised before, (b) our hot session, (c) our
//! new session from the warm pool, (d) a cold start.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_core::model::SessionId;
use angelia_testkit::{model_server::ModelServer, real::RealClaude};
use anyhow::{Context as _, Result};

use crate::{
    Place,
    daemon::Daemon,
    direct::Direct,
    http::Client,
    local::Local,
    report::{self, Report, Series, ms},
};

const PROMPT: &str = "WORDS:20";

/// Hot turns of each variant in a round.
const HOT_TURNS: u32 = 6;

/// The program works on for a while after its result; the next turn would wait for that.
const PAUSE: Duration = Duration::from_millis(120);

/// How long a process that was started before has been idle when its turn comes.
const IDLE: Duration = Duration::from_millis(1500);

/// Until a pool has replaced what was taken from it, and the replacement has been idle.
const REFILL: Duration = Duration::from_secs(3);

type Step = fn(&mut Stage, &mut Found) -> Result<()>;

#[derive(Default)]
struct Found {
    hot: Series,
    hot_local: Series,
    hot_daemon: Series,
    warm: Series,
    warm_local: Series,
    warm_daemon: Series,
    cold: Series,
}

struct Stage {
    hot: Direct,
    local: Local,
    local_session: SessionId,
    client: Client,
    daemon_session: String,
    /// After those who talk to it.
    _daemon: Daemon,
    place: Place,
}

impl Stage {
    fn set(claude: &RealClaude, model: &ModelServer) -> Result<Self> {
        let place = Place::new(&claude.path, &model.base_url())?;
        let hot = Direct::start(&place.program, &place.environment(), &place.work())?;
        let daemon = Daemon::start(&place, 1)?;
        let local = Local::start(&place, 1)?;
        let mut client = daemon.client()?;
        let daemon_session = client.create_session()?;
        let local_session = local.create_session()?;
        let mut this = Self {
            hot,
            local,
            local_session,
            client,
            daemon_session,
            _daemon: daemon,
            place,
        };
        // Whatever happens only once happens now.
        this.hot_turns(&mut Found::default())?;
        sleep(REFILL);
        Ok(this)
    }

    fn prewarmed(&self) -> Result<Direct> {
        Direct::start(
            &self.place.program,
            &self.place.environment(),
            &self.place.work(),
        )
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
        found.hot.add(self.hot.turn(PROMPT)?.first);
        Ok(())
    }

    fn hot_local(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.local.turn(self.local_session, PROMPT)?;
        found.hot_local.add(turn.first);
        Ok(())
    }

    fn hot_daemon(&mut self, found: &mut Found) -> Result<()> {
        let turn = self.client.turn(&self.daemon_session, PROMPT)?;
        found.hot_daemon.add(turn.first);
        Ok(())
    }

    fn warm_direct(&mut self, found: &mut Found) -> Result<()> {
        let mut process = self.prewarmed()?;
        sleep(IDLE);
        found.warm.add(process.turn(PROMPT)?.first);
        Ok(())
    }

    /// The clock runs from before the session is made.
    fn warm_local(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let session = self.local.create_session()?;
        found
            .warm_local
            .add(self.local.turn_since(begun, session, PROMPT)?.first);
        self.local.delete_session(session)?;
        sleep(REFILL);
        Ok(())
    }

    /// The clock runs from before the session is made.
    fn warm_daemon(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let session = self.client.create_session()?;
        found
            .warm_daemon
            .add(self.client.turn_since(begun, &session, PROMPT)?.first);
        self.client.delete_session(&session)?;
        sleep(REFILL);
        Ok(())
    }

    /// Everything is written at once: the fastest way to a first answer without preparation.
    fn cold(&mut self, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let mut process = Direct::spawn(
            &self.place.program,
            &self.place.environment(),
            &self.place.work(),
        )?;
        process.initialize()?;
        found.cold.add(process.turn_since(begun, PROMPT)?.first);
        Ok(())
    }
}

pub(crate) fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let model = ModelServer::start()?;
    model.set_recording(false);
    for claude in RealClaude::all()? {
        let found = version(&claude, &model, rounds)
            .with_context(|| format!("Claude Code {}", claude.version))?;
        tell(report, claude.version, &found);
    }
    Ok(())
}

fn version(claude: &RealClaude, model: &ModelServer, rounds: u32) -> Result<Found> {
    let mut stage = Stage::set(claude, model)?;
    let mut found = Found::default();
    let mut steps: [Step; 4] = [
        Stage::warm_direct,
        Stage::warm_local,
        Stage::warm_daemon,
        Stage::cold,
    ];
    for _ in 0..rounds {
        stage.hot_turns(&mut found)?;
        for step in steps {
            step(&mut stage, &mut found)?;
            sleep(PAUSE);
        }
        // None of them always follows the same one after the same pause.
        steps.rotate_left(1);
    }
    Ok(found)
}

fn tell(report: &mut Report, version: &str, found: &Found) {
    report::table(
        &format!("real: Claude Code {version}, first text delta"),
        &[
            ("(a)  hot process, directly", &found.hot),
            ("(b)  hot session, engine in this process", &found.hot_local),
            (
                "(b)  hot session, angelia serve over its socket",
                &found.hot_daemon,
            ),
            ("(a') pre-warmed process, directly", &found.warm),
            (
                "(c)  new session, engine in this process",
                &found.warm_local,
            ),
            (
                "(c)  new session, angelia serve over its socket",
                &found.warm_daemon,
            ),
            ("(d)  cold start, directly", &found.cold),
        ],
    );
    let hot = ms(found.hot.median());
    let warm = ms(found.warm.median());
    let cold = ms(found.cold.median());
    let ways = [
        ("engine", &found.hot_local, &found.warm_local),
        ("socket", &found.hot_daemon, &found.warm_daemon),
    ];
    for (way, our_hot, our_warm) in ways {
        let (b, c) = (ms(our_hot.median()), ms(our_warm.median()));
        report.at_most(
            &format!("{version}, {way}, b ≤ a + 1 ms"),
            b,
            hot + 1.0,
            "ms",
        );
        report.at_most(
            &format!("{version}, {way}, c ≤ 1.05 × a'"),
            c,
            1.05 * warm,
            "ms",
        );
        // No pool is faster than the process in it.
        let possible = cold / warm;
        let what = format!("{version}, {way}, d / c (d / a' is {possible:.2})");
        report.at_least(&what, cold / c, 6.0, "×");
    }
}
