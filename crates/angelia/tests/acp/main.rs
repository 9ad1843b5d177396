//! `angelia acp` as editors use it: a child that speaks ACP over stdin and stdout. A scripted
//! editor drives the demo agent and checks every line against the protocol's own schema. The
//! official client libraries drive the real Claude Code; their scripts are in `tests/clients`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/agent_processes.rs"]
mod agent_processes;
mod choosing;
#[expect(dead_code, reason = "shared with the tests of the translator")]
#[path = "../../../angelia-executors/tests/claude_translate/driver.rs"]
mod claude_driver;
#[expect(dead_code, reason = "shared with the tests of the translator")]
#[path = "../../../angelia-executors/tests/codex_translate/driver.rs"]
mod codex_driver;
mod editor;
mod ending;
mod floods;
mod forking;
mod libraries;
mod login;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod prompts;
#[expect(dead_code, reason = "shared with the tests of the translators")]
#[path = "../../../angelia-executors/tests/translated/recorded.rs"]
mod recorded;
mod recordings;
mod schema;
mod sessions;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
#[expect(dead_code, reason = "shared with the tests of the translators")]
#[path = "../../../angelia-executors/tests/translated/mod.rs"]
mod translated;
mod usage;
