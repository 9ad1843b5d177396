//! An agent that writes without end: the turn is cut, and the memory stays bounded.

use std::fs;

use angelia_testkit::programs;

use crate::{http, machine::Machine};

#[test]
fn a_turn_that_writes_without_end_is_partial() {
    let machine = Machine::new();
    machine.configure("limits: {output_bytes: 100KiB}\nprofiles: {default: {executor: parrot}}");
    let turn = machine.turn(&["!words 1000000"]);
    turn.ends_once();
    let end = turn.end();
    assert_eq!(
        (&end["status"], &end["reason"]),
        (&"partial".into(), &"limits.output_bytes".into())
    );
    let notices = turn.of_type("notice");
    assert!(notices.iter().any(|notice| notice["code"] == "budget_reached"), "{notices:?}");
    let text = end["text"].as_str().unwrap();
    assert!((1000..110_000).contains(&text.len()), "{}", text.len());
    // The session goes on.
    machine.turn(&["-s", turn.session(), "hello"]).ends_once();
}

/// Sixteen megabytes of text, of which one is taken.
#[test]
fn a_flood_of_text_does_not_fill_the_memory() {
    const MAX_KILOBYTES: u64 = 150_000;
    let machine = Machine::with_shell();
    machine.configure(&format!(
        "limits: {{output_bytes: 1MiB}}
executors: {{claude: {{binary: {}, warm: 0}}}}
profiles: {{default: {{executor: claude}}}}",
        programs::fake_cli().unwrap().display()
    ));
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    let turn = http::submit(&serving.socket, &session, "BIG:16777216");
    let events = http::follow(&serving.socket, &turn);
    assert!(events.len() < 8 << 20, "{} bytes of events", events.len());
    let ended = http::turn(&serving.socket, &turn);
    assert_eq!(
        (&ended["status"], &ended["reason"]),
        (&"partial".into(), &"limits.output_bytes".into())
    );
    let status = fs::read_to_string(format!("/proc/{}/status", serving.running.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < MAX_KILOBYTES, "the daemon took {peak} kB");
    serving.stop().assert_code(0);
}
