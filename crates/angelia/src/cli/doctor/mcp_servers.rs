//! The MCP servers that `doctor` tries: each definition once, however many profiles use it.

use std::collections::BTreeSet;

use angelia_core::model::SessionSpec;
use angelia_executors::{
    ExecutorHost,
    native::mcp::check::{ServerCheck, ServerState, check_servers},
};

use super::{Finding, FindingState};

/// Tries the servers. With `deep`, also starts those that are programs on this machine.
pub(super) async fn examine(
    specs: Vec<SessionSpec>,
    host: &ExecutorHost,
    deep: bool,
) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for mut spec in specs {
        spec.mcp_servers
            .retain(|name, definition| seen.insert((name.clone(), definition.get().to_owned())));
        findings.extend(check_servers(&spec, host, deep).await.into_iter().map(finding));
    }
    findings
}

fn finding(ServerCheck { name, state }: ServerCheck) -> Finding {
    let finding = |state, detail: String| Finding::new("mcp", state, format!("{name}: {detail}"));
    match state {
        ServerState::Answers { tools: 1 } => finding(FindingState::Good, "1 tool".to_owned()),
        ServerState::Answers { tools } => finding(FindingState::Good, format!("{tools} tools")),
        ServerState::Found(path) => finding(FindingState::Good, path.display().to_string())
            .with_hint("`angelia doctor --deep` starts it"),
        ServerState::NeedsLogin(words) => {
            finding(FindingState::Bad, "not logged in".to_owned()).with_hint(words)
        }
        ServerState::Fails(words) => {
            finding(FindingState::Bad, "not usable".to_owned()).with_hint(words)
        }
    }
}
