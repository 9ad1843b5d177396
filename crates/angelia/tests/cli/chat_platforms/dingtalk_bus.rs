//! Rules of the bus that send to DingTalk: a message becomes a turn whose answer goes to the chat of the message (D40,
//! D42), a failure costs nothing (D43), a platform alone is its home chat (D44), and a printed line goes to a chat
//! without its colours (D45). Without a message of the person there is no session, so all of it goes by the
//! documented calls (D49).

use std::fs;

use angelia_testkit::dingtalk_server::{MessageWay, RobotFault};

use super::{
    dingtalk::{FakeDingTalk, GROUP, OWNER},
    lab::serve,
};
use crate::machine::Machine;

const HOME: &str = "cidHome==";

const RULES: &str = "callbacks:
- {match_type: ask, context: true}
- {match_type: sent, print_format: '{bold}{text}'}
";

fn notify(machine: &Machine, kind: &str, channel: &str, text: &str) {
    let words = ["notify", "--to", "angelia", "--from", "tester", "--type", kind];
    machine.angelia(&[&words[..], &["--channel", channel, text]].concat()).assert_code(0);
}

#[test]
fn d40_d42_d43_d44_d45_rules_of_the_bus_reach_chats() {
    let platform = FakeDingTalk::start(false);
    let server = &platform.server;
    let mut machine = platform.machine("");
    machine.set("DINGTALK_HOME_CHANNEL", HOME);
    fs::write(machine.home().join("bus-rules.yaml"), RULES).unwrap();
    // A message of the bus has no folder of its own.
    let config = machine.home().join("config.yaml");
    let folder = format!("executor: parrot, cwd: {}", machine.work().display());
    let changed = fs::read_to_string(&config).unwrap().replace("executor: parrot", &folder);
    fs::write(config, changed).unwrap();
    let serving = serve(&machine);
    let person = format!("user:{OWNER}");
    let to_person = format!("dingtalk:{person}");
    // The first attempt fails, and nothing is lost.
    let limit =
        RobotFault::Refuse(403, "Forbidden.AccessDenied.QpsLimitForApi".into(), "no".into());
    server.fail_next("/v1.0/robot/oToMessages/batchSend", limit);
    notify(&machine, "ask", &to_person, "what about /help?");
    let reply = platform.wait_for(&person, "what about /help?");
    assert!(reply.text.contains("Source: bus (endpoint: angelia)"), "{}", reply.text);
    assert_eq!(reply.way, MessageWay::Api);
    // Each answer goes to the chat of its own message.
    notify(&machine, "ask", &format!("dingtalk:{GROUP}"), "a question of the team");
    notify(&machine, "ask", &to_person, "a question of ops");
    platform.wait_for(GROUP, "a question of the team");
    platform.wait_for(&person, "a question of ops");
    assert!(server.messages(GROUP).iter().all(|one| !one.text.contains("of ops")));
    assert!(server.messages(&person).iter().all(|one| !one.text.contains("of the team")));
    notify(&machine, "sent", &to_person, "for the *channel* <b>");
    let line = platform.wait_for(&person, "for the");
    assert_eq!(line.text, "for the *channel* <b>", "without colours, and as it was written");
    notify(&machine, "sent", "dingtalk", "for the home");
    platform.wait_for(HOME, "for the home");
    serving.stop();
}
