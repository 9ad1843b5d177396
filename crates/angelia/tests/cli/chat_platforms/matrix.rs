//! Matrix, on the fake homeserver.

use angelia_testkit::matrix_server::{BOT, MatrixFault, MatrixServer, ShownEvent, TOKEN};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    bus::{BusPlatform, check_bus_rules, check_schedules},
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::{Machine, until};

const OWNER: &str = "ada";
const STRANGER: &str = "bob";

const fn name_of(person: Person) -> &'static str {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

/// Returns the lines behind the bot's emojis.
fn labels(message: &ShownEvent) -> Vec<String> {
    message.choices().into_iter().map(|(_, label)| label).collect()
}

impl ChatPlatform for MatrixServer {
    fn name(&self) -> &'static str {
        "matrix"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("token", TOKEN.to_owned()), ("user_id", BOT.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        Self::person(name_of(person))
    }

    fn chat(&self) -> String {
        self.direct_room(OWNER)
    }

    fn say(&self, person: Person, text: &str) {
        self.say(name_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let messages = self.messages(&self.direct_room(name_of(person))).into_iter();
        let messages = messages.filter(|one| one.kind != "m.notice");
        messages
            .map(|one| ShownMessage { buttons: labels(&one), id: one.id, text: one.text })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let room = self.direct_room(OWNER);
        // An old card is pressed by its choices of then.
        let card = self.first_version(&room, &message.id).unwrap();
        let choices = card.choices();
        let (key, _) = choices.iter().find(|(_, words)| words == label).unwrap();
        self.react(&room, name_of(person), &message.id, key);
    }

    fn press_answers(&self) -> Vec<String> {
        let messages = self.messages(&self.direct_room(OWNER)).into_iter();
        messages.filter(|one| one.kind == "m.notice").map(|one| one.text).collect()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.delivered()
    }

    fn previews(&self) -> usize {
        let sent = self.calls("PUT send").into_iter();
        sent.filter(|call| call.fields["m.new_content"].is_object()).count()
    }
}

impl BusPlatform for MatrixServer {
    fn thread_of_group(&self) -> String {
        let room = self.add_room("team", &[OWNER, STRANGER]);
        let first = self.say_in(&room, OWNER, json!({"msgtype": "m.text", "body": "a thread"}));
        format!("{room}#{first}")
    }

    fn texts_in(&self, chat: &str) -> Vec<String> {
        let (room, thread) = chat.split_once('#').unwrap_or((chat, ""));
        let messages = self.messages(room).into_iter();
        let is_there = |one: &ShownEvent| one.thread.as_deref().unwrap_or_default() == thread;
        messages.filter(is_there).map(|one| one.text).collect()
    }

    fn home(&self) -> String {
        self.direct_room("home")
    }

    fn fail_next_send(&self) {
        let fault = MatrixFault::Refuse(500, "M_UNKNOWN", "Internal server error");
        self.fail_next("PUT send", fault);
    }
}

/// Starts a homeserver on which both people have a room with the bot.
fn start() -> MatrixServer {
    let server = MatrixServer::start();
    server.direct_room(OWNER);
    server.direct_room(STRANGER);
    server
}

fn machine(server: &MatrixServer, more: &str) -> Machine {
    connected_machine(server, PARROT, &[Person::Owner], more)
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&start());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&start());
}

#[test]
fn rules_of_the_bus_reach_chats() {
    check_bus_rules(&start());
}

#[test]
fn a_schedule_answers_in_a_chat() {
    check_schedules(&start());
}

#[test]
fn a_room_is_a_group_its_threads_are_sessions_and_an_encrypted_room_is_told_so() {
    let server = start();
    let team = server.add_room("team", &[OWNER, STRANGER]);
    let other = server.add_room("other", &[OWNER, STRANGER]);
    let machine = machine(&server, &format!("    groups: [{team:?}]\n"));
    let serving = serve(&machine);
    let mention = |text: &str| {
        json!({
            "msgtype": "m.text", "body": format!("Angelia Bot: {text}"),
            "m.mentions": {"user_ids": [BOT]},
        })
    };
    let talk = json!({"msgtype": "m.text", "body": "just talk"});
    let first = server.say_in(&team, OWNER, talk);
    server.say_in(&other, OWNER, mention("elsewhere"));
    server.say_in(&team, STRANGER, mention("from a stranger"));
    let asked = server.say_in(&team, OWNER, mention("in the room"));
    let texts = |room: &str| -> Vec<String> {
        server.messages(room).into_iter().map(|one| one.text).collect()
    };
    until("it answers in the room", || {
        texts(&team).iter().any(|text| text.contains("in the room"))
    });
    assert_eq!(server.messages(&team)[0].reply_to.as_deref(), Some(asked.as_str()));
    let mut in_thread = mention("in the thread");
    in_thread["m.relates_to"] = json!({
        "rel_type": "m.thread", "event_id": first, "is_falling_back": true,
        "m.in_reply_to": {"event_id": first},
    });
    server.say_in(&team, OWNER, in_thread);
    until("it answers in the thread", || {
        let messages = server.messages(&team);
        let mut inside = messages.iter().filter(|one| one.thread.as_deref() == Some(&*first));
        inside.any(|one| one.text.contains("in the thread"))
    });
    assert!(texts(&other).is_empty());
    let all = texts(&team).join("\n");
    assert!(!all.contains("just talk") && !all.contains("stranger"), "{all}");
    assert_eq!(machine.list("sessions").len(), 2, "the thread has a session of its own");

    // The bot follows an invitation; what it cannot read, it says.
    let secret = server.invite("secret", OWNER);
    server.encrypt(&secret, OWNER);
    server.push(&secret, OWNER, "m.room.encrypted", json!({"ciphertext": "abc"}));
    until("it says that it cannot read", || {
        texts(&secret).iter().any(|text| text.contains("I cannot read encrypted messages"))
    });
    serving.stop();
}

#[test]
fn a_channel_is_set_up_and_checked_and_refusals_say_what_to_do() {
    let server = start();
    let mut machine = machine(&server, "");
    let checked = machine.angelia(&["channels", "check"]);
    checked.assert_code(0).assert_stdout(&format!("the bot is {BOT}"));
    machine.angelia(&["channels", "remove", "matrix"]).assert_code(0);
    // The walk through the set-up; the server is in the variable of Hermes.
    machine.set("MATRIX_HOMESERVER", server.base_url());
    let adding = machine.start(&["channels", "add", "matrix", "--secret-env", "token=CHAT_TOKEN"]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    server.wait_for_first_poll();
    server.say(STRANGER, "not the code");
    server.say(OWNER, &code);
    adding.wait().assert_code(0).assert_stdout("Ada (@ada:test.example) may talk and decide");
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert!(config.contains("allow: [\"@ada:test.example\"]"), "{config}");
    assert!(config.contains(&format!("base_url: {}", server.base_url())), "{config}");
    machine.angelia(&["config", "check"]).assert_code(0);

    for person in [OWNER, STRANGER] {
        server.encrypt(&server.direct_room(person), person);
    }
    let unreadable = machine.angelia(&["channels", "check", "matrix"]);
    unreadable.assert_code(1).assert_stdout("rooms without encryption");
    machine.set("CHAT_TOKEN", "wrong");
    machine.angelia(&["channels", "check"]).assert_code(1).assert_stdout("log the bot in again");
    machine.configure("channels: {matrix: {token: {env: CHAT_TOKEN}, allow: [\"@ada\"]}}\n");
    machine.angelia(&["config", "check"]).assert_code(78).assert_stderr("an id");
}

#[test]
fn an_answer_that_may_have_arrived_comes_once_and_without_a_mark() {
    let server = start();
    let machine = machine(&server, "");
    let serving = serve(&machine);
    server.fail_next("PUT send", MatrixFault::TooMany(200));
    server.fail_next("PUT send", MatrixFault::Cut);
    ChatPlatform::say(&server, Person::Owner, "only *once*");
    wait_for_text(&server, Person::Owner, "once");
    until("it was tried three times", || server.calls("PUT send").len() >= 3);
    let texts = super::lab::texts(&server, Person::Owner);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(!texts[0].contains("repeat"));
    server.fail_next("GET sync", MatrixFault::Garbage);
    ChatPlatform::say(&server, Person::Owner, "over the break");
    wait_for_text(&server, Person::Owner, "over the break");
    serving.stop();
}
