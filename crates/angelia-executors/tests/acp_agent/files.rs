//! Files that the agent reads and writes through the ACP client.

use std::{fs, os::unix::fs::symlink};

use angelia_core::model::{PermissionLevel, ToolClass, Verdict};
use serde_json::json;

use crate::harness::{AcpHarness, repeated_answers, request_steps, run_with_verdict};

#[tokio::test]
async fn what_is_allowed_is_written_and_what_is_declined_is_not() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let path = lab.work().join("deep/new.txt");
    let write = request_steps("fs/write_text_file", json!({"path": path, "content": "by us"}));

    let heard = run_with_verdict(&mut session, &write, Verdict::Deny).await;
    assert!(repeated_answers(&heard)[0]["error"]["message"].is_string());
    assert!(!path.exists());

    let heard = run_with_verdict(&mut session, &write, Verdict::Once).await;
    let asked = heard.approval_requests();
    assert_eq!((asked.len(), asked[0].class), (1, ToolClass::Edit));
    assert_eq!(repeated_answers(&heard)[0]["result"], json!({}));
    assert_eq!(fs::read_to_string(&path).unwrap(), "by us");

    let read = request_steps("fs/read_text_file", json!({"path": path, "line": 1, "limit": 1}));
    let heard = session.prompt(&read).await;
    assert!(heard.approval_requests().is_empty());
    assert_eq!(repeated_answers(&heard)[0]["result"]["content"], "by us");
    session.close().await;
}

#[tokio::test]
async fn nothing_outside_is_touched_whatever_is_allowed() {
    let lab = AcpHarness::new();
    let outside = lab.place.isolated.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "s3cret").unwrap();
    symlink(&outside, lab.work().join("link")).unwrap();
    symlink("/proc/self/environ", lab.work().join("environ")).unwrap();
    let mut spec = lab.spec(&[]);
    spec.permissions.level = PermissionLevel::Unattended;
    let mut session = lab.open_as(&spec, None).await;
    for path in [
        outside.join("secret"),
        lab.work().join("../outside/secret"),
        lab.work().join("link/secret"),
        lab.work().join("environ"),
        "/etc/passwd".into(),
        "/proc/self/root/etc/passwd".into(),
    ] {
        let read = request_steps("fs/read_text_file", json!({"path": path}));
        let heard = run_with_verdict(&mut session, &read, Verdict::Once).await;
        let answer = &repeated_answers(&heard)[0];
        assert!(answer["error"]["code"].is_i64(), "{path:?}: {answer}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        let write =
            request_steps("fs/write_text_file", json!({"path": path, "content": "changed"}));
        let heard = run_with_verdict(&mut session, &write, Verdict::Once).await;
        assert!(repeated_answers(&heard)[0]["error"]["code"].is_i64(), "{path:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "s3cret");
    session.close().await;
}

#[tokio::test]
async fn what_was_allowed_with_a_tool_is_written_without_asking_again() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let path = lab.work().join("a.txt");
    let permission = request_steps(
        "session/request_permission",
        json!({"options": [{"optionId": "yes", "kind": "allow_once", "name": "Yes"}],
            "toolCall": {"toolCallId": "t", "kind": "edit", "title": "Change a.txt",
                "locations": [{"path": path}]}}),
    );
    let write = request_steps("fs/write_text_file", json!({"path": path, "content": "once"}));
    let script = format!("{permission}{write}");
    let heard = run_with_verdict(&mut session, &script, Verdict::Once).await;
    assert_eq!(heard.approval_requests().len(), 1, "{heard:#?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "once");
    // In the next turn it must ask again.
    let heard = run_with_verdict(&mut session, &write, Verdict::Deny).await;
    assert_eq!(heard.approval_requests().len(), 1);
    session.close().await;
}
