//! E33: `angelia providers login` and `angelia mcp login` at a real OAuth server, and turns with the login in
//! several processes.

use std::{fs, path::Path};

use angelia_testkit::{mcp_servers, model_server::ModelServer, oidc_server::OidcServer};
use serde_json::Value;

use crate::machine::{Machine, ProgramOutput, mode};

fn bearer_tokens(server: &ModelServer) -> Vec<String> {
    let requests = server.model_requests();
    let headers = requests.iter().map(|request| request.header("authorization").unwrap());
    headers.map(|value| value.strip_prefix("Bearer ").unwrap().to_owned()).collect()
}

/// Asserts that no file below a folder contains the text.
fn assert_not_stored(folder: &Path, text: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_not_stored(&path, text);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

/// Runs a command that logs in, and confirms its code.
fn log_in(machine: &Machine, oidc: &OidcServer, command: &[&str]) -> ProgramOutput {
    let login = machine.start(command);
    login.wait_for_stdout("Waiting for you");
    let shown = login.stdout();
    let code = shown.split("enter the code ").nth(1).unwrap().split_whitespace().next().unwrap();
    oidc.approve(code).unwrap();
    let ended = login.wait();
    ended.assert_code(0);
    ended
}

#[test]
fn e33_one_login_serves_every_process_of_the_home() {
    let (oidc, model) = (OidcServer::start(3_600).unwrap(), ModelServer::start().unwrap());
    let machine = Machine::new();
    machine.configure(&format!(
        "\
providers:
  lab:
    api: messages
    base_url: '{}'
    keys: [{{oauth: {{issuer: '{}', client_id: {}, scope: {}}}}}]
    models: {{m: {{context: 100000}}}}
profiles:
  default: {{executor: native, model: lab/m}}
",
        model.base_url(),
        oidc.issuer(),
        OidcServer::CLIENT_ID,
        OidcServer::SCOPE,
    ));
    machine.angelia(&["run", "hello"]).assert_code(77).assert_stderr("providers login lab");
    machine.angelia(&["providers", "login", "openai"]).assert_code(2).assert_stderr("`oauth`");

    log_in(&machine, &oidc, &["providers", "login", "lab"]).assert_stdout("✓ logged in to lab");
    machine.angelia(&["providers", "list"]).assert_code(0).assert_stdout("(set)");

    machine.angelia(&["run", "ECHO:one"]).assert_code(0).assert_stdout("one");
    let serving = machine.serve();
    machine.angelia(&["run", "ECHO:two"]).assert_code(0).assert_stdout("two");
    machine.angelia(&["run", "ECHO:three"]).assert_code(0).assert_stdout("three");
    serving.stop();
    let tokens = bearer_tokens(&model);
    assert_eq!(tokens.len(), 3);
    assert_eq!(tokens[1], tokens[2], "the daemon keeps its token");
    for token in &tokens {
        assert!(oidc.accepts(token).unwrap());
        assert_not_stored(&machine.home(), token);
    }
    assert_eq!(oidc.seen("refused").unwrap(), 0);
    assert_eq!(mode(&machine.home().join("logins")), 0o700);
    machine.angelia(&["usage", "--by", "lane"]).assert_code(0).assert_stdout("oauth");

    machine.angelia(&["providers", "logout", "lab"]).assert_code(0).assert_stdout("logged out");
    machine.angelia(&["run", "hello"]).assert_code(77);
}

#[test]
fn e33_mcp_servers_are_checked_and_logged_in_to() {
    let (oidc, model) = (OidcServer::start(3_600).unwrap(), ModelServer::start().unwrap());
    let machine = Machine::with_shell();
    let notes = machine.place.root().join("notes");
    fs::create_dir(&notes).unwrap();
    let mcp = mcp_servers::watched_with_login(&notes, &oidc.issuer()).unwrap();
    machine.configure(&format!(
        "\
providers:
  lab: {{api: messages, base_url: '{}'}}
mcp_servers:
  web: {{type: http, url: 'http://{}/mcp', oauth: {{client_id: {}, scope: {} tools}}}}
  shut: {{url: 'http://127.0.0.1:1/mcp'}}
  shell: {{command: sh, args: [-c, 'echo started > {}/shell; exit 3']}}
  gone: {{command: no-such-program}}
profiles:
  default: {{executor: native, model: lab/m, permissions: unattended}}
",
        model.base_url(),
        mcp.address(),
        OidcServer::CLIENT_ID,
        OidcServer::SCOPE,
        notes.display(),
    ));
    let found = |arguments: &[&str]| -> Vec<(String, String, String)> {
        let ran = machine.angelia(arguments);
        let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        let mut servers: Vec<_> = findings.iter().filter(|one| one["what"] == "mcp").collect();
        servers.sort_by_key(|one| one["detail"].as_str().map(str::to_owned));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parts = |one: &&Value| (text(&one["state"]), text(&one["detail"]), text(&one["hint"]));
        servers.iter().map(parts).collect()
    };
    let [gone, shell, shut, web] = found(&["doctor", "--json"]).try_into().unwrap();
    assert_eq!((&*gone.0, &*gone.1), ("bad", "gone: not usable"));
    assert!(gone.2.contains("no program `no-such-program`"), "{gone:?}");
    assert!(
        shell.0 == "good" && shell.1.ends_with("/sh") && shell.2.contains("--deep"),
        "{shell:?}"
    );
    assert!(!notes.join("shell").exists(), "nothing is started without --deep");
    assert!(shut.0 == "bad" && shut.1 == "shut: not usable", "{shut:?}");
    assert_eq!((&*web.0, &*web.1), ("bad", "web: not logged in"));
    assert!(web.2.contains("`angelia mcp login web`"), "{web:?}");

    machine
        .angelia(&["mcp", "login", "wob"])
        .assert_code(2)
        .assert_stderr("known: gone, shell, shut, web");
    machine.angelia(&["mcp", "login", "shut"]).assert_code(2).assert_stderr("`oauth`");
    log_in(&machine, &oidc, &["mcp", "login", "web"]).assert_stdout("✓ logged in to web");
    let [_, shell, _, web] = found(&["doctor", "--deep", "--json"]).try_into().unwrap();
    assert_eq!((&*web.0, &*web.1), ("good", "web: 7 tools"));
    assert!(shell.0 == "bad" && shell.2.contains("ended before it answered"), "{shell:?}");

    let call = r#"TOOL:{"name":"mcp__web__repeat","input":{"text":"ab","times":2}}:END ECHO:done"#;
    machine.angelia(&["run", call]).assert_code(0).assert_stdout("done");
    let last = model.model_requests().last().unwrap().json().to_string();
    assert!(last.contains("abab"), "{last}");
    machine.angelia(&["mcp", "logout", "web"]).assert_code(0).assert_stdout("logged out of web");
    let [.., web] = <[_; 4]>::try_from(found(&["doctor", "--json"])).unwrap();
    assert_eq!(web.1, "web: not logged in");
}
