//! Builds the path entries of the `OpenAPI` document: parameters, bodies and responses.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Statuses of the guard, which every path except `/healthz` can return.
const GUARD_STATUSES: [u16; 4] = [401, 403, 421, 500];

/// Statuses of a request whose body cannot be read.
const BODY_STATUSES: [u16; 3] = [400, 408, 413];

/// The body of a successful response.
pub(super) enum SuccessBody {
    Nothing,
    Json(Value),
    Text,
    /// The page, or one of its files.
    Html,
    Events,
    /// Depends on `stream` in the request.
    JsonOrEvents(Value),
}

/// One method of one path.
pub(super) struct Operation {
    method: &'static str,
    path: &'static str,
    about: &'static str,
    /// The schema of the body, and whether it is required.
    body: Option<(Value, bool)>,
    parameters: Vec<Value>,
    answers: Vec<(u16, SuccessBody)>,
    errors: Vec<u16>,
    error: Option<Value>,
    open: bool,
}

impl Operation {
    pub(super) fn new(method: &'static str, path: &'static str, about: &'static str) -> Self {
        let ids = path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            let schema = json!({"type": "string", "minLength": 1});
            Some(json!({"name": name, "in": "path", "required": true, "schema": schema}))
        });
        let parameters: Vec<Value> = ids.collect();
        let errors = if parameters.is_empty() {
            GUARD_STATUSES.to_vec()
        } else {
            [&GUARD_STATUSES[..], &[400, 404]].concat()
        };
        Self {
            method,
            path,
            about,
            body: None,
            parameters,
            answers: Vec::new(),
            errors,
            error: None,
            open: false,
        }
    }

    pub(super) fn get(path: &'static str, about: &'static str) -> Self {
        Self::new("get", path, about)
    }

    pub(super) fn post(path: &'static str, about: &'static str) -> Self {
        Self::new("post", path, about)
    }

    /// Marks the operation as open to everyone, without authentication.
    pub(super) fn open(mut self) -> Self {
        self.open = true;
        self.errors.retain(|status| *status != 401);
        self
    }

    pub(super) fn body(mut self, shape: Value) -> Self {
        self.body = Some((shape, true));
        self.fails(&BODY_STATUSES)
    }

    /// Adds a body that may be omitted.
    pub(super) fn optional_body(mut self, shape: Value) -> Self {
        self.body = Some((shape, false));
        self.fails(&BODY_STATUSES)
    }

    /// Adds these properties of the schema as query parameters.
    pub(super) fn query(mut self, shape: &Value, names: &[&str]) -> Self {
        let properties = shape["properties"].as_object().into_iter().flatten();
        for (name, schema) in properties.filter(|(name, _)| names.contains(&name.as_str())) {
            let about = schema["description"].clone();
            let parameter =
                json!({"name": name, "in": "query", "description": about, "schema": schema});
            self.parameters.push(parameter);
        }
        self.fails(&[400])
    }

    pub(super) fn header(self, name: &str, about: &str) -> Self {
        self.header_like(name, about, "^[!-~]{1,255}$")
    }

    pub(super) fn header_like(mut self, name: &str, about: &str, pattern: &str) -> Self {
        let schema = json!({"type": "string", "pattern": pattern});
        self.parameters
            .push(json!({"name": name, "in": "header", "description": about, "schema": schema}));
        self
    }

    pub(super) fn answers(mut self, status: u16, answer: SuccessBody) -> Self {
        self.answers.push((status, answer));
        self
    }

    pub(super) fn fails(mut self, statuses: &[u16]) -> Self {
        self.errors.extend_from_slice(statuses);
        self
    }

    /// Sets the schema of error responses.
    pub(super) fn error(mut self, shape: Value) -> Self {
        self.error = Some(shape);
        self
    }
}

/// Collects all operations, and the schemas that they refer to.
pub(super) struct Paths {
    /// Separate generators, because the optional fields of requests and responses differ.
    reads: SchemaGenerator,
    writes: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Paths {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12()
                .with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        Self {
            reads: settings().into_generator(),
            writes: settings().for_serialize().into_generator(),
            paths: Map::new(),
        }
    }

    /// Returns the schema of a request type.
    pub(super) fn request_schema<T: JsonSchema>(&mut self) -> Value {
        self.reads.subschema_for::<T>().to_value()
    }

    /// Returns the schema of a request type inline, not as a reference.
    pub(super) fn inline<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.reads).to_value()
    }

    /// Returns the schema of a response type.
    pub(super) fn response_schema<T: JsonSchema>(&mut self) -> Value {
        self.writes.subschema_for::<T>().to_value()
    }

    pub(super) fn add(&mut self, operation: Operation) {
        let Operation { method, path, about, body, parameters, answers, mut errors, error, open } =
            operation;
        let mut responses = Map::new();
        for (status, answer) in answers {
            responses.insert(status.to_string(), response(about, answer));
        }
        errors.sort_unstable();
        errors.dedup();
        for status in errors {
            let shape = error.clone().unwrap_or(Value::Bool(true));
            let description = "The request failed; the error says why and what to do.";
            responses.insert(status.to_string(), response(description, SuccessBody::Json(shape)));
        }
        let mut operation = json!({"summary": about, "responses": responses});
        if let Some((schema, required)) = body {
            let content = json!({"application/json": {"schema": schema}});
            operation["requestBody"] = json!({"content": content, "required": required});
        }
        if !parameters.is_empty() {
            operation["parameters"] = Value::Array(parameters);
        }
        if open {
            operation["security"] = json!([]);
        }
        let entry = self.paths.entry(path).or_insert_with(|| json!({}));
        entry[method] = operation;
    }

    /// Returns the paths, and the schemas by name.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Map<String, Value>) {
        let mut schemas = self.reads.take_definitions(true);
        schemas.extend(self.writes.take_definitions(true));
        (self.paths, schemas)
    }
}

fn response(about: &str, answer: SuccessBody) -> Value {
    // The schema of one event; its data is JSON, except for the final `[DONE]` of Chat Completions.
    let word = json!({"type": "string"});
    let event = json!({
        "type": "object",
        "properties": {"id": word, "event": word, "data": word},
        "required": ["data"],
    });
    let events = || json!({"schema": event});
    let content = match answer {
        SuccessBody::Nothing => return json!({"description": about}),
        SuccessBody::Json(schema) => json!({"application/json": {"schema": schema}}),
        SuccessBody::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
        SuccessBody::Html => json!({"text/html": {"schema": {"type": "string"}}}),
        SuccessBody::Events => json!({"text/event-stream": events()}),
        SuccessBody::JsonOrEvents(schema) => json!({
            "application/json": {"schema": schema},
            "text/event-stream": events(),
        }),
    };
    json!({"description": about, "content": content})
}
