//! What each program makes of a broken answer, in one table. The scripted model gives the broken answer
//! first and then what a model would say; a command that the model calls leaves a line in a file, so that
//! one can see what was run, and how often.

use std::fs;

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::report::{self, GoalReport},
    isolated_home::IsolatedHome,
    model_server::{ApiError, Fault, Reply, StreamBreak, WireQuirk},
};
use anyhow::Result;

use crate::{
    bench_model::{BenchModel, LAST_WORDS},
    finished_run::FinishedRun,
    peers::ComparedProgram,
};

const RUN: &str = "echo run >> runs";

/// A row of the table.
struct FaultCase {
    name: &'static str,
    /// How often the command must run.
    runs: usize,
    /// Telling the model that its call cannot be understood is a way out.
    may_tell: bool,
    replies: fn(&ComparedProgram) -> Vec<Reply>,
    applies: fn(&ComparedProgram) -> bool,
}

/// How a program came out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultOutcome {
    /// The right effect and the answer.
    Recovered,
    /// Nothing was done wrong, and the model or the person was told.
    Told,
    /// Something was lost, done twice, or passed off as success.
    Lost,
    /// The program does not speak the API in which it can happen.
    NotApplicable,
}

impl FaultOutcome {
    fn sign(self) -> &'static str {
        match self {
            Self::Recovered => "yes",
            Self::Told => "told",
            Self::Lost => "LOST",
            Self::NotApplicable => "-",
        }
    }
}

fn one_call(peer: &ComparedProgram) -> Reply {
    Reply::message(vec![peer.command_call(RUN)])
}

const ANY: fn(&ComparedProgram) -> bool = |_| true;

const CASES: [FaultCase; 10] = [
    FaultCase {
        name: "529 and 503 before the answer",
        runs: 0,
        may_tell: false,
        replies: |_| vec![Reply::status(529), Reply::status(503)],
        applies: ANY,
    },
    FaultCase {
        name: "429 with retry-after: 2",
        runs: 0,
        may_tell: false,
        replies: |_| vec![Reply::status(429).with_header("retry-after", "2")],
        applies: ANY,
    },
    FaultCase {
        name: "overflow after a step",
        runs: 1,
        may_tell: false,
        replies: |peer| vec![one_call(peer), Reply::error(ApiError::Overflow { window: 200_000 })],
        applies: ANY,
    },
    FaultCase {
        name: "connection cut inside a tool call",
        runs: 1,
        may_tell: false,
        replies: |peer| vec![one_call(peer).with_cut(StreamBreak::Reset), one_call(peer)],
        applies: ANY,
    },
    FaultCase {
        name: "end of stream inside a tool call",
        runs: 1,
        may_tell: false,
        replies: |peer| vec![one_call(peer).with_cut(StreamBreak::End), one_call(peer)],
        applies: ANY,
    },
    FaultCase {
        name: "arguments with a trailing comma",
        runs: 1,
        may_tell: true,
        replies: |peer| {
            let text = peer.command_input(RUN).to_string();
            let text = format!("{},}}", text.trim_end_matches('}'));
            vec![Reply::raw_tool(peer.command_tool(), text)]
        },
        applies: ANY,
    },
    FaultCase {
        name: "two calls with one index",
        runs: 2,
        may_tell: false,
        replies: |peer| {
            let two = vec![peer.command_call(RUN), peer.command_call("echo second >> runs")];
            vec![Reply::message(two).with_quirk(WireQuirk::SharedIndex)]
        },
        applies: |peer| peer.api == Api::Chat,
    },
    FaultCase {
        name: "tool name in another case, with _tool",
        runs: 1,
        may_tell: true,
        replies: |peer| {
            let name = peer.command_tool();
            let (first, rest) = name.split_at(1);
            let changed = format!("{}{rest}_tool", first.to_uppercase());
            vec![crate::bench_model::call(&changed, peer.command_input(RUN))]
        },
        applies: ANY,
    },
    FaultCase {
        name: "error frame in a stream",
        runs: 0,
        may_tell: false,
        replies: |_| vec![Reply::fault(Fault::ErrorEvent)],
        applies: ANY,
    },
    FaultCase {
        name: "empty answer",
        runs: 0,
        may_tell: false,
        replies: |_| vec![Reply::message(Vec::new())],
        applies: ANY,
    },
];

pub(crate) fn measure(report: &mut GoalReport) -> Result<()> {
    let mut peers: Vec<ComparedProgram> = Api::ALL.map(ComparedProgram::ours).into();
    peers.extend(ComparedProgram::pi());
    peers.push(ComparedProgram::codex()?);
    peers.extend(ComparedProgram::opencode());
    peers.push(ComparedProgram::claude()?);
    report::print_section("faults: recovered (yes), told, or lost");
    let width = peers.iter().map(|peer| peer.name.len()).max().unwrap_or(0) + 2;
    let line = |first: &str, cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
        report::print_line(&format!("{first:<40}{}", cells.concat()));
    };
    line("", &peers.iter().map(|peer| peer.name).collect::<Vec<_>>());
    let model = BenchModel::start()?;
    let mut lost = Vec::new();
    for case in &CASES {
        let mut row = Vec::new();
        for peer in &peers {
            let (outcome, why) = try_case(&model, peer, case)?;
            row.push(outcome.sign());
            if outcome == FaultOutcome::Lost {
                lost.push(format!("{}, {}: {why}", case.name, peer.name));
            }
        }
        line(case.name, &row);
    }
    for line in &lost {
        report::print_line(&format!("lost: {line}"));
    }
    let ours = lost.iter().filter(|line| line.contains("angelia")).count();
    let ours = u32::try_from(ours)?;
    report.at_most("faults in which we lose something", f64::from(ours), 0.0, "");
    Ok(())
}

fn try_case(
    model: &BenchModel,
    peer: &ComparedProgram,
    case: &FaultCase,
) -> Result<(FaultOutcome, String)> {
    if !(case.applies)(peer) {
        return Ok((FaultOutcome::NotApplicable, String::new()));
    }
    let home = IsolatedHome::new()?;
    model.prepare((case.replies)(peer), true);
    let run =
        FinishedRun::of(peer.command(&home, &model.server, "Do the next step.")?, home.root())?;
    let runs = fs::read_to_string(home.work_dir().join("runs")).unwrap_or_default().lines().count();
    let has_answered = run.stdout.contains(LAST_WORDS);
    let seconds = run.took.as_secs_f64();
    let why = format!(
        "exit {:?} after {seconds:.1} s, {runs} of {} runs, {} requests, answer: {has_answered}",
        run.code,
        case.runs,
        model.exchanges().len()
    );
    let outcome = if runs > case.runs {
        FaultOutcome::Lost
    } else if has_answered && runs == case.runs && run.code == Some(0) {
        FaultOutcome::Recovered
    } else if case.may_tell && has_answered && run.code == Some(0) {
        // The model went on and was told that its call was not run.
        FaultOutcome::Told
    } else if runs == case.runs && run.code.is_some_and(|code| code != 0) {
        // The run says that it failed.
        FaultOutcome::Told
    } else {
        FaultOutcome::Lost
    };
    Ok((outcome, why))
}
