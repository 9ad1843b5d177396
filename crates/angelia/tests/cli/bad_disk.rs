//! A disk that is full or not writable: a clear error, and the existing records stay.
//!
//! The small file system is mounted in the test's own namespace. Where that is not allowed, a limit
//! on the file size replaces it.

use crate::machine::{Machine, ProgramOutput};

/// Mounts 1 MiB over the home and runs the script there; `None` where mounting is not allowed.
fn on_a_small_disk(machine: &Machine, script: &str) -> Option<ProgramOutput> {
    let home = machine.place.home();
    let mount = format!("mount -t tmpfs -o size=1m none '{}' || exit 99; ", home.display());
    in_a_namespace(machine, &format!("{mount}{script}"))
}

fn in_a_namespace(machine: &Machine, script: &str) -> Option<ProgramOutput> {
    for options in ["--mount", "--user --map-root-user --mount"] {
        let script = script.replace('\'', r"'\''");
        let ran = machine.shell(&format!("exec unshare {options} /bin/sh -c '{script}'"));
        if ran.status.code() != Some(99) && !ran.stderr.contains("unshare") {
            return Some(ran);
        }
    }
    None
}

const CODE: &str = "echo \"code $?\"";

fn codes(ran: &ProgramOutput) -> Vec<u8> {
    let lines = ran.stdout.lines().filter_map(|line| line.strip_prefix("code "));
    lines.map(|code| code.parse().unwrap()).collect()
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let machine = Machine::with_shell();
    let script = format!(
        r#"
        "$ANGELIA" run -s work 'remember me' >/dev/null; {CODE}
        head -c $(( ($(df -P -k ~ | tail -1 | tr -s " " | cut -d " " -f 4) - 96) * 1024 )) /dev/zero > ~/filler
        "$ANGELIA" run -s work '!words 60000' >/dev/null; {CODE}
        cat /dev/zero > ~/filler2 2>/dev/null
        "$ANGELIA" run -s work 'no room' >/dev/null; {CODE}
        "$ANGELIA" run --json 'no room'; {CODE}
        "$ANGELIA" serve --listen 127.0.0.1:0; {CODE}
        rm ~/filler ~/filler2
        "$ANGELIA" run -s work 'room again' >/dev/null; {CODE}
        "$ANGELIA" turns list
        "$ANGELIA" sessions list"#
    );
    let Some(ran) = on_a_small_disk(&machine, &script) else {
        return a_limit_stands_in(&machine);
    };
    ran.assert_code(0)
        .assert_stderr("disk is full")
        .assert_stderr("free some space")
        .assert_stderr("No space left");
    let codes = codes(&ran);
    assert_eq!((codes[0], codes[5]), (0, 0), "{ran:#?}");
    assert!(codes[1..5].iter().all(|code| [70, 78].contains(code)), "{ran:#?}");
    ran.assert_stdout("\"turn.finished\"").assert_stdout("remember me");
    // The next start has closed the turn whose end could not be recorded.
    // Two turns, and the session by its last turn.
    assert_eq!(ran.stdout.matches("completed").count(), 3, "{ran:#?}");
    assert!(!ran.stdout.contains("running"), "{ran:#?}");
}

fn a_limit_stands_in(machine: &Machine) {
    machine.angelia(&["run", "-s", "work", "remember me"]).assert_code(0);
    let limited = "trap '' XFSZ; ulimit -f 200; exec \"$ANGELIA\" run -s work '!words 60000'";
    machine.shell(limited).assert_code(70).assert_stderr("state.db");
    machine.angelia(&["run", "-s", "work", "room again"]).assert_code(0);
    assert_eq!(machine.list("turns").len(), 3);
}

#[test]
fn a_home_that_may_only_be_read_is_said() {
    let machine = Machine::with_shell();
    machine.angelia(&["run", "hello"]).assert_code(0);
    let home = machine.place.home();
    let script = format!(
        r#"
        mount --bind '{home}' '{home}' || exit 99
        mount -o remount,bind,ro '{home}' '{home}' || exit 99
        "$ANGELIA" run hello; {CODE}
        "$ANGELIA" sessions list; {CODE}
        "$ANGELIA" serve --listen 127.0.0.1:0; {CODE}
        "$ANGELIA" config check; {CODE}"#,
        home = home.display()
    );
    if let Some(ran) = in_a_namespace(&machine, &script) {
        ran.assert_code(0).assert_stderr("Read-only").assert_stderr("may be written");
        let codes = codes(&ran);
        assert!(codes[..3].iter().all(|code| [70, 78].contains(code)), "{ran:#?}");
        assert_eq!(codes[3], 0, "looking at the configuration needs no writing: {ran:#?}");
    }
    assert_eq!(machine.list("turns").len(), 1);
}
