//! The first minutes of a new user: nothing installed, nothing configured.

use std::fs;

use angelia_testkit::real::{RealClaude, RealCodex};

use crate::{
    machine::{DEMO_NOTE, Machine, mode},
    transcript::Transcript,
};

#[test]
fn hello_is_answered_and_says_that_it_is_a_demo() {
    let machine = Machine::new();
    let ran = machine.angelia(&["run", "hello"]);
    ran.assert_code(0)
        .assert_stdout("demo agent")
        .assert_stdout("You said: hello")
        .assert_stdout("angelia doctor");
    assert!(ran.stdout.ends_with('\n'));
    assert_eq!(ran.stderr, DEMO_NOTE, "also in a pipe");
    assert!(!ran.stdout.contains('\x1b'), "no colours for a pipe");
}

/// The demo never stands in for an agent that somebody has installed.
#[test]
fn real_an_agent_without_a_login_is_reported_and_not_replaced() {
    let claude = RealClaude::for_product_tests().unwrap().into_iter();
    let claude = claude.map(|claude| ("claude", claude.path));
    let codex = ("codex", RealCodex::find().unwrap().path);
    for (name, path) in claude.chain([codex]) {
        let machine = Machine::new();
        let bin = machine.place.root().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(path, bin.join(name)).unwrap();
        let ran = machine.angelia(&["run", "hello"]);
        ran.assert_code(77).assert_stderr("not logged in").assert_stderr("hint: ");
        assert_eq!(ran.stdout, "", "{name}");
        let ran = machine.angelia(&["run", "--json", "hello"]);
        ran.assert_code(77);
        assert_eq!(Transcript::read(&ran.stdout).end()["failure"]["kind"], "auth", "{name}");
    }
}

#[test]
fn events_are_printed_as_they_are_and_nothing_else() {
    let machine = Machine::new();
    let script = "!think about it\n!tool Read\n!words 3\nthe end";
    let ran = machine.angelia(&["run", "--json", script]);
    ran.assert_code(0).assert_stderr("demo agent");
    let transcript = Transcript::read(&ran.stdout);
    insta::assert_json_snapshot!("events_of_a_turn", transcript.shape());
}

#[test]
fn the_record_is_what_was_seen() {
    let machine = Machine::new();
    let seen = machine.turn(&["!think\n!tool Read\n!words 5\nend"]);
    let recorded = machine.export(seen.session());
    assert_eq!(recorded.len(), 1);
    // A replay may leave out deltas, because their blocks are there, and nothing else.
    let whole: Vec<_> = seen
        .events
        .iter()
        .filter(|event| event["type"] != "text.delta" && event["type"] != "reasoning.delta")
        .cloned()
        .collect();
    assert_eq!(recorded[0].events, whole);
}

#[test]
fn a_prompt_comes_from_the_argument_or_from_standard_input() {
    let machine = Machine::new();
    machine
        .angelia_with_input(&["run", "-"], b"through the pipe\n")
        .assert_code(0)
        .assert_stdout("through the pipe");
    machine
        .angelia_with_input(&["run"], b"through the pipe\n")
        .assert_code(0)
        .assert_stdout("through the pipe");
    // Both together: what is piped in is a block below the prompt.
    let both = machine.angelia_with_input(&["run", "review this"], b"-old\n+new\n");
    both.assert_code(0).assert_stdout("You said: review this\n\n<stdin>\n-old\n+new\n</stdin>");
    let invalid = machine.angelia_with_input(&["run", "review this"], b"\xff");
    invalid.assert_code(2).assert_stderr("not UTF-8 text");
    machine.angelia(&["run", "--", "--json"]).assert_code(0).assert_stdout("You said: --json");
}

/// A program may start us with a pipe that it never writes to.
#[test]
fn a_silent_pipe_is_not_waited_for_and_a_slow_one_is_read_to_the_end() {
    let machine = Machine::with_shell();
    let silent = machine.shell("mkfifo pipe; exec 3<>pipe; \"$ANGELIA\" run hello <&3");
    silent.assert_code(0).assert_stdout("You said: hello\n");
    silent.assert_stderr("nothing came from standard input within 3 s; continuing without it");
    let slow = machine.shell("{ sleep 1; echo one; sleep 4; echo two; } | \"$ANGELIA\" run hello");
    slow.assert_code(0).assert_stdout("You said: hello\n\n<stdin>\none\ntwo\n</stdin>");
    assert!(!slow.stderr.contains("standard input"), "{slow:#?}");
}

#[test]
fn pipes_work_as_everywhere() {
    let machine = Machine::with_shell();
    let ran = machine.shell("echo 'counted words' | \"$ANGELIA\" run - | wc -l");
    ran.assert_code(0).assert_stdout("3");
    let ran = machine.shell("\"$ANGELIA\" run --json '!words 4' | grep -c text.delta");
    ran.assert_code(0).assert_stdout("4");
}

#[test]
fn the_home_is_made_for_its_owner_only() {
    let machine = Machine::new();
    machine.angelia(&["run", "hello"]).assert_code(0);
    for part in ["", "run", "run/owners", "work", "logs"] {
        assert_eq!(mode(&machine.home().join(part)), 0o700, "{part}");
    }
    assert_eq!(mode(&machine.home().join("state.db")), 0o600);
    let left: Vec<_> = fs::read_dir(machine.home().join("run/owners")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // Nothing is written outside `ANGELIA_HOME`.
    assert_eq!(names(&machine.place.home()), [".angelia"]);
    assert!(names(&machine.work()).is_empty());
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_existing_home_that_others_can_read_is_narrowed() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new();
    fs::create_dir(machine.home()).unwrap();
    fs::set_permissions(machine.home(), fs::Permissions::from_mode(0o755)).unwrap();
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert_eq!(mode(&machine.home()), 0o700);
}

#[test]
fn the_home_can_be_elsewhere() {
    let mut machine = Machine::new();
    let elsewhere = machine.place.root().join("elsewhere");
    machine.set("ANGELIA_HOME", &elsewhere);
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert!(elsewhere.join("state.db").exists());
    assert!(!machine.home().exists());
}

#[test]
fn version_and_help_are_no_failures() {
    let machine = Machine::new();
    machine.angelia(&["--version"]).assert_code(0).assert_stdout(env!("CARGO_PKG_VERSION"));
    machine.angelia(&["--help"]).assert_code(0).assert_stdout("doctor").assert_stdout("sessions");
    machine.angelia(&["run", "--help"]).assert_code(0).assert_stdout("--json");
    machine.angelia(&["help", "run"]).assert_code(0).assert_stdout("--json");
    machine.angelia(&["help", "sessions", "fork"]).assert_code(0).assert_stdout("ID");
    assert!(!machine.home().exists(), "looking changes nothing");
}
