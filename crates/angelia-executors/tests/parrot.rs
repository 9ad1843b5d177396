//! The parrot's process, driven over pipes as its executor drives it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    io::{BufRead as _, BufReader, PipeWriter, Write as _, pipe},
    sync::mpsc::{Receiver, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use angelia_executors::parrot::process::run;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Nothing here takes long; whatever does has failed.
const DEADLINE: Duration = Duration::from_secs(20);

/// A parrot on a thread of its own, with real pipes in between.
struct Parrot {
    input: Option<PipeWriter>,
    lines: Receiver<String>,
    process: JoinHandle<(u8, String)>,
}

/// How it ended.
struct Exit {
    code: u8,
    stderr: String,
    /// What it said since it was last listened to.
    rest: Vec<Value>,
}

impl Parrot {
    fn start(arguments: &[&str]) -> Self {
        let (to_read, input) = pipe().unwrap();
        let (output, to_write) = pipe().unwrap();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let process = thread::spawn(move || {
            let mut stderr = Vec::new();
            let code = run(arguments, BufReader::new(to_read), to_write, &mut stderr);
            (code, String::from_utf8(stderr).unwrap())
        });
        let (sender, lines) = sync_channel(10_000);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                sender.send(line.unwrap()).unwrap();
            }
        });
        Self {
            input: Some(input),
            lines,
            process,
        }
    }

    fn send_raw(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, line: &Value) {
        self.send_raw(&line.to_string());
    }

    fn prompt(&mut self, text: &str) {
        self.send(&user(text));
    }

    fn control(&mut self, request: &Value) {
        self.send(&json!({"type": "control_request", "request_id": "c", "request": request}));
    }

    fn answer(&mut self, question: &Value, response: &Value) {
        self.send(
            &json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": question["request_id"], "response": response}}),
        );
    }

    /// Every line up to and with the first one that fits.
    fn until(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(DEADLINE) else {
                panic!("nothing fitting came; seen: {seen:#?}");
            };
            seen.push(parse(&line));
            if fits(&seen[seen.len() - 1]) {
                return seen;
            }
        }
    }

    fn response(&self) -> Value {
        let mut lines = self.until(|line| line["type"] == "control_response");
        lines.pop().unwrap()["response"].take()
    }

    /// The lines of a turn without a name, up to its result.
    fn turn(&self) -> Vec<Value> {
        self.until(|line| line["type"] == "result")
    }

    fn question(&self) -> Value {
        let mut lines = self.until(|line| line["type"] == "control_request");
        lines.pop().unwrap()
    }

    /// Closes stdin and waits for the end.
    fn close(mut self) -> Exit {
        self.input = None;
        self.wait()
    }

    fn wait(self) -> Exit {
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            rest.push(parse(&line));
        }
        let (code, stderr) = self.process.join().unwrap();
        Exit { code, stderr, rest }
    }
}

/// The promise about every line: JSON, an object, with a type.
fn parse(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    assert!(value["type"].is_string(), "{line}");
    value
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn named(text: &str, uuid: &str) -> Value {
    let mut line = user(text);
    line["uuid"] = uuid.into();
    line
}

/// In short what each line is.
fn kinds(lines: &[Value]) -> Vec<String> {
    lines
        .iter()
        .map(|line| {
            let kind = line["type"].as_str().unwrap();
            let more = [&line["event"]["type"], &line["subtype"], &line["state"]];
            match more.into_iter().find_map(Value::as_str) {
                Some(more) => format!("{kind} {more}"),
                None => kind.to_owned(),
            }
        })
        .collect()
}

fn deltas(lines: &[Value]) -> String {
    lines
        .iter()
        .filter_map(|line| line["event"]["delta"]["text"].as_str())
        .collect()
}

fn last(lines: &[Value]) -> &Value {
    lines.last().unwrap()
}

#[test]
fn plain_text_is_repeated_by_a_demo_that_says_so() {
    let mut parrot = Parrot::start(&["--session-id", "s-1"]);
    parrot.prompt("hello there");
    let lines = parrot.turn();
    let mut shape = kinds(&lines);
    shape.dedup();
    assert_eq!(
        shape,
        [
            "system init",
            "system status",
            "stream_event message_start",
            "stream_event content_block_start",
            "stream_event content_block_delta",
            "assistant",
            "stream_event content_block_stop",
            "stream_event message_delta",
            "stream_event message_stop",
            "result success",
        ]
    );
    let result = last(&lines);
    let text = result["result"].as_str().unwrap();
    assert!(text.contains("demo agent"), "{text}");
    assert!(text.contains("You said: hello there"), "{text}");
    assert!(text.contains("angelia doctor"), "{text}");
    assert_eq!(deltas(&lines), text);
    assert_eq!(result["is_error"], false);
    assert_eq!(result["total_cost_usd"], 0);
    assert_eq!(result["usage"]["input_tokens"], 2);
    let words = text.split_whitespace().count();
    assert_eq!(result["usage"]["output_tokens"], words);
    assert!(lines.iter().all(|line| line["session_id"] == "s-1"));
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn one_process_takes_many_turns_and_counts_them() {
    let mut parrot = Parrot::start(&["--resume", "s-2", "--model", "grey"]);
    for number in 1..=3 {
        parrot.prompt("!who\none two three");
        let lines = parrot.turn();
        let result = last(&lines);
        let text = result["result"].as_str().unwrap();
        assert!(text.contains(&format!("turn {number} of")), "{text}");
        assert!(text.contains("session s-2"), "{text}");
        assert!(text.ends_with("You said: one two three"), "{text}");
        assert_eq!(lines[0]["model"], "grey");
        assert_eq!(result["result_index"], number - 1);
        assert_eq!(result["usage"]["input_tokens"], 4);
        assert_eq!(result["modelUsage"]["grey"]["inputTokens"], 4 * number);
    }
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn requests_are_answered_at_any_time() {
    let mut parrot = Parrot::start(&[]);
    parrot.control(&json!({"subtype": "initialize"}));
    let response = parrot.response();
    assert_eq!(response["subtype"], "success");
    assert_eq!(response["request_id"], "c");
    assert_eq!(response["response"]["account"]["apiProvider"], "parrot");
    assert_eq!(response["response"]["version"], env!("CARGO_PKG_VERSION"));

    parrot.control(&json!({"subtype": "mcp_status"}));
    assert_eq!(parrot.response()["response"], json!({"mcpServers": []}));
    parrot.control(&json!({"subtype": "interrupt"}));
    assert_eq!(parrot.response()["subtype"], "success");
    parrot.control(&json!({"subtype": "conjure"}));
    let refused = parrot.response();
    assert_eq!(refused["subtype"], "error");
    assert!(refused["error"].as_str().unwrap().contains("conjure"));

    parrot.prompt("!hang");
    parrot.until(|line| line["status"] == "requesting");
    parrot.control(&json!({"subtype": "set_model", "model": "ara"}));
    assert_eq!(parrot.response()["response"]["model"], "ara");
    parrot.control(&json!({"subtype": "interrupt"}));
    parrot.turn();
    parrot.prompt("!who");
    assert_eq!(parrot.turn()[0]["model"], "ara");
    parrot.control(&json!({"subtype": "end_session"}));
    assert_eq!(parrot.wait().code, 0);
}

#[test]
fn an_interrupt_in_the_middle_of_a_sentence_ends_the_turn_there() {
    let mut parrot = Parrot::start(&[]);
    parrot.send(&named("!words 1000 60000", "u-1"));
    parrot.until(|line| line["event"]["type"] == "content_block_delta");
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.until(|line| line["state"] == "cancelled");
    assert_eq!(
        kinds(&lines),
        [
            "control_response",
            "assistant",
            "user",
            "stream_event content_block_stop",
            "stream_event message_delta",
            "stream_event message_stop",
            "result error_during_execution",
            "command_lifecycle cancelled",
        ]
    );
    assert_eq!(lines[1]["message"]["content"][0]["text"], "word1 ");
    assert_eq!(lines[1]["aborted"], true);
    assert_eq!(lines[5]["abandoned_blocks"]["from_block_index"], 1);
    assert_eq!(lines[6]["terminal_reason"], "aborted_streaming");
    assert_eq!(lines[6]["user_message_uuid"], "u-1");
    assert_eq!(lines[6]["usage"]["output_tokens"], 0);

    parrot.prompt("!words 3");
    assert_eq!(last(&parrot.turn())["result"], "word1 word2 word3");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn names_of_messages_come_back_and_a_name_is_used_once() {
    let mut parrot = Parrot::start(&[]);
    parrot.send(&named("!words 2", "u-1"));
    let lines = parrot.until(|line| line["state"] == "completed");
    let states: Vec<&Value> = lines.iter().map(|line| &line["state"]).collect();
    assert_eq!(*states[0], "queued");
    assert_eq!(*states[1], "started");
    for kind in ["init", "result", "assistant", "requesting", "message_start"] {
        let line = lines.iter().find(|line| line.to_string().contains(kind));
        assert_eq!(
            line.unwrap()["user_message_uuids"],
            json!(["u-1"]),
            "{kind}"
        );
    }
    parrot.send(&named("!words 2", "u-1"));
    parrot.send(&named("!words 3", "u-2"));
    let lines = parrot.turn();
    assert_eq!(last(&lines)["user_message_uuids"], json!(["u-2"]));
    assert_eq!(parrot.close().rest.len(), 1);
}

#[test]
fn what_waits_behind_a_turn_is_answered_together_or_cancelled() {
    let mut parrot = Parrot::start(&[]);
    parrot.send(&named("!hang", "u-1"));
    parrot.until(|line| line["status"] == "requesting");
    parrot.send(&named("!words 1", "u-2"));
    parrot.send(&named("!words 2", "u-3"));
    parrot.control(&json!({"subtype": "interrupt"}));
    let response = parrot.response();
    assert_eq!(response["response"]["still_queued"], json!(["u-2", "u-3"]));
    parrot.turn();
    let lines = parrot.turn();
    assert_eq!(last(&lines)["user_message_uuids"], json!(["u-2", "u-3"]));
    assert_eq!(last(&lines)["result"], "word1\n\nword1 word2");

    parrot.send(&named("!hang", "u-4"));
    parrot.until(|line| line["status"] == "requesting");
    parrot.send(&named("never", "u-5"));
    parrot.control(&json!({"subtype": "interrupt", "cancel_queued": true}));
    let response = parrot.response();
    assert_eq!(response["response"]["cancelled"], json!(["u-5"]));
    parrot.until(|line| line["state"] == "cancelled" && line["command_uuid"] == "u-4");
    let exit = parrot.close();
    assert!(exit.rest.is_empty(), "{:?}", exit.rest);
    assert_eq!(exit.code, 1);
}

#[test]
fn a_tool_is_pretended_and_can_be_stopped() {
    let mut parrot = Parrot::start(&[]);
    parrot.prompt("!think\n!tool Read");
    let lines = parrot.turn();
    let blocks: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| &line["message"]["content"][0]["type"])
        .collect();
    assert_eq!(blocks, ["thinking", "tool_use", "text"]);
    let told = lines.iter().find(|line| line["type"] == "user").unwrap();
    let result = &told["message"]["content"][0];
    assert_eq!(result["is_error"], false);
    assert!(result["content"].as_str().unwrap().contains("pretended"));
    assert_eq!(last(&lines)["num_turns"], 2);

    parrot.prompt("!tool Bash 60000");
    parrot.until(|line| line["event"]["type"] == "message_stop");
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.turn();
    assert_eq!(
        kinds(&lines),
        [
            "control_response",
            "user",
            "user",
            "result error_during_execution"
        ]
    );
    assert_eq!(lines[1]["message"]["content"][0]["is_error"], true);
    assert_eq!(lines[3]["terminal_reason"], "aborted_tools");
    parrot.close();
}

#[test]
fn an_approval_is_asked_for_and_what_was_decided_is_said() {
    let mut parrot = Parrot::start(&[]);
    let decided = |parrot: &mut Parrot, response: &Value| {
        parrot.prompt("!ask rm -rf /");
        let question = parrot.question();
        assert_eq!(question["request"]["subtype"], "can_use_tool");
        assert_eq!(question["request"]["tool_name"], "Bash");
        assert_eq!(question["request"]["input"]["command"], "rm -rf /");
        parrot.answer(&question, response);
        parrot.turn()
    };
    let allow = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    let lines = decided(&mut parrot, &allow);
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(
        text.contains("allowed `ls`") && text.contains("nothing ran"),
        "{text}"
    );

    let deny = json!({"behavior": "deny", "message": "Better not."});
    let lines = decided(&mut parrot, &deny);
    assert_eq!(
        last(&lines)["result"],
        "You refused `rm -rf /`: Better not."
    );
    assert_eq!(last(&lines)["is_error"], false);
    assert_eq!(last(&lines)["permission_denials"][0]["tool_name"], "Bash");

    let stop = json!({"behavior": "deny", "message": "Stop.", "interrupt": true});
    let lines = decided(&mut parrot, &stop);
    assert_eq!(last(&lines)["terminal_reason"], "aborted_tools");

    let lines = decided(&mut parrot, &json!("yes, please"));
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("neither `allow` nor `deny`"), "{text}");

    let rules = json!([{"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "rm -rf /"}]}]);
    let session = json!({"behavior": "allow", "updatedInput": {"command": "rm -rf /"},
        "updatedPermissions": rules});
    let lines = decided(&mut parrot, &session);
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("for this session"), "{text}");
    parrot.prompt("!ask rm -rf /");
    let lines = parrot.turn();
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("did not ask"), "{text}");
    parrot.close();
}

#[test]
fn a_question_nobody_answers_is_taken_back_or_counts_as_refused() {
    let mut parrot = Parrot::start(&[]);
    parrot.prompt("!ask");
    let question = parrot.question();
    parrot.control(&json!({"subtype": "interrupt"}));
    let lines = parrot.turn();
    assert_eq!(
        kinds(&lines),
        [
            "control_cancel_request",
            "control_response",
            "user",
            "user",
            "result error_during_execution",
        ]
    );
    assert_eq!(lines[0]["request_id"], question["request_id"]);
    // Too late, and therefore ignored.
    parrot.answer(&question, &json!({"behavior": "allow", "updatedInput": {}}));

    parrot.prompt("!ask");
    parrot.question();
    let exit = parrot.close();
    let text = last(&exit.rest)["result"].as_str().unwrap();
    assert!(text.contains("stdin was closed"), "{text}");
    assert_eq!(exit.code, 0);
}

#[test]
fn a_person_is_asked_to_choose() {
    let mut parrot = Parrot::start(&[]);
    parrot.prompt("!question");
    let question = parrot.question();
    let request = &question["request"];
    assert_eq!(request["tool_name"], "AskUserQuestion");
    assert_eq!(request["requires_user_interaction"], true);
    let mut input = request["input"].clone();
    let wording = input["questions"][0]["question"]
        .as_str()
        .unwrap()
        .to_owned();
    input["answers"] = json!({wording: "Blue"});
    parrot.answer(
        &question,
        &json!({"behavior": "allow", "updatedInput": input}),
    );
    assert_eq!(last(&parrot.turn())["result"], "You chose Blue.");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn every_kind_of_failure_names_its_error_and_the_process_goes_on() {
    let table = [
        ("auth", "authentication_failed", json!(401)),
        ("billing", "billing_error", json!(400)),
        ("invalid", "invalid_request", json!(400)),
        ("model", "model_not_found", json!(404)),
        ("rate", "rate_limit", json!(429)),
        ("refused", "invalid_request", json!(null)),
        ("server", "server_error", json!(529)),
        ("unknown", "unknown", json!(null)),
    ];
    let mut parrot = Parrot::start(&[]);
    for (kind, error, status) in table {
        parrot.prompt(&format!("!words 2\n!fail {kind}"));
        let lines = parrot.turn();
        let result = last(&lines);
        assert_eq!(result["subtype"], "success", "{kind}");
        assert_eq!(result["is_error"], true, "{kind}");
        assert_eq!(result["api_error_status"], status, "{kind}");
        let line = &lines[lines.len() - 2];
        assert_eq!(line["error"], error, "{kind}");
        assert_eq!(line["message"]["model"], "<synthetic>", "{kind}");
        let limits = lines
            .iter()
            .filter(|line| line["type"] == "rate_limit_event");
        assert_eq!(limits.count(), usize::from(kind == "rate"));
    }
    assert_eq!(parrot.close().code, 1);
}

#[test]
fn it_dies_in_the_middle_of_a_word_when_told_to() {
    let mut parrot = Parrot::start(&[]);
    parrot.prompt("!die");
    let exit = parrot.wait();
    assert_eq!(exit.code, 1);
    assert_eq!(deltas(&exit.rest), "I was told to d");
    assert!(exit.rest.iter().all(|line| line["type"] != "result"));
    assert!(exit.stderr.contains("!die"), "{}", exit.stderr);
}

#[test]
fn lines_it_does_not_know_are_ignored() {
    let mut parrot = Parrot::start(&[]);
    for line in [
        "",
        "   ",
        "5",
        "\"text\"",
        "null",
        "[]",
        "{}",
        r#"{"type":"keep_alive"}"#,
        r#"{"type":7}"#,
        r#"{"type":"assistant","message":{"role":"assistant","content":[]}}"#,
        r#"{"type":"control_request"}"#,
        r#"{"type":"control_response","response":{"request_id":"nobody"}}"#,
        r#"{"type":"control_response","response":5}"#,
    ] {
        parrot.send_raw(line);
    }
    parrot.prompt("!words 1");
    assert_eq!(last(&parrot.turn())["result"], "word1");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn a_broken_line_ends_it_with_a_reason() {
    for (line, reason) in [
        ("{\"type\":\"user\"", "not JSON"),
        ("hello", "not JSON"),
        ("\u{0}\u{1}\u{fffd}", "not JSON"),
        (r#"{"type":"user"}"#, "no `message`"),
        (r#"{"type":"user","message":{"role":"assistant"}}"#, "role"),
        (
            r#"{"type":"user","message":{"role":"user","content":5}}"#,
            "content",
        ),
    ] {
        let mut parrot = Parrot::start(&[]);
        parrot.send_raw(line);
        let exit = parrot.wait();
        assert_eq!(exit.code, 1, "{line}");
        assert!(exit.rest.is_empty(), "{line}");
        assert!(exit.stderr.contains(reason), "{line}: {}", exit.stderr);
    }
}

#[test]
fn the_end_of_stdin_lets_the_turn_finish() {
    let exit = Parrot::start(&[]).close();
    assert_eq!((exit.code, exit.rest.len()), (0, 0));

    let mut parrot = Parrot::start(&[]);
    parrot.prompt("!words 4 1");
    let exit = parrot.close();
    assert_eq!(last(&exit.rest)["result"], "word1 word2 word3 word4");
    assert_eq!(exit.code, 0);
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_read() {
    for arguments in [&["--bare"][..], &["--model"][..], &["text"][..]] {
        let exit = Parrot::start(arguments).wait();
        assert_eq!(exit.code, 1);
        assert!(exit.stderr.contains(arguments[0]), "{}", exit.stderr);
    }
}

#[test]
fn images_are_admitted_not_to_be_seen() {
    let mut parrot = Parrot::start(&[]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    parrot.send(
        &json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "text", "text": "look"}, {"type": "image", "source": source},
        {"type": "text", "text": ""}]}}),
    );
    let lines = parrot.turn();
    let text = last(&lines)["result"].as_str().unwrap();
    assert!(text.contains("You said: look"), "{text}");
    assert!(text.contains("1 image(s); I cannot see"), "{text}");
    parrot.close();
}

/// Any line of input that neither hangs nor kills it.
fn any_line() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        any::<String>(),
        (0..5_u8).prop_map(|n| format!("!words {n}")),
        Just("!tool Read".to_owned()),
        Just("!think".to_owned()),
        Just("!ask".to_owned()),
        Just("!question".to_owned()),
        Just("!fail rate".to_owned()),
        "![a-z]{1,6} [0-9a-z ]{0,6}",
    ]
    .prop_filter("needs somebody who interrupts", |text| {
        !text.contains("!hang") && !text.contains("!die")
    });
    let prompt = (
        proptest::collection::vec(step, 0..4),
        proptest::option::of(0..4_u8),
    )
        .prop_map(|(steps, name)| match name {
            Some(name) => named(&steps.join("\n"), &name.to_string()),
            None => user(&steps.join("\n")),
        });
    let control = prop_oneof!["[a-z_]{0,8}", Just("interrupt".into()), Just("initialize".into())]
        .prop_map(|subtype: String| {
            json!({"type": "control_request", "request_id": "c", "request": {"subtype": subtype}})
        });
    let other = any::<String>().prop_map(|text| json!({"type": text}));
    prop_oneof![4 => prompt, 2 => control, 1 => other].prop_map(|line| line.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_it_hears_it_speaks_the_protocol(
        lines in proptest::collection::vec(any_line(), 0..12),
    ) {
        let mut parrot = Parrot::start(&[]);
        for line in lines {
            parrot.send_raw(&line);
        }
        let exit = parrot.close();
        prop_assert_eq!(&exit.stderr, "");
        let kinds = kinds(&exit.rest);
        let count = |prefix: &str| kinds.iter().filter(|kind| kind.starts_with(prefix)).count();
        prop_assert_eq!(count("system init"), count("result"));
        let started = count("stream_event message_start");
        prop_assert_eq!(started, count("stream_event message_stop"));
        let blocks = count("stream_event content_block_start");
        prop_assert_eq!(blocks, count("stream_event content_block_stop"));
        let queued = count("command_lifecycle queued");
        let ended = count("command_lifecycle completed") + count("command_lifecycle cancelled");
        prop_assert_eq!(queued, ended);
    }
}
