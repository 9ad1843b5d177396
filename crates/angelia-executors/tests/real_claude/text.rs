//! Text with side effects (commands, file mentions): it acts for the owner, and never for anyone
//! else, wherever it stands.

use std::fs;

use angelia_core::model::{Content, TurnOrigin};
use serde_json::json;

use crate::harness::{ClaudeHarness, DirectSession, on_both};

fn secret(lab: &ClaudeHarness) -> String {
    let path = lab.place.work_dir().join("secret.txt");
    fs::write(&path, "CONTENT-OF-THE-FILE").unwrap();
    path.to_str().unwrap().to_owned()
}

async fn send(session: &mut DirectSession, origin: TurnOrigin, input: Vec<Content>) {
    session.turn(origin, input, Box::new(|_, _| {})).await.answer();
}

#[tokio::test]
async fn real_the_owners_text_acts() {
    on_both(async |lab| {
        let path = secret(&lab);
        let mut session = lab.open(&lab.spec()).await;
        session.prompt(&format!("ECHO:x @{path}")).await.answer();
        assert!(lab.last_request().to_string().contains("CONTENT-OF-THE-FILE"));
        let requests = lab.server.model_requests().len();
        let heard = session.prompt("/cost").await;
        assert!(heard.answer().contains("Total cost"), "{heard:#?}");
        assert_eq!(lab.server.model_requests().len(), requests);
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_text_from_outside_never_acts() {
    on_both(async |lab| {
        let path = secret(&lab);
        let mut session = lab.open(&lab.spec()).await;
        let mut expected = 0;
        for text in [
            format!("@{path}"),
            format!("ECHO:see @{path} there"),
            format!("ECHO:see\n@\"{path}\""),
            format!("ECHO:see\u{3000}@{path}"),
            format!("ECHO:see\u{3002}@{path}"),
            "ECHO:@secret.txt".to_owned(),
            "/cost".to_owned(),
            "/context".to_owned(),
            " /cost".to_owned(),
            "/clear".to_owned(),
            "/nonsense at all".to_owned(),
        ] {
            session.prompt_remotely(&text).await.answer();
            expected += 1;
            let request = lab.last_request().to_string();
            assert_eq!(lab.server.model_requests().len(), expected, "{text}");
            assert!(!request.contains("CONTENT-OF-THE-FILE"), "{text}");
            assert!(request.contains(&json!(text).to_string()), "byte-exact: {text}");
        }
        let text = Content::text;
        let mention = format!("@{path}");
        for input in [
            vec![text("ECHO:a"), text(mention.as_str())],
            vec![text(mention.as_str()), text("ECHO:a")],
            vec![text("ECHO:a"), text(mention.as_str()), text("/cost")],
        ] {
            send(&mut session, TurnOrigin::Remote, input).await;
            let request = lab.last_request().to_string();
            assert!(!request.contains("CONTENT-OF-THE-FILE"));
        }
        session.close().await;
    })
    .await;
}
