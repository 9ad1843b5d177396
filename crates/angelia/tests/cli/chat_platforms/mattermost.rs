//! Mattermost, on the fake server.

use angelia_testkit::mattermost_server::{
    BOT_NAME, MattermostFault, MattermostServer, TOKEN, id_of,
};
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

/// The choices of an approval, and their emojis.
const CHOICES: [(&str, &str); 3] =
    [("Allow once", "one"), ("Allow for session", "two"), ("Deny", "three")];

const fn name_of(person: Person) -> &'static str {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

impl ChatPlatform for MattermostServer {
    fn name(&self) -> &'static str {
        "mattermost"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("token", TOKEN.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        id_of(name_of(person))
    }

    fn chat(&self) -> String {
        self.direct_channel(OWNER)
    }

    fn say(&self, person: Person, text: &str) {
        self.say(name_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let posts = self.messages(&self.direct_channel(name_of(person))).into_iter();
        posts
            .map(|one| ShownMessage { buttons: one.choices(), id: one.id, text: one.text })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let (_, emoji) = CHOICES.iter().find(|(words, _)| *words == label).unwrap();
        self.react(name_of(person), &message.id, emoji);
    }

    fn press_answers(&self) -> Vec<String> {
        // They are messages.
        Vec::new()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.delivered()
    }

    fn previews(&self) -> usize {
        self.calls("PUT patch").len()
    }
}

impl BusPlatform for MattermostServer {
    fn thread_of_group(&self) -> String {
        let channel = self.add_channel("team", "O", &[OWNER, STRANGER]);
        let root = self.say_in(&channel, OWNER, &json!({"message": "a thread"}));
        format!("{channel}#{root}")
    }

    fn texts_in(&self, chat: &str) -> Vec<String> {
        let (channel, root) = chat.split_once('#').unwrap_or((chat, ""));
        let posts = self.messages(channel).into_iter();
        posts.filter(|one| one.root == root).map(|one| one.text).collect()
    }

    fn home(&self) -> String {
        self.direct_channel("home")
    }

    fn fail_next_send(&self) {
        self.fail_next("POST posts", MattermostFault::Refuse(500, "Internal Server Error"));
    }
}

/// Starts a server on which both people have a direct channel with the bot.
fn start() -> MattermostServer {
    let server = MattermostServer::start();
    server.direct_channel(OWNER);
    server.direct_channel(STRANGER);
    server
}

fn machine(server: &MattermostServer, more: &str) -> Machine {
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
fn a_mention_in_a_channel_opens_a_thread_which_is_a_session() {
    let server = start();
    let town = server.add_channel("town", "O", &[OWNER, STRANGER]);
    let other = server.add_channel("other", "P", &[OWNER, STRANGER]);
    let machine = machine(&server, &format!("    groups: [{town}]\n"));
    let serving = serve(&machine);
    let mention = |text: &str| json!({"message": format!("@{BOT_NAME} {text}")});
    server.say_in(&town, OWNER, &json!({"message": "just talk"}));
    server.say_in(&other, OWNER, &mention("elsewhere"));
    server.say_in(&town, STRANGER, &mention("from a stranger"));
    let asked = server.say_in(&town, OWNER, &mention("in the channel"));
    let texts = |channel: &str| -> Vec<String> {
        server.messages(channel).into_iter().map(|one| one.text).collect()
    };
    until("it answers", || texts(&town).iter().any(|text| text.contains("in the channel")));
    assert_eq!(server.messages(&town)[0].root, asked, "the answer stands in a thread");
    let mut more = mention("and more");
    more["root_id"] = asked.as_str().into();
    server.say_in(&town, OWNER, &more);
    until("it answers again", || texts(&town).iter().any(|text| text.contains("and more")));
    assert_eq!(machine.list("sessions").len(), 1, "the thread is one session");
    server.say_in(&town, OWNER, &mention("anew"));
    until("it answers anew", || texts(&town).iter().any(|text| text.contains("anew")));
    assert_eq!(machine.list("sessions").len(), 2, "another thread is another session");
    assert!(texts(&other).is_empty());
    let all = texts(&town).join("\n");
    assert!(!all.contains("just talk") && !all.contains("stranger"), "{all}");
    serving.stop();
}

#[test]
fn a_channel_is_set_up_and_checked_and_refusals_say_what_to_do() {
    let server = start();
    let mut machine = machine(&server, "");
    let checked = machine.angelia(&["channels", "check"]);
    checked.assert_code(0).assert_stdout(&format!("the bot is @{BOT_NAME}"));
    machine.angelia(&["channels", "remove", "mattermost"]).assert_code(0);
    // The walk through the set-up; the server is in the variable of Hermes.
    machine.set("MATTERMOST_URL", server.base_url());
    let adding = machine.start(&["channels", "add", "mattermost", "--secret-env", "CHAT_TOKEN"]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    until("it listens", || server.ready_sockets() > 0);
    server.say(STRANGER, "not the code");
    server.say(OWNER, &code);
    adding.wait().assert_code(0).assert_stdout("may talk and decide");
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert!(config.contains(&format!("allow: [{:?}]", id_of(OWNER))), "{config}");
    server.leave_teams();
    let lonely = machine.angelia(&["channels", "check", "mattermost"]);
    lonely.assert_code(1).assert_stdout("no team");
    machine.set("CHAT_TOKEN", "wrong");
    machine.angelia(&["channels", "check"]).assert_code(1).assert_stdout("Bot Accounts");
}

#[test]
fn an_answer_that_may_have_arrived_is_marked_and_a_break_loses_nothing() {
    let server = start();
    let machine = machine(&server, "");
    let serving = serve(&machine);
    server.fail_next("POST posts", MattermostFault::Cut);
    ChatPlatform::say(&server, Person::Owner, "perhaps twice");
    wait_for_text(&server, Person::Owner, "(may be a repeat)");
    server.cut_sockets();
    ChatPlatform::say(&server, Person::Owner, "over the break");
    wait_for_text(&server, Person::Owner, "over the break");
    serving.stop();
}
