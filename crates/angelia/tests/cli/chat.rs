//! `angelia chat` in a real terminal: the prompt line, the commands, interrupts and approvals.

use std::fs;

use angelia_testkit::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::{
    machine::{Machine, mode, until},
    tmux::TmuxTerminal,
};

/// Waits until the prompt is behind this text.
#[track_caller]
fn wait_for_prompt(terminal: &TmuxTerminal<'_>, part: &str) -> String {
    let mut text = String::new();
    until(&format!("the prompt comes after {part:?}"), || {
        text = terminal.text();
        text.rfind(part).is_some_and(|place| text[place..].lines().last() == Some(">"))
    });
    text
}

/// Types a line at the prompt. It is there before Enter is pressed, so that the prompt before it is not taken for the
/// next one.
#[track_caller]
fn say(terminal: &TmuxTerminal<'_>, line: &str) {
    terminal.type_keys(&["-l", line]);
    let word = line.split_whitespace().last().unwrap();
    until(&format!("{line:?} is typed"), || {
        terminal.text().lines().last().is_some_and(|last| last.ends_with(word))
    });
    terminal.type_keys(&["Enter"]);
}

/// Replaces what differs from run to run.
fn without_times(text: &str) -> String {
    let shorten = |line: &str| match line.rfind(" · ") {
        Some(place) if line.ends_with(" s") => format!("{} · TIME", &line[..place]),
        _ => line.to_owned(),
    };
    text.lines().map(shorten).collect::<Vec<_>>().join("\n")
}

#[test]
fn turns_follow_each_other_in_one_session() {
    let machine = Machine::with_shell();
    machine.configure("profiles: {default: {executor: parrot}}\n");
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat -s talk");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    say(&terminal, "**one**\\");
    say(&terminal, "!tool Read 10");
    wait_for_prompt(&terminal, " out · ");
    say(&terminal, "!words 3");
    let text = wait_for_prompt(&terminal, "word1 word2 word3");
    insta::assert_snapshot!("chat", without_times(&text));
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
    let sessions = machine.list("sessions");
    assert_eq!((sessions.len(), &sessions[0]["name"]), (1, &"talk".into()));
    assert_eq!(machine.list("turns").len(), 2);
    let history = machine.home().join("chat_history");
    assert_eq!(mode(&history), 0o600);
    assert_eq!(fs::read_to_string(&history).unwrap(), "**one**\\\\\\n!tool Read 10\n!words 3\n");
    // The next chat has the history.
    let terminal = TmuxTerminal::open(&machine, 40, "$ANGELIA chat -s talk");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    terminal.type_keys(&["Up"]);
    terminal.wait_for("> !words 3");
    terminal.type_keys(&["Enter"]);
    wait_for_prompt(&terminal, "word1 word2 word3");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
}

#[test]
fn e17_a_person_compacts_a_conversation_of_our_own_loop() {
    let machine = Machine::with_shell();
    let server = ModelServer::start().unwrap();
    let config = json!({
        "providers": {"local": {"api": "chat", "base_url": server.openai_base_url(),
            "models": {"m": {"context": 4_000, "output": 100}}}},
        "profiles": {"default": {"executor": "native", "model": "local/m", "tools": "none"}},
    });
    machine.configure(&config.to_string());
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    for number in 1..=4 {
        let text = format!("answer {number}.");
        server.script([Reply::text(&text).with_tokens(2_000, 10)]);
        say(&terminal, &format!("question {number}? {}", "word ".repeat(40)));
        wait_for_prompt(&terminal, &text);
    }
    server.script([Reply::text("They asked four questions.")]);
    say(&terminal, "/compact");
    wait_for_prompt(&terminal, "the conversation was shortened from");
    server.script([Reply::text("the fifth answer")]);
    say(&terminal, "and now?");
    wait_for_prompt(&terminal, "the fifth answer");
    let requests = server.model_requests();
    let last = String::from_utf8_lossy(&requests.last().unwrap().body).into_owned();
    assert!(last.contains("They asked four questions."), "{last}");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
}

#[test]
fn ctrl_c_interrupts_the_turn_and_keeps_the_chat() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    say(&terminal, "!tool Wait");
    wait_for_prompt(&terminal, "✓ Wait");
    let answers = [("!words 2", "word1 word2"), ("!words 3", "word1 word2 word3")];
    for (keys, (words, answer)) in [&["C-c"][..], &["/stop", "Enter"]].into_iter().zip(answers) {
        say(&terminal, words);
        wait_for_prompt(&terminal, answer);
        say(&terminal, "!tool Read 60000");
        terminal.wait_for("Read pretended.txt … ");
        terminal.type_keys(keys);
        wait_for_prompt(&terminal, "interrupted");
    }
    // At the prompt it only drops what was typed.
    terminal.type_keys(&["-l", "half a li"]);
    terminal.wait_for("half a li");
    terminal.type_keys(&["C-c"]);
    wait_for_prompt(&terminal, "(Ctrl-D or /quit leaves)");
    say(&terminal, "/quit");
    terminal.wait_for_end(0);
}

#[test]
fn lines_typed_while_a_turn_runs_are_said_after_it() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    say(&terminal, "!tool Read 1500");
    terminal.wait_for("Read pretended.txt … ");
    for line in ["!words 3", "", "/usage"] {
        terminal.type_keys(&["-l", line]);
        terminal.type_keys(&["Enter"]);
    }
    let shown = wait_for_prompt(&terminal, "2 turns · ");
    let turn_end = shown.find("The tool Read was only pretended.").unwrap();
    let after: Vec<&str> = shown[turn_end..].lines().collect();
    assert!(after.contains(&"> !words 3") && after.contains(&"word1 word2 word3"), "{shown}");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
}

#[test]
fn approvals_and_questions_are_answered_in_a_chat() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    say(&terminal, "!ask rm everything");
    terminal.wait_for("[y]es [s]ession [a]lways [n]o [e]xplain [q]uit?");
    terminal.type_keys(&["y", "Enter"]);
    wait_for_prompt(&terminal, "You allowed");
    say(&terminal, "!question");
    terminal.wait_for("number or text");
    terminal.type_keys(&["2", "Enter"]);
    wait_for_prompt(&terminal, "You chose");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
}

#[test]
fn commands_change_the_conversation() {
    let machine = Machine::with_shell();
    machine.configure("profiles: {default: {executor: parrot}, other: {executor: parrot}}\n");
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat -s talk");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    say(&terminal, "/fork");
    wait_for_prompt(&terminal, "there is no session yet");
    say(&terminal, "/compact");
    wait_for_prompt(&terminal, "there is no session yet");
    say(&terminal, "!words 2");
    wait_for_prompt(&terminal, "word1 word2");
    say(&terminal, "/usage");
    wait_for_prompt(&terminal, "1 turn · ");
    say(&terminal, "/compact");
    wait_for_prompt(&terminal, "cannot be told to");
    say(&terminal, "/model macaw");
    wait_for_prompt(&terminal, " · default · macaw");
    say(&terminal, "/fork");
    wait_for_prompt(&terminal, " · default · macaw\n");
    say(&terminal, "/profile other");
    say(&terminal, "!words 4");
    wait_for_prompt(&terminal, "word1 word2 word3 word4");
    say(&terminal, "/profile");
    wait_for_prompt(&terminal, "\nother\n");
    say(&terminal, "/resume talk");
    wait_for_prompt(&terminal, " · default · macaw");
    say(&terminal, "/nonsense");
    wait_for_prompt(&terminal, "there is no command /nonsense");
    terminal.type_keys(&["-l", "/he"]);
    terminal.type_keys(&["Tab", "Enter"]);
    wait_for_prompt(&terminal, "d shows the diff of the last edit");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
    assert_eq!(machine.list("sessions").len(), 3, "the first, its fork, and one of the profile");
}

#[test]
fn files_are_added_by_their_path() {
    let machine = Machine::with_shell();
    fs::write(machine.work().join("picture.png"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    fs::write(machine.work().join("notes.txt"), "twelve").unwrap();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA chat");
    wait_for_prompt(&terminal, "Ctrl-D leaves");
    // File names are completed.
    terminal.type_keys(&["-l", "compare pict"]);
    terminal.type_keys(&["Tab"]);
    terminal.wait_for("compare picture.png");
    say(&terminal, " with @notes.txt");
    wait_for_prompt(&terminal, "twelve");
    terminal.type_keys(&["C-d"]);
    terminal.wait_for_end(0);
    let input = &machine.list("turns")[0]["input"];
    assert_eq!(input[1]["media_type"], "image/png", "{input}");
    assert!(input[0]["text"].as_str().unwrap().contains("<file path=\"notes.txt\">"), "{input}");
}

#[test]
fn a_chat_needs_a_terminal() {
    let machine = Machine::new();
    machine.angelia(&["chat"]).assert_code(2).assert_stderr("a chat needs a terminal");
}
