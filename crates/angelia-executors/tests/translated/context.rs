//! The context sizes that usage events report.

use angelia_core::{
    model::{ContextWindow, EventKind},
    ports::AgentEvent,
};

/// Formats the readings of every recording, one line each.
pub(crate) fn table<N: std::fmt::Display>(
    recordings: impl IntoIterator<Item = (N, Vec<String>)>,
) -> String {
    let rows = recordings.into_iter();
    let rows = rows.map(|(name, told)| format!("{name} {}", told.join(" ")));
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns `used/size` for each usage event, or `-` when the context is not known.
pub(crate) fn readings<'a>(emitted: impl IntoIterator<Item = &'a AgentEvent>) -> Vec<String> {
    let usages = emitted.into_iter().filter_map(|emitted| match emitted {
        AgentEvent::Event(EventKind::Usage(usage)) => Some(usage),
        _ => None,
    });
    let spelled = usages.map(|usage| match usage.context {
        Some(ContextWindow { used, size }) => format!("{used}/{size}"),
        None => "-".to_owned(),
    });
    spelled.collect()
}
