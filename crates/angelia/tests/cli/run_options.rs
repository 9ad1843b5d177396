//! Tests of the options of `angelia run` besides its prompt: files, a model, and `--detach`.

use std::fs;

use crate::machine::{Machine, until};

const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

#[test]
fn files_are_part_of_the_prompt() {
    let machine = Machine::new();
    fs::write(machine.work().join("notes.txt"), "twelve\n").unwrap();
    fs::write(machine.work().join("picture"), PNG).unwrap();
    for daemon in [false, true] {
        let serving = daemon.then(|| machine.serve());
        let ran = machine.angelia(&["run", "-f", "notes.txt", "-f", "picture", "count these"]);
        ran.assert_code(0).assert_stdout("<file path=\"notes.txt\">\ntwelve\n</file>");
        let turn = &machine.list("turns")[0];
        assert_eq!(
            turn["input"],
            serde_json::json!([
                {"type": "text", "text": "count these\n\n<file path=\"notes.txt\">\ntwelve\n</file>"},
                {"type": "image", "media_type": "image/png", "bytes": PNG.len()},
            ]),
            "{turn}"
        );
        if let Some(serving) = serving {
            serving.stop().assert_code(0);
        }
    }
    fs::write(machine.work().join("program"), b"\x7fELF\0\0").unwrap();
    for (file, why) in [
        ("missing", "cannot read the file missing"),
        ("program", "program is neither UTF-8 text nor a PNG"),
        (".", ". is not a regular file"),
    ] {
        machine.angelia(&["run", "-f", file, "look"]).assert_code(2).assert_stderr(why);
    }
}

/// The turn runs on without its command, and what it asks is decided from elsewhere.
#[test]
fn a_detached_turn_is_left_to_the_daemon() {
    let machine = Machine::new();
    machine.configure("listen: 127.0.0.1:0\n");
    let ran = machine.angelia(&["run", "--detach", "-s", "later", "!ask rm everything"]);
    ran.assert_code(0);
    let turn = ran.stdout.trim().to_owned();
    assert_eq!(machine.list("turns")[0]["id"], turn.as_str(), "{ran:#?}");
    let mut approvals = Vec::new();
    until("the turn asks", || {
        approvals = machine.list("approvals");
        !approvals.is_empty()
    });
    let id = approvals[0]["id"].as_str().unwrap();
    machine.angelia(&["approvals", "approve", id]).assert_code(0);
    let watched = machine.angelia(&["turns", "watch", &turn]);
    watched.assert_code(0).assert_stdout("You allowed");
    // The daemon that was started for it is used again.
    let again = machine.angelia(&["run", "--detach", "-s", "later", "hello"]);
    again.assert_code(0);
    assert_eq!(machine.list("sessions").len(), 1);
    machine.angelia(&["stop"]).assert_code(0);
    machine.angelia(&["run", "--detach", "--json", "x"]).assert_code(2);
}

#[test]
fn a_session_goes_on_with_another_model() {
    let machine = Machine::new();
    for daemon in [false, true] {
        let serving = daemon.then(|| machine.serve());
        let name = if daemon { "with-daemon" } else { "alone" };
        let model = |transcript: crate::transcript::Transcript| {
            transcript.first("turn.started")["model"].as_str().unwrap_or_default().to_owned()
        };
        machine.turn(&["-s", name, "!who"]);
        let ran = machine.angelia(&["run", "-s", name, "-m", "macaw", "!who"]);
        ran.assert_code(0).assert_stdout("model macaw");
        let listed = machine.list("sessions");
        let session = listed.iter().find(|session| session["name"] == name).unwrap();
        assert_eq!(session["model"], "macaw");
        // It stays.
        let later = machine.turn(&["-s", name, "!who"]);
        assert_eq!(model(later), "macaw");
        if let Some(serving) = serving {
            serving.stop().assert_code(0);
        }
    }
}

#[test]
fn a_current_directory_that_is_gone_is_named() {
    let machine = Machine::with_shell();
    let gone = "mkdir gone; cd gone; rmdir ../gone; $ANGELIA run";
    let refused = machine.shell(&format!("{gone} hello"));
    refused.assert_code(1).assert_stderr("the current directory cannot be used");
    refused.assert_stderr("name one with --cwd");
    machine.shell(&format!("{gone} --cwd / hello")).assert_code(0);
}
