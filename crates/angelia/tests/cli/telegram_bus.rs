//! Rules of the bus and schedules that send to Telegram: a message becomes a turn whose answer goes to the
//! chat of the message (D40, D42), a failure costs nothing (D43), a platform alone is its home chat (D44), and
//! a printed line goes to a chat without its colours (D45).

use std::fs;

use angelia_testkit::telegram_server::{BotFault, TelegramServer};

use crate::{
    machine::{Machine, until},
    telegram::{PARROT, connected_machine, serve, texts, wait_for_text},
};

const OPS: i64 = 7;
const TEAM: i64 = -100_500;
const HOME: i64 = 9;

const RULES: &str = "callbacks:
- {match_type: ask, context: true}
- {match_type: sent, print_format: '{bold}{text}'}
";

fn machine_with_rules(server: &TelegramServer) -> Machine {
    let mut machine = connected_machine(server, PARROT, "");
    machine.set("TELEGRAM_HOME_CHANNEL", HOME.to_string());
    fs::write(machine.home().join("bus-rules.yaml"), RULES).unwrap();
    // A message of the bus has no folder of its own.
    let config = machine.home().join("config.yaml");
    let folder = format!("executor: parrot, cwd: {}", machine.work().display());
    let changed = fs::read_to_string(&config).unwrap().replace("executor: parrot", &folder);
    fs::write(config, changed).unwrap();
    machine
}

fn notify(machine: &Machine, kind: &str, channel: &str, text: &str) {
    let sent = machine.angelia(&[
        "notify",
        "--to",
        "angelia",
        "--from",
        "tester",
        "--type",
        kind,
        "--channel",
        channel,
        text,
    ]);
    sent.assert_code(0);
}

#[test]
fn rules_of_the_bus_reach_chats() {
    let server = TelegramServer::start();
    let machine = machine_with_rules(&server);
    let serving = serve(&machine);
    // The first attempt fails, and nothing is lost.
    server.fail_next("sendMessage", BotFault::Refuse(500, "Internal Server Error".to_owned()));
    notify(&machine, "ask", "telegram:7", "what about /help?");
    let reply = wait_for_text(&server, OPS, "what about /help?");
    assert!(reply.text.contains("Source: bus (endpoint: angelia)"), "{}", reply.text);
    // Each answer goes to the chat of its own message.
    notify(&machine, "ask", "telegram:-100500#3", "a question of the team");
    notify(&machine, "ask", "telegram:7", "a question of ops");
    let of_team = wait_for_text(&server, TEAM, "a question of the team");
    assert_eq!(of_team.thread, Some(3));
    wait_for_text(&server, OPS, "a question of ops");
    assert!(texts(&server, TEAM).iter().all(|text| !text.contains("of ops")));
    assert!(texts(&server, OPS).iter().all(|text| !text.contains("of the team")));
    notify(&machine, "sent", "telegram:7", "for the *channel* <b>");
    let line = wait_for_text(&server, OPS, "for the");
    assert_eq!(line.text, "for the *channel* <b>", "without colours, and as it was written");
    notify(&machine, "sent", "telegram", "for the home");
    wait_for_text(&server, HOME, "for the home");
    serving.stop();
}

#[test]
fn a_schedule_answers_in_a_chat() {
    let server = TelegramServer::start();
    let machine = machine_with_rules(&server);
    let serving = serve(&machine);
    let added = machine.angelia(&[
        "schedule",
        "add",
        "--every",
        "1s",
        "--to",
        "telegram:7",
        "say **hello**",
    ]);
    added.assert_code(0);
    wait_for_text(&server, OPS, "say hello");
    machine.angelia(&["schedule", "pause", "last"]).assert_code(0);
    // One that the chat itself has added goes to the chat.
    server.say(OPS, "/schedule every 1s: say goodbye");
    wait_for_text(&server, OPS, "Scheduled");
    until("it runs", || texts(&server, OPS).iter().any(|text| text.contains("say goodbye")));
    let other = machine.angelia(&["schedule", "add", "--every", "1h", "--to", "myspace:1", "x"]);
    other.assert_code(2).assert_stderr("telegram");
    serving.stop();
}
