//! The call beyond `budget_tool_count` does not run, also if the model makes several at once.

use angelia_core::model::{PermissionLevel, TurnStatus};
use serde_json::json;

use crate::engine_lab::{EngineLab, RealAgent};

#[tokio::test]
async fn real_the_call_beyond_the_budget_does_not_run() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        let calls: Vec<_> = (0..4).map(|n| agent.run(&format!("touch made-{n}"))).collect();
        let batch = format!("TOOL:{}:END ECHO:done", json!(calls));
        let mut spec = lab.spec(PermissionLevel::Unattended);
        spec.budgets.tools = Some(2);
        spec.budgets.resumes = 0;
        let turn = lab.turn(lab.session(spec).await, false, &batch).await;
        assert_eq!(turn.outcome().status, TurnStatus::Partial, "{:#?}", turn.0);
        for n in 2..4 {
            assert!(!lab.path(&format!("made-{n}")).exists(), "call {n}: {:#?}", turn.0);
        }
        // One after the other, what the budget covers runs.
        let one = json!(agent.run("touch first")).to_string();
        let mut spec = lab.spec(PermissionLevel::Unattended);
        spec.budgets.tools = Some(1);
        spec.budgets.resumes = 0;
        let twice = format!("TOOL:{one}:END ROUNDS:2 ECHO:done");
        let turn = lab.turn(lab.session(spec).await, false, &twice).await;
        assert_eq!(turn.outcome().status, TurnStatus::Partial, "{:#?}", turn.0);
        assert!(lab.path("first").exists(), "{:#?}", turn.0);
        lab.close().await;
    }
}
