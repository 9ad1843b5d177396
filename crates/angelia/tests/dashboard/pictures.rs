//! The pictures of the README: the real Claude Code works in a small project, on a model whose answers are
//! written here. `UPDATE_DOCS=1` puts them into `docs/images`.

use std::fs;

use angelia_testkit::{
    model_server::{
        ModelServer, RecordedRequest,
        reply::{Reply, ReplyBlock, ReplyUsage},
    },
    programs::workspace_root,
    real::RealClaude,
};
use serde_json::{Value, json};

use crate::{machine, run_script_with, variable};

const PARSER: &str = r#"//! Splits a line into words, as a shell does.

pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for sign in line.chars() {
        match sign {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(sign),
        }
    }
    words.push(word);
    words
}
"#;

const LOOP: &str = "    for sign in line.chars() {\n        match sign {\n";
const FIXED_LOOP: &str = "    let mut signs = line.chars();\n    while let Some(sign) = signs.next() {\n        match sign {\n            // An escaped quote is a character like any other.\n            '\\\\' => word.extend(signs.next()),\n";

const FOUND: &str = "The loop takes **every** quote for the end of a string, also an escaped one:\n\n\
    1. `\\\"` must be read as a pair, so the loop needs to look at the next character\n\
    2. a string that never ends should be an error of its own\n\n\
    I will change the loop first.";

/// Returns the number of tools that were called since the person's last words.
fn calls_so_far(request: &RecordedRequest) -> usize {
    let body = request.json();
    let has = |message: &Value, kind: &str| {
        let blocks = message["content"].as_array();
        blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == kind))
    };
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let newest = messages.iter().rev();
    let since = newest.take_while(|one| one["role"] != "user" || has(one, "tool_result"));
    since.filter(|one| has(one, "tool_use")).count()
}

fn answer(request: &RecordedRequest, parser: &str) -> Option<Reply> {
    if request.offered_tools().is_empty() {
        return None;
    }
    let prompt = request.prompt();
    let call = |text: &str, name: &str, input: Value| {
        let text = ReplyBlock::Text(text.to_owned());
        Reply::message(vec![text, ReplyBlock::Tool { name: name.to_owned(), input }])
    };
    Some(if prompt.contains("escaped quote") {
        if calls_so_far(request) == 0 {
            call("I will look at the parser.", "Read", json!({"file_path": parser}))
        } else {
            let edit = json!({"file_path": parser, "old_string": LOOP, "new_string": FIXED_LOOP});
            call(FOUND, "Edit", edit)
        }
    } else if prompt.contains("tests of the bus") {
        let command = "cargo test --workspace --test bus -- --test-threads 1";
        let why = json!({"command": command, "description": "Run the tests of the bus in order"});
        call("I will run them one after the other.", "Bash", why)
    } else {
        Reply::text(format!("Done. {}", "Every step is in the record. ".repeat(3)))
    })
}

#[test]
fn real_browser_takes_the_pictures() {
    let machine = machine();
    let project = machine.work().join("shellwords");
    fs::create_dir_all(project.join("src")).unwrap();
    let parser = project.join("src/parser.rs");
    fs::write(&parser, PARSER).unwrap();
    let server = ModelServer::start().unwrap();
    server.set_usage(ReplyUsage {
        input: 1_240,
        output: 860,
        cache_read: 41_300,
        cache_write_5m: 2_100,
        cache_write_1h: 0,
    });
    let path = parser.to_str().unwrap().to_owned();
    server.respond_with(move |request| answer(request, &path));
    let claude = RealClaude::newest().unwrap();
    machine.configure(&format!(
        "profiles:\n  default:\n    executor: claude\nexecutors:\n  claude:\n{}",
        claude.config_lines(&machine.place, &server.base_url())
    ));
    let _serving = machine.serve();
    let updates = variable("UPDATE_DOCS").is_some();
    let folder = if updates {
        workspace_root().join("docs/images")
    } else {
        machine.place.root().join("pictures")
    };
    fs::create_dir_all(&folder).unwrap();
    run_script_with(&machine, "screenshots.mjs", |command| {
        command.arg(&folder).env("PROJECT", &project);
    });
    for name in ["dashboard-session.png", "dashboard-inbox.png"] {
        assert!(fs::metadata(folder.join(name)).unwrap().len() > 20_000, "{name}");
    }
}
