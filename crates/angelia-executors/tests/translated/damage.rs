//! Changes recorded JSON in ways that must not matter, or must be survived.

use serde_json::Value;

/// Returns the same message with the keys of every object in reverse order.
pub(crate) fn reverse(line: &str) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => {
                out.push('{');
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by(|a, b| b.0.cmp(a.0));
                for (number, (key, value)) in entries.into_iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    write(value, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (number, value) in items.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    write(value, out);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let mut out = String::new();
    write(&serde_json::from_str(line).unwrap(), &mut out);
    out
}

/// Replaces one of the message's values, chosen by the seed.
pub(crate) fn damage(value: &mut Value, seed: u32, other: &Value) {
    let mut countdown = seed as usize % count(value).max(1);
    replace(value, &mut countdown, other);
}

/// Returns values of every JSON type, as replacements.
pub(crate) fn of_other_types() -> [Value; 6] {
    [
        Value::Null,
        Value::from(-1.5),
        Value::from(u64::MAX),
        Value::from("x"),
        serde_json::json!([[]]),
        serde_json::json!({"type": {}}),
    ]
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(|value| 1 + count(value)).sum(),
        Value::Array(items) => items.iter().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, countdown: &mut usize, other: &Value) {
    let children: Vec<&mut Value> = match value {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => return,
    };
    for child in children {
        if *countdown == 0 {
            *child = other.clone();
            *countdown = usize::MAX;
            return;
        }
        *countdown -= 1;
        replace(child, countdown, other);
        if *countdown > usize::MAX / 2 {
            return;
        }
    }
}
