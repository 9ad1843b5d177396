//! `kill -9` of the daemon again and again while its agents run tools, and clients that send each
//! request again until it is answered: no turn stays open, no tool runs twice, no process is left.
//!
//! `ANGELIA_SOAK_KILLS` (6) and `ANGELIA_SOAK_SEED` (1) set the length and the seed;
//! `cargo xtask soak kill` uses them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::programs;
use serde_json::{Value, json};

use crate::{
    agent_processes::{agent_pids, command_line},
    insistent_client::InsistentClient,
    machine::{Machine, until, within},
    seeded_random::SeededRandom,
    under_load::number,
};

const CLIENTS: usize = 4;

/// The minimum number of tools that run between two kills.
const TOOLS_PER_KILL: usize = 5;

/// The longest time that the processes of a killed daemon may live after the next start.
const MAX_ORPHAN_TIME: Duration = Duration::from_secs(5);

/// The longest time from a tool's start to the kill, so that every step of a turn gets its kill.
const MAX_KILL_DELAY_MS: usize = 80;

struct Soak {
    client: InsistentClient,
    work: PathBuf,
    /// The tools write their names into this file.
    runs: PathBuf,
    over: AtomicBool,
    /// The turn of each request; a request that is sent again must get the same.
    turns: Mutex<BTreeMap<String, String>>,
}

impl Soak {
    /// Runs sessions of two turns each until it is over. The second turn waits for the first.
    fn work(&self, client: usize) {
        let mut number = 0;
        while !self.over.load(Ordering::Relaxed) {
            number += 1;
            let session = self.client.create_session(&self.work);
            let turns: Vec<_> = [0, 1]
                .map(|turn| self.submit(&session, turn, &format!("{client}-{number}")))
                .into();
            for turn in turns {
                self.client.wait_for_end(&turn);
            }
        }
    }

    fn submit(&self, session: &str, turn: usize, name: &str) -> String {
        let key = format!("{name}-{turn}");
        let script = self.script(turn, &key);
        let id = self.client.submit(session, &key, &script);
        // Every third request is sent again, like that of a client that missed the answer.
        if (key.len() + turn).is_multiple_of(3) {
            assert_eq!(self.client.submit(session, &key, &script), id, "{key} has two turns");
        }
        self.turns.lock().unwrap().insert(key, id.clone());
        id
    }

    /// The prompt of the scripted agent: two tools, one after the other. Terminals are numbered per
    /// process, which runs both turns of its session.
    fn script(&self, turn: usize, key: &str) -> String {
        let request = |method: &str, params: &Value| {
            let request = json!({"id": format!("r-{method}"), "method": method, "params": params});
            format!("> {request}\n<\n")
        };
        let mut script = "say working\n".to_owned();
        for tool in 0..2 {
            let command = format!("echo {key}-{tool} >> '{}'; sleep 0.03", self.runs.display());
            let run = json!({"sessionId": "$S", "command": "sh", "args": ["-c", command]});
            let terminal = format!("term-{}", 1 + 2 * turn + tool);
            script += &request("terminal/create", &run);
            script += &request(
                "terminal/wait_for_exit",
                &json!({"sessionId": "$S", "terminalId": terminal}),
            );
        }
        script + "say done\n"
    }
}

fn tool_runs(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn machine() -> Machine {
    let machine = Machine::with_shell();
    let agent = programs::acp_fake().unwrap();
    let profile =
        json!({"executor": "acp", "command": [agent], "permissions": "unattended", "warm": 0});
    machine.configure(
        &json!({"profiles": {"default": profile}, "sessions": {"idle_ttl": "1s"}}).to_string(),
    );
    machine
}

#[test]
fn no_turn_is_lost_and_no_tool_runs_twice_however_often_the_daemon_is_killed() {
    let kills = number("ANGELIA_SOAK_KILLS", 6);
    let mut chance = SeededRandom::new(number("ANGELIA_SOAK_SEED", 1).try_into().unwrap());
    let machine = machine();
    let serving = machine.serve();
    let soak = Soak {
        client: InsistentClient { socket: serving.socket.clone() },
        work: machine.work(),
        runs: machine.place.root().join("runs"),
        over: AtomicBool::new(false),
        turns: Mutex::default(),
    };
    let began = Instant::now();
    let (serving, killed_processes) = thread::scope(|scope| {
        let (mut serving, mut killed_processes) = (serving, 0);
        for client in 0..CLIENTS {
            let soak = &soak;
            scope.spawn(move || soak.work(client));
        }
        for _ in 0..kills {
            let before = tool_runs(&soak.runs).len();
            until("tools run", || tool_runs(&soak.runs).len() >= before + TOOLS_PER_KILL);
            let delay = chance.below(MAX_KILL_DELAY_MS).try_into().unwrap();
            thread::sleep(Duration::from_millis(delay));
            serving.kill();
            let left = agent_pids(&machine);
            killed_processes += left.len();
            serving = machine.serve();
            let is_gone = || agent_pids(&machine).iter().all(|pid| !left.contains(pid));
            let lines = || left.iter().map(|pid| command_line(*pid)).collect::<Vec<_>>();
            assert!(within(MAX_ORPHAN_TIME, is_gone), "orphans: {:#?}", lines());
        }
        soak.over.store(true, Ordering::Relaxed);
        (serving, killed_processes)
    });
    serving.stop().assert_code(0);
    let gone = within(MAX_ORPHAN_TIME, || agent_pids(&machine).is_empty());
    assert!(gone, "orphans: {:?}", agent_pids(&machine));

    let mut runs = tool_runs(&soak.runs);
    let count = runs.len();
    runs.sort();
    let twice: Vec<_> = runs.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "these tools ran twice: {twice:?}");
    assert!(count >= kills * TOOLS_PER_KILL, "only {count} tools ran");
    let statuses = check_turns(&machine, &soak);
    println!(
        "{kills} kills in {:?}: {count} tools ran, {killed_processes} processes were left to end, \
         turns: {statuses:?}",
        began.elapsed()
    );
}

/// Asserts that every turn has ended exactly once, and returns how many ended in which way.
fn check_turns(machine: &Machine, soak: &Soak) -> BTreeMap<String, usize> {
    let mut statuses = BTreeMap::new();
    let mut ended = Vec::new();
    for session in machine.list("sessions") {
        for turn in machine.export(session["id"].as_str().unwrap()) {
            turn.ends_once();
            let end = turn.end();
            let failure = end["failure"]["message"].as_str().unwrap_or_default();
            let status = format!("{} {failure}", end["status"].as_str().unwrap());
            ended.push(end["turn_id"].as_str().unwrap().to_owned());
            *statuses.entry(status).or_default() += 1;
        }
    }
    for (key, turn) in &*soak.turns.lock().unwrap() {
        assert_eq!(ended.iter().filter(|id| *id == turn).count(), 1, "{key} is turn {turn}");
    }
    statuses
}
