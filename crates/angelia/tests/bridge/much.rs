//! Heavy load: large prompts and answers, many requests, and hosts that do not read. Nothing is
//! lost, nothing stalls, and the bridge's own memory is bounded: 24 MiB for itself and the unread
//! output, plus a multiple of the text of each running turn.

use std::fs;

use angelia_testkit::programs;
use serde_json::{Value, json};

use crate::{
    host::{Host, NATIVE, assert_final, joined_text, of_type, response, run_request, types},
    machine::{DEADLINE, Machine, until},
};

const MIB: u64 = 1 << 20;

/// The own memory of an idle bridge, twice over.
const BASE_MEMORY_BYTES: u64 = 24 * MIB;

/// Returns the peak of the bridge's own memory.
///
/// Mapped pages of the program do not count: they are shared, and they grow with each part that
/// the program gets.
fn peak_memory_bytes(host: &Host) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let bytes = |field: &str| {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    bytes("VmHWM") - bytes("RssFile")
}

#[test]
fn a_prompt_of_a_megabyte_arrives_whole() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let prompt = "0123456789abcde\n".repeat(1 << 16);
    let events = host.run("r", "s", &prompt);
    let end = assert_final(&events, "completed");
    assert_eq!(end["messages"][0]["content"], prompt);
    assert!(response(&events).contains("bytes more"), "it was heard to its end");
    assert!(
        peak_memory_bytes(&host) < BASE_MEMORY_BYTES + 32 * MIB,
        "{}",
        peak_memory_bytes(&host)
    );
    host.shut_down();
}

/// Configures the fake CLI as the agent, which can produce very long answers.
fn machine_with_fake_cli() -> Machine {
    let machine = Machine::with_shell();
    let fake = programs::fake_cli().unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, warm: 0, binary: {}}}}}",
        fake.display()
    ));
    machine
}

/// Runs a turn whose answer has this many bytes, and measures the memory it takes.
fn check_large_answer(size: usize, flags: &[&str]) {
    let machine = machine_with_fake_cli();
    let mut host = Host::start(&machine, flags);
    host.send(&run_request("r", "s", &format!("BIG:{size}")));
    let mut in_pieces = 0;
    let length = |event: &Value, field: &str| event[field].as_str().unwrap().len();
    loop {
        // An unoptimized build needs more time for this.
        let event = host.next_within(3 * DEADLINE);
        match event["type"].as_str().unwrap() {
            "assistant_delta" => in_pieces += length(&event, "text"),
            "assistant_message" => assert_eq!(length(&event, "text"), size),
            "final" => {
                assert_eq!(length(&event, "response"), size);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(in_pieces, size);
    let bound = BASE_MEMORY_BYTES + 12 * size as u64;
    assert!(peak_memory_bytes(&host) < bound, "{} MiB", peak_memory_bytes(&host) / MIB);
    host.shut_down();
}

#[test]
fn an_answer_of_fifty_megabytes_is_told_whole() {
    check_large_answer(50_000_000, &NATIVE);
}

#[test]
fn a_large_answer_is_cut_as_it_is_written() {
    check_large_answer(8_000_000, &["--assistant-delta", "--assistant-delta-chunk-size", "100"]);
}

/// The number of words of a run whose output is much larger than the pipe and the bridge can hold.
const MANY_REQUESTS: usize = 100_000;

fn statuses(machine: &Machine) -> Vec<String> {
    let turns = machine.list("turns");
    let statuses = turns.iter().map(|turn| turn["status"].as_str().unwrap());
    statuses.map(str::to_owned).collect()
}

#[test]
fn a_host_that_does_not_read_stalls_nobody_and_loses_nothing() {
    let machine = Machine::new();
    let mut host = Host::start_unread(&machine, &NATIVE);
    host.send(&run_request("r", "s", &format!("!words {MANY_REQUESTS}")));
    until("the turn ends though nobody reads", || statuses(&machine) == ["completed"]);
    // Other sessions continue too.
    host.send(&run_request("r2", "s2", "hello"));
    until("so does another", || statuses(&machine) == ["completed", "completed"]);
    assert!(
        peak_memory_bytes(&host) < BASE_MEMORY_BYTES + 64 * MIB,
        "{} MiB",
        peak_memory_bytes(&host) / MIB
    );
    host.read();
    let mut events = host.read_until_type("final");
    events.extend(host.read_until_type("final"));
    let (one, other): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| event["request_id"] == "r");
    assert_final(&one, "completed");
    assert_final(&other, "completed");
    assert_eq!(of_type(&one, "assistant_delta").len(), MANY_REQUESTS);
    assert_eq!(joined_text(&one, "assistant_delta"), response(&one));
    host.shut_down();
}

#[test]
fn a_host_that_does_not_read_can_interrupt() {
    let machine = Machine::new();
    let mut host = Host::start_unread(&machine, &NATIVE);
    host.send(&run_request("r", "s", &format!("!words {MANY_REQUESTS}\n!tool Wait\n!hang")));
    until("it is told more than can wait", || statuses(&machine) == ["running"]);
    host.send(&json!({"type": "interrupt", "session_id": "s"}));
    until("it is interrupted", || statuses(&machine) == ["interrupted"]);
    host.read();
    let events = host.read_until_type("final");
    assert_final(&events, "interrupted");
    assert_eq!(of_type(&events, "interrupt_ack").len(), 1);
    host.shut_down();
}

#[test]
fn a_thousand_requests_at_once_are_all_answered() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let mut lines = Vec::new();
    for n in 0..1000 {
        let request = match n % 10 {
            // A hundred sessions with four runs each.
            0 => run_request(&n.to_string(), &format!("s{n}"), "!words 20 5"),
            1..=3 => run_request(&n.to_string(), &format!("s{}", n - n % 10), "again"),
            4 => json!({"type": "nonsense", "request_id": n.to_string()}),
            _ => json!({"type": "ping", "request_id": n.to_string()}),
        };
        lines.extend_from_slice(format!("{request}\n").as_bytes());
    }
    let writing = host.write_in_thread(lines);
    let mut answers = vec![Vec::new(); 1000];
    for _ in 0..1000 {
        let event = host
            .read_until(|event| {
                let kind = event["type"].as_str().unwrap();
                ["final", "error", "pong"].contains(&kind)
            })
            .pop()
            .unwrap();
        let number: usize = event["request_id"].as_str().unwrap().parse().unwrap();
        answers[number].push(event);
    }
    for (n, answers) in answers.iter().enumerate() {
        assert_eq!(answers.len(), 1, "{n}: {answers:?}");
        let answer = &answers[0];
        match n % 10 {
            0 => drop(assert_final(answers, "completed")),
            1..=3 => assert_eq!(answer["code"], "session_busy", "{answer}"),
            4 => assert_eq!(answer["code"], "unknown_type", "{answer}"),
            _ => assert_eq!(answer["type"], "pong", "{answer}"),
        }
    }
    assert!(
        peak_memory_bytes(&host) < BASE_MEMORY_BYTES + 64 * MIB,
        "{} MiB",
        peak_memory_bytes(&host) / MIB
    );
    host.restore_stdin(writing.join().unwrap());
    let end = host.shut_down();
    assert_eq!(types(&end.events), ["shutdown_ack"]);
}
