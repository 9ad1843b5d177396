//! Tests of the settings with which Codex and its threads are started.

use std::fs;

use angelia_core::model::CallerTool;
use serde_json::value::RawValue;

use super::*;

fn mark() -> ProcessMark {
    "home:owner:agent".parse().unwrap()
}

fn spec() -> SessionSpec {
    SessionSpec::new("codex", "/somewhere")
}

fn sent(spec: &SessionSpec, servers: &[Box<str>]) -> Value {
    let found = UserExtensions { servers, skills: &["/skill".into()] };
    serde_json::to_value(thread_settings(spec, &mark(), found).unwrap()).unwrap()
}

#[test]
fn a_thread_starts_read_only_and_untrusted() {
    assert_eq!(
        sent(&spec(), &[]),
        json!({"cwd": "/somewhere", "permissions": ":read-only", "approvalPolicy": "untrusted",
            "config": {"project_doc_max_bytes": 0,
                "shell_environment_policy": {"set": {"ANGELIA_AGENT": "home:owner:agent"}},
                "projects": {"/somewhere": {"trust_level": "untrusted"}}}})
    );
    let trusted = SessionSpec {
        trust: true,
        model: Some("m".into()),
        system: SystemPrompt::Append("more".into()),
        ..spec()
    };
    assert_eq!(
        sent(&trusted, &["mine".into()]),
        json!({"cwd": "/somewhere", "permissions": ":read-only", "approvalPolicy": "untrusted",
            "model": "m", "developerInstructions": "more",
            "config": {"projects": {"/somewhere": {"trust_level": "trusted"}},
                "shell_environment_policy": {"set": {"ANGELIA_AGENT": "home:owner:agent"}},
                "mcp_servers": {"mine": {"env": {"ANGELIA_AGENT": "home:owner:agent"}}}}})
    );
}

#[test]
fn model_mode_has_no_tools_and_nobodys_prompt() {
    let raw = RawValue::from_string("{}".to_owned()).unwrap();
    let model = SessionSpec {
        mode: Mode::Model,
        tools: ToolSet::None,
        caller_tools: vec![CallerTool {
            name: "t".into(),
            description: "d".into(),
            input_schema: raw.into(),
        }],
        ..spec()
    };
    let sent = sent(&model, &["mine".into()]);
    assert_eq!(sent["baseInstructions"], "");
    let config = &sent["config"];
    for feature in TOOL_FEATURES {
        assert_eq!(config["features"][feature], false, "{feature}");
    }
    assert_eq!(config["web_search"], "disabled");
    assert_eq!(config["agents"]["enabled"], false);
    assert_eq!(config["mcp_servers"]["mine"]["enabled"], false);
    let skills = json!({"include_instructions": false,
        "config": [{"path": "/skill", "enabled": false}]});
    assert_eq!(config["skills"], skills);
    assert_eq!((turn_permissions(&model), turn_permissions(&spec())), (READ_ONLY, WORKSPACE));
}

#[test]
fn a_list_of_tools_is_refused_and_a_disallowed_search_is_off() {
    let mut spec = spec();
    spec.permissions.disallowed = vec!["WebSearch".parse().unwrap()];
    assert_eq!(sent(&spec, &[])["config"]["web_search"], "disabled");
    spec.tools = ToolSet::List(vec!["Read".into()]);
    let failure = thread_settings(&spec, &mark(), UserExtensions::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid);
}

#[test]
fn trust_is_said_of_the_folder_and_of_its_repository() {
    let root = tempfile::tempdir().unwrap();
    let below = root.path().join("repo/src");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(root.path().join("repo/.git")).unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&below, &link).unwrap();
    let projects = project_trust(&link, false);
    let real = below.canonicalize().unwrap();
    for folder in [&link, &real, real.parent().unwrap()] {
        let folder = Path::to_str(folder).unwrap();
        assert_eq!(projects[folder]["trust_level"], "untrusted", "{folder}");
    }
}

#[test]
fn plugins_are_left_alone_where_the_user_has_some() {
    for (config, wanted) in [
        ("model = \"x\"\n[features]\ngoals = true\n", false),
        ("[plugins.\"a@b\"]\nenabled = true\n", true),
        ("[features]\n  plugins = true\n", true),
        ("[marketplaces.m]\nsource = \"x\"\n", true),
    ] {
        assert_eq!(wants_plugins(config), wanted, "{config}");
    }
}
