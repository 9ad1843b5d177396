//! The daemon follows its own `OpenAPI` description: schemathesis calls every path with valid and
//! invalid requests.
//!
//! `ANGELIA_SCHEMA_EXAMPLES` (5) is how many requests each operation gets.

use std::{fs, process::Stdio, time::Duration};

use angelia_testkit::programs::workspace_root;

use crate::machine::{Machine, RunningCommand};

/// The time limit of all requests, which take longer than other tests.
const SCHEMATHESIS_TIMEOUT: Duration = Duration::from_mins(30);

/// The checks for every path.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      unsupported_method,ignored_auth,allow_header_conformance";

/// The checks for paths whose schema is complete: valid requests are accepted, others refused.
const EXACT: &str = "positive_data_acceptance,negative_data_rejection";

/// The paths with [`EXACT`] checks. Left out are the model APIs, which accept more than their
/// schema promises, and the creation of sessions, whose folder must exist.
const EXACT_PATHS: &str = "^/api/(turns|approvals|sessions/)";

/// The paths whose response never ends.
const ENDLESS: &str = "^/api/(bus/)?events$";

#[test]
fn schemathesis_finds_nothing() {
    let program = workspace_root().join("target/python/schemathesis/bin/schemathesis");
    assert!(program.exists(), "run `cargo xtask setup` first");
    #[expect(clippy::disallowed_methods, reason = "a test is told by its caller")]
    let examples = std::env::var("ANGELIA_SCHEMA_EXAMPLES").unwrap_or_else(|_| "5".to_owned());
    let machine = Machine::with_shell();
    machine.configure(
        "profiles:
  default: {executor: parrot, mode: model, timeout: 30s}
sessions: {idle_ttl: 2s}
",
    );
    let serving = machine.serve();
    let address = fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let token = fs::read_to_string(machine.home().join("token")).unwrap();
    let run = |more: &[&str]| {
        let mut command = machine.program(&program);
        command
            .arg("run")
            .arg(format!("http://{}/openapi.json", address.trim()))
            .args(["--max-examples", &examples, "--exclude-path-regex", ENDLESS])
            .args(["--header", &format!("Authorization: Bearer {}", token.trim())])
            .args(["--seed", "1", "--request-timeout", "20", "--no-color"])
            .args(["--generation-database", "none"])
            .args(more)
            .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
            .env("PYTHONPATH", workspace_root().join("tests/clients"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCHEMATHESIS_TIMEOUT);
        assert!(
            ran.status.success(),
            "{}{}\n--- the daemon says:\n{}",
            ran.stdout,
            ran.stderr,
            serving.running.stderr()
        );
        let counted = ran.stdout.lines().find(|line| line.contains(" generated, "));
        println!("{}", counted.unwrap_or_default());
    };
    run(&["--checks", CHECKS, "--phases", "coverage,fuzzing,stateful"]);
    run(&["--checks", EXACT, "--include-path-regex", EXACT_PATHS]);
    serving.stop().assert_code(0);
}
