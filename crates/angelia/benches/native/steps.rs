//! The cost of one step of a loop: from the end of an answer to the next request.

use std::{fs, time::Duration};

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::{
        process_usage,
        report::{self, GoalReport, SampleSeries, ms},
    },
    isolated_home::IsolatedHome,
};
use anyhow::{Result, ensure};

use crate::{
    bench_model::{BenchModel, step_times},
    finished_run::FinishedRun,
    loop_daemon::LoopDaemon,
    peers::ComparedProgram,
};

const SHORT: u32 = 20;
const LONG: u32 = 500;

/// The size of a file that a long turn reads in each step: together more than a megabyte.
const FILE_BYTES: usize = 2_200;

#[derive(Default)]
struct StepResults {
    wall: SampleSeries,
    /// Per step, one sample per run.
    cpu: SampleSeries,
}

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let model = BenchModel::start()?;
    let ours = ComparedProgram::ours(Api::Chat);
    let mut peers = vec![ComparedProgram::codex()?];
    peers.extend(ComparedProgram::pi());
    let mut daemon = LoopDaemon::start(&model.server, Api::Chat, None)?;
    write_files(&daemon.work_dir())?;
    let homes: Vec<IsolatedHome> =
        peers.iter().map(|_| IsolatedHome::new()).collect::<std::io::Result<_>>()?;
    let mut short = StepResults::default();
    let mut long = StepResults::default();
    let mut others: Vec<StepResults> = peers.iter().map(|_| StepResults::default()).collect();
    for round in 0..=rounds {
        let mut thrown_away = StepResults::default();
        let into = if round == 0 { &mut thrown_away } else { &mut short };
        own_steps(&model, &mut daemon, &ours, SHORT, into)?;
        for ((peer, home), found) in peers.iter().zip(&homes).zip(&mut others) {
            let mut thrown_away = StepResults::default();
            let into = if round == 0 { &mut thrown_away } else { found };
            peer_steps(&model, peer, home, into)?;
        }
    }
    own_steps(&model, &mut daemon, &ours, LONG, &mut long)?;

    let mut rows = vec![("angelia, 20 steps", &short), ("angelia, 500 steps and 1 MiB", &long)];
    rows.extend(peers.iter().map(|peer| peer.name).zip(&others));
    let series = |pick: fn(&StepResults) -> &SampleSeries| -> Vec<(&str, &SampleSeries)> {
        rows.iter().map(|(name, found)| (*name, pick(found))).collect()
    };
    report::print_table(
        "one step, from the end of an answer to the next request",
        &series(|one| &one.wall),
    );
    report::print_table("processor time of one step", &series(|one| &one.cpu));
    report.at_most("step at 20 steps, p50", ms(short.wall.median()), 3.0, "ms");
    report.at_most("processor time of a step at 20 steps", ms(short.cpu.median()), 1.0, "ms");
    report.at_most("processor time of a step at 500 steps", ms(long.cpu.median()), 3.0, "ms");
    Ok(())
}

fn write_files(folder: &std::path::Path) -> Result<()> {
    let line = "a line of a file that is read in one step of a long turn\n";
    for number in 0..LONG {
        let text = format!("{number}\n{}", line.repeat(FILE_BYTES / line.len()));
        fs::write(folder.join(format!("file-{number}")), text)?;
    }
    Ok(())
}

fn own_steps(
    model: &BenchModel,
    daemon: &mut LoopDaemon,
    ours: &ComparedProgram,
    steps: u32,
    found: &mut StepResults,
) -> Result<()> {
    // A turn without steps costs as much as the rest of the other one.
    model.prepare([], false);
    let before = process_usage::cpu_time(daemon.pid())?;
    daemon.new_turn("nothing to do")?;
    let idle = process_usage::cpu_time(daemon.pid())?.saturating_sub(before);
    model.prepare((0..steps).map(|number| ours.step(&format!("file-{number}"))), false);
    let before = process_usage::cpu_time(daemon.pid())?;
    daemon.new_turn("go on")?;
    let busy = process_usage::cpu_time(daemon.pid())?.saturating_sub(before);
    let exchanges = model.exchanges();
    let wanted = usize::try_from(steps)? + 1;
    ensure!(exchanges.len() == wanted, "{} requests instead of {wanted}", exchanges.len());
    found.wall.add_all(step_times(&exchanges));
    found.cpu.add(busy.saturating_sub(idle) / steps);
    Ok(())
}

fn peer_steps(
    model: &BenchModel,
    peer: &ComparedProgram,
    home: &IsolatedHome,
    found: &mut StepResults,
) -> Result<()> {
    fs::write(home.work_dir().join("file"), "a line\n")?;
    let run = |steps: u32| -> Result<Duration> {
        model.prepare((0..steps).map(|_| peer.step("file")), false);
        let command = peer.command(home, &model.server, "go on")?;
        let run = FinishedRun::of(command, home.root())?;
        let asked = model.exchanges().len();
        ensure!(
            asked == usize::try_from(steps)? + 1,
            "{} asked {asked} times: {} {}",
            peer.name,
            run.stdout,
            run.stderr
        );
        Ok(run.cpu)
    };
    let idle = run(0)?;
    let busy = run(SHORT)?;
    found.wall.add_all(step_times(&model.exchanges()));
    found.cpu.add(busy.saturating_sub(idle) / SHORT);
    Ok(())
}
