//! A hundred turns with one compaction and two reviews: how much of each request a provider's cache
//! does not have yet. Beside us hermes-agent, which reviews and compacts too.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::time::{Duration, Instant};

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::{BenchHome, report::GoalReport},
    model_server::{ModelServer, RecordedRequest, Reply},
    request_parts::{RequestParts, RequestSizes},
};
use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    daemon::{PROGRAM, SocketDaemon},
    hermes_agent::HermesAgent,
    peers::own_config,
};

const TURNS: usize = 100;
const TURNS_PER_REVIEW: usize = 40;

/// After this turn the model reports a conversation that nearly fills the window.
const LONG_TURN: usize = 60;
pub(crate) const WINDOW: u64 = 200_000;

const REVIEW_LIMIT: Duration = Duration::from_secs(20);

/// The requests of one program.
struct CacheUse {
    name: &'static str,
    requests: usize,
    /// Requests that share no system prompt and tools with an earlier one, or only the first messages.
    cold: usize,
    sizes: RequestSizes,
}

pub(crate) fn measure(report: &mut GoalReport) -> Result<()> {
    let mut rows = Vec::new();
    for (api, name) in [
        (Api::Messages, "angelia messages"),
        (Api::Chat, "angelia chat"),
        (Api::Responses, "angelia responses"),
    ] {
        rows.push(ours(api, name)?);
    }
    let own = rows.len();
    rows.extend(hermes()?);
    println!("\ncache: {TURNS} turns, one compaction, two reviews");
    println!(
        "  {:20}{:>10}{:>8}{:>14}{:>16}{:>10}",
        "", "requests", "cold", "bytes sent", "not cached", "share"
    );
    for row in &rows {
        #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
        let share = 100.0 * row.sizes.uncached as f64 / row.sizes.total as f64;
        println!(
            "  {:20}{:>10}{:>8}{:>14}{:>16}{share:>8.1} %",
            row.name, row.requests, row.cold, row.sizes.total, row.sizes.uncached
        );
    }
    for row in &rows[..own] {
        // The first request, and the one after the compaction.
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        report.at_most(&format!("cold requests, {}", row.name), row.cold as f64, 2.0, "");
    }
    Ok(())
}

fn ours(api: Api, name: &'static str) -> Result<CacheUse> {
    let server = start_model()?;
    let home = BenchHome::new(PROGRAM.as_ref(), &server.base_url())?;
    let mut config = own_config(&server, api);
    let profile = &mut config["profiles"]["default"];
    profile["cwd"] = home.work_dir().to_string_lossy().into();
    profile["memory"] = json!("on");
    profile["review"] = json!({"turns": TURNS_PER_REVIEW});
    let daemon = SocketDaemon::start_configured(&home, &config)?;
    let mut client = daemon.client()?;
    let session = client.create_session()?;
    for turn in 1..=TURNS {
        let before = server.model_requests().len();
        client.turn(&session, &prompt(turn))?;
        if turn % TURNS_PER_REVIEW == 0 {
            // The next turn would end the review.
            let deadline = Instant::now() + REVIEW_LIMIT;
            while server.model_requests().len() < before + 2 {
                ensure!(Instant::now() < deadline, "there was no review after turn {turn}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    drop(client);
    Ok(cache_use(name, &server))
}

/// `None` if hermes-agent is not installed.
fn hermes() -> Result<Option<CacheUse>> {
    let server = start_model()?;
    let Some(mut agent) = HermesAgent::start(&server)? else { return Ok(None) };
    for turn in 1..=TURNS {
        agent.prompt(&prompt(turn))?;
    }
    drop(agent);
    Ok(Some(cache_use("hermes-agent 0.19.0", &server)))
}

fn prompt(turn: usize) -> String {
    format!("turn {turn}: say something about it")
}

fn start_model() -> Result<ModelServer> {
    let server = ModelServer::start()?;
    server.respond_with(|request| Some(answer(request)));
    Ok(server)
}

fn answer(request: &RecordedRequest) -> Reply {
    let reply = Reply::text("Something that is worth a few words, and then a few more of them.");
    if request.prompt().starts_with(&format!("turn {LONG_TURN}:")) {
        return reply.with_tokens(WINDOW - WINDOW / 20, 20);
    }
    reply
}

fn cache_use(name: &'static str, server: &ModelServer) -> CacheUse {
    let requests: Vec<_> =
        server.model_requests().iter().map(|request| RequestParts::of(&request.json())).collect();
    let (mut cold, mut sizes) = (0, RequestSizes::default());
    for (index, request) in requests.iter().enumerate() {
        let size = request.sizes(&requests[..index]);
        sizes.total += size.total;
        sizes.uncached += size.uncached;
        // A new turn brings an answer and a prompt. More than that was sent before, in other bytes.
        let new = request.first_new_message(&requests[..index]);
        cold += usize::from(new.is_none_or(|first| request.messages.len() > first + 4));
    }
    CacheUse { name, requests: requests.len(), cold, sizes }
}
