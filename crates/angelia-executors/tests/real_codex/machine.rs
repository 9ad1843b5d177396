//! Tests which parts of this machine Codex sees, and which it may change.

use std::{fs, process::Command};

use angelia_core::{model::Verdict, ports::AgentEvent};
use serde_json::json;

use crate::harness::{CodexHarness, exec, exec_escalated, wait_until};

#[tokio::test]
async fn real_only_what_is_allowed_reaches_the_program() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let heard = session.prompt(&exec("env > environment")).await;
    assert_eq!(heard.answer(), "done");
    let environment = fs::read_to_string(lab.path("environment")).unwrap();
    let value = |name: &str| {
        let line = environment.lines().find(|line| line.starts_with(name));
        line.map(|line| line[name.len()..].to_owned())
    };
    assert!(!environment.contains("must-not-leak"), "{environment}");
    assert_eq!(value("HOME=").unwrap(), lab.place.home().to_str().unwrap());
    assert_eq!(value("CODEX_HOME=").unwrap(), lab.home.to_str().unwrap());
    assert!(value("ANGELIA_AGENT=").unwrap().starts_with("test-home:"));
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_writable_thread_does_not_make_a_repository_trusted() {
    let lab = CodexHarness::new();
    #[expect(clippy::disallowed_methods, reason = "a repository for the test")]
    let made = Command::new("git").arg("init").arg("-q").arg(lab.place.work_dir()).status();
    assert!(made.unwrap().success());
    // The repository's own settings must not count.
    fs::create_dir(lab.path(".codex")).unwrap();
    let theirs = "developer_instructions = \"MARK-OF-THE-REPOSITORY\"\n";
    fs::write(lab.path(".codex/config.toml"), theirs).unwrap();
    fs::write(lab.path("AGENTS.md"), "MARK-OF-THE-REPOSITORY").unwrap();
    let before = lab.config();
    let mut session = lab.open(&lab.unattended()).await;
    let native = session.prompt(&exec("touch made")).await.native_session_id();
    assert!(lab.path("made").exists(), "it was writable");
    session.close().await;
    let mut session = lab.resume(&lab.unattended(), &native).await;
    assert_eq!(session.prompt(&exec("touch again")).await.answer(), "done");
    assert!(lab.path("again").exists());
    assert_eq!(lab.config(), before, "nothing was noted");
    let request = lab.last_request().to_string();
    assert!(!request.contains("MARK-OF-THE-REPOSITORY"), "{request}");
    session.close().await;

    let mut trusting = lab.unattended();
    trusting.trust = true;
    let mut session = lab.open(&trusting).await;
    assert_eq!(session.prompt("ECHO:hello").await.answer(), "hello");
    assert!(lab.last_request().to_string().contains("MARK-OF-THE-REPOSITORY"));
    assert_eq!(lab.config(), before, "nothing was noted");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_mcp_servers_carry_the_mark_and_end_with_the_session() {
    let more = "[mcp_servers.own]\ncommand = \"/bin/sh\"\n\
                args = [\"-c\", \"env > own-server; cat\"]\nstartup_timeout_sec = 2\n";
    let lab = CodexHarness::with_config(angelia_testkit::codex_home::CodexLogin::Key, more);
    let mut spec = lab.spec();
    let server = json!({"command": "/bin/sh", "args": ["-c", "env > our-server; cat"],
        "startup_timeout_sec": 2});
    let raw = serde_json::value::to_raw_value(&server).unwrap();
    spec.mcp_servers.insert("ours".into(), raw.into());
    let mut session = lab.open(&spec).await;
    assert_eq!(session.prompt("ECHO:hello").await.answer(), "hello");
    for name in ["own-server", "our-server"] {
        let path = lab.path(name);
        wait_until("a server does not start", || {
            fs::read_to_string(&path).is_ok_and(|text| text.contains("ANGELIA_AGENT=test-home:"))
        })
        .await;
    }
    session.close().await;
    wait_until("a server outlives its session", || lab.processes() == lab.servers()).await;
    lab.close().await;
}

/// The app-server keeps running for other sessions; the processes that this session has started do
/// not.
#[tokio::test]
async fn real_what_has_escaped_ends_with_its_session_and_not_with_another() {
    let lab = CodexHarness::new();
    let run = async |name: &str| {
        let mut session = lab.open(&lab.spec()).await;
        let path = lab.path(name);
        let command = format!("setsid sh -c 'touch {}; exec sleep 60' &", path.display());
        let heard = session
            .prompt_watched(&exec_escalated(&command), |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    hands.decide(request, Verdict::Once);
                }
            })
            .await;
        assert_eq!(heard.answer(), "done");
        wait_until("it does not run", || path.exists()).await;
        session
    };
    let one = run("one").await;
    let two = run("two").await;
    // Codex itself runs short commands now and then.
    let others = || lab.processes().len().saturating_sub(lab.servers().len());
    wait_until("both are running", || others() == 2).await;
    one.close().await;
    wait_until("one is left", || others() == 1).await;
    drop(two);
    wait_until("it outlives its session", || others() == 0).await;
    assert_eq!(lab.servers().len(), 1);
    lab.close().await;
}
