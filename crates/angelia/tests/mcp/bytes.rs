//! Raw bytes that no real client writes.

use serde_json::{Value, json};

use crate::machine::Machine;

fn initialize() -> String {
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bytes", "version": "0"},
        },
    });
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    format!("{request}\n{initialized}\n")
}

fn answers(machine: &Machine, input: &[u8]) -> Vec<Value> {
    let ran = machine.angelia_with_input(&["mcp"], input);
    ran.assert_code(0);
    let lines = ran.stdout.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_client_that_says_nothing_is_no_failure() {
    let machine = Machine::new();
    assert!(answers(&machine, b"").is_empty());
    assert!(answers(&machine, b"\n\n\n").is_empty());
}

#[test]
fn garbage_is_passed_over() {
    let machine = Machine::new();
    let mut input = b"not json\n\xff\xfe\x00\n{\"half\": \n[1,2\n".to_vec();
    input.extend(initialize().into_bytes());
    input.extend(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"no/such\"}\n");
    input.extend(b"\x00\x01\x02 nonsense\n{\"jsonrpc\":\"2.0\"}\n");
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "bus_status", "arguments": {}},
    });
    input.extend(format!("{call}\n").into_bytes());
    let answers = answers(&machine, &input);
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(1)["result"]["serverInfo"]["name"], "angelia");
    assert!(of(7)["error"].is_object(), "{answers:#?}");
    let status = of(2)["result"]["content"][0]["text"].as_str().unwrap();
    let status: Value = serde_json::from_str(status).unwrap();
    assert_eq!(status["running"], false);
}

#[test]
fn an_endless_line_does_not_end_the_server() {
    let machine = Machine::new();
    let mut input = vec![b'x'; 20 << 20];
    input.push(b'\n');
    input.extend(initialize().into_bytes());
    let answers = answers(&machine, &input);
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "angelia");
}
