//! Isolation: the variables that reach the child, the settings that a working directory may inject,
//! and leftover processes.

use std::{fs, path::Path, time::Duration};

use angelia_core::{
    model::{SessionSpec, Verdict},
    ports::AgentEvent,
};
use angelia_testkit::{direct_session::TurnOutput, process_table};
use serde_json::json;

use crate::harness::{ClaudeHarness, DirectSession, bash, on_both};

async fn allowed(session: &mut DirectSession, prompt: &str) -> TurnOutput {
    session
        .prompt_watched(prompt, |emitted, hands| {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                hands.decide(request, Verdict::Once);
            }
        })
        .await
}

#[tokio::test]
async fn real_only_listed_variables_reach_the_child() {
    on_both(async |lab| {
        let mut spec = lab.spec_without_login();
        spec.env.insert("ANTHROPIC_AUTH_TOKEN".into(), "dummy".into());
        spec.env.insert("CHOSEN".into(), "by the profile".into());
        let mut session = lab.open(&spec).await;
        let heard = allowed(&mut session, &bash("env; pwd")).await;
        heard.answer();
        let output = &heard.tool_results()[0].output;
        assert!(!output.contains("must-not-leak"), "{output}");
        for name in
            ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_TOKEN", "SECRET_OF_OURS"]
        {
            assert!(!output.contains(&format!("{name}=")), "{name}: {output}");
        }
        let line = |name: &str| output.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("ANGELIA_AGENT=").starts_with("ANGELIA_AGENT=test-home:"));
        assert_eq!(line("CHOSEN="), "CHOSEN=by the profile");
        assert_eq!(line("HOME="), format!("HOME={}", lab.place.home().display()));
        let cwd = lab.place.work_dir().canonicalize().unwrap();
        assert!(output.contains(cwd.to_str().unwrap()), "the working directory");
        session.close().await;
    })
    .await;
}

/// Creates a project with a hook, an MCP server and instructions.
fn project(lab: &ClaudeHarness) -> SessionSpec {
    let work = lab.place.work_dir();
    let touch = |name: &str| format!("touch '{}'", lab.place.root().join(name).display());
    fs::create_dir_all(work.join(".claude")).unwrap();
    let hook = json!([{"hooks": [{"type": "command", "command": touch("hooked")}]}]);
    let settings = json!({"hooks": {"SessionStart": hook, "UserPromptSubmit": hook}});
    fs::write(work.join(".claude/settings.json"), settings.to_string()).unwrap();
    let servers = json!({"mcpServers": {"project": {"command": "sh",
        "args": ["-c", format!("{}; cat", touch("served"))]}}});
    fs::write(work.join(".mcp.json"), servers.to_string()).unwrap();
    fs::write(work.join("CLAUDE.md"), "INSTRUCTIONS-OF-THE-PROJECT").unwrap();
    lab.spec()
}

async fn acted(lab: &ClaudeHarness, spec: &SessionSpec) -> [bool; 3] {
    let mut session = lab.open(spec).await;
    session.prompt("hello").await.answer();
    session.close().await;
    let request = lab.last_request().to_string();
    [
        lab.place.root().join("hooked").exists(),
        lab.place.root().join("served").exists(),
        request.contains("INSTRUCTIONS-OF-THE-PROJECT"),
    ]
}

#[tokio::test]
async fn real_a_project_acts_only_where_it_is_trusted() {
    on_both(async |lab| {
        let mut spec = project(&lab);
        spec.trust = false;
        assert_eq!(acted(&lab, &spec).await, [false; 3]);
        spec.trust = true;
        assert_eq!(acted(&lab, &spec).await, [true; 3]);
    })
    .await;
}

#[tokio::test]
async fn real_servers_of_the_profile_are_private_and_marked() {
    on_both(async |lab| {
        let out = lab.place.root().join("server-env");
        let server = json!({"command": "sh", "env": {"TOKEN": "secret-of-the-server"},
            "args": ["-c", format!("env > '{}'; cat", out.display())]});
        let mut spec = lab.spec();
        let raw = serde_json::value::to_raw_value(&server).unwrap();
        spec.mcp_servers.insert("mine".into(), raw.into());
        let mut session = lab.open(&spec).await;
        let arguments = arguments_of_children();
        session.prompt("hello").await.answer();
        let environment = fs::read_to_string(&out).unwrap();
        assert!(environment.contains("ANGELIA_AGENT=test-home:"), "{environment}");
        assert!(environment.contains("TOKEN=secret-of-the-server"));
        assert!(!arguments.contains("secret-of-the-server"), "{arguments}");
        let left: Vec<_> = fs::read_dir(&lab.host.work_dir).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        session.close().await;
    })
    .await;
}

fn arguments_of_children() -> String {
    process_table::find_marked("test-home:").into_iter().map(process_table::command_line).collect()
}

#[tokio::test]
async fn real_rules_win_also_over_what_the_program_finds_harmless() {
    on_both(async |lab| {
        fs::write(lab.place.work_dir().join("a.txt"), "CONTENT-OF-A").unwrap();
        let mut spec = lab.spec();
        let path = lab.place.work_dir().join("a.txt");
        spec.permissions.disallowed = vec![
            "Bash(cat *)".parse().unwrap(),
            format!("Read({})", path.display()).parse().unwrap(),
        ];
        let mut session = lab.open(&spec).await;
        let read = crate::harness::call("Read", &json!({"file_path": path}));
        for prompt in [bash("cat a.txt"), bash("echo x && cat a.txt"), read] {
            let heard = session.prompt(&prompt).await;
            assert!(!heard.tool_results()[0].ok, "{heard:#?}");
        }
        assert!(session.prompt(&bash("echo fine")).await.tool_results()[0].ok);
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_nothing_a_tool_started_survives_the_close() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let file = lab.place.root().join("pid");
        // In its own session and with redirected output, nothing ties the process to the program.
        let command = format!(
            "setsid sh -c 'echo $$ > {}; exec tail -f /dev/null' >/dev/null 2>&1 & echo started",
            file.display()
        );
        allowed(&mut session, &bash(&command)).await.answer();
        let pid = wait_for(&file).await;
        assert!(Path::new("/proc").join(&pid).exists());
        session.close().await;
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    })
    .await;
}

async fn wait_for(file: &Path) -> String {
    for _ in 0..500 {
        if let Ok(pid) = fs::read_to_string(file)
            && pid.ends_with('\n')
        {
            return pid.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} was not written", file.display());
}
