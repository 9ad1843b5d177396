//! Protected files and files outside the working directory are not touched without a person.

use std::{fs, os::unix::fs::symlink};

use angelia_core::model::PermissionLevel;
use serde_json::json;

use crate::engine_lab::{EngineLab, RealAgent, prompt};

const PROTECTED: &[&str] = &[
    ".git/hooks/pre-commit",
    ".claude/settings.json",
    ".mcp.json",
    ".bashrc",
    ".vscode/tasks.json",
    "link/new.txt",
];

#[tokio::test]
async fn real_edit_asks_once_about_what_is_protected_or_leads_out() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        let outside = lab.place.root().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::create_dir_all(lab.path(".git/hooks")).unwrap();
        symlink(&outside, lab.path("link")).unwrap();
        let session = lab.session(lab.spec(PermissionLevel::Edit)).await;
        for name in PROTECTED {
            let path = lab.path(name);
            let write = prompt(&agent.write(path.to_str().unwrap()));
            let turn = lab.turn(session, true, &write).await;
            let asked = turn.approvals();
            assert_eq!(asked.len(), 1, "{name}: {asked:#?}");
            assert!(!path.exists(), "{name}");
            // If there is no person to ask, the call is declined.
            let turn = lab.turn(session, false, &write).await;
            assert!(turn.approvals().is_empty() && !path.exists(), "{name}");
            assert!(!turn.declined().is_empty(), "{name}: {:#?}", turn.0);
        }
        let plain = lab.path("plain.txt");
        let write = prompt(&agent.write(plain.to_str().unwrap()));
        let turn = lab.turn(session, true, &write).await;
        assert!(turn.approvals().is_empty() && plain.exists(), "{:#?}", turn.0);
        lab.close().await;
    }
}

#[tokio::test]
async fn real_the_token_of_the_home_is_not_read_without_a_person() {
    for agent in RealAgent::all() {
        let lab = EngineLab::new(&agent);
        let token = lab.place.root().join("angelia/token");
        fs::create_dir_all(token.parent().unwrap()).unwrap();
        fs::write(&token, "SECRET-OF-THE-HOME").unwrap();
        symlink(&token, lab.path("harmless.txt")).unwrap();
        let mut calls =
            vec![agent.run(&format!("cat {}", token.display())), agent.run("cat harmless.txt")];
        if let RealAgent::Claude(_) = agent {
            let path = lab.path("harmless.txt");
            calls.push(json!({"name": "Read", "input": {"file_path": path}}));
        }
        let session = lab.session(lab.spec(PermissionLevel::Unattended)).await;
        for call in calls {
            let turn = lab.turn(session, false, &prompt(&call)).await;
            assert_eq!(turn.declined().len(), 1, "{call}: {:#?}", turn.0);
            let sent = lab.server.model_requests();
            let leaked = sent
                .iter()
                .any(|request| request.json().to_string().contains("SECRET-OF-THE-HOME"));
            assert!(!leaked, "{call}");
        }
        lab.close().await;
    }
}
