//! The permission authority on a real file system: links and `..` do not hide what a call touches.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, os::unix::fs::symlink, sync::Arc};

use angelia_backends::paths::RealPaths;
use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, PermissionLevel, Permissions,
        SessionId, ToolAccess, ToolClass,
    },
    permission::{AccessCheck, AccessPlan, Authority},
    ports::PathResolver as _,
};

struct Machine {
    folder: tempfile::TempDir,
    paths: RealPaths,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["home/.angelia", "home/.ssh", "project/ok", "project/.git/hooks", "outside"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("home/.angelia/token"), "t").unwrap();
        let links = [
            ("../outside", "project/out"),
            ("../../outside", "project/ok/out"),
            (".git/hooks", "project/tools"),
            ("../home/.angelia/token", "project/notes"),
            ("../home/.bashrc", "project/dangling"),
            ("../home", "project/h"),
            ("project", "linked-project"),
        ];
        for (target, link) in links {
            symlink(target, root.join(link)).unwrap();
        }
        let paths = RealPaths::new(&root.join("home"), &root.join("home/.angelia"), Vec::new());
        Self { folder, paths }
    }

    async fn check(
        &self,
        level: PermissionLevel,
        allowed: &[&str],
        access: ToolAccess,
    ) -> AccessCheck {
        let class = match &access {
            ToolAccess { command: Some(_), .. } => ToolClass::Execute,
            ToolAccess { writes, .. } if writes.is_empty() => ToolClass::Read,
            _ => ToolClass::Edit,
        };
        let tool = match class {
            ToolClass::Execute => "Bash",
            ToolClass::Read => "Read",
            _ => "Write",
        };
        let request = ApprovalRequest {
            key: "k".into(),
            stage: ApprovalStage::Request,
            access,
            suggestions: Vec::new(),
            edits: Vec::new(),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: tool.into(),
            class,
            subject: None,
            title: "t".into(),
            detail: "d".into(),
            input: Arc::from(serde_json::value::to_raw_value(&()).unwrap()),
        };
        let permissions = Permissions {
            level,
            allowed: allowed.iter().map(|text| text.parse().unwrap()).collect(),
            disallowed: Vec::new(),
        };
        // The session's directory is given through a link, too.
        let cwd = self.folder.path().join("linked-project");
        let plan = AccessPlan::new(&request, &cwd, self.paths.places());
        let real = self.paths.resolve(plan.paths().to_vec()).await;
        let authority = Authority {
            permissions: &permissions,
            session: SessionId::from_uuid(uuid::Uuid::nil()),
            profile: "default",
            places: self.paths.places(),
        };
        authority.check(&plan.resolved(real), &[])
    }
}

fn writes(path: &str) -> ToolAccess {
    ToolAccess { writes: vec![path.into()], ..ToolAccess::default() }
}

fn is_protected(check: &AccessCheck) -> bool {
    matches!(check, AccessCheck::Ask { protected: Some(_) })
}

#[tokio::test]
async fn edits_stay_inside_the_directory_whatever_links_say() {
    let machine = Machine::new();
    let edit = |path: &'static str| machine.check(PermissionLevel::Edit, &[], writes(path));
    for path in ["a", "ok/new/b", "ok/../c", "none/../d"] {
        assert_eq!(edit(path).await, AccessCheck::Allow, "{path}");
    }
    for path in ["out/a", "ok/out/a", "../outside/a", "out/../project/a/../../x"] {
        assert_eq!(edit(path).await, AccessCheck::Ask { protected: None }, "{path}");
    }
    for path in ["tools/pre-commit", "dangling", "notes", "h/.ssh/authorized_keys", "h/.angelia/x"]
    {
        assert!(is_protected(&edit(path).await), "{path}");
    }
}

#[tokio::test]
async fn patterns_and_unattended_do_not_follow_links_out() {
    let machine = Machine::new();
    let ok = ["Write(ok/*)"];
    let check = |path: &'static str| machine.check(PermissionLevel::Ask, &ok, writes(path));
    assert_eq!(check("ok/a").await, AccessCheck::Allow);
    assert_eq!(check("ok/out/a").await, AccessCheck::Ask { protected: None });
    let absolute = machine.folder.path().join("linked-project/ok/a");
    let absolute = ToolAccess { writes: vec![absolute], ..ToolAccess::default() };
    assert_eq!(machine.check(PermissionLevel::Ask, &ok, absolute).await, AccessCheck::Allow);

    let unattended = PermissionLevel::Unattended;
    let reads = ToolAccess { reads: vec!["notes".into()], ..ToolAccess::default() };
    assert!(is_protected(&machine.check(unattended, &["Read"], reads).await));
    for script in [
        "echo x > tools/pre-commit",
        "cd tools && cp /x pre-commit",
        "cat notes",
        "cd h && cat .angelia/token",
        "tee dangling",
    ] {
        let command = Some(CommandAccess::shell(script));
        let access = ToolAccess { command, ..ToolAccess::default() };
        assert!(is_protected(&machine.check(unattended, &["Bash"], access).await), "{script}");
    }
}
