//! Checks every message of an agent against the protocol's own types and their schema: the types
//! ignore unknown fields, the schema does not.

use std::{collections::HashMap, sync::OnceLock};

use agent_client_protocol_schema::v1;
use jsonschema::Validator;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

type Check = Box<dyn Fn(&Value) + Send + Sync>;

fn check<T: JsonSchema + DeserializeOwned>() -> Check {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let validator: Validator = jsonschema::validator_for(schema.as_value()).unwrap();
    Box::new(move |value| {
        if let Err(error) = validator.validate(value) {
            panic!("against the schema: {error}: {value:#}");
        }
        if let Err(error) = serde_json::from_value::<T>(value.clone()) {
            panic!("against the types: {error}: {value:#}");
        }
    })
}

/// The schemas by method; for an answer, by the method it answers.
struct Checks {
    params: HashMap<&'static str, Check>,
    results: HashMap<&'static str, Check>,
    error: Check,
}

fn checks() -> &'static Checks {
    static CHECKS: OnceLock<Checks> = OnceLock::new();
    CHECKS.get_or_init(|| Checks {
        params: HashMap::from([
            ("session/update", check::<v1::SessionNotification>()),
            ("session/request_permission", check::<v1::RequestPermissionRequest>()),
            ("elicitation/create", check::<v1::CreateElicitationRequest>()),
            ("$/cancel_request", check::<v1::CancelRequestNotification>()),
        ]),
        results: HashMap::from([
            ("initialize", check::<v1::InitializeResponse>()),
            ("authenticate", check::<v1::AuthenticateResponse>()),
            ("session/new", check::<v1::NewSessionResponse>()),
            ("session/load", check::<v1::LoadSessionResponse>()),
            ("session/resume", check::<v1::ResumeSessionResponse>()),
            ("session/fork", check::<v1::ForkSessionResponse>()),
            ("session/list", check::<v1::ListSessionsResponse>()),
            ("session/delete", check::<v1::DeleteSessionResponse>()),
            ("session/close", check::<v1::CloseSessionResponse>()),
            ("session/set_mode", check::<v1::SetSessionModeResponse>()),
            ("session/set_config_option", check::<v1::SetSessionConfigOptionResponse>()),
            ("session/prompt", check::<v1::PromptResponse>()),
        ]),
        error: check::<v1::Error>(),
    })
}

/// Checks one line; `answers` returns the method of the request with that id.
#[track_caller]
pub(crate) fn assert_valid(line: &Value, answers: impl Fn(&Value) -> Option<&'static str>) {
    assert_eq!(line["jsonrpc"], "2.0", "{line}");
    let checks = checks();
    if let Some(method) = line.get("method") {
        let method = method.as_str().unwrap();
        let Some(check) = checks.params.get(method) else {
            panic!("an agent does not say this: {line}")
        };
        return check(&line["params"]);
    }
    if let Some(error) = line.get("error") {
        return (checks.error)(error);
    }
    let Some(method) = answers(&line["id"]) else { panic!("nobody asked for this: {line}") };
    checks.results[method](&line["result"]);
}
