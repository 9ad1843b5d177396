//! E21 and E33: a provider's key reaches the provider's server and nothing else; a server that needs
//! none gets none.

use std::fs;

use angelia_executors::{native::providers::KeySource, scripted_model::Reply};

use crate::loop_lab::{bash, calls, in_each_api};

const KEY: &str = "sk-of-the-test-0123456789abcdefghij";

#[tokio::test]
async fn e21_the_key_is_in_no_failure_and_in_no_commands_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, KEY).unwrap();
    let with_key = |provider: &mut angelia_executors::native::providers::Provider| {
        provider.keys = vec![KeySource::File(path.clone())];
    };
    crate::loop_lab::in_each_api_with(with_key, async |lab| {
        let replies = [calls([bash("env; echo end-of-it")]), Reply::text("done")];
        let output = lab.turn(replies).await;
        assert_eq!(output.answer(), "done");
        let sent = lab.server.model_requests();
        let headers: Vec<&str> = sent[0].headers.iter().map(|(_, value)| value.as_str()).collect();
        assert!(headers.iter().any(|value| value.contains(KEY)), "the provider gets it");
        let result = lab.last_request().results().concat();
        assert!(result.contains("end-of-it") && !result.contains(KEY), "{result}");

        let output = lab.turn([Reply::status_with(400, format!("{KEY} is not liked"))]).await;
        assert!(output.failure().message.contains("is not liked"), "{output:#?}");
        assert!(!format!("{output:?}").contains(KEY), "{output:#?}");

        // The model sees a known secret nowhere, also if a command finds it.
        let leak = calls([bash(&format!("cat '{}'", path.display()))]);
        lab.turn([leak, Reply::text("done")]).await;
        let told = lab.last_request().results().concat();
        assert!(!told.contains(KEY), "{told}");
    })
    .await;
}

#[tokio::test]
async fn e21_shapes_of_secrets_are_not_masked_for_the_model() {
    in_each_api(async |lab| {
        // Masked text of a file would break a later edit of it.
        let text = "token = glpat-abcdefghij0123456789";
        lab.write("settings", text);
        let replies = [calls([bash("cat settings")]), Reply::text("done")];
        lab.turn(replies).await;
        assert!(lab.last_request().results().concat().contains(text));
    })
    .await;
}

#[tokio::test]
async fn e33_a_server_that_needs_no_key_gets_none() {
    in_each_api(async |lab| {
        let output = lab.turn([Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        assert_eq!(output.usage().lane.as_deref(), Some("local"));
        let sent = lab.server.model_requests();
        for name in ["authorization", "x-api-key", "api-key"] {
            assert_eq!(sent[0].header(name), None, "{name}");
        }
    })
    .await;
}
