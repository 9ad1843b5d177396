//! An edit has a diff, whichever agent makes it: the person who decides sees it, and the record has it
//! if nobody was asked.

use std::fs;

use angelia_core::model::{EventKind, PermissionLevel};
use serde_json::{Value, json};

use crate::engine_lab::{EngineLab, RealAgent, prompt};

/// Returns the call that replaces the line `old` of a file.
fn replace_line(agent: &RealAgent, path: &str) -> Value {
    match agent {
        RealAgent::Claude(_) => json!({"name": "Edit",
            "input": {"file_path": path, "old_string": "old", "new_string": "new"}}),
        RealAgent::Codex(_) => json!({"name": "apply_patch", "input": format!(
            "*** Begin Patch\n*** Update File: {path}\n@@\n three\n-old\n+new\n*** End Patch")}),
    }
}

#[tokio::test]
async fn real_edits_are_asked_about_with_their_diff() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        let session = lab.session(lab.spec(PermissionLevel::Ask)).await;
        let write = prompt(&agent.write(lab.path("fresh.txt").to_str().unwrap()));
        let turn = lab.turn(session, true, &write).await;
        let approvals = turn.approvals();
        let diff = approvals.iter().find_map(|approval| approval.diff.as_deref());
        let diff = diff.unwrap_or_else(|| panic!("{:#?}", turn.0));
        let head = "--- /dev/null\n+++ b/fresh.txt\n@@ -0,0 +1 @@\n+x\n";
        assert!(diff.starts_with(head), "{diff}");

        let known = lab.path("known.txt");
        fs::write(&known, "one\ntwo\nthree\nold\nfive\n").unwrap();
        let known = known.to_str().unwrap();
        if let RealAgent::Claude(_) = agent {
            // The CLI edits only what it has read.
            let read = prompt(&json!({"name": "Read", "input": {"file_path": known}}));
            lab.turn(session, true, &read).await;
        }
        let turn = lab.turn(session, true, &prompt(&replace_line(&agent, known))).await;
        let approvals = turn.approvals();
        let diff = approvals.iter().find_map(|approval| approval.diff.as_deref());
        let diff = diff.unwrap_or_else(|| panic!("{:#?}", turn.0));
        assert!(diff.starts_with("--- a/known.txt\n+++ b/known.txt\n@@ -"), "{diff}");
        assert!(diff.contains(" three\n-old\n+new\n"), "{diff}");
        lab.close().await;
    }
}

#[tokio::test]
async fn real_edits_that_nobody_was_asked_about_are_recorded_with_their_diff() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        let session = lab.session(lab.spec(PermissionLevel::Edit)).await;
        let fresh = lab.path("fresh.txt");
        let write = prompt(&agent.write(fresh.to_str().unwrap()));
        let turn = lab.turn(session, true, &write).await;
        assert!(turn.approvals().is_empty(), "{:#?}", turn.0);
        let diffs = turn.0.iter().filter_map(|event| match &event.kind {
            EventKind::ToolResult(result) => result.diff.as_deref(),
            _ => None,
        });
        let diffs: Vec<&str> = diffs.collect();
        let [diff] = diffs[..] else { panic!("{:#?}", turn.0) };
        assert!(diff.starts_with("--- /dev/null\n+++ b/fresh.txt\n@@ -0,0 +1 @@\n+x\n"), "{diff}");
        assert_eq!(fs::read_to_string(fresh).unwrap().trim_end(), "x");
        lab.close().await;
    }
}
