//! The checks of a platform with the real Claude Code on a scripted model.

use std::{thread, time::Duration};

use angelia_testkit::{
    model_server::{ModelServer, directive::tool_call_directive},
    real::RealClaude,
};
use serde_json::json;

use super::{
    ChatPlatform, Person,
    lab::{connected_machine, serve, texts, wait_for_text},
};
use crate::machine::{Machine, until};

/// A tool with an approval by button, an answer that streams and arrives once, `/stop`, a hundred deliveries of
/// one event, and a restart in the middle.
pub(crate) fn check_real_claude(platform: &dyn ChatPlatform) {
    let claude = RealClaude::newest().unwrap();
    let model = ModelServer::start().unwrap();
    let everybody = [Person::Owner, Person::Stranger];
    let machine = connected_machine(platform, "", &everybody, "");
    let config = machine.home().join("config.yaml");
    let channels = std::fs::read_to_string(&config).unwrap();
    machine.configure(&format!(
        "executors:\n  claude:\n{}{channels}profiles:\n  default: {{executor: claude}}\n",
        claude.config_lines(&machine.place, &model.base_url()),
    ));
    let serving = serve(&machine);
    check_approval(platform, &machine);

    // An answer is shown while it is written, and arrives once.
    let before = texts(platform, Person::Owner).len();
    platform.say(Person::Owner, "WORDS:40:120");
    until("it is shown while it is written", || platform.previews() > 0);
    until("it arrives", || texts(platform, Person::Owner).len() == before + 1);
    thread::sleep(Duration::from_millis(300));
    let shown = texts(platform, Person::Owner);
    assert_eq!(shown.len(), before + 1, "{shown:?}");

    // /stop ends a turn.
    let is_asked = |words: &str| {
        let requests = model.model_requests();
        requests.iter().filter(|one| one.json().to_string().contains(words)).count()
    };
    platform.say(Person::Owner, "WORDS:2000:100");
    until("it runs", || is_asked("WORDS:2000") > 0);
    platform.say(Person::Owner, "/stop");
    wait_for_text(platform, Person::Owner, "(interrupted)");

    // A hundred deliveries of one event are one request to the model.
    platform.say(Person::Owner, "ECHO:counted");
    let before = platform.deliveries();
    platform.redeliver(100);
    wait_for_text(platform, Person::Owner, "counted");
    until("it was delivered a hundred times", || platform.deliveries() >= before + 100);
    assert_eq!(is_asked("ECHO:counted"), 1);

    // A restart in the middle: the turn is reported, and the conversation goes on.
    platform.say(Person::Owner, "WORDS:3000:100");
    until("it runs", || is_asked("WORDS:3000") > 0);
    serving.kill();
    let serving = serve(&machine);
    wait_for_text(platform, Person::Owner, "(failed:");
    platform.say(Person::Owner, "ECHO:still here");
    wait_for_text(platform, Person::Owner, "still here");
    let sessions = machine.list("sessions");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    serving.stop();
}

fn check_approval(platform: &dyn ChatPlatform, machine: &Machine) {
    let write = tool_call_directive(
        "Bash",
        &json!({"command": "touch made-by-chat", "description": "make a file"}),
    );
    platform.say(Person::Owner, &format!("{write} ECHO:it is **done**"));
    // The preview of the answer may name the tool before the card does.
    let find_card = || {
        let mut messages = platform.messages(Person::Owner).into_iter().rev();
        messages.find(|one| one.text.contains("touch made-by-chat") && !one.buttons.is_empty())
    };
    until("it asks", || find_card().is_some());
    let card = find_card().unwrap();
    assert_eq!(&card.buttons[..3], ["Allow once", "Allow for session", "Deny"]);
    let is_told = |part: &str| {
        let told = platform.press_answers();
        let said =
            texts(platform, Person::Stranger).into_iter().chain(texts(platform, Person::Owner));
        told.into_iter().chain(said).any(|text| text.contains(part))
    };
    // A stranger's press changes nothing, and is answered.
    platform.press(Person::Stranger, &card, "Allow once");
    until("it is answered", || is_told("approvers"));
    assert!(!machine.work().join("made-by-chat").exists());
    platform.press(Person::Owner, &card, "Allow once");
    wait_for_text(platform, Person::Owner, "it is done");
    until("the card says who decided", || {
        let messages = platform.messages(Person::Owner);
        let card = messages.iter().find(|one| one.id == card.id).unwrap();
        let by = format!("({})", platform.name());
        card.buttons.is_empty() && card.text.contains("Allowed once by") && card.text.contains(&by)
    });
    assert!(machine.work().join("made-by-chat").exists());
    platform.press(Person::Owner, &card, "Deny");
    until("a late press is told who decided", || is_told("Already decided"));
}
