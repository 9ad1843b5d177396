//! Tests of the choice of the program: A01 the switch, A02 per profile, A03 its own login, A16 its
//! own conversations.

use std::{fs, thread};

use serde_json::json;

use super::{on_each_version, profile_without_key};
use crate::transcript::Transcript;

fn profile_of(turn: &Transcript) -> (&str, &str) {
    let started = turn.completed().first("turn.started");
    (started["profile"].as_str().unwrap(), started["executor"].as_str().unwrap())
}

const BRIDGE: (&str, &str) = ("claude_code_bridge", "claude");
const OTHER: (&str, &str) = ("default", "parrot");

#[test]
fn real_a01_the_bridge_is_used_when_it_is_switched_on() {
    on_each_version(|lab| {
        lab.configure_bridge(&["enabled: false"]);
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), OTHER);
        assert!(lab.server.requests().is_empty(), "the other path is untouched");

        lab.machine.set("HERMES_CLAUDE_CODE_BRIDGE", "1");
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), BRIDGE);
        assert_eq!(lab.server.model_requests().len(), 1);

        lab.machine.set("HERMES_CLAUDE_CODE_BRIDGE", "0");
        lab.configure_bridge(&["enabled: true"]);
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), OTHER);
        lab.machine.set("HERMES_CLAUDE_CODE_BRIDGE", "");
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), BRIDGE);
    });
}

/// Without a configuration block the switch alone is enough: the program is found on the search
/// path.
#[test]
fn real_a01_the_switch_alone_is_enough() {
    on_each_version(|lab| {
        let bin = lab.machine.place.root().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&lab.claude.path, bin.join("claude")).unwrap();
        lab.machine.set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let profile = lab.profile(&[]);
        let variables = profile.split_once("\n    env:").unwrap().1;
        let text = "profiles: {default: {executor: parrot}}\nexecutors:\n  claude:\n    env:";
        lab.machine.configure(&format!("{text}{variables}\n"));
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), OTHER);
        lab.machine.set("HERMES_CLAUDE_CODE_BRIDGE", "1");
        assert_eq!(profile_of(&lab.machine.turn(&["hello"])), BRIDGE);
    });
}

#[test]
fn real_a02_two_profiles_run_side_by_side() {
    on_each_version(|lab| {
        let profile = lab.profile(&[]);
        lab.machine
            .configure(&format!("profiles:\n  coder:{profile}\n  other: {{executor: parrot}}\n"));
        let serving = lab.machine.serve();
        thread::scope(|scope| {
            let machine = &lab.machine;
            let coder = scope.spawn(|| machine.turn(&["-p", "coder", "WORDS:20:10"]));
            let other = scope.spawn(|| machine.turn(&["-p", "other", "!words 20 10"]));
            let (coder, other) = (coder.join().unwrap(), other.join().unwrap());
            assert_eq!(profile_of(&coder), ("coder", "claude"));
            assert_eq!(profile_of(&other), ("other", "parrot"));
            assert!(coder.text().starts_with("w0 w1") && other.text().starts_with("word1"));
        });
        serving.stop().assert_code(0);
    });
}

#[test]
fn real_a03_the_programs_own_login_is_enough() {
    on_each_version(|lab| {
        let profile = profile_without_key(&lab.machine, &lab.claude, &lab.server);
        lab.machine.configure(&format!("profiles:\n  default:{profile}\n"));
        let ran = lab.machine.angelia(&["run", "hello"]);
        ran.assert_code(77).assert_stderr("Not logged in").assert_stderr("claude auth login");
        assert!(lab.server.model_requests().is_empty());
        lab.machine.angelia(&["doctor"]).assert_code(1).assert_stdout("not logged in");

        let folder = lab.machine.place.home().join(".claude");
        fs::create_dir_all(&folder).unwrap();
        let login = json!({"claudeAiOauth": {
            "accessToken": "sk-ant-oat01-dummy-login-of-the-tests",
            "refreshToken": "sk-ant-ort01-dummy-login-of-the-tests",
            "expiresAt": 4_000_000_000_000_u64,
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        }});
        fs::write(folder.join(".credentials.json"), login.to_string()).unwrap();
        lab.machine.angelia(&["doctor"]).assert_code(0).assert_stdout("logged in");
        let turn = lab.machine.turn(&["ECHO:logged in"]);
        assert_eq!(turn.completed().text(), "logged in");
        let request = lab.last_request();
        let sent = request.header("authorization").unwrap_or_default();
        assert_eq!(sent, "Bearer sk-ant-oat01-dummy-login-of-the-tests");
        assert!(request.header("x-api-key").is_none());
        assert_eq!(turn.first("usage")["lane"], "subscription");
    });
}

#[test]
fn real_a16_a_chat_continues_its_conversation_when_told_to() {
    on_each_version(|lab| {
        for through_the_daemon in [false, true] {
            for (resume, continues) in [("true", true), ("false", false)] {
                lab.configure_bridge(&[
                    "enabled: true",
                    &format!("resume_claude_sessions: {resume}"),
                ]);
                let serving = through_the_daemon.then(|| lab.machine.serve());
                let name = format!("chat {through_the_daemon} {resume}");
                let one = lab.machine.turn(&["-s", &name, "the first words"]);
                let two = lab.machine.turn(&["-s", &name, "the second words"]);
                assert_eq!(one.completed().session(), two.completed().session());
                let sent = lab.last_request().json()["messages"].to_string();
                assert!(sent.contains("the second words"));
                assert_eq!(sent.contains("the first words"), continues, "{name}: {sent}");
                if continues {
                    let native =
                        |turn: &Transcript| turn.first("turn.started")["native_session_id"].clone();
                    assert_eq!(native(&one), native(&two));
                }
                drop(serving);
            }
        }
    });
}
