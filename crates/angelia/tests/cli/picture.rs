//! The picture in the README can be made again from the present program.

use std::fs;

use crate::machine::{ANGELIA, Machine};

#[test]
fn real_terminal_picture_is_recorded() {
    let machine = Machine::with_shell();
    let picture = machine.work().join("terminal.svg");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/record-terminal.py");
    let ran = machine.program("python3").arg(script).arg(ANGELIA).arg(&picture).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let picture = fs::read_to_string(picture).unwrap();
    for shown in ["$ angelia run \"hello\"", "You said: hello", "[y]es", "sessions list"] {
        assert!(picture.contains(shown), "{shown} is missing in {picture}");
    }
    let home = machine.place.root().display().to_string();
    assert!(!picture.contains(&home), "the recording's own folder is in the picture");
}
