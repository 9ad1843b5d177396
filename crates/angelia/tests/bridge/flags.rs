//! B18 to B20: the meaning of the flags, and requests that override them.

use std::fs;

use angelia_testkit::programs;
use serde_json::json;

use crate::{
    host::{Host, NATIVE, assert_error, assert_final, of_type, types},
    machine::Machine,
};

#[test]
fn b18_the_model_and_the_profile_are_defaults() {
    let machine = Machine::new();
    machine.configure("profiles: {default: {executor: parrot}, other: {executor: parrot}}");
    let mut host = Host::start(&machine, &["--model", "m1", "--profile", "other"]);
    let events = host.run("r", "s", "hello");
    assert_eq!((&events[0]["model"], &events[0]["profile"]), (&json!("m1"), &json!("other")));
    let own = json!({"model": "m2", "profile": "default"});
    let events = host.run_with("r", "s2", "hello", own);
    assert_eq!((&events[0]["model"], &events[0]["profile"]), (&json!("m2"), &json!("default")));
    // A request whose explicit settings differ from those of its session is refused.
    let events = host.run_with("r", "s", "hello", json!({"model": "m2"}));
    assert_error(&events, "session_differs");
    host.shut_down();
    // Flags that differ only cause a notice, and the session keeps its settings.
    let mut host = Host::start(&machine, &["--model", "m3"]);
    let events = host.run("r", "s", "hello");
    assert_eq!(events[0]["model"], "m1");
    assert_eq!(events[1]["code"], "session_keeps", "{events:#?}");
    assert_final(&events, "completed");
    host.shut_down();
}

#[test]
fn b18_iterations_are_tool_calls_and_end_a_run_as_partial() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--max-iterations", "3"]);
    let events = host.run("r", "s", "said\n!tool A\n!tool B\n!tool C\n!tool D 60000");
    let end = assert_final(&events, "partial");
    assert_eq!(end["reason"], "budget_tool_count");
    assert!(of_type(&events, "notice").iter().all(|notice| notice["code"] != "resumed"));
    host.shut_down();
    machine.angelia(&["bridge", "--max-iterations", "0"]).assert_code(2);
}

#[test]
fn b18_disabled_tools_are_refused_without_asking() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--disabled-toolsets", "Edit, Bash(rm *)"]);
    let events = host.run("r", "s", "!ask rm x");
    assert!(of_type(&events, "approval_requested").is_empty(), "{events:#?}");
    let end = assert_final(&events, "completed");
    assert!(end["response"].as_str().unwrap().contains("disallowed_tools"), "{end}");
    host.shut_down();
    machine
        .angelia(&["bridge", "--disabled-toolsets", "Bash("])
        .assert_code(2)
        .assert_stderr("not a tool pattern");
}

#[test]
fn b18_toolsets_reach_the_agent() {
    let mut machine = Machine::with_shell();
    let log = machine.place.root().join("log");
    machine.set("FAKE_CLI_LOG", &log);
    let fake = programs::fake_cli().unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, warm: 0, env_pass: [FAKE_CLI_LOG], binary: {}}}}}",
        fake.display()
    ));
    for (toolsets, wanted) in [("Bash, Read", "Bash,Read"), ("none", "")] {
        let mut host = Host::start(&machine, &["--toolsets", toolsets, "--once"]);
        assert_final(&host.run("r", toolsets, "ECHO:hi"), "completed");
        assert_eq!(host.wait_for_exit().code, Some(0));
        let logged = fs::read_to_string(&log).unwrap();
        let mut arguments = logged.lines().filter(|line| line.contains("--tools"));
        let last = arguments.next_back().unwrap_or_else(|| panic!("{logged}"));
        assert!(last.contains(&format!(r#""--tools","{wanted}""#)), "{last}");
    }
}

#[test]
fn b19_verbose_logs_to_stderr_only() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--verbose"]);
    assert_final(&host.run("r", "s", "hello secret words"), "completed");
    let end = host.shut_down();
    assert!(end.stderr.contains("INFO"), "{end:?}");
    assert!(!end.stderr.contains("secret words"), "{end:?}");
}

#[test]
fn b19_the_clocks_of_the_stream_can_be_set() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--stream-timeout", "1"]);
    let events = host.run("r", "s", "!hang");
    let end = assert_final(&events, "failed");
    assert_eq!(end["error"]["kind"], "timeout");
    let message = end["error"].to_string();
    assert!(message.contains("inter_event_silence_timeout"), "{message}");
    host.shut_down();
    let mut host = Host::start(&machine, &["--timeout", "2s"]);
    let events = host.run("r", "s2", "!words 10000 5");
    let end = assert_final(&events, "failed");
    assert_eq!(end["error"]["kind"], "timeout");
    assert!(end["response"].as_str().unwrap().contains("word1"));
    host.shut_down();
    machine
        .angelia(&["bridge", "--stream-timeout", "0"])
        .assert_code(2)
        .assert_stderr("switched off");
    machine
        .angelia(&["bridge", "--first-event-timeout", "soon"])
        .assert_code(2)
        .assert_stderr("90s");
}

#[test]
fn b19_an_agent_that_says_nothing_is_given_up() {
    let mut machine = Machine::with_shell();
    machine.set("FAKE_CLI_START_MS", "60000");
    let fake = programs::fake_cli().unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, warm: 0, env_pass: ['FAKE_CLI_*'], binary: {}}}}}",
        fake.display()
    ));
    let mut host = Host::start(&machine, &["--first-event-timeout", "1"]);
    let events = host.run("r", "s", "hello");
    let end = assert_final(&events, "failed");
    assert_eq!(end["error"]["kind"], "timeout", "{end}");
    host.shut_down();
}

#[test]
fn b20_the_switches_are_defaults_that_a_request_may_override() {
    let machine = Machine::new();
    let kinds = |flags: &[&str], more: serde_json::Value| {
        let mut host = Host::start(&machine, flags);
        let prompt = "!words 12";
        let events = host.run_with("r", "s", prompt, more);
        assert_final(&events, "completed");
        let deltas = of_type(&events, "assistant_delta").len();
        host.shut_down();
        deltas
    };
    let sized: Vec<&str> = vec!["--assistant-delta", "--assistant-delta-chunk-size", "10"];
    let text =
        "word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12 ".to_owned();
    let cut = text.trim().len().div_ceil(10);
    assert_eq!(kinds(&[], json!({})), 0);
    assert_eq!(kinds(&sized, json!({})), cut);
    assert_eq!(kinds(&sized, json!({"assistant_delta": false})), 0);
    assert_eq!(
        kinds(&["--assistant-delta-chunk-size", "10"], json!({"assistant_delta": true})),
        cut
    );
    assert_eq!(kinds(&NATIVE, json!({})), 12);
    assert_eq!(kinds(&NATIVE, json!({"assistant_delta": true})), 12);
    assert_eq!(kinds(&NATIVE, json!({"native_stream": false})), 0);
    assert_eq!(kinds(&["--native-stream"], json!({})), 0);
    let native = json!({"native_stream": true, "native_assistant_delta": true});
    assert_eq!(kinds(&sized, native), 12);
    let both = [&NATIVE[..], &sized].concat();
    assert_eq!(kinds(&both, json!({})), 12, "never both");
    assert_eq!(kinds(&both, json!({"native_assistant_delta": false})), cut);
}

#[test]
fn the_schema_is_printed() {
    let machine = Machine::new();
    let ran = machine.angelia(&["bridge", "--schema"]);
    ran.assert_code(0);
    let schema: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(schema["$defs"]["Request"].is_object(), "{schema}");
    assert!(schema["$defs"]["Event"].is_object(), "{schema}");
    let mut host = Host::start(&machine, &[]);
    assert_eq!(types(&host.run("r", "s", "hello"))[0], "run_started");
    host.shut_down();
}
