//! How a conversation goes in a chat, on Telegram: a message that stops the turn before it, and a question with
//! buttons.

use angelia_testkit::telegram_server::TelegramServer;

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
