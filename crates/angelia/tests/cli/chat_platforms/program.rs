//! A channel whose adapter is a program of the owner.

use std::fs;

use angelia_testkit::{
    folder_platform::{FolderMessage, FolderPlatform},
    programs::workspace_root,
};
use serde_json::json;

use super::{
    ChatPlatform, Person, ShownMessage,
    bus::{BusPlatform, check_bus_rules, check_schedules},
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::{Machine, until};

const TOKEN: &str = "the-token-of-the-folder";

const fn id_of(person: Person) -> &'static str {
    match person {
        Person::Owner => "ada",
        Person::Stranger => "eve",
    }
}

impl ChatPlatform for FolderPlatform {
    fn name(&self) -> &'static str {
        "folder"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("token", TOKEN.to_owned())]
    }

    fn base_url(&self) -> String {
        String::new()
    }

    fn connection_lines(&self, machine: &mut Machine) -> String {
        machine.set("FOLDER_TOKEN", TOKEN);
        format!(
            "    command: {:?}\n    env: {{CHAT_TOKEN: {{env: FOLDER_TOKEN}}}}\n",
            self.command()
        )
    }

    fn person(&self, person: Person) -> String {
        id_of(person).to_owned()
    }

    fn chat(&self) -> String {
        "chat-ada".to_owned()
    }

    fn say(&self, person: Person, text: &str) {
        self.say(id_of(person), text);
    }

    fn messages(&self, person: Person) -> Vec<ShownMessage> {
        let chat = format!("chat-{}", id_of(person));
        let messages = self.messages().into_iter().filter(|one| one.chat == chat);
        let shown = |one: FolderMessage| ShownMessage {
            id: one.id,
            text: one.text,
            buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
        };
        messages.map(shown).collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        let known = self.messages().into_iter().find(|one| one.id == message.id);
        self.press(id_of(person), &known.unwrap(), label);
    }

    fn press_answers(&self) -> Vec<String> {
        let told = self.state()["told"].clone();
        told.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    fn redeliver(&self, times: usize) {
        self.act("again", times);
    }

    fn deliveries(&self) -> usize {
        self.count("delivered")
    }

    fn previews(&self) -> usize {
        self.count("previews")
    }
}

impl BusPlatform for FolderPlatform {
    fn thread_of_group(&self) -> String {
        "#room#7".to_owned()
    }

    fn texts_in(&self, chat: &str) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.filter(|one| one.chat == chat).map(|one| one.text).collect()
    }

    fn home(&self) -> String {
        "#home".to_owned()
    }

    fn fail_next_send(&self) {
        self.fail_next("limit");
    }
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&FolderPlatform::default());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&FolderPlatform::default());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&FolderPlatform::default());
}

#[test]
fn rules_of_the_bus_reach_chats() {
    check_bus_rules(&FolderPlatform::default());
}

#[test]
fn a_schedule_answers_in_a_chat() {
    check_schedules(&FolderPlatform::default());
}

#[test]
fn a_program_is_checked_shown_and_started_again() {
    let platform = FolderPlatform::default();
    let machine =
        connected_machine(&platform, PARROT, &[Person::Owner], "    groups: [\"#room\"]\n");
    let checked = machine.angelia(&["channels", "check"]);
    checked.assert_code(0).assert_stdout("folder: the folder is there");
    fs::write(platform.file("problem"), "").unwrap();
    machine.angelia(&["channels", "check", "folder"]).assert_code(1);
    fs::remove_file(platform.file("problem")).unwrap();
    machine.angelia(&["doctor"]).assert_stdout("speaks the protocol");
    machine.angelia(&["channels", "list"]).assert_stdout("folder: no daemon");
    let before = platform.starts().len();
    let serving = serve(&machine);
    machine.angelia(&["channels", "list"]).assert_stdout("folder: connected");
    assert_eq!(platform.starts().len(), before + 1);
    let mark = platform.starts()[before]["ANGELIA_AGENT"].as_str().unwrap().to_owned();
    assert!(mark.contains(":command-"), "it is the owner's program: {mark}");
    // It dies, and in a group nothing is lost meanwhile.
    platform.act("die", 1);
    platform.push_event(
        "ada",
        json!({
            "kind": "message", "message_id": "g1", "chat": "#room", "thread": "7",
            "text": "still there?", "addressed": true,
        }),
    );
    let is_answered = || {
        let messages = platform.messages();
        messages.iter().any(|one| one.chat == "#room#7" && one.text.contains("still there?"))
    };
    until("the group is answered", is_answered);
    assert_eq!(platform.starts().len(), before + 2);
    let sent_before = ChatPlatform::messages(&platform, Person::Owner).len();
    // It dies in the middle of an answer, and recognises the repetition.
    platform.fail_next("cut");
    ChatPlatform::say(&platform, Person::Owner, "only one answer");
    wait_for_text(&platform, Person::Owner, "only one answer");
    ChatPlatform::say(&platform, Person::Owner, "/status");
    wait_for_text(&platform, Person::Owner, "idle");
    assert_eq!(ChatPlatform::messages(&platform, Person::Owner).len(), sent_before + 2);
    let log = serving.stop();
    log.assert_stderr("the platform has gone away");
    assert!(!log.stderr.contains(TOKEN));
}

#[test]
fn what_cannot_be_a_channel_is_said() {
    let machine = Machine::with_shell();
    let refused = |config: &str, words: &str| {
        machine.configure(&format!("channels: {config}\n"));
        machine.angelia(&["config", "check"]).assert_code(78).assert_stderr(words);
    };
    refused("{telegram: {command: [x]}}", "give it another name");
    refused("{mine: {command: [x], token: {env: T}}}", "`token` belongs in `env`");
    refused("{mine: {command: [x], base_url: \"https://a.b\"}}", "`base_url` is an argument");
    refused("{mine: {allow: [1]}}", "a custom channel needs a `command`");
    refused("{telegram: {env: {A: {env: B}}}}", "which is for channels with a `command`");
    refused("{weixin: {allow: [1]}}", "is not there yet: personal Weixin");
    machine.configure("");
    machine.angelia(&["channels", "add", "weixin"]).assert_code(2).assert_stderr("not there yet");
    machine.configure("channels: {mine: {command: [no-such-program]}}\n");
    machine
        .angelia(&["channels", "check"])
        .assert_code(1)
        .assert_stdout("mine: there is no program no-such-program");
}

#[test]
fn the_example_adapter_is_a_chat() {
    let mut machine = Machine::with_shell();
    let chats = machine.work().join("chats");
    fs::create_dir_all(chats.join("ada")).unwrap();
    let script = workspace_root().join("examples/adapter-python/folder_chat.py");
    machine.set("PYTHONDONTWRITEBYTECODE", "1");
    machine.configure(&format!(
        "{PARROT}channels:\n  folder:\n    command: [python3, -B, {script:?}, {chats:?}]\n    \
         allow: [ada]\n    approvers: [ada]\n    cwd: {:?}\n",
        machine.work(),
    ));
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout("the folder is");
    let serving = serve(&machine);
    let write = |line: &str| {
        let path = chats.join("ada/in.txt");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{before}{line}\n")).unwrap();
    };
    let shown = || fs::read_to_string(chats.join("ada/out.md")).unwrap_or_default();
    write("hello **folder**");
    until("it answers", || shown().contains("hello **folder**"));
    write("!ask rm x");
    until("it asks", || shown().contains("[Deny]"));
    write("[Deny]");
    until("it is decided", || !shown().contains("[Deny]") && shown().contains("refused"));
    fs::write(machine.work().join("notes.txt"), "some notes").unwrap();
    write(&format!("file: {}", machine.work().join("notes.txt").display()));
    write("what is in it?");
    until("the file came along", || shown().contains("notes.txt"));
    serving.stop().assert_code(0);
    // It goes on where it was.
    let before = shown();
    let serving = serve(&machine);
    write("and again");
    until("it answers once more", || shown().contains("and again"));
    assert!(shown().starts_with(before.trim_end()), "{}", shown());
    serving.stop();
}
