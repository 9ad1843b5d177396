//! The acceptance rows of the bridge, on the demo agent. The rows about flags are in `flags.rs`.

use std::fs;

use serde_json::json;

use crate::{
    host::{
        Host, assert_error, assert_final, joined_text, of_type, response, run_request,
        run_request_with, types,
    },
    machine::Machine,
};

#[test]
fn b01_one_event_per_line_and_nothing_else_on_stdout() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--verbose"]);
    host.send(&json!({"type": "ping", "request_id": "p"}));
    let pong = host.next();
    assert_eq!(pong, json!({"type": "pong", "request_id": "p"}));
    // Lines may end as on Windows, and empty ones mean nothing.
    host.write(b"\r\n\n{\"type\":\"ping\"}\r\n");
    assert_eq!(host.next(), json!({"type": "pong"}));
    let events = host.run("r", "s", "!fail server");
    assert_final(&events, "failed");
    let rest = host.shut_down();
    assert_eq!(types(&rest.events), ["shutdown_ack"], "{rest:?}");
}

#[test]
fn b02_a_run_is_a_turn_and_its_events_carry_both_ids() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--assistant-delta"]);
    let events = host.run("r 1", "ß/1", "!tool Read\n!who\nhello");
    assert_eq!(events[0]["type"], "run_started");
    assert_eq!(events[0]["executor"], "parrot");
    assert_eq!(events[0]["repeats"], false);
    for event in &events {
        assert_eq!(event["request_id"], "r 1", "{event}");
        assert_eq!(event["session_id"], "ß/1", "{event}");
    }
    let end = assert_final(&events, "completed");
    assert!(response(&events).contains("You said: hello"), "{end}");
    host.shut_down();
    // The turn is recorded like any other, and the owner finds the session by its name.
    let turn = events[0]["turn_id"].as_str().unwrap();
    let shown = machine.angelia(&["turns", "show", turn]);
    shown.assert_code(0).assert_stdout("completed");
    let ran = machine.angelia(&["run", "-s", "bridge:ß/1", "!who"]);
    ran.assert_code(0).assert_stdout(&conversation(&events));
}

/// Returns the agent's own id of the conversation, as `!who` reports it.
pub(crate) fn conversation(events: &[serde_json::Value]) -> String {
    let (_, rest) = response(events).split_once(", session ").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

#[test]
fn b03_ping_is_answered_during_a_run() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r", "s", "!hang"));
    host.read_until_type("run_started");
    for n in 0..10 {
        let id = format!("p{n}");
        host.send(&json!({"type": "ping", "request_id": id}));
        assert_eq!(host.next(), json!({"type": "pong", "request_id": id}));
    }
    host.shut_down();
}

#[test]
fn b04_an_interrupt_is_acknowledged_before_the_end_it_causes() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r", "s", "said before\n!tool Wait\n!hang"));
    host.read_until_type("tool_finished");
    host.send(&json!({"type": "interrupt", "session_id": "s", "message": "enough"}));
    let events = host.read_until_type("final");
    let ack = &events[0];
    assert_eq!(ack["type"], "interrupt_ack", "{events:#?}");
    assert_eq!(ack["request_id"], "r");
    assert_eq!(ack["session_id"], "s");
    assert_eq!(ack["message"], "enough");
    let end = assert_final(&events, "interrupted");
    assert_eq!(end["interrupt_message"], "enough");
    assert!(end["response"].as_str().unwrap().contains("said before"));
    // The session continues, and there is no run left to interrupt.
    host.send(&json!({"type": "interrupt", "session_id": "s", "request_id": "i"}));
    let error = host.next();
    assert_eq!(error["code"], "not_running");
    assert_eq!(error["request_id"], "i");
    assert_eq!(error["session_id"], "s");
    assert_final(&host.run("r2", "s", "and on"), "completed");
    host.shut_down();
}

#[test]
fn b04_a_run_that_has_not_begun_can_be_interrupted_too() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    for n in 0..20 {
        let session = format!("s{n}");
        // In one write, so that the second request arrives right after the first was accepted.
        let interrupt = json!({"type": "interrupt", "session_id": session, "request_id": "i"});
        host.write(format!("{}\n{interrupt}\n", run_request("r", &session, "!hang")).as_bytes());
        let events = host.read_until_type("final");
        let kinds = types(&events);
        let ack = kinds.iter().position(|kind| *kind == "interrupt_ack");
        assert!(ack.unwrap() < kinds.len() - 1, "{kinds:?}");
        assert_eq!(of_type(&events, "interrupt_ack")[0]["run_request_id"], "r");
        assert_final(&events, "interrupted");
    }
    host.shut_down();
}

#[test]
fn b05_each_word_for_the_end_is_acknowledged_and_ends() {
    for word in ["shutdown", "exit", "quit"] {
        let machine = Machine::new();
        let mut host = Host::start(&machine, &[]);
        host.send(&json!({"type": word, "request_id": "end"}));
        let ended = host.wait_for_exit();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let ack = json!({"type": "shutdown_ack", "request_id": "end"});
        assert_eq!(ended.events, [ack]);
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn b06_a_session_goes_on_also_in_a_new_process() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let first = host.run("r1", "s", "!who");
    let second = host.run("r2", "s", "!who");
    let other = host.run("r3", "other", "!who");
    host.shut_down();
    let mut host = Host::start(&machine, &[]);
    let third = host.run("r1", "s", "!who");
    host.shut_down();
    // For the agent, all of this is one conversation.
    assert_eq!(conversation(&first), conversation(&second));
    assert_eq!(conversation(&first), conversation(&third));
    assert_ne!(conversation(&first), conversation(&other));
    let session = |events: &[serde_json::Value]| events[0]["angelia_session_id"].clone();
    assert_eq!(session(&first), session(&third));
    assert_ne!(session(&first), session(&other));
}

#[test]
fn b07_a_busy_session_refuses_and_others_run_meanwhile() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    host.send(&run_request("r1", "s", "!hang"));
    host.send(&run_request("r2", "s", "hello"));
    let events = host.read_until_type("error");
    let error = assert_error(&events, "session_busy");
    assert_eq!(error["request_id"], "r2");
    assert_eq!(error["session_id"], "s");
    assert!(error["message"].as_str().unwrap().contains("r1"), "{error}");
    host.send(&run_request("r3", "another", "hello"));
    let events = host.read_until_type("final");
    assert_eq!(assert_final(&events, "completed")["request_id"], "r3");
    host.send(&json!({"type": "interrupt", "session_id": "s"}));
    let events = host.read_until_type("final");
    assert_eq!(assert_final(&events, "interrupted")["request_id"], "r1");
    // A host that has read the end can start the next run at once.
    for n in 0..20 {
        assert_final(&host.run(&format!("x{n}"), "s", "next"), "completed");
    }
    host.shut_down();
}

#[test]
fn b08_the_directory_is_the_requests_or_the_flags_or_where_we_are() {
    let machine = Machine::new();
    let root = fs::canonicalize(machine.place.root()).unwrap();
    for folder in ["one", "one/below", "two"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    let works_in = |events: &[serde_json::Value]| events[0]["cwd"].as_str().unwrap().to_owned();
    let mut host = Host::start(&machine, &[]);
    let here = works_in(&host.run("r", "here", "hello"));
    assert_eq!(here, fs::canonicalize(machine.work()).unwrap().to_str().unwrap());
    host.shut_down();
    let one = root.join("one");
    let mut host = Host::start(&machine, &["--cwd", one.to_str().unwrap()]);
    assert_eq!(works_in(&host.run("r", "flag", "hello")), one.to_str().unwrap());
    let two = json!({"cwd": root.join("two")});
    let events = host.run_with("r", "request", "hello", two.clone());
    assert_eq!(works_in(&events), root.join("two").to_str().unwrap());
    let events = host.run_with("r", "relative", "hello", json!({"cwd": "below"}));
    assert_eq!(works_in(&events), root.join("one/below").to_str().unwrap());
    // A session keeps its directory: the same one is accepted, another one is refused.
    assert_final(&host.run_with("r", "request", "hello", two), "completed");
    let events = host.run_with("r", "request", "hello", json!({"cwd": one}));
    let error = assert_error(&events, "session_differs");
    assert!(error["message"].as_str().unwrap().contains("two"), "{error}");
    let events = host.run_with("r", "new", "hello", json!({"cwd": "/no/such"}));
    assert_error(&events, "invalid");
    host.shut_down();
}

#[test]
fn b09_native_deltas_are_the_agents_own() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let more = json!({"native_stream": true, "native_assistant_delta": true});
    let events = host.run_with("r", "s", "!words 5 20", more);
    let pieces: Vec<_> = of_type(&events, "assistant_delta")
        .iter()
        .map(|event| event["text"].as_str().unwrap().trim())
        .collect();
    assert_eq!(pieces, ["word1", "word2", "word3", "word4", "word5"]);
    assert_eq!(joined_text(&events, "assistant_delta"), response(&events));
    host.shut_down();
}

#[test]
fn b10_a_finished_text_is_cut_into_pieces() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--assistant-delta-chunk-size", "3"]);
    let more = json!({"assistant_delta": true});
    let events = host.run_with("r", "s", "!tool Read\n👨‍👩‍👧‍👦👨‍👩‍👧‍👦x", more);
    let text = response(&events);
    assert_eq!(joined_text(&events, "assistant_delta"), text);
    let pieces = of_type(&events, "assistant_delta");
    assert_eq!(pieces[0]["text"], "The");
    let whole = |event: &&&serde_json::Value| event["text"].as_str().unwrap().contains("👨‍👩‍👧‍👦");
    assert!(pieces.iter().any(|event| whole(&event)), "{pieces:?}");
    host.shut_down();
}

#[test]
fn b11_without_deltas_there_are_whole_messages_only() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let expected = ["run_started", "assistant_message", "final"];
    assert_eq!(types(&host.run("r", "s", "hello")), expected);
    // An explicit value in the request takes precedence.
    let more = json!({"assistant_delta": false, "native_stream": true,
        "native_assistant_delta": true});
    assert_eq!(types(&host.run_with("r", "s", "hello", more)), expected);
    host.shut_down();
}

#[test]
fn b12_deltas_end_and_the_whole_message_follows() {
    let machine = Machine::new();
    let native = json!({"assistant_delta": true, "native_stream": true,
        "native_assistant_delta": true});
    for more in [native, json!({"assistant_delta": true})] {
        let mut host = Host::start(&machine, &[]);
        let prompt = "!words 3\n!tool Read\n!words 200\n!tool Edit\nlast";
        let events = host.run_with("r", "s", prompt, more);
        let messages = of_type(&events, "assistant_message");
        assert_eq!(messages.len(), 3);
        for (index, message) in messages.iter().enumerate() {
            let of_it: Vec<_> =
                events.iter().filter(|event| event["index"] == index).cloned().collect();
            // The deltas add up to the text, and nothing is sent twice.
            assert_eq!(joined_text(&of_it, "assistant_delta"), message["text"]);
            let kinds = types(&of_it);
            let (pieces, end) = kinds.split_at(kinds.len() - 2);
            assert!(pieces.iter().all(|kind| *kind == "assistant_delta"));
            assert_eq!(end, ["assistant_delta_end", "assistant_message"]);
        }
        assert_eq!(messages[2]["text"], response(&events));
        host.shut_down();
    }
}

#[test]
fn b14_tools_are_told_when_they_start_and_finish() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let events = host.run("r", "s", "!tool Read 10\n!tool Bash\nend");
    let tools: Vec<_> = events
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("tool_"))
        .cloned()
        .collect();
    assert_eq!(types(&tools), ["tool_started", "tool_finished", "tool_started", "tool_finished"]);
    assert_eq!(tools[0]["name"], "Read");
    assert_eq!(tools[0]["class"], "read");
    assert!(tools[0]["input"].is_object());
    assert_eq!(tools[0]["tool_id"], tools[1]["tool_id"]);
    assert_eq!(tools[1]["ok"], true);
    assert!(tools[1]["output"].as_str().unwrap().contains("pretended"));
    host.shut_down();
}

#[test]
fn b15_the_end_has_everything_and_says_how_it_came() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--max-iterations", "2"]);
    let events = host.run("r1", "s1", "!tool Read\nanswer");
    let end = assert_final(&events, "completed");
    assert_eq!(end["api_calls"], 2);
    assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0);
    assert!(end.get("error").is_none());
    let roles = end["messages"].as_array().unwrap().iter();
    let roles: Vec<_> = roles.map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let messages = &end["messages"];
    assert_eq!(messages[0]["content"], "!tool Read\nanswer");
    assert_eq!(messages[1]["tool_calls"][0]["name"], "Read");
    assert_eq!(messages[3]["content"], end["response"]);

    let events = host.run("r2", "s2", "said\n!tool A\n!tool B\n!tool C 60000");
    let end = assert_final(&events, "partial");
    assert!(end["response"].as_str().unwrap().contains("said"), "{end}");

    let events = host.run("r3", "s3", "said\n!tool A\n!fail auth");
    let end = assert_final(&events, "failed");
    assert_eq!(end["error"]["kind"], "auth");
    assert!(end["error"]["message"].is_string());

    host.send(&run_request("r4", "s4", "!hang"));
    host.read_until_type("run_started");
    host.send(&json!({"type": "interrupt", "session_id": "s4"}));
    assert_final(&host.read_until_type("final"), "interrupted");
    host.shut_down();
}

#[test]
fn the_same_key_is_run_once() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let key = json!({"idempotency_key": "ключ 1"});
    let first = host.run_with("r1", "s", "!who", key.clone());
    let again = host.run_with("r2", "s", "!who", key.clone());
    assert_eq!(again[0]["repeats"], true);
    assert_eq!(again[0]["turn_id"], first[0]["turn_id"]);
    assert_eq!(response(&again), response(&first));
    assert!(again.iter().all(|event| event["request_id"] == "r2"));
    let error = host.run_with("r3", "s", "something else", key.clone());
    assert_error(&error, "key_reused");
    // The same while the run is active: both requests get its events and its end.
    let slow = json!({"idempotency_key": "2"});
    host.send(&run_request_with("r4", "s", "!hang", slow.clone()));
    host.read_until_type("run_started");
    host.send(&run_request_with("r5", "s", "!hang", slow));
    let started = host.next();
    assert_eq!((&started["request_id"], &started["repeats"]), (&json!("r5"), &json!(true)));
    host.send(&json!({"type": "interrupt", "session_id": "s"}));
    let one = host.read_until_type("final");
    let other = host.read_until_type("final");
    assert_final(&one, "interrupted");
    assert_final(&other, "interrupted");
    host.shut_down();
    // A later process finds it too.
    let mut host = Host::start(&machine, &[]);
    let again = host.run_with("r6", "s", "!who", key);
    assert_eq!(again[0]["turn_id"], first[0]["turn_id"]);
    assert_eq!(response(&again), response(&first));
    host.shut_down();
    assert_eq!(machine.list("turns").len(), 2);
}

#[test]
fn a_field_that_means_nothing_here_is_not_ignored_in_silence() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let events =
        host.run_with("r", "s", "hello", json!({"temperature": 1, "asistant_delta": true}));
    let notice = &events[1];
    assert_eq!(notice["type"], "notice");
    assert_eq!(notice["code"], "unknown_field");
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("temperature") && text.contains("asistant_delta"), "{text}");
    assert_final(&events, "completed");
    host.shut_down();
}
