//! `angelia setup CLIENT --write` as people use it: the real client works with what was written, and
//! no longer after `--undo`.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use angelia_testkit::{
    plain_http::{PlainResponse, exchange, request_text},
    programs::workspace_root,
    real::RealClaude,
};
use serde_json::{Value, json};

use crate::{
    codex,
    daemon_fixture::{DaemonFixture, SCRIPT_TIMEOUT},
    machine::{ProgramOutput, RunningCommand, until},
};

const PROMPT: &str = "ECHO:hello from the inside";

fn fixture() -> DaemonFixture {
    DaemonFixture::new(&RealClaude::newest().unwrap())
}

fn run(command: Command) -> ProgramOutput {
    RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT)
}

/// Sets a client up, lets it ask, and takes it back. The file must be as it was, and the key must
/// be refused.
#[track_caller]
fn works_until_undone(
    client: &str,
    file: &str,
    text: Option<&str>,
    ask: impl Fn(&DaemonFixture) -> Command,
) {
    let bench = fixture();
    let file = bench.machine.place.home().join(file);
    if let Some(text) = text {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    bench.machine.angelia(&["setup", client, "--write"]).assert_code(0);
    let ran = run(ask(&bench));
    assert!(ran.status.success() && ran.stdout.contains("hello from the inside"), "{ran:#?}");
    assert!(!bench.model_requests().is_empty());
    let key = find_key(&bench.machine.place.home());
    assert_eq!(status_for(&bench, &key), 200);

    bench.machine.angelia(&["setup", client, "--undo"]).assert_code(0);
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), text);
    until("the key is refused", || status_for(&bench, &key) == 401);
    bench.end();
}

/// Returns the one key that a client's files have.
fn find_key(folder: &Path) -> String {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let found = text.match_indices("angelia-").filter_map(|(at, _)| text.get(at..at + 72));
            let is_key = |key: &&str| key[8..].bytes().all(|byte| byte.is_ascii_hexdigit());
            if let Some(key) = { found }.find(is_key) {
                return key.to_owned();
            }
        }
    }
    panic!("no file has a key");
}

fn status_for(bench: &DaemonFixture, key: &str) -> u16 {
    let bearer = format!("authorization: Bearer {key}\r\n");
    send(bench, "GET", "/v1/models", &bearer, &Value::Null).status
}

fn send(
    bench: &DaemonFixture,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> PlainResponse {
    let url = bench.url();
    let address = url.trim_start_matches("http://");
    let headers = format!("host: {address}\r\n{headers}");
    let request = request_text(method, path, &headers, body);
    exchange(TcpStream::connect(address).unwrap(), &request)
}

#[test]
fn real_claude_code() {
    works_until_undone("claude", ".angelia/clients/claude.json", None, |bench| {
        let mut command = bench.machine.program(RealClaude::newest().unwrap().path);
        let settings = bench.machine.home().join("clients/claude.json");
        command
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .arg("--settings")
            .arg(settings)
            .args(["--model", "sonnet", "-p", PROMPT]);
        command
    });
}

#[test]
fn real_codex() {
    let text = "model = \"gpt-5.5\" # mine";
    works_until_undone("codex", ".codex/config.toml", Some(text), |bench| {
        let mut command = bench.machine.program(codex::binary());
        let arguments = ["exec", "--profile", "angelia", "--skip-git-repo-check", "--json", PROMPT];
        command.args(arguments);
        command
    });
}

fn python(group: &str, program: &str) -> PathBuf {
    let program = workspace_root().join("target").join(group).join("bin").join(program);
    assert!(program.exists(), "{} is not installed", program.display());
    program
}

#[test]
fn real_llm() {
    let file = ".config/io.datasette.llm/extra-openai-models.yaml";
    let text = "- model_id: other\n  model_name: x\n  api_base: http://127.0.0.1:1/v1\n";
    works_until_undone("llm", file, Some(text), |bench| {
        let mut command = bench.machine.program(python("python/clients", "llm"));
        command.args(["-m", "angelia", PROMPT]);
        command
    });
}

/// Aider is large, so it is installed and run only by `cargo xtask test full`.
#[test]
#[ignore = "aider is installed by `cargo xtask test full`"]
fn real_aider() {
    works_until_undone("aider", ".aider.conf.yml", Some("dark-mode: true\n"), |bench| {
        let mut command = bench.machine.program(python("full-python/aider", "aider"));
        command.args(["--no-git", "--no-check-update", "--no-analytics", "--no-pretty"]);
        command.args(["--yes-always", "--edit-format", "ask", "--message", PROMPT]);
        command
    });
}

/// The requests that `Open WebUI` sends for a chat, by its source: the models, a streamed turn with
/// the headers about its user, a title for the chat, and the next turn.
#[test]
fn real_open_webui_requests() {
    let bench = fixture();
    bench.machine.angelia(&["setup", "open-webui", "--write"]).assert_code(0);
    let file = bench.machine.home().join("clients/open-webui.env");
    let text = fs::read_to_string(&file).unwrap();
    let variable = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap().to_owned()
    };
    assert_eq!(variable("OPENAI_API_BASE_URL"), format!("{}/v1", bench.url()));
    assert_eq!(variable("ENABLE_FORWARD_USER_INFO_HEADERS"), "true");
    let headers = format!(
        "authorization: Bearer {}\r\ncontent-type: application/json\r\n\
         X-OpenWebUI-User-Name: You\r\nX-OpenWebUI-User-Id: 7f8c\r\n\
         X-OpenWebUI-User-Email: you@example.org\r\nX-OpenWebUI-User-Role: admin\r\n\
         X-OpenWebUI-Chat-Id: 4b1d7a52-3f0e-4d0c-9a50-2f6f2a0a7c11\r\n",
        variable("OPENAI_API_KEY")
    );
    let models = send(&bench, "GET", "/v1/models", &headers, &Value::Null);
    let ids = models.body["data"].as_array().unwrap();
    assert!(ids.iter().any(|model| model["id"] == "claude/sonnet"), "{models:?}");

    let chat = |messages: Value, stream: bool| {
        let body = json!({"model": "claude/sonnet", "messages": messages, "stream": stream});
        let answer = send(&bench, "POST", "/v1/chat/completions", &headers, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    };
    let first = json!([{"role": "user", "content": PROMPT}]);
    let streamed = chat(first, true);
    assert!(streamed.text.contains("data: [DONE]"), "{streamed:?}");
    assert!(streamed.text.contains("hello"), "{streamed:?}");
    let session = streamed.session().to_owned();

    // The title is asked for in the same chat, but it is no part of the conversation.
    let task = "### Task:\nGenerate a concise, 3-5 word title.\nECHO:A title";
    let title = chat(json!([{"role": "user", "content": task}]), false);
    assert_eq!(title.body["choices"][0]["message"]["content"], "A title");
    assert_ne!(title.session(), session);

    let next = json!([
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "hello from the inside"},
        {"role": "user", "content": "ECHO:and again"},
    ]);
    let answer = chat(next, true);
    assert_eq!(answer.session(), session, "the chat is one conversation");

    bench.machine.angelia(&["setup", "open-webui", "--undo"]).assert_code(0);
    assert!(!file.exists());
    bench.end();
}
