//! Checks whether providers can be reached and accept the key.

use std::{fmt::Write as _, sync::Arc};

use angelia_executors::native::providers::{
    KeyState, Provider, ProviderCheck, ProviderKey, check_provider,
};
use serde::Serialize;

use super::{find, named_models};
use crate::{
    assemble::{App, StandaloneHost},
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

#[derive(Debug, Serialize)]
struct CheckEntry {
    name: String,
    base_url: String,
    reachable: bool,
    elapsed_ms: Option<u128>,
    key: &'static str,
    /// Distinguishes the key from others.
    key_fingerprint: Option<String>,
    /// Each of its keys, in the order of the configuration.
    keys: Vec<CheckedKey>,
    /// The problem, with advice for solving it.
    problem: Option<String>,
    models: Vec<WindowEntry>,
}

#[derive(Debug, Serialize)]
struct CheckedKey {
    source: String,
    state: &'static str,
    fingerprint: Option<String>,
}

#[derive(Debug, Serialize)]
struct WindowEntry {
    id: String,
    context: u64,
    context_source: &'static str,
    output: Option<u64>,
}

pub(super) async fn run(app: &App, name: Option<&str>, json: bool) -> Result<Exit, CommandError> {
    let standalone = StandaloneHost::start(app, "providers")?;
    let host = standalone.host();
    let providers: Vec<Arc<Provider>> = match name {
        Some(name) => vec![find(app, name)?],
        None => host.providers.configured().collect(),
    };
    if providers.is_empty() {
        let hint = "set the variable of a key that `angelia providers list` names, or write `providers` \
                    into config.yaml";
        let error = CommandError::new(Exit::Unavailable, "no provider is configured");
        return Err(error.with_hint(hint));
    }
    let mut exit = Exit::Done;
    let mut out = Vec::new();
    for provider in providers {
        let models = named_models(app, &provider);
        let check = check_provider(&provider, &models, host).await;
        let problem = check.problem(&provider);
        // A missing or refused key matters more than an address that may be down.
        if let Some(failure) = &problem
            && exit != Exit::NotLoggedIn
        {
            exit = Exit::of_failure(failure.kind);
        }
        let entry = entry(&provider, check, problem.map(|failure| failure.to_string()));
        if json {
            print::json_line(&entry, &mut out)?;
        } else {
            out.extend(report(&entry).bytes());
        }
    }
    print::bytes(&out)?;
    Ok(exit)
}

fn entry(provider: &Provider, check: ProviderCheck, problem: Option<String>) -> CheckEntry {
    let fingerprint = |state: &KeyState| state.key().map(ProviderKey::fingerprint);
    let keys = check.keys.iter().map(|(source, state)| CheckedKey {
        source: source.to_string(),
        state: state.as_str(),
        fingerprint: fingerprint(state),
    });
    let models = check.models.into_iter();
    CheckEntry {
        name: provider.name.to_string(),
        base_url: provider.base_url.to_string(),
        reachable: check.reached.is_ok(),
        elapsed_ms: check.reached.ok().map(|elapsed| elapsed.as_millis()),
        key: check.key.as_str(),
        key_fingerprint: fingerprint(&check.key),
        keys: keys.collect(),
        problem,
        models: models
            .map(|(id, window)| WindowEntry {
                id: id.to_string(),
                context: window.context,
                context_source: window.source.as_str(),
                output: window.output,
            })
            .collect(),
    }
}

/// Writes the result of a check. Writing to a string cannot fail.
fn report(entry: &CheckEntry) -> String {
    let mark = if entry.problem.is_none() { "✓" } else { "✗" };
    let mut text = format!("{mark} {}  {}", entry.name, entry.base_url);
    if let Some(elapsed) = entry.elapsed_ms {
        let _infallible = write!(text, "  answers in {elapsed} ms");
    }
    text += match entry.key {
        "accepted" => ", accepts the key",
        "not_needed" => ", needs no key",
        _ => "",
    };
    if let Some(fingerprint) = &entry.key_fingerprint {
        let _infallible = write!(text, " {fingerprint}…");
    }
    text.push('\n');
    if entry.keys.len() > 1 {
        for CheckedKey { source, state, fingerprint } in &entry.keys {
            let fingerprint = fingerprint.as_deref().map(|digits| format!(" {digits}…"));
            let _infallible =
                writeln!(text, "    {source}: {state}{}", fingerprint.unwrap_or_default());
        }
    }
    if let Some(problem) = &entry.problem {
        let _infallible = writeln!(text, "    {problem}");
    }
    for WindowEntry { id, context, context_source, .. } in &entry.models {
        let source = match *context_source {
            "config" => "as configured",
            "server" => "as it says",
            "built_in" => "as known for its family",
            _ => "a guess; set `context` of the model",
        };
        let _infallible = writeln!(text, "    {id}: {context} tokens, {source}");
    }
    text
}
