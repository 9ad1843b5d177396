//! Sessions with MCP servers, and what tests ask about them.

use std::{fs, path::PathBuf};

use angelia_core::model::{RawJson, SessionSpec};
use angelia_executors::native::provider::Api;
use angelia_testkit::{
    direct_session::{TurnOutput, wait_until},
    mcp_servers,
    process_table::find_marked,
};
use serde_json::{Value, value::to_raw_value};

use crate::loop_lab::{LoopLab, RequestBody};

/// Runs a test in each API, one after the other: a real server takes a core while it starts.
pub(crate) async fn one_api_after_another(test: impl AsyncFn(LoopLab)) {
    for api in Api::ALL {
        test(LoopLab::new(api, |_| {})).await;
    }
}

pub(crate) fn raw(definition: &Value) -> RawJson {
    to_raw_value(definition).unwrap().into()
}

/// Returns a specification with one server.
pub(crate) fn spec_with(lab: &LoopLab, name: &str, definition: &Value) -> SessionSpec {
    let mut spec = lab.spec();
    spec.mcp_servers.insert(name.into(), raw(definition));
    spec
}

/// Returns a specification with the server that notes what happens to it, as `watched`.
pub(crate) fn watched_spec(lab: &LoopLab, many: usize) -> SessionSpec {
    let folder = notes(lab);
    fs::create_dir_all(&folder).unwrap();
    spec_with(lab, "watched", &mcp_servers::watched(&folder, many).unwrap())
}

fn notes(lab: &LoopLab) -> PathBuf {
    lab.place.isolated.root().join("notes")
}

/// Returns how often the watched server has noted something.
pub(crate) fn noted(lab: &LoopLab, what: &str) -> usize {
    fs::read_to_string(notes(lab).join(what)).unwrap_or_default().lines().count()
}

/// Returns the codes and texts of the notices about servers.
pub(crate) fn server_notices(output: &TurnOutput) -> Vec<(String, String)> {
    let notices = output.notices().into_iter().filter(|notice| notice.code.starts_with("mcp_"));
    notices.map(|notice| (notice.code.to_string(), notice.text.to_string())).collect()
}

/// Returns the names of the tools that a request describes.
pub(crate) fn described_tools(request: &RequestBody) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| {
        let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
        name.unwrap().to_owned()
    };
    tools.map(name).collect()
}

/// Asserts that no process of the session is left.
pub(crate) async fn assert_nothing_left(lab: &LoopLab) {
    wait_until("no process is left", || find_marked(&lab.place.mark).is_empty()).await;
}
