//! `GET /openapi.json`: the paths, with shapes that come from the types that read and write them.
//! The model APIs are described by their vendors; here they are named, with what they must have.

use std::sync::Arc;

use axum::{Json, extract::State};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    ApiState, ErrorBody, Hello,
    api::{ChangeBody, Decided, DecisionBody, InterruptBody, NewSessionBody, TurnBody},
    resources::{Accepted, Approval, Executor, List, Profile, Session, Steered, Turn},
};

pub(super) async fn show(State(state): State<Arc<ApiState>>) -> Json<Value> {
    Json(document(&state.version))
}

fn document(version: &str) -> Value {
    let mut paths = Paths::new();
    ours(&mut paths);
    dialects(&mut paths);
    let schemas = paths.generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Angelia", "version": version},
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths.paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
}

struct Paths {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

/// What a path is asked with.
enum Body {
    None,
    Of(Value),
}

impl Paths {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self {
            generator: settings.into_generator(),
            paths: Map::new(),
        }
    }

    fn schema<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    fn add(&mut self, method: &str, path: &str, about: &str, body: Body, answers: &[(u16, Value)]) {
        let error = self.schema::<ErrorBody>();
        let mut responses = Map::new();
        for (status, schema) in answers {
            let answer = match schema {
                Value::Null => json!({"description": about}),
                schema => json!({
                    "description": about,
                    "content": {"application/json": {"schema": schema}},
                }),
            };
            responses.insert(status.to_string(), answer);
        }
        let shape = if path.starts_with("/v1") {
            json!({"type": "object", "required": ["error"]})
        } else {
            error
        };
        responses.insert(
            "default".to_owned(),
            json!({
                "description": "It could not be done; the error says why and what to do.",
                "content": {"application/json": {"schema": shape}},
            }),
        );
        let mut operation = json!({"summary": about, "responses": responses});
        if let Body::Of(schema) = body {
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        let named = path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            Some(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        });
        let parameters: Vec<Value> = named.collect();
        if !parameters.is_empty() {
            operation["parameters"] = Value::Array(parameters);
        }
        let entry = self.paths.entry(path).or_insert_with(|| json!({}));
        entry[method] = operation;
    }
}

fn ours(paths: &mut Paths) {
    machine(paths);
    sessions(paths);
    turns(paths);
    approvals(paths);
}

fn machine(paths: &mut Paths) {
    let hello = paths.schema::<Hello>();
    let profiles = paths.schema::<List<Profile>>();
    let executors = paths.schema::<List<Executor>>();
    let ready = json!({"type": "object"});
    let gets = [
        ("/healthz", "Alive, and of which version.", hello),
        ("/readyz", "Can it do its work?", ready),
        ("/metrics", "Counts for Prometheus.", Value::Null),
        ("/api/profiles", "What can be asked for.", profiles),
        ("/api/executors", "What is installed.", executors),
    ];
    for (path, about, answer) in gets {
        paths.add("get", path, about, Body::None, &[(200, answer)]);
    }
}

fn sessions(paths: &mut Paths) {
    let session = paths.schema::<Session>();
    let list = [(200, paths.schema::<List<Session>>())];
    let made = [(201, session.clone())];
    let shown = [(200, session)];
    let new = Body::Of(paths.schema::<NewSessionBody>());
    let change = Body::Of(paths.schema::<ChangeBody>());
    let (all, one) = ("/api/sessions", "/api/sessions/{session}");
    let fork = "/api/sessions/{session}/fork";
    let gone = [(204, Value::Null)];
    paths.add("get", all, "Sessions, newest first.", Body::None, &list);
    paths.add("post", all, "A new session.", new, &made);
    paths.add("get", one, "A session.", Body::None, &shown);
    paths.add("patch", one, "Another title.", change, &shown);
    paths.add(
        "delete",
        one,
        "Removed, with its record.",
        Body::None,
        &gone,
    );
    paths.add(
        "post",
        fork,
        "One that goes on from here.",
        Body::None,
        &made,
    );
}

fn turns(paths: &mut Paths) {
    let turn = paths.schema::<Turn>();
    let list = [(200, paths.schema::<List<Turn>>())];
    let words = paths.schema::<TurnBody>();
    let accepted = [(202, paths.schema::<Accepted>())];
    let steered = [(202, paths.schema::<Steered>())];
    let interrupt = Body::Of(paths.schema::<InterruptBody>());
    let (shown, asked) = ([(200, turn.clone())], [(202, turn)]);
    let events = [(200, Value::Null), (204, Value::Null)];
    let submit = "/api/sessions/{session}/turns";
    let one = "/api/turns/{turn}";
    let to = |what: &str| format!("{one}/{what}");
    let said = || Body::Of(words.clone());
    paths.add(
        "post",
        submit,
        "A turn; its events tell the rest.",
        said(),
        &accepted,
    );
    paths.add(
        "get",
        "/api/turns",
        "Turns, newest first.",
        Body::None,
        &list,
    );
    paths.add("get", one, "A turn.", Body::None, &shown);
    paths.add(
        "get",
        &to("events"),
        "Server-sent events.",
        Body::None,
        &events,
    );
    paths.add(
        "post",
        &to("interrupt"),
        "Asked to stop.",
        interrupt,
        &asked,
    );
    paths.add(
        "post",
        &to("steer"),
        "Words for a running turn.",
        said(),
        &steered,
    );
}

fn approvals(paths: &mut Paths) {
    let list = [(200, paths.schema::<List<Approval>>())];
    let decided = [(200, paths.schema::<Decided>())];
    let decision = Body::Of(paths.schema::<DecisionBody>());
    let (all, one) = ("/api/approvals", "/api/approvals/{approval}");
    paths.add("get", all, "What waits for a decision.", Body::None, &list);
    paths.add("post", one, "A decision.", decision, &decided);
}

fn dialects(paths: &mut Paths) {
    let any = || json!({"type": "object"});
    let conversation = || {
        json!({
            "type": "object",
            "properties": {
                "model": {"type": "string", "minLength": 1},
                "messages": {"type": "array", "items": {"type": "object"}, "minItems": 1},
                "stream": {"type": "boolean"},
            },
            "required": ["model", "messages"],
        })
    };
    let posts = [
        ("/v1/messages", "Anthropic Messages.", conversation()),
        ("/v1/messages/count_tokens", "An estimate.", conversation()),
        (
            "/v1/chat/completions",
            "OpenAI Chat Completions.",
            conversation(),
        ),
        (
            "/v1/responses",
            "OpenAI Responses.",
            json!({
                "type": "object",
                "properties": {
                    "model": {"type": "string", "minLength": 1},
                    "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
                    "stream": {"type": "boolean"},
                    "previous_response_id": {"type": ["string", "null"]},
                },
                "required": ["model", "input"],
            }),
        ),
    ];
    for (path, about, body) in posts {
        paths.add("post", path, about, Body::Of(body), &[(200, any())]);
    }
    paths.add(
        "get",
        "/v1/responses/{id}",
        "An answer that was given.",
        Body::None,
        &[(200, any())],
    );
    let cancel = "/v1/responses/{id}/cancel";
    paths.add(
        "post",
        cancel,
        "An answer that is no longer wanted.",
        Body::None,
        &[(200, any())],
    );
    paths.add(
        "get",
        "/v1/models",
        "What can be asked for.",
        Body::None,
        &[(200, any())],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document("1.2.3");
        let text = document.to_string();
        for piece in text.split("\"$ref\":\"#").skip(1) {
            let pointer = piece.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        assert!(
            document
                .pointer("/components/schemas/Session/properties/id")
                .is_some()
        );
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() >= 18, "{:?}", paths.keys());
    }
}
