//! A conversation in a chat, on Telegram: messages that wait for a turn or stop it, and a question with
//! buttons.

use std::fs;

use angelia_testkit::{
    model_server::{ModelServer, directive::tool_call_directive},
    real::RealClaude,
    telegram_server::TelegramServer,
};
use serde_json::json;

use super::{
    lab::{PARROT, serve},
    telegram::{OWNER, connected_machine, texts, wait_for_text},
};
use crate::machine::{Machine, until};

fn wait_for_turns(machine: &Machine, count: usize) {
    until("the turn runs", || machine.list("turns").len() == count);
}

fn answers(server: &TelegramServer, part: &str) -> usize {
    texts(server, OWNER).iter().filter(|text| text.contains(part)).count()
}

#[test]
fn a_message_stops_the_turn_before_it_where_the_chat_says_so() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "    busy: interrupt\n");
    let serving = serve(&machine);
    server.say(OWNER, "!words 1000 100");
    wait_for_turns(&machine, 1);
    server.say(OWNER, "something else");
    wait_for_text(&server, OWNER, "something else");
    wait_for_text(&server, OWNER, "(interrupted)");
    assert_eq!(answers(&server, "word1000"), 0);
    assert_eq!(machine.list("turns").len(), 2);
    serving.stop();
}

#[test]
fn messages_that_wait_are_answered_in_their_order() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "    busy: queue\n");
    let serving = serve(&machine);
    server.say(OWNER, "!tool Read 1500");
    wait_for_turns(&machine, 1);
    for word in ["second", "third", "fourth"] {
        server.say(OWNER, word);
    }
    wait_for_text(&server, OWNER, "You said: fourth");
    let shown = texts(&server, OWNER);
    let place = |answer: &str| shown.iter().position(|text| text.contains(answer));
    let places =
        ["only pretended", "You said: second", "You said: third", "You said: fourth"].map(place);
    assert!(places[0].is_some() && places.is_sorted(), "{shown:?}");
    assert_eq!(answers(&server, "(queued:"), 3);
    serving.stop();
}

/// A person who is asked about nothing gets the files that the agent writes for the chat, by a file tool and by
/// a command.
#[test]
fn real_files_for_the_chat_arrive() {
    let claude = RealClaude::newest().unwrap();
    let model = ModelServer::start().unwrap();
    for level in ["edit", "unattended"] {
        let server = TelegramServer::start();
        let machine = connected_machine(&server, "", "");
        let channels = fs::read_to_string(machine.home().join("config.yaml")).unwrap();
        let config = claude.config_lines(&machine.place, &model.base_url());
        let profile = format!("  default: {{executor: claude, permissions: {level}}}");
        machine
            .configure(&format!("executors:\n  claude:\n{config}{channels}profiles:\n{profile}\n"));
        let serving = serve(&machine);
        server.say(OWNER, "ECHO:hello");
        wait_for_text(&server, OWNER, "hello");
        let session = machine.list("sessions").remove(0)["id"].as_str().unwrap().to_owned();
        let folder = machine.home().join("sessions").join(session).join("output/chat");
        let report = folder.join("report.txt").display().to_string();
        let call = match level {
            "edit" => json!({"file_path": report, "content": "all is well"}),
            _ => json!({"command": format!("printf 'all is well' >notes && cp notes {report}")}),
        };
        let tool = if level == "edit" { "Write" } else { "Bash" };
        server.say(OWNER, &format!("{} ECHO:written", tool_call_directive(tool, &call)));
        let wanted = ("report.txt".to_owned(), b"all is well".to_vec());
        until(&format!("the file arrives: {level}"), || {
            server.messages(OWNER).iter().any(|one| one.file.as_ref() == Some(&wanted))
        });
        serving.stop();
    }
}

#[test]
fn a_question_is_answered_by_a_button() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "");
    let serving = serve(&machine);
    server.say(OWNER, "!question");
    until("it is asked with buttons", || {
        server.messages(OWNER).iter().any(|one| !one.buttons.is_empty())
    });
    let messages = server.messages(OWNER);
    let card = messages.iter().find(|one| !one.buttons.is_empty()).unwrap();
    let label = card.buttons[0].0.clone();
    server.press(OWNER, card, &label);
    until("the card says what was chosen", || {
        let now = server.messages(OWNER);
        let card = now.iter().find(|one| one.id == card.id).unwrap();
        card.buttons.is_empty() && card.text.contains(&label)
    });
    until("the turn goes on", || machine.list("turns")[0]["status"] == "completed");
    serving.stop();
}
