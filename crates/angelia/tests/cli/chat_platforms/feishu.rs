//! Feishu, on the fake server of its open API and WebSocket.

use angelia_testkit::feishu_server::{APP_ID, APP_SECRET, ApiFault, FeishuServer, MessageKind};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    bus::{BusPlatform, check_bus_rules, check_schedules},
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::until;

const OWNER: &str = "ou_owner";
const STRANGER: &str = "ou_stranger";
const GROUP: &str = "oc_team";

const fn id_of(person: Person) -> &'static str {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

impl ChatPlatform for FeishuServer {
    fn name(&self) -> &'static str {
        "feishu"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("app_id", APP_ID.to_owned()), ("app_secret", APP_SECRET.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url().to_owned()
    }

    fn person(&self, person: Person) -> String {
        id_of(person).to_owned()
    }

    fn chat(&self) -> String {
        Self::direct_chat(OWNER)
    }

    fn say(&self, person: Person, text: &str) {
        self.say(id_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let messages = self.messages(&Self::direct_chat(id_of(person))).into_iter();
        messages
            .map(|one| ShownMessage {
                id: one.id,
                text: one.text,
                buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
            })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let messages = self.messages(&Self::direct_chat(OWNER));
        let pressed = messages.iter().find(|one| one.id == message.id).unwrap();
        self.press(id_of(person), pressed, label);
    }

    fn press_answers(&self) -> Vec<String> {
        let answers = self.acks().into_iter().filter_map(|ack| ack.answer);
        answers.filter_map(|one| Some(one["toast"]["content"].as_str()?.to_owned())).collect()
    }

    fn redeliver(&self, times: usize) {
        self.repeat(times);
    }

    fn deliveries(&self) -> usize {
        self.deliveries()
    }

    fn previews(&self) -> usize {
        self.calls("make_card").len() + self.calls("card_text").len()
    }
}

impl BusPlatform for FeishuServer {
    fn thread_of_group(&self) -> String {
        let talk = MessageKind::Group(GROUP, false);
        let root = self.write(OWNER, talk, "text", &json!({"text": "talk"}), &json!({}));
        format!("{GROUP}#{root}")
    }

    fn texts_in(&self, chat: &str) -> Vec<String> {
        match chat.split_once('#') {
            Some((chat, root)) => {
                let inside = self.messages(chat).into_iter();
                let inside =
                    inside.filter(|one| one.in_thread && one.reply_to.as_deref() == Some(root));
                inside.map(|one| one.text).collect()
            }
            None => self.messages(chat).into_iter().map(|one| one.text).collect(),
        }
    }

    fn home(&self) -> String {
        "oc_home".to_owned()
    }

    fn fail_next_send(&self) {
        self.fail_next("send", ApiFault::Garbage);
    }
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&FeishuServer::start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&FeishuServer::start());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&FeishuServer::start());
}

#[test]
fn rules_of_the_bus_reach_chats() {
    check_bus_rules(&FeishuServer::start());
}

#[test]
fn a_schedule_answers_in_a_chat() {
    check_schedules(&FeishuServer::start());
}

#[test]
fn groups_are_served_by_mention_and_threads_are_sessions() {
    let server = FeishuServer::start();
    let more = format!("    groups: [{GROUP}]\n");
    let machine = connected_machine(&server, PARROT, &[Person::Owner], &more);
    let serving = serve(&machine);
    let write =
        |person: &str, chat: &str, is_mention: bool, text: &str, extra: serde_json::Value| {
            let kind = MessageKind::Group(chat, is_mention);
            server.write(person, kind, "text", &json!({"text": text}), &extra)
        };
    let texts = |chat: &str| -> Vec<String> {
        server.messages(chat).into_iter().map(|one| one.text).collect()
    };
    let root = write(OWNER, GROUP, false, "just talk", json!({}));
    write(OWNER, "oc_elsewhere", true, "@_user_1 elsewhere", json!({}));
    write(STRANGER, GROUP, true, "@_user_1 let me in", json!({}));
    let asked = write(OWNER, GROUP, true, "@_user_1 in the group", json!({}));
    let thread = json!({"thread_id": "omt_1", "root_id": root});
    write(OWNER, GROUP, true, "@_user_1 in the thread", thread.clone());
    write(OWNER, GROUP, true, "@_user_1 /whoami", thread);
    until("it answers", || texts(GROUP).len() == 3);
    let find = |part: &str| {
        let found = server.messages(GROUP).into_iter().find(|one| one.text.contains(part));
        found.unwrap()
    };
    let answer = find("in the group");
    assert_eq!((answer.reply_to.as_deref(), answer.in_thread), (Some(&*asked), false));
    assert!(find("in the thread").in_thread && find("talk and decide").in_thread);
    assert!(texts("oc_elsewhere").is_empty());
    assert_eq!(machine.list("sessions").len(), 2, "the group and the thread");
    serving.stop();
}

#[test]
fn pictures_and_files_come_along() {
    let server = FeishuServer::start();
    let machine = connected_machine(&server, PARROT, &[Person::Owner], "");
    let serving = serve(&machine);
    server.add_file("img_1", "", b"\x89PNG\r\n\x1a\n");
    server.add_file("file_1", "notes.txt", b"some notes");
    let direct = MessageKind::Direct;
    server.write(OWNER, direct, "image", &json!({"image_key": "img_1"}), &json!({}));
    let content = json!({"file_key": "file_1", "file_name": "notes.txt"});
    server.write(OWNER, direct, "file", &content, &json!({}));
    server.say(OWNER, "look at these");
    let answer = wait_for_text(&server, Person::Owner, "look at these");
    assert!(answer.text.contains("notes.txt") && answer.text.contains("image"), "{}", answer.text);
    serving.stop();
}

#[test]
fn a_channel_is_checked_and_set_up_by_a_walk() {
    let server = FeishuServer::start();
    let mut machine = connected_machine(&server, PARROT, &[Person::Owner], "");
    let checked = machine.angelia(&["channels", "check"]);
    checked
        .assert_code(0)
        .assert_stdout("the bot is Fake Bot")
        .assert_stdout("card.action.trigger");
    server.change_app(|app| app["callback"]["callback_type"] = "webhook".into());
    let checked = machine.angelia(&["channels", "check", "feishu"]);
    checked.assert_code(1).assert_stdout("buttons do nothing");
    machine.angelia(&["doctor"]).assert_stdout("buttons do nothing");
    machine.set("CHAT_APP_SECRET", "wrong");
    let refused = machine.angelia(&["channels", "check", "feishu"]);
    refused.assert_code(1).assert_stdout("does not accept the app ID");
    machine.angelia(&["channels", "remove", "feishu"]).assert_code(0);
    machine.set("CHAT_APP_SECRET", APP_SECRET);
    let adding = machine.start(&[
        "channels",
        "add",
        "feishu",
        "--secret-env",
        "app_id=CHAT_APP_ID",
        "--secret-env",
        "app_secret=CHAT_APP_SECRET",
        "--base-url",
        server.base_url(),
    ]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    server.say(STRANGER, "not the code");
    server.say(OWNER, &code);
    adding.wait().assert_code(0).assert_stdout("(ou_owner) may talk and decide");
}

#[test]
fn the_variables_of_hermes_are_accepted() {
    let server = FeishuServer::start();
    let mut machine = connected_machine(&server, PARROT, &[Person::Owner], "");
    machine.configure(&format!(
        "{PARROT}channels:\n  feishu: {{base_url: {}, cwd: {}}}\n",
        server.base_url(),
        machine.work().display()
    ));
    machine.set("FEISHU_APP_ID", APP_ID);
    machine.set("FEISHU_APP_SECRET", APP_SECRET);
    machine.set("FEISHU_ALLOWED_USERS", format!("ou_other, {OWNER}"));
    machine.set("FEISHU_GROUP_POLICY", "allowlist");
    let serving = serve(&machine);
    let mention = MessageKind::Group("oc_any", true);
    server.write(STRANGER, mention, "text", &json!({"text": "@_user_1 me too"}), &json!({}));
    server.write(OWNER, mention, "text", &json!({"text": "@_user_1 in any group"}), &json!({}));
    until("it answers", || !server.messages("oc_any").is_empty());
    assert!(server.messages("oc_any")[0].text.contains("in any group"));
    serving.stop();
    machine.set("FEISHU_GROUP_POLICY", "disabled");
    let serving = serve(&machine);
    server.write(OWNER, mention, "text", &json!({"text": "@_user_1 once more"}), &json!({}));
    server.say(OWNER, "directly");
    wait_for_text(&server, Person::Owner, "directly");
    assert_eq!(server.messages("oc_any").len(), 1);
    serving.stop();
}
