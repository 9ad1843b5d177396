//! WeCom, on the fake server of its long connection.

use angelia_testkit::wecom_server::{BOT_ID, SECRET, WecomMessage, WecomServer, visible_text};

use super::{
    ChatPlatform, Person, ShownMessage,
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::until;

const GROUP: &str = "wrGroup";

const fn id_of(person: Person) -> &'static str {
    match person {
        Person::Owner => "ada",
        Person::Stranger => "eve",
    }
}

impl ChatPlatform for WecomServer {
    fn name(&self) -> &'static str {
        "wecom"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("bot_id", BOT_ID.to_owned()), ("secret", SECRET.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        id_of(person).to_owned()
    }

    fn chat(&self) -> String {
        id_of(Person::Owner).to_owned()
    }

    fn say(&self, person: Person, text: &str) {
        self.say(id_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let shown = |one: WecomMessage| ShownMessage {
            // A card is no Markdown.
            text: if one.first_buttons.is_empty() { visible_text(&one.text) } else { one.text },
            id: one.id,
            buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
        };
        self.messages(id_of(person)).into_iter().map(shown).collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let known = self.messages(id_of(Person::Owner)).into_iter();
        let card = known.filter(|one| !one.id.is_empty()).find(|one| one.id == message.id).unwrap();
        let (_, key) = card.first_buttons.iter().find(|(known, _)| known == label).unwrap();
        self.press(id_of(person), &card, key);
    }

    fn press_answers(&self) -> Vec<String> {
        // They are messages.
        Vec::new()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.deliveries()
    }

    fn previews(&self) -> usize {
        let calls = self.calls("aibot_respond_msg");
        calls.iter().filter(|call| call.body["stream"]["finish"] == false).count()
    }
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&WecomServer::start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&WecomServer::start());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&WecomServer::start());
}

#[test]
fn groups_work_and_a_check_does_not_take_the_connection_away() {
    let server = WecomServer::start();
    let mut machine =
        connected_machine(&server, PARROT, &[Person::Owner], "    groups: [wrGroup]\n");
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout(BOT_ID);
    let before = server.subscriptions();
    let serving = serve(&machine);
    let checked = machine.angelia(&["channels", "check", "wecom"]);
    checked.assert_code(0).assert_stdout("the daemon has its only connection: connected");
    machine.angelia(&["doctor"]).assert_stdout("its only connection");
    assert_eq!(server.subscriptions(), before + 1);
    server.say_in_group("ada", GROUP, "in the group");
    until("the group is answered", || {
        let messages = server.messages(GROUP);
        messages.iter().any(|one| visible_text(&one.text).contains("in the group"))
    });
    server.say_in_group("ada", "wrOther", "elsewhere");
    // An approval that is decided at the terminal is told: its card cannot change without a press.
    ChatPlatform::say(&server, Person::Owner, "!ask rm x");
    until("it asks", || server.messages("ada").iter().any(|one| !one.buttons.is_empty()));
    let approvals = machine.angelia(&["approvals", "list", "--json"]);
    let id = approvals.stdout.split("\"id\":\"").nth(1).unwrap()[..36].to_owned();
    machine.angelia(&["approvals", "deny", &id]).assert_code(0);
    wait_for_text(&server, Person::Owner, "Denied by");
    assert!(server.messages("wrOther").is_empty());
    // Another program takes the connection: the daemon says so, and works on.
    server.displace();
    until("status says so", || machine.angelia(&["status"]).stdout.contains("another program"));
    assert_eq!(server.subscriptions(), before + 1);
    machine.angelia(&["run", "hello"]).assert_code(0);
    serving.stop().assert_code(0);
    machine.set("CHAT_SECRET", "wrong");
    machine.angelia(&["channels", "check"]).assert_code(1).assert_stdout("check the bot's id");
}
