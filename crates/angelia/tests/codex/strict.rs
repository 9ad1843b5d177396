//! The real Codex accepts the configuration we write: every key, and the servers in it.

use std::{fs, io::Write as _, process::Stdio};

use serde_json::Value;

use crate::{
    daemon_fixture::{CodexFixture, config},
    machine::{ProgramOutput, RunningCommand},
};

const OURS: &str = r##"mcp_servers:
  docs:
    command: "/bin/docs \" \\ \n \u0001 \u007f é"
    args: ["", "a b", "'''", "\"\"\"", "# no comment"]
    env: {"A B": "1\r\n2", C: "\u2028"}
    cwd: /tmp
    env_vars: [PATH]
    startup_timeout_sec: 1.5
    startup_timeout_ms: 20
    tool_timeout_sec: 60
    enabled: false
    required: false
    enabled_tools: [a]
    disabled_tools: [b]
    default_tools_approval_mode: writes
    tools: {t: {approval_mode: approve}}
    alwaysLoad: true
    trust: true
  far:
    type: http
    url: http://127.0.0.1:1/mcp
    enabled: false
    headers: {Authorization: Bearer x}
    env_http_headers: {X: Y}
    bearer_token_env_var: TOKEN
    scopes: [a]
    oauth: {client_id: c}
    oauth_resource: r
    startup_timeout_ms: 20
"##;

/// Starts the app-server with strict checking of keys; it exits at the end of its input.
fn strict(lab: &CodexFixture) -> ProgramOutput {
    let mut command = lab.machine.program(&lab.codex.path);
    command.args(["app-server", "--strict-config", "-c", "features.plugins=false"]);
    let mut running = RunningCommand::spawn(command, Stdio::piped());
    let mut stdin = running.child.stdin.take().unwrap();
    let hello =
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}"#;
    writeln!(stdin, "{hello}").unwrap();
    running.wait_for_stdout("codexHome");
    drop(stdin);
    running.wait()
}

#[test]
fn real_every_key_is_known_to_codex() {
    let lab = CodexFixture::new(OURS, "");
    let plugin =
        config(&lab.machine).with_file_name("plugins/cache/openai-curated/notion/1/.codex-plugin");
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("plugin.json"), r#"{"name":"notion","version":"1"}"#).unwrap();
    let before = lab.config();
    let done = lab.machine.angelia(&["codex", "enable"]);
    done.assert_code(0).assert_stderr("does not accept startup_timeout_ms, alwaysLoad, trust");
    let text = lab.config();
    assert!(text.contains("[plugins.\"notion@openai-curated\"]"), "{text}");
    let said = strict(&lab);
    said.assert_code(0);
    assert!(!said.stdout.contains("Invalid configuration"), "{said:?}");

    let listed = lab.codex(&["mcp", "list", "--json"]).wait();
    let servers: Value = serde_json::from_str(&listed.assert_code(0).stdout).unwrap();
    let server = |name: &str| {
        let all = servers.as_array().unwrap().iter();
        all.clone().find(|server| server["name"] == name).unwrap().clone()
    };
    let docs = &server("docs")["transport"];
    assert_eq!(docs["command"], "/bin/docs \" \\ \n \u{1} \u{7f} é", "{servers:#}");
    assert_eq!(docs["args"][4], "# no comment");
    let own = &server("angelia")["transport"];
    assert_eq!(own["command"], crate::machine::ANGELIA, "{servers:#}");
    assert_eq!(own["args"][0], "mcp");
    assert_eq!(server("far")["transport"]["url"], "http://127.0.0.1:1/mcp");

    lab.machine.angelia(&["codex", "status"]).assert_code(0).assert_stdout("up to date");
    lab.machine.angelia(&["codex", "disable"]).assert_code(0);
    assert_eq!(lab.config(), before);
}

/// Codex edits the same file, in its own order, and drops comments.
#[test]
fn real_what_codex_writes_meanwhile_stays() {
    let lab =
        CodexFixture::new("mcp_servers: {docs: {command: docs, args: [x], env: {A: '1'}}}\n", "");
    lab.machine.angelia(&["codex", "enable"]).assert_code(0);
    lab.codex(&["features", "enable", "goals"]).wait().assert_code(0);
    lab.codex(&["mcp", "add", "mine", "--", "/bin/mine"]).wait().assert_code(0);
    let told = lab.machine.angelia(&["codex", "status"]);
    told.assert_code(1).assert_stdout("enabled, but not as it would be now");
    lab.machine.angelia(&["codex", "enable"]).assert_code(0);
    lab.machine.angelia(&["codex", "status"]).assert_code(0).assert_stdout("up to date");
    strict(&lab).assert_code(0);
    lab.machine.angelia(&["codex", "disable"]).assert_code(0);
    let text = lab.config();
    for gone in ["angelia", "docs", "default_permissions"] {
        assert!(!text.contains(gone), "{text}");
    }
    for mine in ["[mcp_servers.mine]", "goals = true", "model_provider = \"scripted\""] {
        assert!(text.contains(mine), "{text}");
    }
    strict(&lab).assert_code(0);
}

#[test]
fn real_codex_accepts_the_file_in_every_form() {
    for text in [
        "",
        "model = \"m\"",
        "model = \"m\"\r\n[features]\r\ngoals = true",
        "[mcp_servers]\n[mcp_servers.a]\ncommand = \"a\"\nenabled = false\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
        "mcp_servers.a.command = \"a\"\nmcp_servers.a.enabled = false\n",
        "[[skills.config]]\npath = \"/x\"\nenabled = false\n",
        "[sandbox_workspace_write]\nnetwork_access = true\n",
    ] {
        let lab = CodexFixture::new("mcp_servers: {docs: {command: docs, enabled: false}}\n", "");
        fs::write(config(&lab.machine), text).unwrap();
        lab.machine.angelia(&["codex", "enable"]).assert_code(0);
        strict(&lab).assert_code(0);
        let listed = lab.codex(&["mcp", "list", "--json"]).wait();
        listed.assert_code(0).assert_stdout("\"docs\"").assert_stdout("\"angelia\"");
        lab.machine.angelia(&["codex", "disable"]).assert_code(0);
        assert_eq!(lab.config(), text);
    }
}
