//! Thousands of requests that are aborted, repeated or never finished, with agents that get killed;
//! afterwards nothing of them is left.
//!
//! `ANGELIA_SOAK_REQUESTS` (150) and `ANGELIA_SOAK_SEED` (1) set the length and the seed;
//! `cargo xtask soak` uses them.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::programs;

use crate::{
    machine::{Machine, until},
    random_client::RandomClient,
    raw_client::DaemonAddress,
    resource_usage::{ResourceUsage, kill_an_agent},
    seeded_random::SeededRandom,
};

const CLIENTS: usize = 8;

/// The most processes in the pool, and the file descriptors that each of them takes.
const MAX_POOLED_PROCESSES: usize = 16;
const DESCRIPTORS_PER_PROCESS: usize = 5;

/// Allowance for connections that are just closing.
const SPARE_DESCRIPTORS: usize = 3;

/// The pause between two kills of an agent.
const KILL_INTERVAL: Duration = Duration::from_millis(150);

pub(crate) fn number(variable: &str, usual: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "a test is told by its caller")]
    let told = std::env::var(variable);
    told.ok().and_then(|told| told.parse().ok()).unwrap_or(usual)
}

fn machine(warm: usize) -> Machine {
    let machine = Machine::with_shell();
    machine.configure(&format!(
        "executors:
  claude:
    binary: {}
    warm: {warm}
    caller_tool_timeout: 2s
sessions: {{idle_ttl: 1s, max_live: 16}}
http: {{disconnect_grace: 1s}}
",
        programs::fake_cli().unwrap().display()
    ));
    machine
}

/// Runs all clients with their share of the requests.
fn load(door: &DaemonAddress, requests: usize, seed: usize, tally: &Mutex<BTreeMap<String, u64>>) {
    thread::scope(|scope| {
        for name in 0..CLIENTS {
            scope.spawn(move || {
                let chance = SeededRandom::new((seed * 1000 + name).try_into().unwrap());
                let mut client = RandomClient { address: door, rng: chance, name, tally };
                client.work(requests.div_ceil(CLIENTS));
            });
        }
    });
}

#[test]
fn nothing_is_left_of_thousands_of_broken_requests() {
    soak(0);
}

#[test]
fn only_the_pool_is_left_of_thousands_of_broken_requests() {
    soak(1);
}

fn soak(warm: usize) {
    let requests = number("ANGELIA_SOAK_REQUESTS", 150);
    let seed = number("ANGELIA_SOAK_SEED", 1);
    let machine = machine(warm);
    let pooled = if warm == 0 { 0 } else { MAX_POOLED_PROCESSES };
    let serving = machine.serve();
    let (pid, socket) = (serving.running.pid(), serving.socket.clone());
    let address = fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let key = fs::read_to_string(machine.home().join("token")).unwrap();
    let door = DaemonAddress { address: address.trim().to_owned(), key: key.trim().to_owned() };
    let idle = || ResourceUsage::measure(pid, &socket).is_idle();

    // Warm up, so that everything that is opened once and kept is open.
    let tally = Mutex::default();
    load(&door, CLIENTS * 4, seed + 1, &tally);
    until("the first ones are over", idle);
    let before = ResourceUsage::measure(pid, &socket);

    let began = Instant::now();
    let over = AtomicBool::new(false);
    let killed = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut chance = SeededRandom::new(seed.try_into().unwrap());
            let mut killed = 0;
            while !over.load(Ordering::Relaxed) {
                thread::sleep(KILL_INTERVAL);
                killed += usize::from(kill_an_agent(pid, &mut chance));
            }
            killed
        });
        load(&door, requests, seed, &tally);
        over.store(true, Ordering::Relaxed);
        killer.join().unwrap()
    });
    let took = began.elapsed();

    until("everything is over", idle);
    let calm = |held: &ResourceUsage| {
        held.descendants <= pooled
            && held.descriptors
                <= before.descriptors + pooled * DESCRIPTORS_PER_PROCESS + SPARE_DESCRIPTORS
            && held.tasks() <= before.tasks() + 4.0
            && held.gauge("angelia_http_requests_open") <= 1.0
    };
    let mut after = ResourceUsage::measure(pid, &socket);
    let settled = crate::machine::within(Duration::from_secs(30), || {
        after = ResourceUsage::measure(pid, &socket);
        calm(&after)
    });
    let tally = tally.into_inner().unwrap();
    println!("{requests} requests in {took:?}, {killed} agents killed\n{tally:#?}");
    println!("before: {before}\nafter: {after}");
    assert!(settled, "something is left: {after:#?}");
    assert!(killed > 0, "no agent was killed");
    // A hundred megabytes would mean ten kilobytes leaked per request.
    let grown = after.kilobytes.saturating_sub(before.kilobytes);
    assert!(grown < 100_000, "{grown} kB more");

    let ended = serving.stop();
    ended.assert_code(0);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}
