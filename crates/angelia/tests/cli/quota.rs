//! A used-up quota, on the real program with a subscription limit.

use std::time::{Duration, SystemTime};

use angelia_testkit::real::CLAUDE_TOKEN;

use crate::{
    agent_processes,
    checklist::{ClaudeFixture, on_each_version, profile_without_key},
    http,
    machine::until,
};

/// Long enough for a daemon to be stopped and started again.
const RESET_DELAY_SECS: u64 = 20;

/// Configures a dummy subscription login; `more` are lines of the profile, `others` more profiles.
fn configure(lab: &ClaudeFixture, more: &str, others: &str) {
    let text = profile_without_key(&lab.machine, &lab.claude, &lab.server);
    let token = format!("\n      CLAUDE_CODE_OAUTH_TOKEN: {CLAUDE_TOKEN}");
    let text = format!("profiles:\n  default:{text}{token}{more}\n{others}");
    lab.machine.configure(&text);
}

fn seconds_from_now(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (now.unwrap() + Duration::from_secs(seconds)).as_secs()
}

#[test]
fn real_a_limit_that_is_far_leaves_the_turn_parked() {
    on_each_version(|lab| {
        configure(lab, "", "");
        let ran = lab.machine.angelia(&["run", "--json", "LIMIT ECHO:later"]);
        ran.assert_code(75);
        let turn = crate::transcript::Transcript::read(&ran.stdout);
        turn.ends_once();
        let end = turn.end();
        assert_eq!(end["status"], "parked", "{end}");
        let resumes_at = end["resumes_at"].as_str().unwrap();
        assert!(resumes_at.starts_with("2096-10-02T07:06:4"), "{resumes_at}");
        let listed = lab.machine.list("turns");
        assert_eq!(listed[0]["status"], "parked", "{listed:?}");
        assert!(agent_processes::agent_pids(&lab.machine).is_empty());
        // The agent's report about its quota is shown, also without a daemon.
        let status = lab.machine.angelia(&["status", "--json"]).assert_code(69).stdout.clone();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let quota = &status["quotas"][0];
        assert_eq!((&quota["executor"], &quota["exhausted"]), (&"claude".into(), &true.into()));
        assert!(quota["resets_at"].as_str().unwrap().starts_with("2096-"), "{quota}");
        // The text output says what happened and what happens next.
        let ran = lab.machine.angelia(&["run", "LIMIT"]);
        ran.assert_code(75).assert_stderr("parked until 2096").assert_stderr("angelia serve");
        // The parked turn can be interrupted from any process.
        lab.machine.angelia(&["turns", "interrupt", turn.turn()]).assert_code(0);
        let listed = lab.machine.list("turns");
        assert_eq!(listed[1]["status"], "interrupted", "{listed:?}");
    });
}

#[test]
fn real_a_parked_turn_goes_on_by_itself_also_after_a_restart() {
    on_each_version(|lab| {
        configure(lab, "", "");
        let serving = lab.machine.serve();
        let session = http::session(&lab.machine, &serving.socket, "default");
        let input = format!("LIMIT:{} ECHO:after the reset", seconds_from_now(RESET_DELAY_SECS));
        let id = http::submit(&serving.socket, &session, &input);
        until("it is parked", || http::turn(&serving.socket, &id)["status"] == "parked");
        assert!(!http::turn(&serving.socket, &id)["resumes_at"].is_null());
        // A killed daemon loses no parked turn.
        serving.kill();
        let serving = lab.machine.serve();
        let events = http::follow(&serving.socket, &id);
        assert_eq!(events.matches(r#""type":"turn.finished""#).count(), 1, "{events}");
        assert!(events.contains("trying again"), "{events}");
        let turn = http::turn(&serving.socket, &id);
        assert_eq!(turn["status"], "completed", "{turn}");
        assert_eq!(turn["text"], "after the reset");
        serving.stop().assert_code(0);
    });
}

#[test]
fn real_the_fallback_profile_takes_over() {
    on_each_version(|lab| {
        configure(lab, "\n    fallback_profile: spare", "  spare: {executor: parrot}\n");
        let turn = lab.machine.turn(&["LIMIT"]);
        turn.completed();
        let notices = turn.of_type("notice");
        let said = |notice: &&&serde_json::Value| notice["code"] == "fallback";
        assert_eq!(notices.iter().filter(said).count(), 1, "{notices:?}");
        // A fallback profile that does not exist, or that is the profile itself, is refused.
        configure(lab, "\n    fallback_profile: spar", "  spare: {executor: parrot}\n");
        let ran = lab.machine.angelia(&["run", "hello"]);
        ran.assert_code(78).assert_stderr("did you mean `spare`?");
        configure(lab, "\n    fallback_profile: default", "");
        let ran = lab.machine.angelia(&["run", "hello"]);
        ran.assert_code(78).assert_stderr("leads back to `default` itself");
    });
}
