//! Measures how much a greedy key disturbs a polite one: the polite key's turns alone, and beside a
//! key that opens as many connections as it may and sends large requests without a pause.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use angelia_testkit::{
    benchmark::{
        BenchHome, process_usage,
        report::{self, GoalReport},
    },
    programs,
};
use anyhow::{Result, anyhow};
use rustix::process::setpriority_process;
use serde_json::json;

use crate::daemon::{PROFILE, ServeDaemon};

const GREEDY_CONNECTIONS: usize = 64;
/// A request of the greedy key is this large and names an unknown model, so it is read, decoded and
/// refused: its cost is the daemon's alone.
const GREEDY_BODY_BYTES: usize = 4 << 20;
/// The priority of the greedy key's threads, as by `nice -n 19`.
const LOWEST_PRIORITY: i32 = 19;
/// Turns of the polite key per round, with a pause between them as a person or a tool makes.
const POLITE_TURNS: usize = 100;
const POLITE_PAUSE: Duration = Duration::from_millis(5);

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let daemon = ServeDaemon::start(&place)?;
    report::print_section("shares: a polite key alone, and beside a greedy one");
    polite_turns(&daemon)?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let (mut memory, mut refused) = (0.0_f64, 0);
    for _ in 0..rounds {
        alone.extend(polite_turns(&daemon)?);
        let (turns, refusals) = beside_greedy(&daemon, || {
            let turns = polite_turns(&daemon);
            memory = memory.max(process_usage::private_megabytes(daemon.pid()).unwrap_or_default());
            turns
        })?;
        beside.extend(turns);
        refused += refusals;
    }
    let [(alone_p50, alone_p99), (beside_p50, beside_p99)] =
        [alone, beside].map(|times| (percentile(&times, 0.5), percentile(&times, 0.99)));
    report::print_line(&format!("alone      p50 {alone_p50:>7.3} ms   p99 {alone_p99:>7.3} ms"));
    report::print_line(&format!("beside it  p50 {beside_p50:>7.3} ms   p99 {beside_p99:>7.3} ms"));
    report::print_line(&format!("{refused} requests of the greedy key were told to wait"));
    report::print_line(&format!("{memory:.1} MB of the daemon's own"));
    report.at_most("shares, polite p99 by its p99 alone", beside_p99 / alone_p99, 2.0, "×");
    report.at_most("shares, memory of the daemon's own", memory, 300.0, "MB");
    Ok(())
}

/// Runs turns of the polite key and returns how long each took.
fn polite_turns(daemon: &ServeDaemon) -> Result<Vec<Duration>> {
    let mut client = daemon.client_of_key(POLITE_KEY)?;
    (0..POLITE_TURNS)
        .map(|_| {
            thread::sleep(POLITE_PAUSE);
            Ok(client.turn(PROFILE, "polite", "WORDS:20")?.timing.end)
        })
        .collect()
}

/// Runs `work` while the greedy key does what it can; returns how often that key was told to wait.
fn beside_greedy<T>(daemon: &ServeDaemon, work: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let over = AtomicBool::new(false);
    let content = "x".repeat(GREEDY_BODY_BYTES);
    let body = json!({"model": "nobody", "max_tokens": 1,
        "messages": [{"role": "user", "content": content}]})
    .to_string();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..GREEDY_CONNECTIONS)
            .map(|_| {
                scope.spawn(|| {
                    // The clients of a daemon under such a load are on other machines. Here they
                    // run on its processors, so they yield to it; else the figure would tell how
                    // the kernel shares two cores among 64 threads.
                    if setpriority_process(None, LOWEST_PRIORITY).is_err() {
                        return 0;
                    }
                    let mut refused = 0;
                    while !over.load(Ordering::Relaxed) {
                        // A refused client connects again at once, as a greedy one would.
                        let Ok(mut client) = daemon.client_of_key(GREEDY_KEY) else { continue };
                        while !over.load(Ordering::Relaxed) {
                            match client.request("POST", "/v1/messages", &body) {
                                Ok(429) => refused += 1,
                                Ok(_) => {}
                                Err(_closed) => break,
                            }
                        }
                    }
                    refused
                })
            })
            .collect();
        let done = work();
        over.store(true, Ordering::Relaxed);
        let mut refused = 0;
        for client in clients {
            refused += client.join().map_err(|_| anyhow!("a client died"))?;
        }
        Ok((done?, refused))
    })
}

/// Returns a percentile in milliseconds.
fn percentile(times: &[Duration], share: f64) -> f64 {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a few hundred"
    )]
    let index = ((times.len() as f64 - 1.0) * share) as usize;
    times.get(index).copied().unwrap_or_default()
}

/// The keys of the daemon under measurement.
pub(crate) const POLITE_KEY: &str = "bench-polite-key";
pub(crate) const GREEDY_KEY: &str = "bench-greedy-key";
