//! Tests of approvals that the recorded fixtures do not cover.

use serde_json::value::RawValue;

use super::find_tool_call;
use crate::codex::protocol::server_request::ElicitationParams;

#[test]
fn the_call_that_is_asked_about_is_found_among_several() {
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    let (a, b) = (raw(r#"{"n":1}"#), raw(r#"{"n":2}"#));
    let params = r#"{"message":"Allow the lab MCP server to run tool \"write\"?",
        "_meta":{"tool_params":{"n":2}}}"#;
    let params: ElicitationParams<'_> = serde_json::from_str(params).unwrap();
    let same = [(0, "write", &*a), (1, "write", &*b), (2, "read", &*b)];
    assert_eq!(find_tool_call(&params, &same), Some(1), "by its arguments");
    assert_eq!(find_tool_call(&params, &same[..1]), Some(0), "by its name");
    assert_eq!(find_tool_call(&params, &same[2..]), Some(2), "there is no other");
    let others = [(0, "read", &*a), (1, "list", &*b)];
    assert_eq!(find_tool_call(&params, &others), None);
    assert_eq!(find_tool_call::<u8>(&params, &[]), None);
}
