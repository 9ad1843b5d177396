//! Telegram, on the fake server of the Bot API.

use angelia_testkit::telegram_server::{BotFault, BotMessage, TOKEN, TelegramServer};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    bus::{BusPlatform, check_bus_rules, check_schedules},
    lab::{self, PARROT, check_one_turn, check_strangers, serve},
    real::check_real_claude,
};
use crate::machine::{Machine, until};

pub(crate) const OWNER: i64 = 7;
const STRANGER: i64 = 8;
const GROUP: i64 = -100_500;

const fn id_of(person: Person) -> i64 {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

impl ChatPlatform for TelegramServer {
    fn name(&self) -> &'static str {
        "telegram"
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
        OWNER.to_string()
    }

    fn say(&self, person: Person, text: &str) {
        self.say(id_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let messages = self.messages(id_of(person)).into_iter();
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
        let known = self.messages(OWNER).into_iter().find(|one| one.id.to_string() == message.id);
        let mut pressed = known.unwrap();
        if pressed.buttons.is_empty() {
            pressed.buttons = self.sent_buttons(pressed.id);
        }
        self.press(id_of(person), &pressed, label);
    }

    fn press_answers(&self) -> Vec<String> {
        let calls = self.calls("answerCallbackQuery").into_iter();
        calls.filter_map(|call| Some(call.fields["text"].as_str()?.to_owned())).collect()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.delivered()
    }

    fn previews(&self) -> usize {
        self.calls("sendMessageDraft").len()
    }
}

impl BusPlatform for TelegramServer {
    fn thread_of_group(&self) -> String {
        format!("{GROUP}#3")
    }

    fn texts_in(&self, chat: &str) -> Vec<String> {
        let (chat, thread) = chat.split_once('#').unwrap_or((chat, ""));
        let messages = self.messages(chat.parse().unwrap()).into_iter();
        messages.filter(|one| one.thread == thread.parse().ok()).map(|one| one.text).collect()
    }

    fn home(&self) -> String {
        "9".to_owned()
    }

    fn fail_next_send(&self) {
        let fault = BotFault::Refuse(500, "Internal Server Error".to_owned());
        self.fail_next("sendMessage", fault);
    }
}

pub(super) fn connected_machine(server: &TelegramServer, profile: &str, more: &str) -> Machine {
    lab::connected_machine(server, profile, &[Person::Owner], more)
}

pub(super) fn texts(server: &TelegramServer, chat: i64) -> Vec<String> {
    server.messages(chat).into_iter().map(|message| message.text).collect()
}

#[track_caller]
pub(super) fn wait_for_text(server: &TelegramServer, chat: i64, part: &str) -> BotMessage {
    until(&format!("somebody says `{part}`: {:?}", texts(server, chat)), || {
        texts(server, chat).iter().any(|text| text.contains(part))
    });
    let found = server.messages(chat).into_iter().rev().find(|one| one.text.contains(part));
    found.unwrap()
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&TelegramServer::start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&TelegramServer::start());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&TelegramServer::start());
}

#[test]
fn rules_of_the_bus_reach_chats() {
    check_bus_rules(&TelegramServer::start());
}

#[test]
fn a_schedule_answers_in_a_chat() {
    check_schedules(&TelegramServer::start());
}

#[test]
fn a_chat_is_a_session_with_commands() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "    groups: [-100500]\n");
    let serving = serve(&machine);
    assert!(!server.calls("setMyCommands").is_empty(), "the menu is filled");
    server.say(OWNER, "hello parrot");
    wait_for_text(&server, OWNER, "hello parrot");
    for (command, answer) in [
        ("/help", "/resume"),
        ("/status", "idle"),
        ("/whoami", "talk and decide"),
        ("/sessions", "this one"),
        ("/usage", "1 turns"),
        ("/yolo", "do not know the command /yolo"),
        ("/cwd ..", "is not a folder below"),
        ("/fork", "Continuing in the copy"),
        ("/new", "begins a new session"),
        ("/stop", "Nothing is running here"),
        ("/approve abcd1234", "There is no approval"),
        ("/schedule every 1h: say hello", "Scheduled"),
        ("/schedule", "say hello"),
    ] {
        server.say(OWNER, command);
        wait_for_text(&server, OWNER, answer);
    }
    // In a group only what is for the bot counts, and only there where the owner says so.
    let in_group = |chat: i64, text: &str, is_mention: bool| {
        let entities = if is_mention {
            json!([{"type": "mention", "offset": 0, "length": 9}])
        } else {
            json!([])
        };
        server.push(json!({"message": {
            "message_id": server.message_id(), "date": 1_700_000_000, "text": text,
            "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"}, "entities": entities,
            "chat": {"id": chat, "type": "supergroup", "title": "team"},
            "is_topic_message": true, "message_thread_id": 3,
        }}));
    };
    in_group(GROUP, "just talk", false);
    in_group(-1, "@fake_bot elsewhere", true);
    in_group(GROUP, "@fake_bot in the group", true);
    let answer = wait_for_text(&server, GROUP, "in the group");
    assert_eq!(answer.thread, Some(3), "it answers in the topic");
    assert!(answer.reply_to.is_some());
    assert!(texts(&server, -1).is_empty());
    assert!(texts(&server, GROUP).iter().all(|text| !text.contains("just talk")));
    serving.stop();
}

#[test]
fn a_channel_is_checked_and_a_broken_one_does_not_keep_the_daemon_from_working() {
    let server = TelegramServer::start();
    let mut machine = connected_machine(&server, PARROT, "");
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout("the bot is @fake_bot");
    machine.angelia(&["channels", "list"]).assert_stdout("telegram").assert_stdout("no daemon");
    machine.angelia(&["doctor"]).assert_stdout("@fake_bot");
    machine.set("CHAT_TOKEN", "1:wrong");
    let refused = machine.angelia(&["channels", "check", "telegram"]);
    refused.assert_code(1).assert_stdout("@BotFather");
    let serving = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    until("status says so", || machine.angelia(&["status"]).stdout.contains("telegram: refused"));
    serving.stop().assert_code(0);
    machine.angelia(&["channels", "remove", "telegram"]).assert_code(0);
    machine.angelia(&["channels", "check"]).assert_code(1);
    // The walk through the set-up: the owner proves who they are by a code.
    machine.set("CHAT_TOKEN", TOKEN);
    let adding = machine.start(&[
        "channels",
        "add",
        "telegram",
        "--secret-env",
        "CHAT_TOKEN",
        "--base-url",
        server.base_url(),
    ]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    server.say(STRANGER, "not the code");
    server.say(OWNER, &code);
    adding.wait().assert_code(0).assert_stdout("Person7 (7) may talk and decide");
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert!(config.contains("allow: [\"7\"]") && config.contains("approvers: [\"7\"]"), "{config}");
    machine.angelia(&["channels", "add", "myspace"]).assert_code(2).assert_stderr("myspace");
    machine.configure("channels: {myspace: {}}\n");
    machine
        .angelia(&["config", "check"])
        .assert_code(78)
        .assert_stderr("is not a platform of this version");
}

#[test]
fn a_platform_that_fails_gets_its_answer_later_and_plain_where_it_must_be() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "");
    let serving = serve(&machine);
    server.fail_next("sendMessage", BotFault::TooMany(1));
    server.fail_next(
        "sendMessage",
        BotFault::Refuse(400, "Bad Request: can't parse entities".to_owned()),
    );
    server.say(OWNER, "some **words**");
    wait_for_text(&server, OWNER, "words");
    assert_eq!(texts(&server, OWNER).len(), 1, "{:?}", texts(&server, OWNER));
    // An answer that may have arrived is marked.
    server.fail_next("sendMessage", BotFault::Cut);
    server.say(OWNER, "perhaps twice");
    wait_for_text(&server, OWNER, "(may be a repeat)");
    serving.stop();
}
