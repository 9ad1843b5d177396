//! Our answers, compared with the recorded client's answer in each case.

use serde_json::Value;

use super::driver::{all, drive};

#[test]
fn decisions_are_spelled_as_the_server_took_them() {
    let mut compared = 0;
    for fixture in all() {
        for step in drive(&fixture.lines) {
            let (Some(line), Some(reply)) = (step.line, &step.reply) else {
                continue;
            };
            let recorded: Value = serde_json::from_str(&fixture.lines[line - 1].msg).unwrap();
            // We never give an answer that the server would remember.
            let result = &recorded["result"];
            if result["decision"] == "acceptForSession" || result["_meta"]["persist"].is_string() {
                continue;
            }
            let ours: Value = serde_json::from_str(reply.result.get()).unwrap();
            assert_eq!(ours, *result, "{} line {line}", fixture.name);
            assert_eq!(reply.id.to_string(), recorded["id"].to_string());
            compared += 1;
        }
    }
    assert!(compared >= 15, "only {compared}");
}

#[test]
fn the_rules_of_the_user_are_never_amended() {
    for fixture in all() {
        for step in drive(&fixture.lines) {
            let said = step.reply.iter().map(|reply| reply.result.get());
            for said in said {
                assert!(!said.contains("mendment"), "{}: {said}", fixture.name);
                for remembered in ["always", "ession"] {
                    assert!(!said.contains(remembered), "{}: {said}", fixture.name);
                }
            }
        }
    }
}
