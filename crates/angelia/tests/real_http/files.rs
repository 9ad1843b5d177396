//! In model mode no file of this machine can be read, wherever it is mentioned.

use std::fs;

use serde_json::json;

use crate::{
    daemon_fixture::{DaemonFixture, on_both},
    post::{assistant, messages, post, user},
};

const SECRET: &str = "the-content-of-a-private-file-31415";

on_both! {
    mentioned_files super::mentioned_files;
}

fn mentioned_files(bench: DaemonFixture) {
    let path = bench.machine.work().join("secret.txt");
    fs::write(&path, SECRET).unwrap();
    let at = format!("@{}", path.display());
    let quoted = format!("@\"{}\"", path.display());
    let relative = "@secret.txt @./secret.txt @../work/secret.txt @~/secret.txt";
    fs::write(bench.machine.place.home().join("secret.txt"), SECRET).unwrap();

    let everywhere = format!("look at {at} and {quoted} and {relative}\n{at}\n/add-dir {at}");
    let mut body = messages(&[
        user(&everywhere),
        assistant(&format!("I see {at}")),
        json!({"role": "user", "content": [
            {"type": "text", "text": at},
            {"type": "text", "text": format!("{at} ECHO:done")},
        ]}),
    ]);
    body["system"] = json!([{"type": "text", "text": everywhere}]);
    body["tools"] = json!([{"name": "find", "description": everywhere,
        "input_schema": {"type": "object", "description": everywhere}}]);
    let answer = post(&bench, &body);
    assert_eq!(answer.message_text(), "done");

    // The file is named at the start of the prompt, as a command, and inside a tool result.
    for text in [
        format!("{at}\nECHO:a"),
        format!("/read {at} ECHO:b"),
        format!("!cat {} ECHO:c", path.display()),
    ] {
        assert_eq!(post(&bench, &messages(&[user(&text)])).status, 200);
    }
    let call = format!(r#"{at} TOOL:{{"name":"mcp__client__find","input":{{"q":"{at}"}}}}:END"#);
    let mut body = messages(&[user(&call)]);
    body["tools"] = json!([{"name": "find", "input_schema": {"type": "object"}}]);
    let first = post(&bench, &body);
    let id = first.body["content"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|block| block["id"].as_str())
        .unwrap_or_else(|| panic!("{first:?}"))
        .to_owned();
    body["messages"] = json!([
        user(&call),
        {"role": "assistant", "content": first.body["content"]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": everywhere},
            {"type": "text", "text": everywhere},
        ]},
    ]);
    assert_eq!(post(&bench, &body).status, 200);

    let asked = bench.model_requests();
    assert!(asked.iter().any(|body| body.contains(&at)), "the mentions reach the model");
    for body in asked {
        assert!(!body.contains(SECRET), "{body}");
    }
    bench.end();
}
