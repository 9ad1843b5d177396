//! Model mode is sealed: the caller's model learns nothing of the owner and of this machine, none of
//! the owner's programs runs, and the owner's login is used where it is.

use std::{fs, path::Path, time::Duration};

use angelia_core::{
    model::{Mode, SessionSpec},
    ports::ConversationError,
};
use angelia_testkit::{
    canary::Canaries,
    real::{CLAUDE_KEY, RealClaude},
};
use serde_json::json;

use crate::harness::{ClaudeHarness, on_both};

const TOKEN: &str = "sk-ant-oat01-token-of-the-owner";
const USER: &str = "canaryuser";
const SHELL: &str = "/bin/canaryshell";

/// Files of the owner's home. `MARKER` is text for a model, `PROGRAM` something to run.
const HOME_FILES: [(&str, &str); 17] = [
    (".claude/CLAUDE.md", "MARKER"),
    (".claude/rules/own.md", "MARKER"),
    (".claude/agents/own.md", "---\nname: own\ndescription: MARKER\n---\nMARKER"),
    (".claude/commands/own.md", "---\ndescription: MARKER\n---\nMARKER !`PROGRAM`"),
    (".claude/skills/own/SKILL.md", "---\nname: own\ndescription: MARKER\n---\nMARKER"),
    (".claude/output-styles/own.md", "---\nname: own\ndescription: MARKER\n---\nMARKER"),
    (".claude/projects/-/memory/MEMORY.md", "MARKER"),
    (".claude/agent-memory/own/MEMORY.md", "MARKER"),
    (".claude/history.jsonl", r#"{"display":"MARKER","project":"/"}"#),
    (".claude/plugins/config.json", r#"{"repositories":{"MARKER":{}}}"#),
    ("CLAUDE.md", "MARKER"),
    ("CLAUDE.local.md", "MARKER"),
    ("AGENTS.md", "MARKER"),
    (".mcp.json", r#"{"mcpServers":{"own":{"command":"PROGRAM"}}}"#),
    (".gitconfig", "[user]\nname = MARKER\n[core]\nfsmonitor = PROGRAM\n"),
    (".bashrc", "PROGRAM\nexport PS1=MARKER"),
    (".profile", "PROGRAM"),
];

/// Files of a project, which stand in every folder above the working directory of the session and
/// of Angelia's own folders.
const PROJECT_FILES: [(&str, &str); 6] = [
    ("CLAUDE.md", "MARKER"),
    ("CLAUDE.local.md", "MARKER"),
    ("AGENTS.md", "MARKER"),
    (".claude/CLAUDE.md", "MARKER"),
    (".claude/rules/own.md", "MARKER"),
    (".mcp.json", r#"{"mcpServers":{"own":{"command":"PROGRAM"}}}"#),
];

const HOOK_EVENTS: [&str; 12] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Notification",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "PermissionRequest",
    "Setup",
    "InstructionsLoaded",
];

/// Returns a settings file that has a marker or a program in every key that can hold one.
fn settings() -> String {
    let hooks: serde_json::Map<_, _> = HOOK_EVENTS
        .iter()
        .map(|event| {
            let hook =
                json!({"matcher": "*", "hooks": [{"type": "command", "command": "PROGRAM"}]});
            ((*event).to_owned(), json!([hook]))
        })
        .collect();
    let command = json!({"type": "command", "command": "PROGRAM"});
    json!({
        "hooks": hooks,
        "statusLine": command, "subagentStatusLine": command, "fileSuggestion": command,
        "awsAuthRefresh": "PROGRAM", "awsCredentialExport": "PROGRAM", "gcpAuthRefresh": "PROGRAM",
        "otelHeadersHelper": "PROGRAM",
        "env": {"ANTHROPIC_CUSTOM_HEADERS": "x-own: MARKER", "CLAUDE_CODE_EXTRA_METADATA": "MARKER"},
        "outputStyle": "own", "language": "MARKER", "companyAnnouncements": ["MARKER"],
        "attribution": {"commit": "MARKER", "pr": "MARKER"},
        "spinnerTipsOverride": {"tips": ["MARKER"]}, "spinnerVerbs": {"verbs": ["MARKER"]},
        "permissions": {"additionalDirectories": ["/MARKER"], "allow": ["Bash(PROGRAM)"]},
        "enableAllProjectMcpServers": true, "enabledPlugins": {"MARKER@own": true},
        "autoMode": {"environment": ["MARKER"]}, "plansDirectory": "/MARKER",
        "agent": "own",
    })
    .to_string()
}

fn plant(lab: &ClaudeHarness, canaries: &Canaries) {
    let home = lab.place.home();
    for (path, content) in HOME_FILES {
        canaries.plant(&home, path, content).unwrap();
    }
    let server = json!({"own": {"type": "stdio", "command": "PROGRAM", "args": []}});
    let project = json!({"mcpServers": server, "history": [{"display": "MARKER"}],
        "hasTrustDialogAccepted": true});
    let global = json!({"mcpServers": server, "projects": {"/": project},
        "oauthAccount": {"emailAddress": "MARKER", "organizationName": "MARKER",
            "accountUuid": "MARKER", "displayName": "MARKER"}});
    canaries.plant(&home, ".claude.json", &global.to_string()).unwrap();
    for file in [".claude/settings.json", ".claude/settings.local.json"] {
        canaries.plant(&home, file, &settings()).unwrap();
    }
    let root = lab.place.root();
    for folder in ["", "work", "angelia", "angelia/work", "angelia/work/model", "angelia/agents"] {
        let folder = root.join(folder);
        for (path, content) in PROJECT_FILES {
            canaries.plant(&folder, path, content).unwrap();
        }
        canaries.plant(&folder, ".claude/settings.json", &settings()).unwrap();
    }
}

/// Puts the owner's login into the owner's home, as a login with the subscription does.
fn log_in(home: &Path) {
    let login = json!({"claudeAiOauth": {"accessToken": TOKEN, "refreshToken": "sk-ant-ort01-owner",
        "expiresAt": 4_102_444_800_000_u64, "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max"}});
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::write(home.join(".claude/.credentials.json"), login.to_string()).unwrap();
}

fn sealed_spec(lab: &ClaudeHarness, with_key: bool) -> SessionSpec {
    let mut spec = if with_key { lab.spec() } else { lab.spec_without_login() };
    spec.mode = Mode::Model;
    spec.trust = true;
    for (name, value) in [("USER", USER), ("LOGNAME", USER), ("SHELL", SHELL)] {
        spec.env.insert(name.into(), value.into());
    }
    spec
}

/// Runs turns that try to reach the owner's files, and checks every request to the model.
async fn assert_sealed(claude: &RealClaude, with_key: bool, confined: bool) {
    let lab = ClaudeHarness::with_landlock(claude, confined);
    let canaries = Canaries::new(lab.place.root()).unwrap();
    plant(&lab, &canaries);
    log_in(&lab.place.home());
    let login = fs::read(lab.place.home().join(".claude/.credentials.json")).unwrap();
    let mut session = lab.open(&sealed_spec(&lab, with_key)).await;
    for prompt in ["ECHO:a", "/own ECHO:b", "@CLAUDE.md ECHO:c", "/memory", "$own @own ECHO:d"] {
        session.prompt(prompt).await;
    }
    for process in lab.processes() {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        assert_eq!(status.contains("NoNewPrivs:\t1"), confined, "{status}");
    }
    session.close().await;

    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let root = lab.place.root().to_str().unwrap();
    let requests = lab.server.requests();
    assert!(lab.server.model_requests().len() >= 4);
    for request in &requests {
        assert_eq!(Canaries::markers_in(request), [""; 0], "{}", request.json());
        let body = String::from_utf8_lossy(&request.body);
        for secret in [root, USER, "canaryshell", "AGENTS.md", "userEmail"] {
            assert!(!body.contains(secret), "{secret} in {body}");
        }
        // With a subscription the newest version always describes the system.
        if with_key || claude.version == RealClaude::OLDEST {
            assert!(!body.contains(kernel.trim()), "{body}");
            assert!(!body.contains("working directory"), "{body}");
        }
    }
    let (header, value) = if with_key {
        ("x-api-key", CLAUDE_KEY.to_owned())
    } else {
        ("authorization", format!("Bearer {TOKEN}"))
    };
    for request in lab.server.model_requests() {
        assert_eq!(request.header(header), Some(&*value));
    }
    assert_eq!(canaries.runs().unwrap(), [""; 0]);
    // The login is where it was, as it was, and nowhere else.
    assert_eq!(fs::read(lab.place.home().join(".claude/.credentials.json")).unwrap(), login);
    assert!(!contains(&lab.place.root().join("angelia"), TOKEN));
    // The conversation is in the folder of model mode.
    let folder = lab.host.agents_dir().join("claude");
    assert!(contains(&folder, "ECHO:a"));
    assert!(!contains(&lab.place.home(), "ECHO:a"));
}

fn contains(folder: &Path, text: &str) -> bool {
    folder.read_dir().into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            contains(&path, text)
        } else {
            fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
        }
    })
}

#[tokio::test]
async fn real_nothing_of_the_owner_reaches_the_callers_model() {
    for claude in RealClaude::all().unwrap() {
        for (with_key, confined) in [(true, true), (true, false), (false, true), (false, false)] {
            eprintln!("--- {} key: {with_key} Landlock: {confined}", claude.version);
            assert_sealed(&claude, with_key, confined).await;
        }
    }
}

/// The same markers are live where the owner's settings apply, so their absence means something.
#[tokio::test]
async fn real_the_markers_speak_in_agent_mode() {
    for claude in RealClaude::all().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        let lab = ClaudeHarness::new(&claude);
        let canaries = Canaries::new(lab.place.root()).unwrap();
        plant(&lab, &canaries);
        let mut spec = sealed_spec(&lab, true);
        spec.mode = Mode::Agent;
        let mut session = lab.open(&spec).await;
        session.prompt("ECHO:a").await;
        session.close().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let requests = lab.server.model_requests();
        assert!(requests.iter().any(|request| !Canaries::markers_in(request).is_empty()));
        assert_ne!(canaries.runs().unwrap(), [""; 0]);
    }
}

/// A conversation of model mode from before this mode had a folder of its own is in the owner's.
#[tokio::test]
async fn real_a_conversation_in_the_owners_folder_is_lost_but_can_be_deleted() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let native = session.prompt("ECHO:one").await.native_session_id();
        session.close().await;
        let spec = sealed_spec(&lab, true);
        assert_eq!(lab.open_error(&spec, &native).await, ConversationError::Lost);
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("ECHO:two").await;
        session.close().await;
        assert!(RealClaude::has_record(&lab.place, native.as_str()));
        lab.executor.delete_conversation(&spec, &native).await.unwrap();
        assert!(!RealClaude::has_record(&lab.place, native.as_str()));
        // The new conversation is found again.
        let native = heard.native_session_id();
        let mut session = lab.resume(&spec, &native).await;
        assert!(session.prompt("ECHO:three").await.started().resumed);
        session.close().await;
    })
    .await;
}
