//! Writes JSON values as TOML on one line. Pure.
//!
//! This does not use a TOML library, because every value must stay on one line whatever it
//! contains, so that the line can be found and removed again.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns the value as TOML, or `None` if TOML cannot express it.
pub(super) fn to_inline(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            // Debug formatting keeps the point or the exponent that makes the number a float.
            None if number.is_f64() => format!("{:?}", number.as_f64()?),
            None => return None,
        },
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(to_inline).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                Some(format!("{} = {}", to_key(name), to_inline(value)?))
            };
            let entries: Option<Vec<String>> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries?.join(", "))
        }
    })
}

/// Returns one part of a key, unquoted where possible.
pub(super) fn to_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quote(name) }
}

pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() || is_line_break(control) => {
                // Writing to a string cannot fail.
                let _infallible = write!(out, "\\u{:04X}", u32::from(control));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

/// Reports whether some editors treat this character as a line break.
fn is_line_break(char: char) -> bool {
    matches!(char, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use toml_edit::Document;

    use super::*;

    #[test]
    fn every_kind_has_a_spelling_on_one_line() {
        let value = json!({"a": [1, -2, 1.5, 1e300, true], "b c": {"d": "x\"\\\n\u{1}\u{7f}"},
            "e": {}, "f": []});
        let expected = r#"{ a = [1, -2, 1.5, 1e300, true], "b c" = { d = "x\"\\\n\u0001\u007F" }, e = {}, f = [] }"#;
        assert_eq!(to_inline(&value).unwrap(), expected);
        for none in [json!(null), json!([null]), json!({"a": null}), json!(u64::MAX)] {
            assert_eq!(to_inline(&none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(name in any::<String>(), text in any::<String>()) {
            let line = format!("{} = {}", to_key(&name), quote(&text));
            prop_assert_eq!(line.lines().count(), 1);
            let read = Document::parse(line.as_str()).unwrap();
            prop_assert_eq!(read.as_table()[&name].as_str(), Some(text.as_str()));
        }
    }
}
