//! Measures the throughput of two cores, with the clients on the same two cores: whole turns, cheap
//! requests and deltas.

use std::{
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    benchmark::{
        BenchHome, process_usage,
        report::{self, GoalReport},
    },
    programs,
};
use anyhow::{Result, anyhow, ensure};

use crate::{
    client::ApiClient,
    daemon::{PROFILE, ServeDaemon},
};

const MEASURING_TIME: Duration = Duration::from_secs(3);
const TURN_CLIENTS: usize = 8;
const CHEAP_CLIENTS: [usize; 3] = [1, 16, 64];
const STREAMS: usize = 64;
const LONG_TURN: &str = "WORDS:2000";

/// Runs `count` clients at once, each repeating `step` until the time is over. Returns the sum of
/// their results per second.
fn run_concurrently(
    daemon: &ServeDaemon,
    count: usize,
    step: impl Fn(&mut ApiClient, usize) -> Result<usize> + Copy + Send,
) -> Result<f64> {
    let clients: Vec<ApiClient> = (0..count).map(|_| daemon.client()).collect::<Result<_>>()?;
    thread::scope(|scope| {
        let begun = Instant::now();
        let running: Vec<_> = (clients.into_iter().enumerate())
            .map(|(number, mut client)| {
                scope.spawn(move || -> Result<usize> {
                    let mut done = 0;
                    while begun.elapsed() < MEASURING_TIME {
                        done += step(&mut client, number)?;
                    }
                    Ok(done)
                })
            })
            .collect();
        let mut sum = 0;
        for client in running {
            sum += client.join().map_err(|_| anyhow!("a client died"))??;
        }
        let seconds = begun.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
        let sum = sum as f64;
        Ok(sum / seconds)
    })
}

fn whole_turns(daemon: &ServeDaemon) -> Result<f64> {
    run_concurrently(daemon, TURN_CLIENTS, |client, number| {
        let turn = client.turn(PROFILE, &format!("turns-{number}"), "WORDS:20")?;
        ensure!(turn.deltas >= 20, "a turn lost text: {} deltas", turn.deltas);
        Ok(1)
    })
}

fn deltas(daemon: &ServeDaemon) -> Result<f64> {
    run_concurrently(daemon, STREAMS, |client, number| {
        let turn = client.turn(PROFILE, &format!("stream-{number}"), LONG_TURN)?;
        Ok(turn.deltas)
    })
}

/// Name, method, path, body and expected status of each cheap request.
const CHEAP_REQUESTS: [(&str, &str, &str, &str, u16); 3] = [
    ("models", "GET", "/v1/models", "", 200),
    (
        "count_tokens",
        "POST",
        "/v1/messages/count_tokens",
        r#"{"model":"bench","messages":[{"role":"user","content":"How many tokens is this?"}]}"#,
        200,
    ),
    (
        "errors",
        "POST",
        "/v1/messages",
        r#"{"model":"nobody","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#,
        404,
    ),
];

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let daemon = ServeDaemon::start(&place)?;
    report::print_section("load: per second, every client on the same two cores");
    let mut turned = Vec::new();
    let mut told = Vec::new();
    let mut cheap = <[[Vec<f64>; CHEAP_CLIENTS.len()]; CHEAP_REQUESTS.len()]>::default();
    let mut memory = 0.0_f64;
    // The first round only starts the agents and is not counted.
    for round in 0..=rounds {
        let turns = whole_turns(&daemon)?;
        let streamed = deltas(&daemon)?;
        memory = memory.max(process_usage::private_megabytes(daemon.pid())?);
        if round == 0 {
            continue;
        }
        turned.push(turns);
        told.push(streamed);
        report::print_line(&format!(
            "{turns:>9.0} turns of 20 deltas, {TURN_CLIENTS} sessions   {streamed:>9.0} deltas, {STREAMS} sessions"
        ));
        for (row, (_, method, path, body, expected)) in cheap.iter_mut().zip(CHEAP_REQUESTS) {
            for (found, clients) in row.iter_mut().zip(CHEAP_CLIENTS) {
                let rate = run_concurrently(&daemon, clients, |client, _| {
                    let status = client.request(method, path, body)?;
                    ensure!(status == expected, "{path}: {status}");
                    Ok(1)
                })?;
                found.push(rate);
            }
        }
    }
    for (row, (name, ..)) in cheap.into_iter().zip(CHEAP_REQUESTS) {
        for (rates, clients) in row.into_iter().zip(CHEAP_CLIENTS) {
            let rate = median(rates);
            report::print_line(&format!("{rate:>9.0} {name}, {clients} clients"));
            report.at_least(
                &format!("load, {name}, {clients} clients"),
                rate,
                6000.0,
                "requests/s",
            );
        }
    }
    report::print_line(&format!("{memory:>9.1} MB of its own under load"));
    report.at_least("load, whole turns", median(turned), 2000.0, "turns/s");
    report.at_least("load, 64 streams", median(told), 400_000.0, "deltas/s");
    report.at_most("load, memory of the daemon's own", memory, 60.0, "MB");
    Ok(())
}

/// Returns the median over the rounds.
fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
