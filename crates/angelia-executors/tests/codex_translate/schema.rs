//! Everything we rely on is in the schema that Codex generates for its protocol.

use std::fs;

use angelia_executors::codex::protocol::schema_check::missing_names;
use serde_json::Value;

use super::driver::folder;

fn read(name: &str) -> Value {
    let text = fs::read_to_string(folder().join("schema").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn everything_we_use_is_in_the_recorded_schema() {
    let bundle = read("codex_app_server_protocol.v2.schemas.json");
    let requests = read("ServerRequest.json");
    assert_eq!(missing_names(&bundle, &requests, false), Vec::<String>::new());
}

#[test]
fn what_is_gone_is_named() {
    let mut bundle = read("codex_app_server_protocol.v2.schemas.json");
    let requests = read("ServerRequest.json");
    bundle["definitions"]["Turn"]["properties"].as_object_mut().unwrap().remove("status");
    assert_eq!(missing_names(&bundle, &requests, false), ["Turn.status"]);
}
