//! The last request of a turn that failed is in a file, only where the owner wants it, without secrets.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use angelia_executors::{
    native::{
        provider::Api,
        providers::{KeySource, Provider},
    },
    scripted_model::Reply,
};
use serde_json::Value;

use crate::loop_lab::{LoopLab, calls, in_each_api, in_each_api_with, run_call};

/// A value that the environment of every lab has, and that stands for the key.
const KEY: &str = "must-not-leak";

fn dumping(provider: &mut Provider) {
    provider.dump_failed_requests = true;
    provider.keys = vec![KeySource::Env("SECRET_OF_OURS".into())];
    provider.headers.insert("x-team".into(), "the-teams-own-secret".into());
}

/// Returns the files of all sessions, oldest first.
fn dumps(lab: &LoopLab) -> Vec<PathBuf> {
    let sessions = lab.place.isolated.root().join("angelia/sessions");
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries(sessions).map(|session| session.path().join("requests"));
    let mut files: Vec<PathBuf> = folders.flat_map(entries).map(|file| file.path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_request_that_failed_is_written_once_the_turn_has_failed() {
    in_each_api_with(dumping, async |lab| {
        let down = || Reply::status(500).with_header("retry-after-ms", "5");
        let refused = Reply::status_with(400, format!("nobody understands {KEY}"));
        let output = lab.turn([down(), calls([run_call()]), refused]).await;
        let path = output.notices().iter().find_map(|notice| {
            let path = notice.text.strip_prefix("the request that failed is in ")?;
            (&*notice.code == "request_dumped").then(|| PathBuf::from(path))
        });
        let path = path.unwrap_or_else(|| panic!("{output:#?}"));
        let [only] = &dumps(&lab)[..] else { panic!("{:?}", dumps(&lab)) };
        assert_eq!(path.canonicalize().unwrap(), only.canonicalize().unwrap());
        assert_eq!(fs::metadata(only).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(only).unwrap();
        for secret in [KEY, "the-teams-own-secret"] {
            assert!(!text.contains(secret), "{text}");
        }
        let dump: Value = serde_json::from_str(&text).unwrap();
        assert!(dump["failure"].as_str().unwrap().contains("nobody understands"), "{dump}");
        assert!(dump["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{dump}");
        assert!(dump["header_names"].to_string().contains("x-team"), "{dump}");
        let sent = lab.last_request();
        let list = if lab.api == Api::Responses { "input" } else { "messages" };
        assert_eq!(dump["body"][list], sent.body[list], "nothing in it was a secret");
    })
    .await;
}

#[tokio::test]
async fn a_session_keeps_its_five_newest_and_nothing_is_written_unasked() {
    in_each_api_with(dumping, async |lab| {
        let mut session = lab.open().await;
        for number in 0..7 {
            lab.server.script([Reply::status_with(400, format!("refusal {number}"))]);
            session.prompt("go on").await;
        }
        // An answer leaves nothing.
        lab.server.script([Reply::text("done")]);
        assert_eq!(session.prompt("go on").await.answer(), "done");
        session.close().await;
        let kept = dumps(&lab);
        let texts: Vec<String> =
            kept.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts.len(), 5, "{kept:?}");
        for (text, number) in texts.iter().zip(2..) {
            assert!(text.contains(&format!("refusal {number}")), "{text}");
        }
    })
    .await;
    in_each_api(async |lab| {
        lab.turn([Reply::status_with(400, "no")]).await;
        assert!(dumps(&lab).is_empty());
    })
    .await;
}
