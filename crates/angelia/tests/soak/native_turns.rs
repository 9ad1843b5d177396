//! Our own loop for hundreds of turns on a provider that fails at random, with a daemon that is
//! killed: every message is answered once, and the provider is asked no more than the rules allow.
//!
//! `ANGELIA_SOAK_TURNS` (45) and `ANGELIA_SOAK_SEED` (1) set the length and the seed;
//! `cargo xtask soak native` uses them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use angelia_executors::native::provider::Api;
use angelia_testkit::{model_server::ModelServer, scripted_provider};
use serde_json::{Value, json};

use crate::{
    insistent_client::InsistentClient,
    machine::{Machine, until},
    native_faults::{FaultyModel, MARK},
    seeded_random::SeededRandom,
    under_load::number,
};

const SESSIONS: usize = 3;
const KEYS: usize = 4;

/// How many turns end between two kills.
const TURNS_PER_KILL: usize = 12;
const MAX_KILL_DELAY_MS: usize = 60;

fn machine(api: Api, server: &ModelServer) -> Machine {
    let machine = Machine::with_shell();
    let folder = machine.place.root().join("keys");
    fs::create_dir_all(&folder).unwrap();
    let key = |name: &str| {
        let path = folder.join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        json!({"file": path})
    };
    let keys: Vec<_> = (0..KEYS).map(|index| key(&format!("key-{index}"))).collect();
    let models = json!({"m": {"context": 30_000, "output": 2_000}});
    let base_url = scripted_provider::base_url(server, api);
    let provider = |keys: Value| json!({"api": api.as_str(), "base_url": base_url, "keys": keys, "models": models});
    let profile = json!({"executor": "native", "model": "main/m", "fallback": ["spare/m"],
        "trust": "off", "permissions": "unattended", "sandbox": "off"});
    let config = json!({
        "providers": {"main": provider(json!(keys)), "spare": provider(json!([key("spare")]))},
        "profiles": {"default": profile},
    });
    machine.configure(&config.to_string());
    machine
}

/// Sends the turns of one session one after the other, and returns how each ended.
fn converse(
    client: &InsistentClient,
    machine: &Machine,
    name: &str,
    turns: usize,
    ended: &Mutex<BTreeMap<String, Value>>,
) {
    let session = client.create_session(&machine.work());
    for turn in 1..=turns {
        let key = format!("{name}-{turn}");
        let id = client.submit(&session, &key, &format!("{MARK}{key} and nothing else"));
        let end = client.wait_for_end(&id);
        ended.lock().unwrap().insert(key, end);
    }
}

#[test]
fn every_message_is_answered_once_whatever_fails() {
    let turns = number("ANGELIA_SOAK_TURNS", 45);
    let seed: u64 = number("ANGELIA_SOAK_SEED", 1).try_into().unwrap();
    for (api, seed) in Api::ALL.into_iter().zip(seed..) {
        let per_session = turns.div_ceil(Api::ALL.len() * SESSIONS);
        soak(api, per_session, seed);
    }
}

fn soak(api: Api, per_session: usize, seed: u64) {
    let server = ModelServer::start().unwrap();
    let model = Arc::new(Mutex::new(FaultyModel::new(seed, KEYS - 1)));
    let shared = Arc::clone(&model);
    server.respond_with(move |request| Some(shared.lock().unwrap().answer(request)));
    let machine = machine(api, &server);
    let serving = machine.serve();
    let client = InsistentClient { socket: serving.socket.clone() };
    let ended = Mutex::default();
    let all = per_session * SESSIONS;
    let kills = all / TURNS_PER_KILL;
    let began = Instant::now();
    let serving = thread::scope(|scope| {
        let mut serving = serving;
        for session in 0..SESSIONS {
            let (client, machine, ended) = (&client, &machine, &ended);
            let name = format!("{}-{session}", api.as_str());
            scope.spawn(move || converse(client, machine, &name, per_session, ended));
        }
        let mut chance = SeededRandom::new(seed);
        for kill in 1..=kills {
            let due = kill * TURNS_PER_KILL - TURNS_PER_KILL / 2;
            until("turns end", || ended.lock().unwrap().len() >= due);
            let delay = chance.below(MAX_KILL_DELAY_MS).try_into().unwrap();
            thread::sleep(Duration::from_millis(delay));
            serving.kill();
            serving = machine.serve();
        }
        serving
    });
    until("the last turn ends", || ended.lock().unwrap().len() == all);
    serving.stop().assert_code(0);
    let model = model.lock().unwrap();
    let ended = ended.into_inner().unwrap();
    println!("{api:?}: {all} turns, {kills} kills, {:?}: {:?}", began.elapsed(), model.totals);
    check(&machine, &model, &ended, kills);
}

fn check(machine: &Machine, model: &FaultyModel, ended: &BTreeMap<String, Value>, kills: usize) {
    assert!(model.violations.is_empty(), "{:#?}", model.violations);
    let mut lost = 0;
    for (name, end) in ended {
        if end["status"] == "completed" {
            let text = end["text"].as_str().unwrap();
            assert!(text.ends_with(&format!("answer {name}")), "{name}: {end}");
            assert_eq!(model.prompts[name].answers, 1, "{name}: {end}");
        } else {
            let message = end["failure"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("killed"), "{name}: {end}");
            lost += 1;
        }
    }
    assert!(lost <= kills * SESSIONS, "{lost} turns of {} were lost to {kills} kills", ended.len());
    let runs = fs::read_to_string(machine.work().join("runs")).unwrap_or_default();
    let mut runs: Vec<_> = runs.lines().collect();
    runs.sort_unstable();
    let twice: Vec<_> = runs.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "these tools ran twice: {twice:?}");
    // One request for each answer, call and fault, one summary for each overflow, and one more where
    // a kill has cut an exchange off.
    let summaries = model.total("summary");
    let allowed = model.total("overflow") + kills * SESSIONS;
    assert!(summaries <= allowed, "{summaries} summaries, {allowed} allowed: {:?}", model.totals);
    for session in machine.list("sessions") {
        for turn in machine.export(session["id"].as_str().unwrap()) {
            turn.ends_once();
        }
    }
}
