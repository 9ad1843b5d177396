//! Tests of the text that is written for each client, and that it can be undone.

use std::path::PathBuf;

use super::{
    aider,
    client::{Client, Connection, EditRefusal, FileState, Folders},
    llm,
};
use crate::config::Environment;

/// Every client. A new one is missing in the snapshot below.
const CLIENTS: [&Client; 10] = [
    &super::claude::CLIENT,
    &super::codex::CLIENT,
    &aider::CLIENT,
    &llm::CLIENT,
    &super::open_webui::CLIENT,
    &super::zed::CLIENT,
    &super::neovim::CLIENT,
    &super::jetbrains::CLIENT,
    &super::ollama::SERVER.client,
    &super::llamacpp::SERVER.client,
];

fn environment() -> Environment {
    let variables = [("HOME", "/home/you")];
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn folders(environment: &Environment) -> Folders<'_> {
    let home = PathBuf::from("/home/you/.angelia");
    Folders::new(environment, home.join("clients"), home.join("config.yaml")).unwrap()
}

fn with(client: &Client, text: Option<&str>) -> Result<String, EditRefusal> {
    let environment = environment();
    let files = (client.files)(&folders(&environment)).unwrap();
    let file = files.last().unwrap();
    (file.with)(&FileState { text, wide_mode: None }, &Connection::for_tests())
}

fn without(client: &Client, text: &str) -> Option<String> {
    let environment = environment();
    let files = (client.files)(&folders(&environment)).unwrap();
    (files.last().unwrap().without)(text).unwrap().text
}

#[test]
fn what_each_client_gets() {
    let environment = environment();
    let folders = folders(&environment);
    let mut all = Vec::new();
    for client in CLIENTS {
        for file in (client.files)(&folders).unwrap() {
            let text = (file.with)(&FileState::default(), &Connection::for_tests()).unwrap();
            let again = FileState { text: Some(&text), wide_mode: None };
            assert_eq!((file.with)(&again, &Connection::for_tests()).as_ref(), Ok(&text));
            assert_eq!((file.without)(&text).unwrap().text, None, "{}", client.name);
            let has_key = text.contains(&Connection::for_tests().key);
            assert_eq!(has_key, file.holds_key, "{text}");
            all.push(format!("== {}\n{text}\n", file.path.display()));
        }
        all.push(format!("-- {}\n\n", (client.usage)(&folders)));
    }
    insta::assert_snapshot!(all.concat());
}

#[test]
fn texts_of_the_owners_come_back_to_the_byte() {
    let aider = ["", "# mine\n", "dark-mode: true", "a:\n  - b\n\n# end\r\n", "---\nvim: true\n"];
    let llm = [
        "",
        "- model_id: x\n  model_name: y",
        "# c\n  - model_id: x\n    model_name: y\n",
        "---\n",
    ];
    for (client, texts) in [(&aider::CLIENT, &aider[..]), (&llm::CLIENT, &llm[..])] {
        for text in texts {
            let written = with(client, Some(text)).unwrap();
            assert_eq!(with(client, Some(&written)).as_ref(), Ok(&written));
            assert_eq!(without(client, &written).as_deref(), Some(*text));
        }
    }
    let indented = with(&llm::CLIENT, Some(llm[2])).unwrap();
    assert!(indented.contains("\n  - model_id: angelia\n    model_name:"), "{indented}");
}

#[test]
fn settings_of_the_owners_are_never_replaced() {
    for text in ["model: gpt-5\n", "openai-api-key: x\n", "--openai-api-base: http://x\n"] {
        assert!(matches!(with(&aider::CLIENT, Some(text)), Err(EditRefusal::Own(_))), "{text}");
    }
    for text in ["- {model_id: angelia}\n", "- {model_id: x, aliases: [angelia]}\n"] {
        assert!(matches!(with(&llm::CLIENT, Some(text)), Err(EditRefusal::Own(_))), "{text}");
    }
    let quiet = with(&aider::CLIENT, Some("show-model-warnings: true\n")).unwrap();
    assert_eq!(quiet.matches("show-model-warnings").count(), 1, "{quiet}");
}

#[test]
fn a_text_that_cannot_be_edited_is_left_alone() {
    for text in ["{dark-mode: true}\n", "[a]\n", "a: 1\n...\n", "a: [\n"] {
        let refused = with(&aider::CLIENT, Some(text));
        assert!(matches!(refused, Err(EditRefusal::Unreadable(_))), "{text} {refused:?}");
    }
    for text in ["[]\n", "a: 1\n", "[{model_id: x}]\n"] {
        let refused = with(&llm::CLIENT, Some(text));
        assert!(matches!(refused, Err(EditRefusal::Unreadable(_))), "{text} {refused:?}");
    }
}
