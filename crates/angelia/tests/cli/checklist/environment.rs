//! A21: the part of our environment that reaches the program.

use std::{collections::BTreeMap, fs};

use angelia_testkit::real::CLAUDE_KEY;
use rustix::process::Signal;

use super::{bash, on_each_version};
use crate::{agent_processes::agent_pids, machine::until};

const WITHHELD_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDECODE",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "AWS_SECRET_ACCESS_KEY",
    "MY_OWN_SECRET",
];

#[test]
fn real_a21_nothing_of_ours_reaches_the_program_but_what_is_listed() {
    on_each_version(|lab| {
        for name in WITHHELD_VARIABLES {
            lab.machine.set(name, "must-not-leak");
        }
        lab.machine.set("LC_TIME", "C");
        lab.machine.set("PASSED_ON", "by the profile");
        lab.configure(&["permissions: unattended", "env_pass: [PASSED_ON]"]);
        for through_the_daemon in [false, true] {
            let serving = through_the_daemon.then(|| lab.machine.serve());
            let turn = lab.machine.turn(&[&bash("env")]);
            let output = turn.completed().first("tool.finished")["output"].as_str().unwrap();
            let seen: BTreeMap<_, _> =
                output.lines().filter_map(|line| line.split_once('=')).collect();
            assert!(!output.contains("must-not-leak"), "{output}");
            assert_eq!(seen["PASSED_ON"], "by the profile");
            assert_eq!(seen["LC_TIME"], "C");
            assert_eq!(seen["HOME"], lab.machine.place.home().to_str().unwrap());
            assert!(seen.contains_key("ANGELIA_AGENT"));
            drop(serving);
        }
        // Check the program's own environment too, not only its shell's: it has the profile's
        // key, because a profile's variables take precedence, and not ours.
        let running = lab.machine.start(&["run", "HANG_BODY"]);
        until("the model is asked", || lab.last_request().prompt().contains("HANG_BODY"));
        let read = |pid: u32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let all: Vec<u8> = agent_pids(&lab.machine).into_iter().flat_map(read).collect();
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(all.contains(&format!("ANTHROPIC_API_KEY={CLAUDE_KEY}")));
        assert!(!all.contains("must-not-leak"), "{all}");
        assert_eq!(lab.last_request().header("x-api-key"), Some(CLAUDE_KEY));
        running.signal(Signal::INT);
        running.wait().assert_code(130);
    });
}
