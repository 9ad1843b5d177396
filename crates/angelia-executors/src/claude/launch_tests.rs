//! Tests of the launch: a snapshot table of command lines, and properties of each part.

use std::{collections::BTreeMap, fmt::Write as _};

use angelia_core::model::{CallerTool, PermissionLevel};

use super::*;
use crate::claude::version::ClaudeVersion;

const ID: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);

fn features(version: &str) -> ProgramFeatures {
    let version = ClaudeVersion::find(version);
    ProgramFeatures::of(version)
        .unwrap_or_else(|| ProgramFeatures::from_help(version, "--model --tools"))
}

fn line(spec: &SessionSpec, version: &str, conversation: ConversationStart<'_>) -> String {
    match arguments(spec, &features(version), conversation, None) {
        Ok(list) => (list.iter())
            .map(|word| match word.to_str().unwrap() {
                "" => "''".to_owned(),
                word if word.contains([' ', '"', '*']) => format!("'{word}'"),
                word => word.to_owned(),
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(failure) => format!("refused: {failure}"),
    }
}

fn spec(mode: Mode) -> SessionSpec {
    let mut spec = SessionSpec::new("claude", "/project");
    spec.mode = mode;
    spec.model = Some("sonnet".into());
    spec
}

fn rules(list: &[&str]) -> Vec<ToolPattern> {
    list.iter().map(|rule| rule.parse().unwrap()).collect()
}

#[test]
fn command_lines() {
    let mut table = String::new();
    for version in ["2.0.5", "2.1.197", "2.1.325"] {
        for mode in [Mode::Agent, Mode::Model] {
            for trust in [true, false] {
                let mut spec = spec(mode);
                spec.trust = trust;
                let heading = format!("{version} {} trust={trust}", mode.as_str());
                for (what, conversation) in [
                    ("new", ConversationStart::New(ID)),
                    ("resume", ConversationStart::Resume("native-id")),
                ] {
                    writeln!(table, "# {heading} {what}").unwrap();
                    writeln!(table, "{}\n", line(&spec, version, conversation)).unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn command_lines_of_tools_and_rules() {
    let mut table = String::new();
    for tools in [
        ToolSet::Default,
        ToolSet::All,
        ToolSet::None,
        ToolSet::List(vec!["Bash".into(), "Read".into()]),
    ] {
        let mut spec = spec(Mode::Agent);
        spec.tools = tools;
        writeln!(table, "# {:?}", spec.tools).unwrap();
        writeln!(table, "{}\n", line(&spec, "2.1.325", ConversationStart::New(ID))).unwrap();
    }
    for (allow, deny) in [
        (&["Read", "Bash", "mcp__docs__*"][..], &[][..]),
        (&["Read", "Bash(git *)"], &["WebFetch", "Bash(rm:*)"]),
        (&["Bash", "Write"], &["Bash(rm *)", "Read(/etc/*)"]),
        (&["Bash"], &["*"]),
    ] {
        let mut spec = spec(Mode::Agent);
        spec.permissions.allowed = rules(allow);
        spec.permissions.disallowed = rules(deny);
        writeln!(table, "# allowed {allow:?} disallowed {deny:?}").unwrap();
        writeln!(table, "{}\n", line(&spec, "2.1.325", ConversationStart::New(ID))).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn no_words_and_no_bypass_on_any_command_line() {
    for mode in [Mode::Agent, Mode::Model] {
        for level in [PermissionLevel::Ask, PermissionLevel::Edit, PermissionLevel::Unattended] {
            let mut spec = spec(mode);
            spec.permissions.level = level;
            spec.system = SystemPrompt::Append("SECRET words".into());
            spec.output_schema = Some(raw(r#"{"title":"SECRET"}"#));
            let line = line(&spec, "2.1.325", ConversationStart::New(ID));
            for forbidden in ["SECRET", "dangerously", "bypassPermissions", "skip"] {
                assert!(!line.contains(forbidden), "{line}");
            }
            assert!(line.len() < 600, "{line}");
        }
    }
}

#[test]
fn no_value_becomes_an_option() {
    for bad in ["--dangerously-skip-permissions", "-p", "a\nb"] {
        let mut spec = spec(Mode::Agent);
        spec.model = Some(bad.into());
        assert!(line(&spec, "2.1.325", ConversationStart::New(ID)).starts_with("refused"));
        spec.model = None;
        spec.tools = ToolSet::List(vec![bad.into()]);
        assert!(line(&spec, "2.1.325", ConversationStart::New(ID)).starts_with("refused"));
    }
}

fn raw(json: &str) -> angelia_core::model::RawJson {
    serde_json::value::RawValue::from_string(json.to_owned()).unwrap().into()
}

#[test]
fn the_first_request_carries_what_the_mode_wants() {
    let first = |spec: &SessionSpec| serde_json::to_value(build_initialize(spec)).unwrap();
    let mut agent = spec(Mode::Agent);
    let report =
        serde_json::json!({"hookCallbackIds": ["angelia-tool-report"], "timeout": 1_209_600});
    let hooks = serde_json::json!({"PreToolUse": [report]});
    assert_eq!(first(&agent), serde_json::json!({"hooks": hooks}));
    agent.system = SystemPrompt::Append("more".into());
    assert_eq!(first(&agent), serde_json::json!({"hooks": hooks, "appendSystemPrompt": "more"}));

    let mut model = spec(Mode::Model);
    assert_eq!(first(&model), serde_json::json!({"systemPrompt": []}));
    model.system = SystemPrompt::Append("only".into());
    model.caller_tools = vec![CallerTool {
        name: "lookup".into(),
        description: "d".into(),
        input_schema: raw("{}"),
    }];
    model.output_schema = Some(raw(r#"{"type":"object"}"#));
    assert_eq!(
        first(&model),
        serde_json::json!({"systemPrompt": ["only"], "sdkMcpServers": ["client"],
            "jsonSchema": {"type": "object"}})
    );
}

#[test]
fn shapes_leave_out_what_is_learned_late() {
    let shape_of = |spec: &SessionSpec| pool_fingerprint(spec, "2.1.325");
    let mut changed = spec(Mode::Model);
    changed.system = SystemPrompt::Replace("other".into());
    assert_eq!(shape_of(&changed).difference(&shape_of(&spec(Mode::Model))), None);
    let mut changed = spec(Mode::Agent);
    changed.system = SystemPrompt::Append("other".into());
    assert_eq!(shape_of(&changed).difference(&shape_of(&spec(Mode::Agent))), Some("system prompt"));
    let mut changed = spec(Mode::Agent);
    changed.permissions.disallowed = rules(&["Bash"]);
    assert_eq!(shape_of(&changed).difference(&shape_of(&spec(Mode::Agent))), Some("rules"));
    assert_ne!(
        pool_fingerprint(&spec(Mode::Agent), "2.1.197"),
        pool_fingerprint(&spec(Mode::Agent), "2.1.325")
    );
}

#[test]
fn the_prefix_is_what_precedes_the_conversation() {
    let prefix = |change: fn(&mut SessionSpec)| {
        let mut spec = spec(Mode::Agent);
        change(&mut spec);
        prefix_sha256(&spec, "2.1.325")
    };
    let same = prefix(|_| {});
    assert_eq!(same.len(), 64);
    for change in [
        (|spec| spec.warm = 7) as fn(&mut SessionSpec),
        |spec| spec.billing = angelia_core::model::Billing::Subscription,
        |spec| spec.env = BTreeMap::from([("A".into(), "b".into())]),
        // The translator adds the model that answers, whether it was configured or not.
        |spec| spec.model = Some("opus".into()),
    ] {
        assert_eq!(prefix(change), same);
    }
    for change in [
        (|spec| spec.system = SystemPrompt::Append("more".into())) as fn(&mut SessionSpec),
        |spec| spec.tools = ToolSet::None,
        |spec| spec.trust = true,
        |spec| spec.stable_prompt = false,
        |spec| spec.permissions.disallowed = rules(&["Bash"]),
        |spec| drop(spec.mcp_servers.insert("a".into(), raw("{}"))),
    ] {
        assert_ne!(prefix(change), same);
    }
    assert_ne!(prefix_sha256(&spec(Mode::Agent), "2.1.197"), same);
}

#[test]
fn model_mode_sees_nothing_of_the_machine() {
    let mut wanted = spec(Mode::Model);
    wanted.trust = true;
    wanted.tools = ToolSet::All;
    wanted.mcp_servers = BTreeMap::from([("a".into(), raw("{}"))]);
    let spec = effective_spec(&wanted);
    assert_eq!(spec.cwd, Path::new("/"));
    assert!(!spec.trust && spec.mcp_servers.is_empty() && spec.tools == ToolSet::None);
    assert!(matches!(effective_spec(&self::spec(Mode::Agent)), Cow::Borrowed(_)));
}
