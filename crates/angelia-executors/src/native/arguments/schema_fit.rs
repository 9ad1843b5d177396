//! Checks arguments against the schema of their tool, but only for mistakes that would make the
//! call meaningless. Corrects types that models mix up: `"5"` for 5, `"true"` for true, and a
//! single value for a list. Other keywords of a schema (`anyOf`, `$ref` …) are left to the tool.

use serde_json::Value;

/// A value that does not fit its schema. The error is worded for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{path}` {problem}, so the tool was not run; correct it and call again")]
pub struct SchemaMismatch {
    /// Such as `edits[0].path`.
    pub path: String,
    pub problem: String,
}

/// Corrects `value`. Returns the paths of the corrected values.
pub fn fit_to_schema(value: &mut Value, schema: &Value) -> Result<Vec<String>, SchemaMismatch> {
    let mut corrected = Vec::new();
    fit(value, schema, "", &mut corrected)?;
    Ok(corrected)
}

fn fit(
    value: &mut Value,
    schema: &Value,
    path: &str,
    corrected: &mut Vec<String>,
) -> Result<(), SchemaMismatch> {
    let mismatch = |problem| SchemaMismatch { path: path.to_owned(), problem };
    let types = types_of(schema);
    if !types.is_empty() && !types.iter().any(|wanted| is_type(value, wanted)) {
        let Some(better) = types.iter().find_map(|wanted| coerced(value, wanted)) else {
            let found = name_of(value);
            return Err(mismatch(format!("must be {}, not {found}", types.join(" or "))));
        };
        *value = better;
        corrected.push(path.to_owned());
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(mismatch(format!("must be one of {}", allowed.join(", "))));
    }
    match value {
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            for key in required.filter_map(Value::as_str) {
                if !fields.contains_key(key) {
                    let path = join(path, key);
                    return Err(SchemaMismatch { path, problem: "is missing".to_owned() });
                }
            }
            for (key, field) in fields {
                if let Some(schema) = schema["properties"].get(key) {
                    fit(field, schema, &join(path, key), corrected)?;
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for (index, item) in items.iter_mut().enumerate() {
                fit(item, &schema["items"], &format!("{path}[{index}]"), corrected)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn types_of(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole),
        "number" => value.is_number(),
        other => name_of(value) == other,
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Converts a value to the wanted type, if only one conversion makes sense.
fn coerced(value: &Value, wanted: &str) -> Option<Value> {
    match (wanted, value) {
        ("integer" | "number" | "boolean", Value::String(text)) => {
            let parsed: Value = serde_json::from_str(text.trim()).ok()?;
            is_type(&parsed, wanted).then_some(parsed)
        }
        // A string may contain a whole list; any other value becomes the only item of a list.
        ("array", Value::String(text)) if text.trim_start().starts_with('[') => {
            let parsed: Value = serde_json::from_str(text).ok()?;
            parsed.is_array().then_some(parsed)
        }
        ("array", Value::Null) => None,
        ("array", item) => Some(Value::Array(vec![item.clone()])),
        ("object", Value::String(text)) => {
            let parsed: Value = serde_json::from_str(text).ok()?;
            parsed.is_object().then_some(parsed)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "all": {"type": "boolean"},
                "mode": {"enum": ["a", "b"]},
                "names": {"type": "array", "items": {"type": "string"}},
                "edits": {"type": "array", "items": {
                    "type": "object", "properties": {"line": {"type": ["integer", "null"]}},
                    "required": ["line"],
                }},
                "free": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": ["path"],
        })
    }

    #[test]
    fn types_that_models_mix_up_are_corrected() {
        let table = [
            (json!({"path":"a","limit":"5"}), json!({"path":"a","limit":5}), vec!["limit"]),
            (json!({"path":"a","all":"true"}), json!({"path":"a","all":true}), vec!["all"]),
            (json!({"path":"a","names":"x"}), json!({"path":"a","names":["x"]}), vec!["names"]),
            (
                json!({"path":"a","names":"[\"x\"]"}),
                json!({"path":"a","names":["x"]}),
                vec!["names"],
            ),
            (
                json!({"path":"a","edits":{"line":"3"}}),
                json!({"path":"a","edits":[{"line":3}]}),
                vec!["edits", "edits[0].line"],
            ),
            (
                json!({"path":"5","limit":5.0,"free":true}),
                json!({"path":"5","limit":5.0,"free":true}),
                vec![],
            ),
            (json!({"path":"true","unknown":1}), json!({"path":"true","unknown":1}), vec![]),
        ];
        for (mut given, expected, paths) in table {
            assert_eq!(
                fit_to_schema(&mut given, &schema()),
                Ok(paths.into_iter().map(str::to_owned).collect())
            );
            assert_eq!(given, expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let table = [
            (json!({}), "`path` is missing"),
            (json!({"path":7}), "`path` must be string, not number"),
            (json!({"path":"a","limit":"many"}), "`limit` must be integer, not string"),
            (json!({"path":"a","limit":1.5}), "`limit` must be integer, not number"),
            (json!({"path":"a","mode":"c"}), "`mode` must be one of \"a\", \"b\""),
            (json!({"path":"a","names":null}), "`names` must be array, not null"),
            (json!({"path":"a","edits":[{"line":1},{}]}), "`edits[1].line` is missing"),
            (
                json!({"path":"a","edits":[{"line":[]}]}),
                "`edits[0].line` must be integer or null, not array",
            ),
        ];
        for (mut given, expected) in table {
            let error = fit_to_schema(&mut given, &schema()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
