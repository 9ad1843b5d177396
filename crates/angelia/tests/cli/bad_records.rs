//! A damaged `state.db`, and a home that is not a folder: a clear error, and nothing is changed.

use std::fs;

use crate::{
    machine::{Machine, SERVE},
    transcript::Transcript,
};

/// Returns a machine with a few recorded turns.
fn with_records() -> Machine {
    let machine = Machine::new();
    machine.angelia(&["run", "-s", "work", "remember me"]).assert_code(0);
    machine
}

#[test]
fn a_damaged_file_is_named_with_what_to_do_and_kept() {
    let machine = with_records();
    let file = machine.home().join("state.db");
    let good = fs::read(&file).unwrap();
    let header: &[u8] = b"SQLite format 3\0and then nothing that makes sense";
    let mut holed = good.clone();
    for byte in &mut holed[4096..] {
        *byte = 0xa5;
    }
    let noise = vec![0x5a; 20_000];
    for damaged in [&b"garbage"[..], &noise, header, &good[..good.len() / 2], &good[..9000], &holed]
    {
        fs::write(&file, damaged).unwrap();
        for command in [&["run", "hi"][..], &["sessions", "list"], &["turns", "list"], SERVE] {
            let ran = machine.angelia(command);
            ran.assert_code(70)
                .assert_stderr("state.db")
                .assert_stderr("damaged")
                .assert_stderr("mv ");
        }
        let ran = machine.angelia(&["run", "--json", "hi"]);
        ran.assert_code(70);
        Transcript::read(&ran.stdout).failed("internal");
        assert_eq!(fs::read(&file).unwrap(), damaged, "it is left for a rescue");
    }
    // With the original file, everything works again.
    fs::write(&file, &good).unwrap();
    machine.angelia(&["sessions", "list"]).assert_code(0).assert_stdout("remember me");
    machine.angelia(&["run", "-s", "work", "hi"]).assert_code(0);
}

#[test]
fn an_empty_file_is_a_new_one() {
    let machine = Machine::new();
    machine.configure("");
    fs::write(machine.home().join("state.db"), "").unwrap();
    machine.angelia(&["run", "hi"]).assert_code(0);
    assert_eq!(machine.list("sessions").len(), 1);
}

#[test]
fn a_folder_in_its_place_is_named() {
    let machine = Machine::new();
    machine.configure("");
    fs::create_dir(machine.home().join("state.db")).unwrap();
    for command in [&["run", "hi"][..], &["sessions", "list"], SERVE] {
        machine.angelia(command).assert_code(70).assert_stderr("state.db").assert_stderr("check");
    }
}

#[test]
fn records_of_a_later_version_are_left_alone() {
    let machine = with_records();
    let file = machine.home().join("state.db");
    let mut bytes = fs::read(&file).unwrap();
    // The number of the last migration, in SQLite's `user_version`.
    bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    fs::write(&file, &bytes).unwrap();
    machine
        .angelia(&["run", "hi"])
        .assert_code(70)
        .assert_stderr("state.db")
        .assert_stderr("version");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_home_that_is_no_folder_is_named() {
    let mut machine = Machine::new();
    fs::write(machine.home(), "a file").unwrap();
    machine
        .angelia(&["run", "hi"])
        .assert_code(78)
        .assert_stderr(".angelia")
        .assert_stderr("Not a directory");
    let long = machine.place.root().join("long/".repeat(40));
    machine.set("ANGELIA_HOME", long);
    machine.angelia(&["run", "hi"]).assert_code(0);
    machine.angelia(SERVE).assert_code(78).assert_stderr("shorter");
    machine.set("ANGELIA_HOME", "/proc/nowhere");
    machine.angelia(&["run", "hi"]).assert_code(78).assert_stderr("ANGELIA_HOME");
    machine.set("ANGELIA_HOME", "");
    machine.set("HOME", "");
    machine.angelia(&["run", "hi"]).assert_code(78).assert_stderr("HOME");
}

#[test]
fn an_empty_token_is_named() {
    let machine = Machine::new();
    machine.configure("");
    fs::write(machine.home().join("token"), "\n").unwrap();
    machine.angelia(SERVE).assert_code(78).assert_stderr("token");
    machine.angelia(&["run", "hi"]).assert_code(0);
}
