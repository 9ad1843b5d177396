//! Model mode is sealed: the caller's model learns nothing of the owner and of this machine, and
//! none of the owner's programs runs.

use std::fs;

use angelia_core::{
    model::{Mode, SessionSpec},
    ports::ConversationError,
};
use angelia_testkit::{
    canary::Canaries,
    codex_home::{self, CodexLogin},
    direct_session::DirectSession,
};

use crate::harness::{CodexHarness, wait_until};

const USER: &str = "canaryuser";

/// Every key of `config.toml` (0.166.0) that can hold text or a program, and that is not part of
/// the connection to the model. Keys of the top level come first.
const CONFIG: &str = r#"
review_model = "MARKER"
notify = ["PROGRAM"]
instructions = "MARKER"
developer_instructions = "MARKER"
model_instructions_file = "HOME/instructions.md"
compact_prompt = "MARKER"
experimental_instructions_file = "HOME/instructions.md"
experimental_compact_prompt_file = "HOME/instructions.md"
experimental_realtime_ws_backend_prompt = "MARKER"
experimental_realtime_ws_startup_context = "MARKER"
experimental_realtime_start_instructions = "MARKER"
project_doc_fallback_filenames = ["OWN.md"]
project_doc_max_bytes = 100000
project_root_markers = ["OWN.md"]
js_repl_node_path = "PROGRAM"
personality = "friendly"
approval_policy = "never"
sandbox_mode = "danger-full-access"
default_permissions = ":danger-full-access"
allow_login_shell = true
file_opener = "vscode"
include_environment_context = true
include_apps_instructions = true
include_collaboration_mode_instructions = true
profile = "own"
web_search = "live"
apps_mcp_product_sku = "MARKER"
sqlite_home = "HOME/MARKER"
log_dir = "HOME/MARKER"
responses_api_metadata = { own = "MARKER" }
[mcp_servers.own]
command = "PROGRAM"
required = true
[projects."/"]
trust_level = "trusted"
[profiles.own]
developer_instructions = "MARKER"
[hooks]
SessionStart = [{ hooks = [{ type = "command", command = "PROGRAM" }] }]
UserPromptSubmit = [{ hooks = [{ type = "command", command = "PROGRAM" }] }]
PreModelRequest = [{ hooks = [{ type = "command", command = "PROGRAM" }] }]
Stop = [{ hooks = [{ type = "command", command = "PROGRAM" }] }]
[features]
hooks = true
memories = true
shell_tool = true
[agents.own]
description = "MARKER"
config_file = "HOME/instructions.md"
[skills]
include_instructions = true
[[skills.config]]
path = "HOME/skills/own"
enabled = true
[shell_environment_policy]
set = { OWN = "MARKER" }
[tools]
update_plan = { enabled = true }
[auto_review]
extra_policy = "MARKER"
[otel]
environment = "MARKER"
[otel.span_attributes]
own = "MARKER"
[plugins."MARKER@own"]
enabled = true
[marketplaces.own]
source_type = "local"
source = "HOME/MARKER"
[tui]
notifications = ["PROGRAM"]
[notice]
own = "MARKER"
[memories]
own = "MARKER"
"#;

/// Files of the owner's `CODEX_HOME`.
const CODEX_FILES: [(&str, &str); 12] = [
    ("AGENTS.md", "MARKER"),
    ("AGENTS.override.md", "MARKER"),
    ("OWN.md", "MARKER"),
    ("instructions.md", "MARKER"),
    ("prompts/own.md", "MARKER"),
    ("skills/own/SKILL.md", "---\nname: own\ndescription: MARKER\n---\nMARKER"),
    ("agents/own.toml", "description = \"MARKER\"\ndeveloper_instructions = \"MARKER\"\n"),
    ("rules/default.rules", "prefix_rule(pattern=[\"MARKER\"], decision=\"allow\")"),
    (
        "hooks.json",
        r#"{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"PROGRAM"}]}]}}"#,
    ),
    ("memories/MEMORY.md", "MARKER"),
    ("memories/memory_summary.md", "MARKER"),
    ("history.jsonl", r#"{"session_id":"x","ts":1,"text":"MARKER"}"#),
];

/// Files of a project, which stand in the owner's home and in every folder above the working
/// directory of the session and of Angelia's own folders.
const PROJECT_FILES: [(&str, &str); 6] = [
    ("AGENTS.md", "MARKER"),
    ("AGENTS.override.md", "MARKER"),
    ("OWN.md", "MARKER"),
    (".codex/config.toml", "developer_instructions = \"MARKER\"\nnotify = [\"PROGRAM\"]\n"),
    (".agents/skills/own/SKILL.md", "---\nname: own\ndescription: MARKER\n---\nMARKER"),
    (".gitconfig", "[user]\nname = MARKER\n[core]\nfsmonitor = PROGRAM\n"),
];

fn plant(lab: &CodexHarness, canaries: &Canaries) {
    for (path, content) in CODEX_FILES {
        canaries.plant(&lab.home, path, content).unwrap();
    }
    let root = lab.place.root();
    let folders = ["", "home", "work", "angelia", "angelia/work", "angelia/work/model"];
    for folder in folders.iter().chain(&["angelia/agents"]) {
        for (path, content) in PROJECT_FILES {
            canaries.plant(&root.join(folder), path, content).unwrap();
        }
    }
}

fn spec(lab: &CodexHarness, mode: Mode) -> SessionSpec {
    let mut spec = lab.spec();
    spec.mode = mode;
    spec.trust = true;
    for (name, value) in [("USER", USER), ("LOGNAME", USER), ("SHELL", "/bin/canaryshell")] {
        spec.env.insert(name.into(), value.into());
    }
    spec
}

async fn assert_sealed(confined: bool) {
    let lab = CodexHarness::with_landlock(confined);
    let canaries = Canaries::new(lab.place.root()).unwrap();
    plant(&lab, &canaries);
    let config = CONFIG.replace("HOME", lab.home.to_str().unwrap());
    // The keys of the connection stand before the first table of the file.
    let whole =
        lab.config().replacen("[model_providers", &format!("{config}\n[model_providers"), 1);
    canaries.plant(&lab.home, "config.toml", &whole).unwrap();

    let mut session = lab.open(&spec(&lab, Mode::Model)).await;
    for prompt in ["ECHO:a", "$own ECHO:b", "/own ECHO:c", "@AGENTS.md ECHO:d", "[$own](SKILL.md)"]
    {
        session.prompt(prompt).await.answer();
    }
    for server in lab.servers() {
        let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
        assert_eq!(status.contains("NoNewPrivs:\t1"), confined, "{status}");
    }
    session.close().await;
    lab.close().await;

    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let root = lab.place.root().to_str().unwrap();
    assert_eq!(lab.server.model_requests().len(), 5);
    for request in lab.server.requests() {
        assert_eq!(Canaries::markers_in(&request), [""; 0], "{}", request.json());
        let body = String::from_utf8_lossy(&request.body);
        for secret in [root, USER, "canaryshell", kernel.trim(), "environment_context", "own"] {
            assert!(!body.contains(&format!("{secret}\"")), "{secret} in {body}");
        }
    }
    assert_eq!(canaries.runs().unwrap(), [""; 0]);
    // The conversations are in the folder of model mode, and the owner's file is as it was.
    assert!(!lab.home.join("sessions").exists());
    assert!(lab.config().contains("[marketplaces.own]"));
}

#[tokio::test]
async fn real_nothing_of_the_owner_reaches_the_callers_model() {
    for confined in [true, false] {
        eprintln!("--- Landlock: {confined}");
        assert_sealed(confined).await;
    }
}

/// The same markers are live where the owner's settings apply, so their absence means something.
#[tokio::test]
async fn real_the_markers_speak_in_agent_mode() {
    let lab = CodexHarness::with_config(CodexLogin::Key, "");
    let canaries = Canaries::new(lab.place.root()).unwrap();
    plant(&lab, &canaries);
    let first = "developer_instructions = \"MARKER\"\nnotify = [\"PROGRAM\"]\n";
    canaries.plant(&lab.home, "config.toml", &format!("{first}{}", lab.config())).unwrap();
    let mut session = lab.open(&spec(&lab, Mode::Agent)).await;
    session.prompt("ECHO:a").await.answer();
    let told = Canaries::markers_in(lab.server.model_requests().last().unwrap());
    for source in ["config-toml", "AGENTS-override-md"] {
        assert!(told.iter().any(|marker| marker.ends_with(source)), "{source}: {told:?}");
    }
    wait_until("the notify program runs", || !canaries.runs().unwrap().is_empty()).await;
    session.close().await;
    lab.close().await;
}

/// A conversation of model mode from before this mode had a folder of its own is in the owner's.
#[tokio::test]
async fn real_a_conversation_in_the_owners_folder_is_lost_but_can_be_deleted() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;
    let native = session.prompt("ECHO:one").await.native_session_id();
    session.close().await;
    let sealed = spec(&lab, Mode::Model);
    let lost = DirectSession::open_error(&*lab.executor, &sealed, &native).await;
    assert_eq!(lost, ConversationError::Lost);
    let mut session = lab.open(&sealed).await;
    let heard = session.prompt("ECHO:two").await;
    session.close().await;
    assert!(codex_home::has_record(&lab.home, native.as_str()));
    lab.executor.delete_conversation(&sealed, &native).await.unwrap();
    assert!(!codex_home::has_record(&lab.home, native.as_str()));
    let mut session = lab.resume(&sealed, &heard.native_session_id()).await;
    assert!(session.prompt("ECHO:three").await.started().resumed);
    session.close().await;
    lab.close().await;
}
