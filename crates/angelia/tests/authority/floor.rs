//! The recorded verdicts as a floor of `permissions: edit`.

use std::{fs, path::Path};

use angelia_backends::paths::RealPaths;
use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, PermissionLevel, Permissions,
        SessionId, ToolAccess, ToolClass,
    },
    permission::{AccessCheck, AccessPlan, Authority},
    ports::{AgentEvent, PathResolver as _},
};
use angelia_executors::claude::translate::{StreamTranslator, TranslatorContext};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cases::{self, RecordedCase, Recording, Verdict};

fn recordings() -> Vec<Recording> {
    let names = ["claude-2.1.197.json", "claude-2.1.325.json", "codex-0.166.0.json"];
    let read = |name| serde_json::from_str(&fs::read_to_string(cases::fixture(name)).unwrap());
    names.into_iter().map(|name| read(name).unwrap()).collect()
}

/// Returns the request as an agent makes it that has no objections of its own.
fn plain_request(case: &RecordedCase, root: &Path) -> ApprovalRequest {
    let target = cases::fill_in(&case.target, case.is_command, root);
    let mut access = ToolAccess::default();
    if case.is_command {
        access.command = Some(CommandAccess::shell(target.as_str()));
    } else {
        access.writes.push(target.as_str().into());
    }
    ApprovalRequest {
        key: "k".into(),
        stage: ApprovalStage::Request,
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: if case.is_command { "shell" } else { "apply_patch" }.into(),
        class: if case.is_command { ToolClass::Execute } else { ToolClass::Edit },
        subject: Some(target.as_str().into()),
        access,
        suggestions: Vec::new(),
        edits: Vec::new(),
        title: "t".into(),
        detail: "d".into(),
        input: serde_json::value::to_raw_value(&()).unwrap().into(),
    }
}

/// Returns the recorded request of Claude Code, through its translator.
fn recorded_request(request: &Value, root: &Path) -> ApprovalRequest {
    let request = request.to_string().replace("$ROOT", &root.to_string_lossy());
    let request: Value = serde_json::from_str(&request).unwrap();
    let line = json!({"type": "control_request", "request_id": "k", "request": request});
    let mut translator = StreamTranslator::new(TranslatorContext {
        profile: "default".into(),
        executor: "claude".into(),
        resumed: false,
        warm: false,
        prefix_sha256: None,
        cwd: root.join("work"),
        home: root.join("home"),
        caller_tools: Vec::new(),
    });
    let mut out = Vec::new();
    translator.begin_turn("00000000-0000-4000-8000-000000000000");
    translator.translate_line(line.to_string().as_bytes(), &mut out);
    let found = out.into_iter().find_map(|event| match event {
        AgentEvent::ApprovalRequest(request) => Some(request),
        _ => None,
    });
    found.unwrap()
}

async fn check(request: &ApprovalRequest, level: PermissionLevel, root: &Path) -> AccessCheck {
    let paths = RealPaths::new(
        &root.join("home"),
        &root.join("home/.angelia"),
        angelia_executors::agent_files(),
    );
    let permissions = Permissions { level, allowed: Vec::new(), disallowed: Vec::new() };
    let authority = Authority {
        permissions: &permissions,
        session: SessionId::from_uuid(Uuid::now_v7()),
        profile: "default",
        places: paths.places(),
    };
    let cwd = root.join("work");
    let plan = AccessPlan::new(request, &cwd, paths.places());
    let real = paths.resolve(plan.paths().to_vec()).await;
    authority.check(&plan.resolved(real), &[])
}

#[tokio::test]
async fn edit_never_allows_what_a_vendor_asks_about_or_refuses() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path().canonicalize().unwrap();
    cases::lay_out(&root);
    let (mut compared, mut allowed) = (0, 0);
    let mut below = Vec::new();
    for recording in recordings() {
        for case in &recording.cases {
            let plain = plain_request(case, &root);
            let recorded = case.request.as_ref().map(|request| recorded_request(request, &root));
            for request in recorded.into_iter().chain([plain]) {
                let ours = check(&request, PermissionLevel::Edit, &root).await;
                compared += 1;
                allowed += usize::from(ours == AccessCheck::Allow);
                if case.verdict != Verdict::Ran && ours == AccessCheck::Allow {
                    let by = (&recording.version, &request.tool_name, &case.target);
                    below.push(format!("{by:?}"));
                }
            }
        }
    }
    assert!(below.is_empty(), "allowed by us, not by the vendor: {below:#?}");
    assert!(compared > 350 && allowed > 20, "{compared} compared, {allowed} allowed");
}

/// A file that Claude Code calls sensitive is protected at every level, also if a command names it.
#[tokio::test]
async fn commands_that_name_a_sensitive_file_need_a_person_at_every_level() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path().canonicalize().unwrap();
    cases::lay_out(&root);
    let recordings = recordings();
    let is_sensitive = |recording: &Recording, target: &str| {
        let mut cases = recording.cases.iter();
        let case = cases.find(|case| case.target == target).unwrap();
        case.request.as_ref().is_some_and(|one| one["decision_reason_type"] == "safetyCheck")
    };
    let mut compared = 0;
    let mut below = Vec::new();
    for case in &recordings[0].cases {
        if is_sensitive(&recordings[0], &case.target) && is_sensitive(&recordings[1], &case.target)
        {
            compared += 1;
            let request = plain_request(case, &root);
            let ours = check(&request, PermissionLevel::Unattended, &root).await;
            if ours == AccessCheck::Allow {
                below.push(&case.target);
            }
        }
    }
    assert!(below.is_empty(), "allowed by us, not by the vendor: {below:#?}");
    assert!(compared > 40, "{compared}");
}
