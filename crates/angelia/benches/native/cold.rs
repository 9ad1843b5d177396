//! A program that is started for one prompt: the time to its first request, and what that contains.

use std::time::Duration;

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    benchmark::report::{self, GoalReport, SampleSeries, ms},
    isolated_home::IsolatedHome,
    llama_server::LlamaServer,
};
use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{
    bench_model::{BenchModel, Exchange},
    finished_run::FinishedRun,
    peers::ComparedProgram,
};

#[derive(Default)]
struct ColdResults {
    first: SampleSeries,
    cpu: SampleSeries,
    request: Option<Value>,
    bytes: usize,
}

pub(crate) fn measure(report: &mut GoalReport, rounds: u32) -> Result<()> {
    let model = BenchModel::start()?;
    let mut peers = vec![ComparedProgram::ours(Api::Chat), ComparedProgram::codex()?];
    peers.extend(ComparedProgram::pi());
    let mut found: Vec<ColdResults> = peers.iter().map(|_| ColdResults::default()).collect();
    let homes: Vec<IsolatedHome> =
        peers.iter().map(|_| IsolatedHome::new()).collect::<std::io::Result<_>>()?;
    for round in 0..=rounds {
        for ((peer, home), found) in peers.iter().zip(&homes).zip(&mut found) {
            model.prepare([], true);
            let run =
                FinishedRun::of(peer.command(home, &model.server, "Say hello")?, home.root())?;
            let exchanges = model.exchanges();
            let first: &Exchange = exchanges.first().with_context(|| {
                format!("{} asked no model: {} {}", peer.name, run.stdout, run.stderr)
            })?;
            // The first round fills the caches of the system and is not counted.
            if round > 0 {
                found.first.add(first.asked.duration_since(run.begun));
                found.cpu.add(run.cpu);
            }
            found.bytes = first.text.len();
            found.request = Some(first.body.clone());
        }
    }
    let rows = |pick: fn(&ColdResults) -> &SampleSeries| -> Vec<(&str, &SampleSeries)> {
        peers.iter().map(|peer| peer.name).zip(found.iter().map(pick)).collect()
    };
    report::print_table(
        "cold: from the start of the program to its first request",
        &rows(|one| &one.first),
    );
    report::print_table("cold: processor time of the whole run", &rows(|one| &one.cpu));

    // Any real tokenizer will do for a comparison; this one counts more than those of large models.
    let tokenizer = LlamaServer::start(512)?;
    report::print_section("the first request: tools and prompt, in tokens of SmolLM2");
    for (peer, found) in peers.iter().zip(&found) {
        let request = found.request.as_ref().context("no request")?;
        let tools = request["tools"].to_string();
        let count = request["tools"].as_array().map_or(0, Vec::len);
        let tool_tokens = tokenizer.count_tokens(&tools)?;
        let prompt_tokens = tokenizer.count_tokens(&all_text(request))?;
        let sum = tool_tokens + prompt_tokens;
        report::print_line(&format!(
            "{:<24} {:>7} bytes {count:>3} tools {tool_tokens:>6} + {prompt_tokens:>6} = {sum:>6} tokens",
            peer.name, found.bytes,
        ));
        if peer.name.starts_with("angelia") {
            report.at_most(
                "tools and prompt of a coding profile",
                count_f64(sum),
                2_500.0,
                "tokens",
            );
        }
    }
    let ours = ms(found.first().map_or(Duration::ZERO, |one| one.first.median()));
    report.at_most("cold `run` to its first request, p50", ours, 40.0, "ms");
    Ok(())
}

/// Returns all text of a request besides its tools.
fn all_text(request: &Value) -> String {
    fn collect(value: &Value, out: &mut String) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
            Value::Object(fields) => {
                for name in ["system", "instructions", "messages", "input", "content", "text"] {
                    match fields.get(name) {
                        Some(Value::String(text)) => {
                            out.push_str(text);
                            out.push('\n');
                        }
                        Some(value) => collect(value, out),
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }
    let mut text = String::new();
    collect(request, &mut text);
    text
}

fn count_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
