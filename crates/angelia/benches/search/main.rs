//! Measures searches over many sessions, and what indexing costs: `cargo xtask bench search [--rounds
//! N]`. 10,000 sessions with 20 turns each are written first, which takes minutes.

use std::{sync::Arc, time::Instant};

use angelia_backends::{owners::OwnerRegistry, store::SqliteStore};
use angelia_core::{
    model::{
        Content, EventKind, Outcome, SearchQuery, SearchTerms, TextChannel, TurnRecord, TurnStatus,
        Usage,
    },
    ports::{SearchUpkeep, Store},
};
use angelia_testkit::{
    benchmark::{
        BenchOptions,
        report::{self, GoalReport, SampleSeries, ms},
    },
    conformance::store::{event, plain_session, plain_turn},
};
use anyhow::Result;
use tokio::task::JoinSet;

const SESSIONS: usize = 10_000;
const TURNS: usize = 20;
/// The number of sessions that are written at the same time.
const SESSIONS_AT_ONCE: usize = 100;

const ROUNDS: u32 = 50;

/// The searched words: a word of every turn, one of a few turns, none, several words, and a word
/// that the index cannot help with.
const QUERIES: [(&str, &str); 5] = [
    ("in every turn", "please"),
    ("in one turn of a thousand", "needle7"),
    ("in none", "unheardof"),
    ("two words", "deploy parser"),
    ("two characters of Chinese", "世界"),
];

/// Words in the proportions of a text: the first are frequent.
fn words(seed: &mut u64, count: usize) -> String {
    const COMMON: [&str; 16] = [
        "please", "the", "and", "parser", "test", "fix", "build", "deploy", "error", "file",
        "function", "why", "slow", "change", "config", "session",
    ];
    let mut text = String::new();
    for _ in 0..count {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = usize::try_from(*seed >> 33).unwrap_or_default();
        match random % 4 {
            0 => text.push_str(COMMON[random / 4 % COMMON.len()]),
            _ => text.push_str(&["w", &(random / 4 % 20_000).to_string()].concat()),
        }
        text.push(' ');
    }
    text
}

async fn write_session(store: &dyn Store, number: usize) -> Result<()> {
    let mut seed = number as u64 + 1;
    let session = plain_session();
    store.create_session(&session).await?;
    let lease = store.acquire_lease(session.id).await?;
    for turn_number in 0..TURNS {
        let mut prompt = format!("please {}", words(&mut seed, 15));
        if (number * TURNS + turn_number).is_multiple_of(1000) {
            prompt.push_str("needle7 世界");
        }
        let input = vec![Content::text(prompt)];
        let turn = TurnRecord { input, ..plain_turn(session.id) };
        store.create_turn(&lease, &turn.clone().into()).await?;
        let answer: Arc<str> = words(&mut seed, 80).into();
        let block =
            EventKind::Block { block: 0, channel: TextChannel::Answer, text: Arc::clone(&answer) };
        let end = EventKind::Finished(Outcome {
            status: TurnStatus::Completed,
            text: answer,
            reason: "end_turn".into(),
            usage: Usage::default(),
        });
        let events = vec![event(&turn, 1, block), event(&turn, 2, end)];
        store.append(&lease, events).await?.await?;
    }
    store.release_lease(lease).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = BenchOptions::read(&[], &[])?;
    let home = tempfile::tempdir()?;
    let path = home.path().join("state.db");
    let owner = OwnerRegistry::new(home.path().join("owners")).register("bench")?;
    let store = Arc::new(SqliteStore::open(&path, Arc::new(owner))?);
    for first in (0..SESSIONS).step_by(SESSIONS_AT_ONCE) {
        let mut writers = JoinSet::new();
        for number in first..first + SESSIONS_AT_ONCE {
            let store = Arc::clone(&store);
            writers.spawn(async move { write_session(&*store, number).await });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
    }
    let before = std::fs::metadata(&path)?.len();
    let begun = Instant::now();
    let mut steps = SampleSeries::default();
    loop {
        let step = Instant::now();
        let left = store.maintain_search().await?;
        steps.add(step.elapsed());
        if left == SearchUpkeep::Complete {
            break;
        }
    }
    let taken = begun.elapsed();
    let grown = std::fs::metadata(&path)?.len().saturating_sub(before) / 1_000_000;
    report::print_section(&format!(
        "indexing {} turns: {:.0} s, {:.3} ms for each; the file grew by {grown} MB",
        SESSIONS * TURNS,
        taken.as_secs_f64(),
        ms(taken / u32::try_from(SESSIONS * TURNS)?),
    ));
    let mut found = QUERIES.map(|_| SampleSeries::default());
    for _ in 0..options.rounds.unwrap_or(ROUNDS) {
        for ((_, words), series) in QUERIES.iter().zip(&mut found) {
            let Some(terms) = SearchTerms::parse(words) else { continue };
            let begun = Instant::now();
            store.search(SearchQuery { terms, limit: 20 }).await?;
            series.add(begun.elapsed());
        }
    }
    let rows: Vec<_> = QUERIES.iter().map(|(name, _)| *name).zip(&found).collect();
    report::print_table("searches", &rows);
    report::print_table("steps of the indexing", &[("a step", &steps)]);
    let mut goals = GoalReport::default();
    for (name, series) in &rows[..4] {
        goals.at_most(&format!("search, {name}, p99"), ms(series.p99()), 100.0, "ms");
    }
    goals.print_goals();
    Ok(())
}
