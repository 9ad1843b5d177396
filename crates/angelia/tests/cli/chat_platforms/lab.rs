//! A machine whose daemon is connected to a platform, and the checks that need no real agent.

use serde_json::Value;

use super::{ChatPlatform, Person, ShownMessage};
use crate::machine::{Machine, RunningDaemon, until};

pub(crate) const PARROT: &str = "profiles:\n  default: {executor: parrot}\n";

/// A machine whose configuration has the channel; `more` are further lines of it.
pub(crate) fn connected_machine(
    platform: &dyn ChatPlatform,
    profile: &str,
    allow: &[Person],
    more: &str,
) -> Machine {
    let mut machine = Machine::with_shell();
    let connection = platform.connection_lines(&mut machine);
    let allow: Vec<String> =
        allow.iter().map(|one| format!("{:?}", platform.person(*one))).collect();
    machine.configure(&format!(
        "{profile}channels:
  {}:
{connection}    allow: [{}]
    approvers: [{:?}]
    cwd: {}
{more}",
        platform.name(),
        allow.join(", "),
        platform.person(Person::Owner),
        machine.work().display(),
    ));
    machine
}

/// Starts the daemon and waits until the channel is connected.
pub(crate) fn serve(machine: &Machine) -> RunningDaemon {
    let serving = machine.serve();
    until("the channel is connected", || {
        let status = machine.angelia(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        status["channels"][0]["state"] == "connected"
    });
    serving
}

pub(crate) fn texts(platform: &dyn ChatPlatform, person: Person) -> Vec<String> {
    platform.messages(person).into_iter().map(|message| message.text).collect()
}

#[track_caller]
pub(crate) fn wait_for_text(
    platform: &dyn ChatPlatform,
    person: Person,
    part: &str,
) -> ShownMessage {
    until(&format!("somebody says `{part}`: {:?}", texts(platform, person)), || {
        texts(platform, person).iter().any(|text| text.contains(part))
    });
    let messages = platform.messages(person);
    messages.into_iter().rev().find(|one| one.text.contains(part)).unwrap()
}

/// A stranger gets a code and nothing else, until the owner lets them in.
pub(crate) fn check_strangers(platform: &dyn ChatPlatform) {
    let machine = connected_machine(platform, PARROT, &[Person::Owner], "");
    let serving = serve(&machine);
    let name = platform.name();
    machine.angelia(&["status"]).assert_stdout(&format!("{name}: connected"));
    platform.say(Person::Stranger, "hello there");
    let told = wait_for_text(platform, Person::Stranger, "angelia access approve");
    let code: String = told.text.split("approve ").nth(1).unwrap().trim().to_owned();
    let code: String = code.chars().take_while(char::is_ascii_alphanumeric).collect();
    let owner = format!("{name}:{}", platform.person(Person::Owner));
    let stranger = format!("{name}:{}", platform.person(Person::Stranger));
    let listed = machine.angelia(&["access", "list"]);
    listed.assert_stdout(&code).assert_stdout(&owner).assert_stdout("may talk and decide");
    machine.angelia(&["access", "approve", "NOTACODE"]).assert_code(1);
    machine.angelia(&["access", "approve", &code]).assert_code(0).assert_stdout(&stranger);
    platform.say(Person::Stranger, "hello again");
    wait_for_text(platform, Person::Stranger, "hello again");
    // They may talk, and not decide or widen anything.
    platform.say(Person::Stranger, "/whoami");
    wait_for_text(platform, Person::Stranger, "You may talk.");
    platform.say(Person::Stranger, "/profile default");
    wait_for_text(platform, Person::Stranger, "Only the approvers");
    machine.angelia(&["access", "revoke", &stranger]).assert_code(0);
    let before = texts(platform, Person::Stranger).len();
    platform.say(Person::Stranger, "one more");
    until("a code again", || texts(platform, Person::Stranger).len() > before);
    assert!(texts(platform, Person::Stranger).last().unwrap().contains("angelia access approve"));
    let kept = machine.angelia(&["access", "revoke", &owner]);
    kept.assert_code(1).assert_stderr("config.yaml");
    let log = serving.stop();
    for (key, secret) in platform.secrets() {
        // An id is no secret.
        let is_shown = !key.ends_with("_id") && log.stderr.contains(&secret);
        assert!(!is_shown, "{key} is in the log: {}", log.stderr);
    }
}

/// An event has one turn, over repetitions, restarts and kills.
pub(crate) fn check_one_turn(platform: &dyn ChatPlatform) {
    let machine = connected_machine(platform, PARROT, &[Person::Owner], "");
    let serving = serve(&machine);
    platform.say(Person::Owner, "only once");
    wait_for_text(platform, Person::Owner, "only once");
    let before = platform.deliveries();
    platform.redeliver(100);
    until("it was delivered a hundred times", || platform.deliveries() >= before + 100);
    platform.say(Person::Owner, "/status");
    wait_for_text(platform, Person::Owner, "idle");
    assert_eq!(machine.list("turns").len(), 1);
    serving.stop().assert_code(0);
    let again = serve(&machine);
    let before = platform.deliveries();
    platform.redeliver(3);
    until("it was delivered again", || platform.deliveries() >= before + 3);
    assert_eq!(machine.list("turns").len(), 1);

    // Killed while the turn runs: it is reported as failed, and never run again.
    platform.say(Person::Owner, "!hang");
    until("it runs", || machine.list("turns").len() == 2);
    again.kill();
    let serving = serve(&machine);
    wait_for_text(platform, Person::Owner, "(failed:");
    platform.redeliver(2);
    platform.say(Person::Owner, "and now");
    wait_for_text(platform, Person::Owner, "and now");
    assert_eq!(machine.list("turns").len(), 3);
    serving.stop();
}
