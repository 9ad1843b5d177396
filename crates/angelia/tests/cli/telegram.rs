//! A daemon that people talk to in Telegram, on the fake server of the Bot API.

use std::{thread, time::Duration};

use angelia_testkit::{
    model_server::{ModelServer, directive::tool_call_directive},
    real::RealClaude,
    telegram_server::{BotFault, BotMessage, TOKEN, TelegramServer},
};
use serde_json::{Value, json};

use crate::machine::{Machine, RunningDaemon, until};

const OWNER: i64 = 7;
const STRANGER: i64 = 8;
const GROUP: i64 = -100_500;

/// A machine whose configuration has the channel; `more` are further lines of it.
pub(crate) fn connected_machine(server: &TelegramServer, profile: &str, more: &str) -> Machine {
    let mut machine = Machine::with_shell();
    machine.set("BOT_TOKEN", TOKEN);
    machine.configure(&format!(
        "{profile}channels:
  telegram:
    token: {{env: BOT_TOKEN}}
    base_url: {}
    allow: [{OWNER}]
    approvers: [{OWNER}]
    cwd: {}
{more}",
        server.base_url(),
        machine.work().display(),
    ));
    machine
}

pub(crate) const PARROT: &str = "profiles:\n  default: {executor: parrot}\n";

pub(crate) fn texts(server: &TelegramServer, chat: i64) -> Vec<String> {
    server.messages(chat).into_iter().map(|message| message.text).collect()
}

#[track_caller]
pub(crate) fn wait_for_text(server: &TelegramServer, chat: i64, part: &str) -> BotMessage {
    until(&format!("somebody says `{part}`: {:?}", texts(server, chat)), || {
        texts(server, chat).iter().any(|text| text.contains(part))
    });
    let found = server.messages(chat).into_iter().rev().find(|one| one.text.contains(part));
    found.unwrap()
}

fn wait_until_connected(machine: &Machine) {
    until("the channel is connected", || {
        let status = machine.angelia(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        status["channels"][0]["state"] == "connected"
    });
}

pub(crate) fn serve(machine: &Machine) -> RunningDaemon {
    let serving = machine.serve();
    wait_until_connected(machine);
    serving
}

#[test]
fn strangers_get_a_code_and_nothing_else_until_the_owner_lets_them_in() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "");
    let serving = serve(&machine);
    machine.angelia(&["status"]).assert_stdout("telegram: connected");
    server.say(STRANGER, "hello there");
    let told = wait_for_text(&server, STRANGER, "angelia access approve");
    let code = told.text.split("approve ").nth(1).unwrap().trim().to_owned();
    let listed = machine.angelia(&["access", "list"]);
    listed.assert_stdout(&code).assert_stdout("telegram:7").assert_stdout("may talk and decide");
    machine.angelia(&["access", "approve", "NOTACODE"]).assert_code(1);
    let approved = machine.angelia(&["access", "approve", &code]);
    approved.assert_code(0).assert_stdout("Person8").assert_stdout("telegram:8");
    server.say(STRANGER, "hello again");
    wait_for_text(&server, STRANGER, "hello again");
    // They may talk, and not decide or widen anything.
    server.say(STRANGER, "/whoami");
    wait_for_text(&server, STRANGER, "You may talk.");
    server.say(STRANGER, "/profile default");
    wait_for_text(&server, STRANGER, "Only the approvers");
    machine.angelia(&["access", "revoke", "telegram:8"]).assert_code(0);
    let before = texts(&server, STRANGER).len();
    server.say(STRANGER, "one more");
    until("a code again", || texts(&server, STRANGER).len() > before);
    assert!(texts(&server, STRANGER).last().unwrap().contains("angelia access approve"));
    machine
        .angelia(&["access", "revoke", "telegram:7"])
        .assert_code(1)
        .assert_stderr("config.yaml");
    let log = serving.stop();
    assert!(!log.stderr.contains(TOKEN) && !log.stderr.contains("TEST-token"), "{}", log.stderr);
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
        ("/fork", "Going on in the copy"),
        ("/new", "begins a new session"),
        ("/stop", "Nothing runs here"),
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
fn an_event_has_one_turn_over_repetitions_restarts_and_kills() {
    let server = TelegramServer::start();
    let machine = connected_machine(&server, PARROT, "");
    let serving = serve(&machine);
    server.say(OWNER, "only once");
    server.repeat(100);
    wait_for_text(&server, OWNER, "only once");
    until("it was delivered a hundred times", || server.calls("getUpdates").len() > 100);
    assert_eq!(machine.list("turns").len(), 1);
    let again = serve_again(&machine, serving);
    server.repeat(3);
    until("it was delivered again", || server.calls("getUpdates").len() > 104);
    assert_eq!(machine.list("turns").len(), 1);

    // Killed while the turn runs: it is reported as failed, and never run again.
    server.say(OWNER, "!hang");
    until("it runs", || machine.list("turns").len() == 2);
    again.kill();
    let serving = serve(&machine);
    wait_for_text(&server, OWNER, "(failed:");
    server.repeat(2);
    server.say(OWNER, "and now");
    wait_for_text(&server, OWNER, "and now");
    assert_eq!(machine.list("turns").len(), 3);
    serving.stop();
}

fn serve_again(machine: &Machine, serving: RunningDaemon) -> RunningDaemon {
    serving.stop().assert_code(0);
    serve(machine)
}

#[test]
fn a_channel_is_checked_and_a_broken_one_does_not_keep_the_daemon_from_working() {
    let server = TelegramServer::start();
    let mut machine = connected_machine(&server, PARROT, "");
    machine.angelia(&["channels", "check"]).assert_code(0).assert_stdout("the bot is @fake_bot");
    machine.angelia(&["channels", "list"]).assert_stdout("telegram").assert_stdout("no daemon");
    machine.angelia(&["doctor"]).assert_stdout("@fake_bot");
    machine.set("BOT_TOKEN", "1:wrong");
    let refused = machine.angelia(&["channels", "check", "telegram"]);
    refused.assert_code(1).assert_stdout("@BotFather");
    let serving = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    until("status says so", || machine.angelia(&["status"]).stdout.contains("telegram: refused"));
    serving.stop().assert_code(0);
    machine.angelia(&["channels", "remove", "telegram"]).assert_code(0);
    machine.angelia(&["channels", "check"]).assert_code(1);
    // The walk through the set-up: the owner proves who they are by a code.
    machine.set("BOT_TOKEN", TOKEN);
    let adding = machine.start(&[
        "channels",
        "add",
        "telegram",
        "--secret-env",
        "BOT_TOKEN",
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
    machine.angelia(&["channels", "add", "discord"]).assert_code(2).assert_stderr("discord");
    machine.configure("channels: {discord: {}}\n");
    machine
        .angelia(&["config", "check"])
        .assert_code(78)
        .assert_stderr("is no platform of this version");
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

#[test]
fn real_claude_works_in_a_chat_with_buttons() {
    let claude = RealClaude::newest().unwrap();
    let model = ModelServer::start().unwrap();
    let server = TelegramServer::start();
    let place = Machine::with_shell();
    let mut machine = place;
    machine.set("BOT_TOKEN", TOKEN);
    machine.configure(&format!(
        "executors:
  claude:
{}channels:
  telegram:
    token: {{env: BOT_TOKEN}}
    base_url: {}
    allow: [{OWNER}, {STRANGER}]
    approvers: [{OWNER}]
    cwd: {}
profiles:
  default: {{executor: claude}}
",
        claude.config_lines(&machine.place, &model.base_url()),
        server.base_url(),
        machine.work().display(),
    ));
    let serving = serve(&machine);
    // A tool with an approval by button.
    let write = tool_call_directive(
        "Bash",
        &json!({"command": "touch made-by-chat", "description": "make a file"}),
    );
    server.say(OWNER, &format!("{write} ECHO:it is **done**"));
    let card = wait_for_text(&server, OWNER, "touch made-by-chat");
    let labels: Vec<&str> = card.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(&labels[..3], ["Allow once", "Allow for session", "Deny"]);
    // A stranger's press changes nothing, and is answered.
    server.press(STRANGER, &card, "Allow once");
    until("it is answered", || {
        let answers = server.calls("answerCallbackQuery");
        answers.iter().any(|call| call.fields["text"].as_str().unwrap().contains("approvers"))
    });
    assert!(!machine.work().join("made-by-chat").exists());
    server.press(OWNER, &card, "Allow once");
    wait_for_text(&server, OWNER, "it is done");
    until("the card says who decided", || {
        let messages = server.messages(OWNER);
        let card = messages.iter().find(|one| one.id == card.id).unwrap();
        card.buttons.is_empty() && card.text.contains("Allowed once by Person7 (telegram)")
    });
    assert!(machine.work().join("made-by-chat").exists());
    server.press(OWNER, &card, "Deny");
    until("a late press is told who decided", || {
        let answers = server.calls("answerCallbackQuery");
        answers.iter().any(|call| call.fields["text"].as_str().unwrap().contains("Already decided"))
    });

    // An answer is shown while it is written, and arrives once.
    let before = texts(&server, OWNER).len();
    server.say(OWNER, "WORDS:40:120");
    until("it is shown while it is written", || !server.calls("sendMessageDraft").is_empty());
    until("it arrives", || texts(&server, OWNER).len() == before + 1);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(texts(&server, OWNER).len(), before + 1, "{:?}", texts(&server, OWNER));

    // /stop ends a turn.
    server.say(OWNER, "WORDS:2000:100");
    until("it runs", || {
        model.model_requests().iter().any(|one| one.json().to_string().contains("WORDS:2000"))
    });
    server.say(OWNER, "/stop");
    wait_for_text(&server, OWNER, "(interrupted)");

    // A hundred deliveries of one event are one request to the model.
    let count = || {
        let requests = model.model_requests();
        requests.iter().filter(|one| one.json().to_string().contains("ECHO:counted")).count()
    };
    server.say(OWNER, "ECHO:counted");
    server.repeat(100);
    wait_for_text(&server, OWNER, "counted");
    let polls = server.calls("getUpdates").len();
    until("it was delivered a hundred times", || {
        server.calls("getUpdates").len() > polls + 60 || polls > 100
    });
    assert_eq!(count(), 1);

    // A restart in the middle: the turn is reported, and the conversation goes on.
    server.say(OWNER, "WORDS:3000:100");
    until("it runs", || {
        model.model_requests().iter().any(|one| one.json().to_string().contains("WORDS:3000"))
    });
    serving.kill();
    let serving = serve(&machine);
    wait_for_text(&server, OWNER, "(failed:");
    server.say(OWNER, "ECHO:still here");
    wait_for_text(&server, OWNER, "still here");
    let sessions = machine.list("sessions");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    serving.stop();
}
