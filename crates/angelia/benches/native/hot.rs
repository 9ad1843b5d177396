//! A running daemon: the time to the first request, sandboxed commands, interrupts, and the memory of
//! idle sessions.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::{
        process_usage,
        report::{self, GoalReport, SampleSeries, ms},
    },
    model_server::{Fault, Reply},
};
use anyhow::{Context as _, Result};

use crate::{
    bench_model::{BenchModel, step_times},
    loop_daemon::LoopDaemon,
    peers::ComparedProgram,
};

/// The sessions whose memory is measured together.
const SESSIONS: u32 = 100;

/// By this time, memory that was needed for a turn only is free again.
const SETTLE_DELAY: Duration = Duration::from_secs(2);

/// The commands of one turn.
const COMMANDS: u32 = 20;

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let model = BenchModel::start()?;
    first_request(report, &model, rounds)?;
    sandbox(report, &model)?;
    memory(report, &model)
}

fn first_request(report: &mut GoalReport, model: &BenchModel, rounds: u32) -> Result<()> {
    let mut rows = Vec::new();
    for api in Api::ALL {
        let mut daemon = LoopDaemon::start(&model.server, api, None)?;
        let session = daemon.client.create_session()?;
        let [mut first, mut interrupted] = <[SampleSeries; 2]>::default();
        for round in 0..=rounds {
            model.prepare([], false);
            let begun = Instant::now();
            daemon.client.turn(&session, "hello")?;
            let asked = model.exchanges().first().context("no request")?.asked;
            if round > 0 {
                first.add(asked.duration_since(begun));
            }
        }
        for _ in 0..rounds.min(20) {
            model.prepare([Reply::fault(Fault::HangBody)], false);
            let turn = daemon.client.submit(&session, "hang")?;
            model.wait_for(1)?;
            // The first words of the answer are shown by then.
            sleep(Duration::from_millis(20));
            interrupted.add(daemon.interrupt(&turn)?);
        }
        rows.push((api, first, interrupted));
    }
    let names = ["messages", "chat", "responses"];
    let firsts: Vec<_> = names.into_iter().zip(rows.iter().map(|(_, first, _)| first)).collect();
    report::print_table("hot: from the submission of a turn to the first request", &firsts);
    let ends: Vec<_> = names.into_iter().zip(rows.iter().map(|(_, _, end)| end)).collect();
    report::print_table("hot: from an interrupt in a stalled answer to the end of the turn", &ends);
    for (api, first, interrupted) in &rows {
        let name = api.as_str();
        report.at_most(&format!("hot first request, {name}, p50"), ms(first.median()), 5.0, "ms");
        let end = ms(interrupted.median());
        report.at_most(&format!("interrupt in a stalled answer, {name}, p50"), end, 100.0, "ms");
    }
    Ok(())
}

/// The step of a command in the sandbox, beside the same step without it.
fn sandbox(report: &mut GoalReport, model: &BenchModel) -> Result<()> {
    let ours = ComparedProgram::ours(Api::Chat);
    let mut plain = LoopDaemon::start(&model.server, Api::Chat, Some("off"))?;
    let mut confined = LoopDaemon::start(&model.server, Api::Chat, Some("landlock"))?;
    let [mut plain_steps, mut confined_steps] = <[SampleSeries; 2]>::default();
    for round in 0..=3 {
        for (daemon, found) in
            [(&mut plain, &mut plain_steps), (&mut confined, &mut confined_steps)]
        {
            // Different commands: the loop refuses one that repeats itself.
            let commands = (0..COMMANDS).map(|number| format!("true {number}"));
            model.prepare(
                commands.map(|command| Reply::message(vec![ours.command_call(&command)])),
                false,
            );
            daemon.new_turn("go on")?;
            if round > 0 {
                found.add_all(step_times(&model.exchanges()));
            }
        }
    }
    report::print_table(
        "one step with the command `true`",
        &[("without a sandbox", &plain_steps), ("in the sandbox", &confined_steps)],
    );
    let more = ms(confined_steps.median()) - ms(plain_steps.median());
    report.at_most("the sandbox over a plain command, p50", more, 10.0, "ms");
    Ok(())
}

fn memory(report: &mut GoalReport, model: &BenchModel) -> Result<()> {
    let mut daemon = LoopDaemon::start(&model.server, Api::Chat, None)?;
    model.prepare([], false);
    // One-time costs do not count.
    for _ in 0..5 {
        let session = daemon.client.create_session()?;
        daemon.client.turn(&session, "hello")?;
    }
    sleep(SETTLE_DELAY);
    let before = process_usage::private_megabytes(daemon.pid())?;
    for _ in 0..SESSIONS {
        let session = daemon.client.create_session()?;
        daemon.client.turn(&session, "hello")?;
    }
    sleep(SETTLE_DELAY);
    let after = process_usage::private_megabytes(daemon.pid())?;
    let each = (after - before) / f64::from(SESSIONS);
    report::print_section("memory");
    report::print_line(&format!(
        "{before:.1} MB before, {after:.1} MB with {SESSIONS} idle sessions: {each:.3} MB each"
    ));
    report.at_most("memory of an idle session", each, 0.3, "MB");
    Ok(())
}
