//! `native/PROVIDER/MODEL` over the model APIs: what a caller chooses reaches the provider, in the words
//! of its API, and a provider that does not exist is an unknown model.

use std::path::Path;

use angelia_testkit::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::{
    http::{self, PlainResponse},
    machine::Machine,
};

const PATHS: [&str; 3] = ["/v1/messages", "/v1/chat/completions", "/v1/responses"];

fn machine(server: &ModelServer) -> Machine {
    let machine = Machine::new();
    let provider = |api: &str, base_url: String| json!({"api": api, "base_url": base_url});
    let config = json!({"providers": {
        "messages": provider("messages", server.base_url()),
        "chat": provider("chat", server.openai_base_url()),
        "responses": provider("responses", server.openai_base_url()),
    }});
    machine.configure(&config.to_string());
    machine
}

/// Returns a request of the dialect at this path; `choice` is in the words of Chat Completions.
fn body(path: &str, model: &str, text: &str, choice: &Value) -> Value {
    let schema = json!({"type": "object"});
    let named = choice["function"]["name"].as_str();
    let messages = json!([{"role": "user", "content": text}]);
    match path {
        "/v1/messages" => {
            let choice = match (choice.as_str(), named) {
                (Some("required"), _) => json!({"type": "any"}),
                (Some(word), _) => json!({"type": word}),
                (None, name) => json!({"type": "tool", "name": name}),
            };
            json!({"model": model, "max_tokens": 99, "messages": messages, "tool_choice": choice,
                "tools": [{"name": "find", "input_schema": schema}]})
        }
        "/v1/responses" => {
            let choice = match named {
                Some(name) => json!({"type": "function", "name": name}),
                None => choice.clone(),
            };
            json!({"model": model, "input": text, "tool_choice": choice,
                "tools": [{"type": "function", "name": "find", "parameters": schema}]})
        }
        _ => json!({"model": model, "messages": messages, "tool_choice": choice,
            "tools": [{"type": "function", "function": {"name": "find", "parameters": schema}}]}),
    }
}

/// Adds to a request of Chat Completions the answer with a call, and its result.
fn with_result(mut asked: Value, answer: &PlainResponse, choice: &str) -> Value {
    let message = answer.body["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let result = json!({"role": "tool", "tool_call_id": id, "content": "found it"});
    asked["messages"].as_array_mut().unwrap().extend([message, result]);
    asked["tool_choice"] = choice.into();
    asked
}

fn post(socket: &Path, path: &str, body: &Value) -> PlainResponse {
    http::request_api(socket, "POST", path, body)
}

#[test]
fn a_choice_of_tools_reaches_the_provider_from_every_dialect() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let serving = machine.serve();
    let named = json!({"type": "function", "function": {"name": "find"}});
    let choices = [json!("auto"), json!("none"), json!("required"), named.clone()];
    let said = |provider: &str, choice: &Value| match (provider, choice.as_str()) {
        (_, Some("auto")) => Value::Null,
        ("messages", Some("required")) => json!({"type": "any"}),
        ("messages", Some(word)) => json!({"type": word}),
        ("messages", None) => json!({"type": "tool", "name": "find"}),
        ("responses", None) => json!({"type": "function", "name": "find"}),
        _ => choice.clone(),
    };
    for path in PATHS {
        for provider in ["messages", "chat", "responses"] {
            for choice in &choices {
                let context = format!("{path} {provider} {choice}");
                let must_call = *choice == "required" || *choice == named;
                server.script([if must_call {
                    Reply::tool("find", json!({}))
                } else {
                    Reply::text("an answer")
                }]);
                let model = format!("native/{provider}/m");
                let answer = post(&serving.socket, path, &body(path, &model, &context, choice));
                assert_eq!(answer.status, 200, "{context}: {answer:?}");
                let words = if must_call { "find" } else { "an answer" };
                assert!(answer.body.to_string().contains(words), "{context}: {answer:?}");
                let asked = server.model_requests().pop().unwrap().json();
                assert_eq!(asked["tool_choice"], said(provider, choice), "{context}: {asked}");
                // The tools stay, so that the provider's cache does, and nobody is told in words.
                assert_eq!(asked["tools"].as_array().unwrap().len(), 1, "{context}: {asked}");
                assert!(
                    !asked.to_string().contains("Answer this by calling"),
                    "{context}: {asked}"
                );
            }
        }
    }
    serving.stop();
}

#[test]
fn a_demanded_call_is_demanded_once_and_a_forbidden_one_is_refused() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let serving = machine.serve();
    let path = "/v1/chat/completions";
    // A server that ignores the choice is told once more, and then the caller is told.
    server.script([Reply::text("no"), Reply::tool("find", json!({}))]);
    let asked = body(path, "native/chat/m", "find it", &json!("required"));
    let answer = post(&serving.socket, path, &asked);
    assert_eq!(answer.body["choices"][0]["finish_reason"], "tool_calls", "{answer:?}");
    for request in server.model_requests() {
        assert_eq!(request.json()["tool_choice"], "required");
    }
    // The results come with another choice: the model is asked in a turn that keeps it.
    server.script([Reply::tool("find", json!({})), Reply::text("here it is")]);
    let answer = post(&serving.socket, path, &with_result(asked, &answer, "none"));
    assert_eq!(answer.body["choices"][0]["message"]["content"], "here it is", "{answer:?}");
    assert_eq!(answer.body["choices"][0]["finish_reason"], "stop", "{answer:?}");
    let requests = server.model_requests();
    assert_eq!(requests.len(), 4);
    for request in &requests[2..] {
        assert_eq!(request.json()["tool_choice"], "none");
        assert!(request.json().to_string().contains("found it"), "{:?}", request.json());
    }
    assert!(requests[3].json().to_string().contains("no tool may be called now"));
    serving.stop();
}

#[test]
fn after_the_demanded_call_the_model_chooses_again() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let serving = machine.serve();
    let path = "/v1/chat/completions";
    server.script([Reply::tool("find", json!({}))]);
    let asked = body(path, "native/chat/m", "find it", &json!("required"));
    let answer = post(&serving.socket, path, &asked);
    server.script([Reply::text("here it is")]);
    let answer = post(&serving.socket, path, &with_result(asked, &answer, "auto"));
    assert_eq!(answer.body["choices"][0]["message"]["content"], "here it is", "{answer:?}");
    let requests = server.model_requests();
    assert_eq!((requests.len(), &requests[1].json()["tool_choice"]), (2, &Value::Null));
    serving.stop();
}

#[test]
fn a_provider_that_does_not_exist_is_a_model_that_does_not_exist() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let serving = machine.serve();
    for path in PATHS {
        for model in ["native/NOPE/x", "native/chat", "native/default"] {
            let answer = post(&serving.socket, path, &body(path, model, "hello", &json!("auto")));
            assert_eq!(answer.status, 404, "{path} {model}: {answer:?}");
            let error = &answer.body["error"];
            let kind = if path == PATHS[0] { &error["type"] } else { &error["code"] };
            let known = if path == PATHS[0] { "not_found_error" } else { "model_not_found" };
            assert_eq!(kind, known, "{path}: {answer:?}");
            let message = error["message"].as_str().unwrap();
            for name in ["anthropic", "chat", "ollama", "native/PROVIDER/MODEL"] {
                assert!(message.contains(name), "{path}: {message}");
            }
        }
    }
    assert!(server.requests().is_empty());
    serving.stop();
}
