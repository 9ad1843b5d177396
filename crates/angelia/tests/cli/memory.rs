//! `angelia memory`: the notes of agents, as the owner reads and changes them.

use std::fs;

use serde_json::Value;

use crate::{
    agents::{bind, run_as_agent},
    machine::{Machine, mode},
};

fn with_notes() -> Machine {
    let machine = Machine::with_shell();
    for (note, text) in [
        ("default/everywhere/style", "Be brief.\n\nMore."),
        ("default/app-12345678/build", "Run make."),
        ("work/everywhere/style", "Be polite."),
    ] {
        let path = machine.home().join("memory").join(format!("{note}.md"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    machine
}

#[test]
fn notes_are_listed_and_shown() {
    let machine = with_notes();
    let listed = machine.angelia(&["memory", "list"]);
    listed.assert_code(0).assert_stdout("default/everywhere/style").assert_stdout("Be brief.");
    let json = machine.angelia(&["memory", "list", "--json", "--profile", "default"]);
    let rows: Vec<Value> =
        json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["project"], &rows[1]["project"]), (&"app-12345678".into(), &Value::Null));
    machine.angelia(&["memory", "show", "build"]).assert_code(0).assert_stdout("Run make.");
    let shown = machine.angelia(&["memory", "show", "work/everywhere/style", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["key"], &shown["text"]), (&"style".into(), &"Be polite.".into()));
    machine.angelia(&["memory", "show", "style"]).assert_code(2).assert_stderr("name one:");
    machine.angelia(&["memory", "show", "absent"]).assert_code(1).assert_stderr("memory list");
    let empty = Machine::new().angelia(&["memory", "list"]);
    empty.assert_code(0).assert_stderr("nothing is remembered");
}

#[test]
fn a_note_is_edited_forgotten_and_taken_back() {
    let mut machine = with_notes();
    let edit = |machine: &Machine, note: &str, text: &str| {
        machine.angelia_with_input(&["memory", "edit", note], text.as_bytes())
    };
    edit(&machine, "build", "Run cargo build.\n").assert_code(0).assert_stdout("wrote");
    machine.angelia(&["memory", "show", "build"]).assert_stdout("Run cargo build.");
    machine.angelia(&["memory", "undo"]).assert_code(0).assert_stdout("has its earlier text again");
    machine.angelia(&["memory", "show", "build"]).assert_stdout("Run make.");
    edit(&machine, "build", "Run make.").assert_stdout("nothing was changed");
    edit(&machine, "default/everywhere/new", "A new one.").assert_code(0);
    edit(&machine, "unknown", "x").assert_code(1).assert_stderr("needs its whole name");
    edit(&machine, "build", &"x".repeat(5000)).assert_code(1).assert_stderr("at most 4096");
    let path = machine.home().join("memory/default/everywhere/new.md");
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("A new one.\n", 0o600));
    machine.angelia(&["memory", "forget", "new"]).assert_code(0).assert_stdout("memory undo");
    assert!(!path.exists());
    machine.angelia(&["memory", "undo"]).assert_code(0);
    assert!(path.exists());
    machine.angelia(&["memory", "undo", "00000000"]).assert_code(1);

    // At a terminal the person's editor gets a copy.
    machine.set("EDITOR", "sed -i s/new/newer/");
    let script = "script -qec \"$ANGELIA memory edit new\" /dev/null";
    machine.shell(script).assert_code(0).assert_stdout("wrote default/everywhere/new");
    assert_eq!(fs::read_to_string(&path).unwrap(), "A newer one.\n");
    let left = fs::read_dir(machine.home()).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".note-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn an_agents_process_does_not_reach_the_notes() {
    let machine = with_notes();
    machine.configure("");
    let mark = bind(&machine, "00000000-0000-0000-0000-000000000000");
    let refused = run_as_agent(&machine, &mark, &["memory", "forget", "build"]);
    refused.assert_code(1).assert_stderr("an agent's process cannot use this command");
    assert!(machine.home().join("memory/default/app-12345678/build.md").exists());
}
