//! Rules of the bus and schedules that send to chats: a message becomes a turn whose answer goes to the
//! chat of the message (D40, D42), a failure costs nothing (D43), a platform alone is its home chat (D44), and
//! a printed line goes to a chat without its colours (D45).

use std::fs;

use super::{
    ChatPlatform, Person,
    lab::{PARROT, connected_machine, serve, wait_for_text},
};
use crate::machine::{Machine, until};

const RULES: &str = "callbacks:
- {match_type: ask, context: true}
- {match_type: sent, print_format: '{bold}{text}'}
";

/// A fake platform with a group and a home chat.
pub(crate) trait BusPlatform: ChatPlatform {
    /// Returns `CHAT#THREAD` of a thread in a group.
    fn thread_of_group(&self) -> String;

    /// Returns the bot's messages in a chat, or in a thread of one.
    fn texts_in(&self, chat: &str) -> Vec<String>;

    /// The chat that the home variable names.
    fn home(&self) -> String;

    /// The next message fails, and another attempt makes sense.
    fn fail_next_send(&self);
}

fn machine_with_rules(platform: &dyn BusPlatform) -> Machine {
    let mut machine = connected_machine(platform, PARROT, &[Person::Owner], "");
    let variable = format!("{}_HOME_CHANNEL", platform.name().to_ascii_uppercase());
    machine.set(&variable, platform.home());
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

#[track_caller]
fn wait_in(platform: &dyn BusPlatform, chat: &str, part: &str) -> String {
    until(&format!("somebody says `{part}` in {chat}: {:?}", platform.texts_in(chat)), || {
        platform.texts_in(chat).iter().any(|text| text.contains(part))
    });
    platform.texts_in(chat).into_iter().rev().find(|text| text.contains(part)).unwrap()
}

/// Rules of the bus send to chats, threads and the home chat.
pub(crate) fn check_bus_rules(platform: &dyn BusPlatform) {
    let machine = machine_with_rules(platform);
    let serving = serve(&machine);
    let (name, ops) = (platform.name(), platform.chat());
    let to_ops = format!("{name}:{ops}");
    // The first attempt fails, and nothing is lost.
    platform.fail_next_send();
    notify(&machine, "ask", &to_ops, "what about /help?");
    let reply = wait_in(platform, &ops, "what about /help?");
    assert!(reply.contains("Source: bus (endpoint: angelia)"), "{reply}");
    // Each answer goes to the chat of its own message.
    let team = platform.thread_of_group();
    notify(&machine, "ask", &format!("{name}:{team}"), "a question of the team");
    notify(&machine, "ask", &to_ops, "a question of ops");
    wait_in(platform, &team, "a question of the team");
    wait_in(platform, &ops, "a question of ops");
    assert!(platform.texts_in(&team).iter().all(|text| !text.contains("of ops")));
    assert!(platform.texts_in(&ops).iter().all(|text| !text.contains("of the team")));
    notify(&machine, "sent", &to_ops, "for the *channel* <b>");
    let line = wait_in(platform, &ops, "for the");
    assert_eq!(line, "for the *channel* <b>", "without colours, and as it was written");
    notify(&machine, "sent", name, "for the home");
    wait_in(platform, &platform.home(), "for the home");
    serving.stop();
}

/// A schedule sends its answers to a chat, also one that the chat itself has added.
pub(crate) fn check_schedules(platform: &dyn BusPlatform) {
    let machine = machine_with_rules(platform);
    let serving = serve(&machine);
    let channel = format!("{}:{}", platform.name(), platform.chat());
    let every = ["schedule", "add", "--every", "1s", "--to", &channel, "say **hello**"];
    machine.angelia(&every).assert_code(0);
    wait_for_text(platform, Person::Owner, "say hello");
    machine.angelia(&["schedule", "pause", "last"]).assert_code(0);
    platform.say(Person::Owner, "/schedule every 1s: say goodbye");
    wait_for_text(platform, Person::Owner, "Scheduled");
    wait_in(platform, &platform.chat(), "say goodbye");
    let other = machine.angelia(&["schedule", "add", "--every", "1h", "--to", "myspace:1", "x"]);
    other.assert_code(2).assert_stderr(platform.name());
    serving.stop();
}
