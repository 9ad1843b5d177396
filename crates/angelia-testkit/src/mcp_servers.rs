//! MCP servers in the form of `mcp_servers`: the official reference servers installed by `cargo xtask setup`,
//! and one based on the official Python library that a test can observe and break.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    real::require_installed,
    script_server::{ScriptServer, python_of, script},
};

/// The folder of `tests/python` with the official library.
const PYTHON_GROUP: &str = "mcp-servers";
const SCRIPT: &str = "mcp_server.py";

/// Returns the reference server that has a tool for every feature of the protocol.
pub fn everything() -> Result<Value> {
    let script = reference_server("server-everything")?;
    Ok(json!({"type": "stdio", "command": "node", "args": [script, "stdio"]}))
}

/// Returns the reference server for the files below a folder.
pub fn filesystem(folder: &Path) -> Result<Value> {
    Ok(json!({"command": "node", "args": [reference_server("server-filesystem")?, folder]}))
}

fn reference_server(package: &str) -> Result<Value> {
    let path = format!("mcp-servers/node_modules/@modelcontextprotocol/{package}/dist/index.js");
    Ok(json!(require_installed(&path)?))
}

/// Returns the server that records its starts and calls in a folder, with `many` more tools.
pub fn watched(folder: &Path, many: usize) -> Result<Value> {
    let python = python_of(PYTHON_GROUP)?;
    let args = json!([script(SCRIPT), folder, "--many", many.to_string()]);
    Ok(json!({"command": python, "args": args}))
}

/// Starts the same server on loopback. It requires the header `x-test-key: open`.
pub fn watched_over_http(folder: &Path) -> Result<ScriptServer> {
    let folder = folder.as_os_str().to_owned();
    ScriptServer::start_python(PYTHON_GROUP, SCRIPT, [folder, "--http".into()])
}

/// Starts the same server on loopback. It requires tokens from this issuer for its own address, with the
/// scope `tools`.
pub fn watched_with_login(folder: &Path, issuer: &str) -> Result<ScriptServer> {
    let folder = folder.as_os_str().to_owned();
    ScriptServer::start_python(PYTHON_GROUP, SCRIPT, [folder, "--login".into(), issuer.into()])
}
