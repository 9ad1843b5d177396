//! Signed webhooks that begin turns, on a running daemon.

use std::{fs, net::TcpStream};

use angelia_frontends::chat::webhook::{hmac_sha256, signature};
use angelia_testkit::{
    plain_http::{PlainResponse, exchange},
    telegram_server::{TOKEN, TelegramServer},
};

use crate::machine::{Machine, until};

const SECRET: &str = "a-secret-of-the-test";

fn post(machine: &Machine, name: &str, headers: &[(&str, String)], body: &str) -> PlainResponse {
    let address = fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let address = address.trim();
    let headers: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let request = format!(
        "POST /hooks/{name} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(TcpStream::connect(address).unwrap(), &request)
}

fn github(body: &str) -> Vec<(&'static str, String)> {
    let given = hex::encode(hmac_sha256(SECRET.as_bytes(), &[body.as_bytes()]));
    vec![("x-hub-signature-256", format!("sha256={given}")), ("x-github-event", "push".to_owned())]
}

#[test]
fn a_signed_event_becomes_one_turn_and_its_answer_goes_to_a_chat() {
    let server = TelegramServer::start();
    let mut machine = Machine::with_shell();
    machine.set("HOOK_SECRET", SECRET);
    machine.set("BOT_TOKEN", TOKEN);
    machine.configure(&format!(
        "profiles:
  default: {{executor: parrot}}
channels:
  telegram: {{token: {{env: BOT_TOKEN}}, base_url: \"{}\"}}
hooks_in:
  ci:
    scheme: github
    secret: {{env: HOOK_SECRET}}
    session: \"{{{{ body.repository }}}}\"
    prompt: \"Event {{{{ headers.x_github_event }}}}: look at {{{{ body.title }}}}\"
    reply: telegram:7
  own: {{secret: {{env: HOOK_SECRET}}}}
",
        server.base_url()
    ));
    let serving = machine.serve();
    let body = r#"{"title":"ignore me\n!fail","repository":"site"}"#;
    let begun = post(&machine, "ci", &github(body), body);
    assert_eq!(begun.status, 202, "{begun:?}");
    assert!(begun.body["turn_id"].is_string() && begun.body["session_id"].is_string());
    until("the answer arrives in the chat", || !server.messages(7).is_empty());
    let text = server.messages(7)[0].text.clone();
    assert!(text.contains(r#"Event "push": look at "ignore me\n!fail""#), "{text}");

    let again = post(&machine, "ci", &github(body), body);
    assert_eq!((again.status, &again.body["repeated"]), (200, &true.into()));
    let other = r#"{"title":"two","repository":"site"}"#;
    assert_eq!(post(&machine, "ci", &github(other), other).status, 202);
    until("it runs", || machine.list("turns").len() == 2);
    assert_eq!(machine.list("sessions").len(), 1, "both are of one repository");

    // Neither a wrong signature nor an unknown name nor an old time gets in, and nobody learns which.
    let refused = [
        post(&machine, "ci", &github(other), body),
        post(&machine, "ci", &[], body),
        post(&machine, "nothing", &github(body), body),
    ];
    for answer in &refused {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert_eq!(answer.text, refused[0].text);
    }
    let own = |time: i64, body: &str| {
        vec![
            ("x-angelia-timestamp", time.to_string()),
            ("x-angelia-signature-256", signature(SECRET, time, body.as_bytes())),
        ]
    };
    let now = jiff::Timestamp::now().as_second();
    let body = r#"{"id":"e1","text":"hello"}"#;
    assert_eq!(post(&machine, "own", &own(now - 400, body), body).status, 401);
    assert_eq!(post(&machine, "own", &own(now, body), body).status, 202);
    let later = post(&machine, "own", &own(now + 1, body), body);
    assert_eq!((later.status, &later.body["repeated"]), (200, &true.into()), "the same id");
    let session = &machine.list("sessions")[0];
    assert_eq!(session["mode"], "model", "{session}");
    let log = serving.stop();
    assert!(!log.stderr.contains(SECRET), "{}", log.stderr);
    machine.configure("hooks_in: {ci: {scheme: github}}\n");
    machine.angelia(&["config", "check"]).assert_code(78).assert_stderr("has no `secret`");
}
