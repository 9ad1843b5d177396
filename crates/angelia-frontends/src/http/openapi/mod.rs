//! `GET /openapi.json`: every path with every status that it can return. The schemas are generated from
//! the types that read and write the JSON.
//!
//! - `paths`: builds path entries. `api_paths`: `/api` and the paths next to it; `dashboard_paths`:
//!   what the dashboard needs; `model_apis`: `/v1`.
//! - [`shapes`]: schemas that cannot be derived from types.

mod api_paths;
mod dashboard_paths;
mod model_apis;
mod paths;
pub(super) mod shapes;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use self::paths::Paths;
use super::state::SharedState;

pub(super) async fn get_document(State(state): SharedState) -> Json<Value> {
    Json(document(&state.version))
}

fn document(version: &str) -> Value {
    let mut paths = Paths::new();
    api_paths::add(&mut paths);
    dashboard_paths::add(&mut paths);
    model_apis::add(&mut paths);
    let (paths, schemas) = paths.finish();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Angelia",
            "version": version,
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
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
        for shape in ["Session", "MessagesRequest", "ChatCompletion", "Response"] {
            let pointer = format!("/components/schemas/{shape}/properties");
            assert!(document.pointer(&pointer).is_some(), "{shape}");
        }
    }

    #[test]
    fn every_operation_says_what_it_answers() {
        let document = document("1.2.3");
        let paths = document["paths"].as_object().unwrap();
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().unwrap() {
                let answers = operation["responses"].as_object().unwrap();
                assert!(answers.keys().any(|status| status.starts_with('2')), "{path}");
                assert!(!answers.contains_key("default"), "{method} {path}");
                let open = ["/healthz", "/", "/ui/{path}"].contains(&path.as_str());
                assert_eq!(answers.contains_key("401"), !open, "{method} {path}");
            }
        }
    }
}
