//! Slack, on the fake of its server.

use angelia_testkit::{
    model_server::ModelServer,
    real::RealClaude,
    slack_server::{APP_TOKEN, BOT_TOKEN, BOT_USER, SlackMessage, SlackServer},
};

use super::{
    ChatPlatform, Person, ShownMessage,
    lab::{PARROT, check_one_turn, check_strangers, connected_machine, serve, wait_for_text},
    real::check_real_claude,
};
use crate::machine::until;

const OWNER: &str = "U7";
const STRANGER: &str = "U8";
const CHANNEL: &str = "C500";

const fn id_of(person: Person) -> &'static str {
    match person {
        Person::Owner => OWNER,
        Person::Stranger => STRANGER,
    }
}

impl ChatPlatform for SlackServer {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn secrets(&self) -> Vec<(&'static str, String)> {
        vec![("bot_token", BOT_TOKEN.to_owned()), ("app_token", APP_TOKEN.to_owned())]
    }

    fn base_url(&self) -> String {
        self.base_url()
    }

    fn person(&self, person: Person) -> String {
        id_of(person).to_owned()
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
                id: one.ts,
                text: one.text,
                buttons: one.buttons.into_iter().map(|(label, _)| label).collect(),
            })
            .collect()
    }

    fn press(&self, person: Person, message: &ShownMessage, label: &str) {
        // An old card is pressed by its buttons of then.
        let known = self.messages(&Self::direct_channel(OWNER)).into_iter();
        let mut pressed = known.into_iter().find(|one| one.ts == message.id).unwrap();
        if pressed.buttons.is_empty() {
            pressed.buttons = self.sent_buttons(&pressed.ts);
        }
        self.press(id_of(person), &pressed, label);
    }

    fn press_answers(&self) -> Vec<String> {
        let calls = self.calls("chat.postEphemeral").into_iter();
        calls.filter_map(|call| Some(call.fields["text"].as_str()?.to_owned())).collect()
    }

    fn redeliver(&self, times: usize) {
        self.redeliver(times);
    }

    fn deliveries(&self) -> usize {
        self.acknowledged()
    }

    fn previews(&self) -> usize {
        self.calls("chat.update").len() + self.calls("chat.appendStream").len()
    }
}

fn in_thread(server: &SlackServer, thread: &str) -> Vec<SlackMessage> {
    let messages = server.messages(CHANNEL).into_iter();
    messages.filter(|one| one.thread.as_deref() == Some(thread)).collect()
}

#[track_caller]
fn wait_in_thread(server: &SlackServer, thread: &str, part: &str) -> SlackMessage {
    until(&format!("somebody says `{part}`: {:?}", server.messages(CHANNEL)), || {
        in_thread(server, thread).iter().any(|one| one.text.contains(part))
    });
    in_thread(server, thread).into_iter().rev().find(|one| one.text.contains(part)).unwrap()
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    check_strangers(&SlackServer::start());
}

#[test]
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    check_one_turn(&SlackServer::start());
}

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    check_real_claude(&SlackServer::start());
}

#[test]
fn a_mention_opens_a_thread_which_is_the_session() {
    let server = SlackServer::start();
    let more = format!("    groups: [{CHANNEL}]\n");
    let machine = connected_machine(&server, PARROT, &[Person::Owner], &more);
    let serving = serve(&machine);
    let mention = |text: &str| format!("<@{BOT_USER}> {text}");
    // Words for others, other channels and strangers are ignored.
    server.write_in_channel(OWNER, CHANNEL, None, "just talk");
    server.write_in_channel(OWNER, "C999", None, &mention("elsewhere"));
    server.write_in_channel(STRANGER, CHANNEL, None, &mention("let me in"));
    let first = server.write_in_channel(OWNER, CHANNEL, None, &mention("one thing"));
    wait_in_thread(&server, &first, "one thing");
    let second = server.write_in_channel(OWNER, CHANNEL, None, &mention("another thing"));
    wait_in_thread(&server, &second, "another thing");
    server.write_in_channel(OWNER, CHANNEL, Some(&first), &mention("more of it"));
    wait_in_thread(&server, &first, "more of it");
    assert_eq!(machine.list("sessions").len(), 2, "a thread is a session");
    assert_eq!(machine.list("turns").len(), 3, "a mention arrives twice, and is one turn");
    assert!(server.messages("C999").is_empty());
    assert!(server.messages(CHANNEL).iter().all(|one| one.thread.is_some()));
    // Slack keeps slashes for itself in threads.
    server.write_in_channel(OWNER, CHANNEL, Some(&first), &mention("!stop"));
    wait_in_thread(&server, &first, "Nothing is running here");
    // Direct messages are one session, answered at the top.
    server.say(OWNER, "hello directly");
    wait_for_text(&server, Person::Owner, "hello directly");
    server.say(OWNER, "!hang");
    until("it runs", || machine.list("turns").len() == 5);
    server.say(OWNER, "!stop");
    wait_for_text(&server, Person::Owner, "(interrupted)");
    assert_eq!(machine.list("sessions").len(), 3);
    server.command(OWNER, &SlackServer::direct_channel(OWNER), "/whoami", "");
    wait_for_text(&server, Person::Owner, "talk and decide");
    let direct = server.messages(&SlackServer::direct_channel(OWNER));
    assert!(direct.iter().all(|one| one.thread.is_none()), "{direct:?}");
    serving.stop();
}

#[test]
fn real_claude_streams_its_answer_into_a_thread() {
    let server = SlackServer::start();
    let claude = RealClaude::newest().unwrap();
    let model = ModelServer::start().unwrap();
    let more = format!("    groups: [{CHANNEL}]\n");
    let machine = connected_machine(&server, "", &[Person::Owner], &more);
    let channels = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    machine.configure(&format!(
        "executors:\n  claude:\n{}{channels}profiles:\n  default: {{executor: claude}}\n",
        claude.config_lines(&machine.place, &model.base_url()),
    ));
    let serving = serve(&machine);
    let thread =
        server.write_in_channel(OWNER, CHANNEL, None, &format!("<@{BOT_USER}> WORDS:40:150"));
    until("it is a stream that grows", || !server.calls("chat.appendStream").is_empty());
    until("the stream has ended", || !server.calls("chat.stopStream").is_empty());
    until("the answer is complete", || {
        let messages = in_thread(&server, &thread);
        messages.len() == 1 && messages[0].text.split_whitespace().count() >= 40
    });
    assert!(!in_thread(&server, &thread)[0].is_streaming);
    assert!(server.calls("chat.postMessage").is_empty(), "the stream is the answer");
    serving.stop();
}

#[test]
fn a_connection_that_slack_renews_loses_nothing() {
    let server = SlackServer::start();
    let machine = connected_machine(&server, PARROT, &[Person::Owner], "");
    let serving = serve(&machine);
    server.disconnect("refresh_requested");
    server.say(OWNER, "over the change");
    wait_for_text(&server, Person::Owner, "over the change");
    until("it has changed", || server.sockets_opened() == 2);
    server.cut_sockets();
    server.say(OWNER, "over the break");
    wait_for_text(&server, Person::Owner, "over the break");
    assert_eq!(machine.list("turns").len(), 2);
    serving.stop();
}

#[test]
fn the_set_up_is_checked_and_walks_to_an_owner() {
    let server = SlackServer::start();
    let mut machine = connected_machine(&server, PARROT, &[Person::Owner], "");
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout("the bot is @fakebot");
    server.set_scopes("chat:write,im:history");
    let lacking = machine.angelia(&["channels", "check", "slack"]);
    lacking.assert_code(1).assert_stdout("app_mentions:read").assert_stdout("files:write");
    machine.angelia(&["doctor"]).assert_stdout("app_mentions:read");
    machine.set("CHAT_APP_TOKEN", "xapp-wrong");
    machine.angelia(&["channels", "check"]).assert_code(1).assert_stdout("app_token");
    machine.set("CHAT_APP_TOKEN", APP_TOKEN);
    machine.angelia(&["channels", "remove", "slack"]).assert_code(0);
    let base_url = server.base_url();
    let adding = machine.start(&[
        "channels",
        "add",
        "slack",
        "--secret-env",
        "bot_token=CHAT_BOT_TOKEN",
        "--secret-env",
        "app_token=CHAT_APP_TOKEN",
        "--base-url",
        &base_url,
    ]);
    until("it shows a code", || adding.stderr().contains("this code"));
    let code = adding.stderr().split("message: ").nth(1).unwrap().trim().to_owned();
    server.say(STRANGER, "not the code");
    server.say(OWNER, &code);
    adding.wait().assert_code(0).assert_stdout("U7 may talk and decide");
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert!(config.contains("bot_token: {env: CHAT_BOT_TOKEN}"), "{config}");
    assert!(config.contains("approvers: [\"U7\"]"), "{config}");
}
