//! DingTalk, on the fake server of its API and its stream.

use std::time::Duration;

use angelia_testkit::dingtalk_server::{
    CLIENT_ID, CLIENT_SECRET, DingTalkServer, MessageWay, RobotMessage, TEMPLATE,
};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    lab::{self, PARROT, check_one_turn, check_strangers, serve, texts, wait_for_text},
    real::check_real_claude,
};
use crate::machine::{Machine, until};

pub(crate) const OWNER: &str = "ada";
const STRANGER: &str = "eve";
pub(crate) const GROUP: &str = "cidGroup==";

/// The fake, with or without a template for cards.
pub(crate) struct FakeDingTalk {
    pub(crate) server: DingTalkServer,
    has_cards: bool,
}

impl FakeDingTalk {
    pub(crate) fn start(has_cards: bool) -> Self {
        Self { server: DingTalkServer::start(), has_cards }
    }

    pub(crate) fn machine(&self, more: &str) -> Machine {
        lab::connected_machine(self, PARROT, &[Person::Owner], more)
    }

    /// Waits for a message in a chat of the server.
    #[track_caller]
    pub(crate) fn wait_for(&self, chat: &str, part: &str) -> RobotMessage {
        let find =
            || self.server.messages(chat).into_iter().rev().find(|one| one.text.contains(part));
        until(&format!("`{part}` is said in {chat}"), || find().is_some());
        find().unwrap()
    }
}

const fn staff(person: Person) -> &'static str {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

fn chat_of(person: Person) -> String {
    format!("user:{}", staff(person))
}

impl ChatPlatform for FakeDingTalk {
    fn name(&self) -> &'static str {
        "dingtalk"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        let mut secrets =
            vec![("client_id", CLIENT_ID.to_owned()), ("client_secret", CLIENT_SECRET.to_owned())];
        if self.has_cards {
            secrets.push(("card_template_id", TEMPLATE.to_owned()));
        }
        secrets
    }

    fn base_url(&self) -> String {
        self.server.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        staff(person).to_owned()
    }

    fn chat(&self) -> String {
        chat_of(Person::Owner)
    }

    fn say(&self, person: Person, text: &str) {
        self.server.say(staff(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let messages = self.server.messages(&chat_of(person)).into_iter();
        messages
            .map(|one| ShownMessage {
                id: one.id,
                text: one.text,
                buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
            })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let messages = self.server.messages(&chat_of(Person::Owner));
        let card = messages.into_iter().find(|one| one.id == message.id).unwrap();
        // An old card is pressed by its buttons of then.
        let (_, value) = card.first_buttons.iter().find(|(text, _)| text == label).unwrap();
        self.server.press(staff(person), &card.id, value);
    }

    fn press_answers(&self) -> Vec<String> {
        // They are messages.
        Vec::new()
    }

    fn redeliver(&self, times: usize) {
        self.server.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.server.deliveries()
    }

    fn previews(&self) -> usize {
        let calls = self.server.calls("/v1.0/card/streaming");
        calls.iter().filter(|call| call.fields["isFinalize"] == false).count()
    }
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&FakeDingTalk::start(false));
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&FakeDingTalk::start(false));
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&FakeDingTalk::start(true));
}

#[test]
fn a_group_is_a_session_and_is_answered_there() {
    let platform = FakeDingTalk::start(false);
    let machine = platform.machine(&format!("    groups: [{GROUP:?}]\n"));
    let serving = serve(&machine);
    platform.server.say_in_group(OWNER, "cidOther==", "elsewhere");
    platform.server.say_in_group(STRANGER, GROUP, "let me in");
    platform.server.say_in_group(OWNER, GROUP, "in the group");
    platform.wait_for(GROUP, "in the group");
    platform.server.say_in_group(OWNER, GROUP, "/status");
    platform.wait_for(GROUP, "idle");
    assert!(platform.server.messages("cidOther==").is_empty());
    let said = platform.server.messages(GROUP);
    assert!(said.iter().all(|one| !one.text.contains("let me in")), "{said:?}");
    assert!(said.iter().all(|one| one.way == MessageWay::SessionWebhook), "{said:?}");
    // A file comes along.
    platform.server.send_file(OWNER, "notes.txt", b"some notes");
    platform.say(Person::Owner, "read it");
    let answer = wait_for_text(&platform, Person::Owner, "read it");
    assert!(answer.text.contains("notes.txt"), "{}", answer.text);
    serving.stop();
}

/// D49 with the daemon: the way to answer is known after a restart, and given up before its end.
#[test]
fn d49_the_session_webhook_is_used_over_restarts_and_until_its_deadline() {
    let platform = FakeDingTalk::start(false);
    let machine = platform.machine("");
    let serving = serve(&machine);
    platform.say(Person::Owner, "!hang");
    until("it runs", || machine.list("turns").len() == 1);
    serving.kill();
    let serving = serve(&machine);
    let failed = platform.wait_for("user:ada", "(failed:");
    assert_eq!(failed.way, MessageWay::SessionWebhook, "of the message before the restart");
    platform.server.set_session_lifetime(Duration::from_mins(4));
    platform.say(Person::Owner, "a short session");
    let answer = platform.wait_for("user:ada", "a short session");
    assert_eq!(answer.way, MessageWay::Api, "it would end in less than five minutes");
    platform.server.set_session_lifetime(Duration::from_mins(90));
    platform.say(Person::Owner, "a long session");
    assert_eq!(platform.wait_for("user:ada", "a long session").way, MessageWay::SessionWebhook);
    platform.server.close_sessions();
    // Somebody else begins the next turn: the last session is used, and is gone.
    machine.angelia(&["schedule", "add", "--every", "1s", "--to", "dingtalk:user:ada", "say so"]);
    assert_eq!(platform.wait_for("user:ada", "say so").way, MessageWay::Api);
    serving.stop();
}

#[test]
fn buttons_without_a_template_write_the_commands() {
    let platform = FakeDingTalk::start(false);
    let machine = platform.machine("");
    let serving = serve(&machine);
    platform.say(Person::Owner, "!ask make it so");
    until("it asks", || {
        platform.server.messages("user:ada").iter().any(|one| one.buttons.len() >= 3)
    });
    let messages = platform.server.messages("user:ada");
    let card = messages.iter().find(|one| !one.buttons.is_empty()).unwrap();
    let words = |label: &str| {
        let (_, url) = card.buttons.iter().find(|(text, _)| text == label).unwrap();
        let words = url.strip_prefix("dtmd://dingtalkclient/sendMessage?content=").unwrap();
        words.replace("%2F", "/").replace("%20", " ")
    };
    assert!(words("Deny").starts_with("/deny "), "{card:?}");
    assert!(words("Allow for session").ends_with(" session"), "{card:?}");
    platform.say(Person::Owner, &words("Allow once"));
    wait_for_text(&platform, Person::Owner, "Allowed once by Person ada (dingtalk)");
    serving.stop();
}

#[test]
fn a_channel_is_checked_and_set_up_by_a_code() {
    let platform = FakeDingTalk::start(false);
    let mut machine = platform.machine("");
    let fine = machine.angelia(&["channels", "check"]);
    fine.assert_code(0).assert_stdout(CLIENT_ID).assert_stdout("a stream can be opened");
    platform.server.deny("/v1.0/robot/oToMessages/batchSend", "qyapi_robot_sendmsg");
    let denied = machine.angelia(&["channels", "check", "dingtalk"]);
    denied.assert_code(1).assert_stdout("qyapi_robot_sendmsg");
    machine.angelia(&["doctor"]).assert_stdout("qyapi_robot_sendmsg");
    machine.set("CHAT_CLIENT_SECRET", "wrong");
    let refused = machine.angelia(&["channels", "check", "dingtalk"]);
    refused.assert_code(1).assert_stdout("does not accept the client id and secret");
    machine.angelia(&["channels", "remove", "dingtalk"]).assert_code(0);
    machine.set("CHAT_CLIENT_SECRET", CLIENT_SECRET);
    let adding = machine.start(&[
        "channels",
        "add",
        "dingtalk",
        "--secret-env",
        "client_id=CHAT_CLIENT_ID",
        "--secret-env",
        "client_secret=CHAT_CLIENT_SECRET",
        "--base-url",
        platform.server.base_url(),
    ]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    platform.server.push_message(
        OWNER,
        None,
        &json!({"msgtype": "text", "text": {"content": format!(" {code} ")}}),
    );
    adding.wait().assert_code(0).assert_stdout("Person ada (ada) may talk and decide");
    assert!(texts(&platform, Person::Owner).is_empty());
}
