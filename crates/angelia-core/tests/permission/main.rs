//! Deny rules against real shells: scripts from a grammar of shell constructs and wrappers are run
//! with a fake `rm` on `PATH`. Whenever the fake ran, the rule must have refused the script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod grammar;
mod real_shells;

use std::{path::Path, time::Duration};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, PermissionLevel, Permissions,
        SessionId, ToolAccess, ToolClass,
    },
    permission::{AccessCheck, AccessPlan, Authority},
    ports::KnownPlaces,
};

use crate::{grammar::ScriptGenerator, real_shells::RealShells};

/// `cargo xtask soak shell` sets it.
const SECONDS: &str = "ANGELIA_SHELL_SOAK_SECONDS";
const SEED: &str = "ANGELIA_SHELL_SOAK_SEED";

/// Whether `disallowed_tools: [Bash(rm *)]` refuses the script.
fn is_denied(script: &str) -> bool {
    let request = ApprovalRequest {
        key: "k".into(),
        stage: ApprovalStage::Request,
        access: ToolAccess { command: Some(CommandAccess::shell(script)), ..ToolAccess::default() },
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        class: ToolClass::Execute,
        subject: None,
        title: "t".into(),
        detail: "d".into(),
        input: serde_json::value::to_raw_value(&()).unwrap().into(),
    };
    let permissions = Permissions {
        level: PermissionLevel::Unattended,
        allowed: Vec::new(),
        disallowed: vec!["Bash(rm *)".parse().unwrap()],
    };
    let places = KnownPlaces {
        user_home: "/home/me".into(),
        angelia_home: "/home/me/.a".into(),
        agent_files: Vec::new(),
    };
    let plan = AccessPlan::new(&request, Path::new("/project"), &places);
    let real = plan.paths().to_vec();
    let authority = Authority {
        permissions: &permissions,
        session: SessionId::from_uuid(uuid::Uuid::nil()),
        profile: "default",
        places: &places,
    };
    matches!(authority.check(&plan.resolved(real), &[]), AccessCheck::Deny(_))
}

fn number(variable: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test is told by its caller")]
    let told = std::env::var(variable);
    told.ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_shell_runs_what_a_deny_rule_let_pass() {
    let shells = RealShells::new();
    let first_seed = number(SEED, 1);
    let limit = Duration::from_secs(number(SECONDS, 6));
    let started = std::time::Instant::now();
    let (mut scripts, mut ran, mut denied) = (0_u64, 0_u64, 0_u64);
    while started.elapsed() < limit || scripts < 50 {
        let seed = first_seed + scripts;
        let script = ScriptGenerator::new(seed, shells.fake_rm(seed)).script();
        let is_denied = is_denied(&script);
        scripts += 1;
        denied += u64::from(is_denied);
        // A refused script never reaches a shell; a few are run to see that the fake works.
        if is_denied && scripts % 16 != 0 {
            continue;
        }
        if let Some(shell) = shells.find_shell_that_removes(&script, seed) {
            ran += 1;
            assert!(is_denied, "{shell} ran rm, seed {seed}:\n{script}");
        }
    }
    println!("{scripts} scripts, {denied} refused; rm ran in {ran} of those that were run");
    assert!(ran * 160 > scripts, "the fake rm hardly ran: {ran} of {scripts}");
    assert!(denied < scripts, "every script was refused");
}
