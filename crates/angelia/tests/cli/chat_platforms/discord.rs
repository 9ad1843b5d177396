//! Discord, on the fake gateway and REST API.

use angelia_testkit::discord_server::{
    BOT_ID, CHANNEL, DiscordServer, GatewayFault, RestFault, TOKEN,
};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::{Machine, until};

const OWNER: u64 = 7;
const STRANGER: u64 = 8;

const fn id_of(person: Person) -> u64 {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

impl ChatPlatform for DiscordServer {
    fn name(&self) -> &'static str {
        "discord"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("token", TOKEN.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        id_of(person).to_string()
    }

    fn chat(&self) -> String {
        Self::direct_channel(OWNER)
    }

    fn say(&self, person: Person, text: &str) {
        self.say(id_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let messages = self.messages(&Self::direct_channel(id_of(person))).into_iter();
        messages
            .map(|one| ShownMessage {
                id: one.id.to_string(),
                text: one.text,
                buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
            })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        // An old card is pressed by its buttons of then.
        let messages = self.messages(&Self::direct_channel(OWNER));
        let known = messages.into_iter().find(|one| one.id.to_string() == message.id);
        let mut pressed = known.unwrap();
        if pressed.buttons.is_empty() {
            pressed.buttons = self.sent_buttons(pressed.id);
        }
        self.press(id_of(person), &pressed, label);
    }

    fn press_answers(&self) -> Vec<String> {
        let calls = self.calls("POST callback").into_iter();
        let text = |call: &serde_json::Value| Some(call["data"]["content"].as_str()?.to_owned());
        calls.filter_map(|call| text(&call.fields)).collect()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.delivered()
    }

    fn previews(&self) -> usize {
        self.calls("PATCH message").len()
    }
}

fn machine(server: &DiscordServer, more: &str) -> Machine {
    connected_machine(server, PARROT, &[Person::Owner], more)
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&DiscordServer::start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    let server = DiscordServer::start();
    check_one_turn(&server);
    assert_eq!(server.frames(2).len(), 1, "every later process has resumed the session");
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&DiscordServer::start());
}

#[test]
fn a_channel_is_a_group_and_covers_its_threads() {
    let server = DiscordServer::start();
    let machine = machine(&server, &format!("    groups: [{CHANNEL}]\n    roles: [6000]\n"));
    let serving = serve(&machine);
    let registered = server.calls("PUT commands")[0].fields.clone();
    assert!(registered.as_array().unwrap().iter().any(|one| one["name"] == "stop"));
    let thread = server.add_thread(CHANNEL);
    let other = server.add_thread("4001");
    let mention = |text: &str| json!({"content": format!("<@{BOT_ID}> {text}"), "mentions": [{"id": BOT_ID}]});
    server.say_in(CHANNEL, OWNER, &json!({"content": "just talk"}));
    server.say_in(&other, OWNER, &mention("elsewhere"));
    server.say_in(CHANNEL, OWNER, &mention("in the channel"));
    let texts = |channel: &str| -> Vec<String> {
        server.messages(channel).into_iter().map(|one| one.text).collect()
    };
    until("it answers in the channel", || {
        texts(CHANNEL).iter().any(|text| text.contains("in the channel"))
    });
    assert!(server.messages(CHANNEL)[0].reply_to.is_some());
    // The role lets its people in, in servers.
    let asked = server.say_in(&thread, STRANGER, &mention("in the thread"));
    until("it answers in the thread", || {
        texts(&thread).iter().any(|text| text.contains("in the thread"))
    });
    assert_eq!(server.messages(&thread)[0].reply_to, Some(asked.to_string()));
    assert!(texts(&other).is_empty());
    assert!(texts(CHANNEL).iter().all(|text| !text.contains("just talk")));
    let sessions = machine.list("sessions");
    assert_eq!(sessions.len(), 2, "the thread has a session of its own: {sessions:?}");
    // A command from the menu, in direct messages.
    server.use_command(OWNER, "whoami", "");
    wait_for_text(&server, Person::Owner, "You may talk and decide.");
    assert_eq!(server.press_answers(), ["/whoami"]);
    serving.stop();
}

#[test]
fn a_message_that_was_deleted_while_it_waited_is_not_run() {
    let server = DiscordServer::start();
    let machine = machine(&server, "    busy: queue\n");
    let serving = serve(&machine);
    server.say(OWNER, "!hang");
    until("it runs", || machine.list("turns").len() == 1);
    let deleted = server.say(OWNER, "not wanted any more");
    wait_for_text(&server, Person::Owner, "(queued");
    server.delete(OWNER, deleted);
    until("it is withdrawn", || {
        let turns = machine.list("turns");
        turns.iter().any(|turn| turn.to_string().contains("interrupted"))
    });
    ChatPlatform::say(&server, Person::Owner, "/stop");
    wait_for_text(&server, Person::Owner, "Stopping");
    serving.stop();
}

#[test]
fn a_channel_is_checked_and_refusals_say_what_to_do() {
    let server = DiscordServer::start();
    let mut machine = machine(&server, "");
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout("the bot is fake_bot");
    server.forbid_reading();
    let refused = machine.angelia(&["channels", "check", "discord"]);
    refused.assert_code(1).assert_stdout("Message Content Intent");
    let serving = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    until("status says so", || {
        let status = machine.angelia(&["status"]).stdout;
        status.contains("discord: refused") && status.contains("Message Content Intent")
    });
    serving.stop().assert_code(0);
    machine.set("CHAT_TOKEN", "wrong.to.ken");
    machine.angelia(&["channels", "check"]).assert_code(1).assert_stdout("reset it");
}

#[test]
fn an_answer_that_may_have_arrived_comes_once_and_without_a_mark() {
    let server = DiscordServer::start();
    let machine = machine(&server, "");
    let serving = serve(&machine);
    server.fail_next("POST messages", RestFault::TooMany(0.2, false));
    server.fail_next("POST messages", RestFault::Cut);
    server.say(OWNER, "only *once*");
    wait_for_text(&server, Person::Owner, "once");
    until("it was tried three times", || server.calls("POST messages").len() >= 3);
    let texts = super::lab::texts(&server, Person::Owner);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(!texts[0].contains("repeat"));
    // The gateway breaks, and nothing that is written meanwhile is lost.
    server.fail_gateway(GatewayFault::Cut);
    server.say(OWNER, "over the break");
    wait_for_text(&server, Person::Owner, "over the break");
    serving.stop();
}
