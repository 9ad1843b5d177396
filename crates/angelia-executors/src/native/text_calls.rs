//! Finds tool calls that a model wrote into its text, as small local models do. Used only for
//! servers with the quirk `text_tools`; text from any other server is left alone. Pure.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The delimiters that models put around a call in their text.
const ENCLOSURES: [(&str, &str); 4] = [
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("```json", "```"),
    ("```tool_call", "```"),
];

/// A call in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCall {
    pub name: Arc<str>,
    /// As the model wrote them.
    pub arguments: Arc<str>,
}

#[derive(Deserialize)]
struct CallJson<'a> {
    #[serde(alias = "tool", alias = "function")]
    name: Arc<str>,
    #[serde(borrow, default, alias = "parameters", alias = "args")]
    arguments: Option<&'a RawValue>,
}

/// Returns the calls of known tools in a text, in order. Ignores a call that was cut off.
pub fn find_calls(text: &str, is_tool: impl Fn(&str) -> bool) -> Vec<TextCall> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((inside, after)) = next_enclosed(rest) {
        // Accepts a single call or a list of calls.
        let one = serde_json::from_str::<CallJson<'_>>(inside).map(|call| vec![call]);
        let found = one.or_else(|_| serde_json::from_str::<Vec<CallJson<'_>>>(inside));
        for call in found.unwrap_or_default() {
            if is_tool(&call.name) {
                let arguments = call.arguments.map_or("{}", RawValue::get).into();
                calls.push(TextCall { name: call.name, arguments });
            }
        }
        rest = after;
    }
    calls
}

/// Returns the content of the first enclosure, and the text after it.
fn next_enclosed(text: &str) -> Option<(&str, &str)> {
    let openings = ENCLOSURES.iter().filter_map(|(open, close)| {
        let at = text.find(open)?;
        Some((at, &text[at + open.len()..], *close))
    });
    let (_, inside, close) = openings.min_by_key(|(at, ..)| *at)?;
    inside.split_once(close)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let calls = find_calls(text, |name| ["read", "bash"].contains(&name));
        calls.into_iter().map(|call| (call.name.to_string(), call.arguments.to_string())).collect()
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn calls_are_found_in_every_form() {
        let table = [
            (
                r#"I look. <tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>"#,
                vec![call("read", r#"{"path":"a"}"#)],
            ),
            (
                "<tool_call>\n{\"name\":\"read\",\"parameters\":{}}\n</tool_call>\n\
                 <tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>",
                vec![call("read", "{}"), call("bash", r#"{"command":"ls"}"#)],
            ),
            ("```json\n{\"tool\":\"bash\"}\n```", vec![call("bash", "{}")]),
            (
                r#"<function_call>[{"name":"read"},{"name":"bash"}]</function_call>"#,
                vec![call("read", "{}"), call("bash", "{}")],
            ),
        ];
        for (text, expected) in table {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn other_text_is_no_call() {
        for text in [
            "",
            "no call",
            r#"{"name":"read","arguments":{}}"#,
            r#"<tool_call>{"name":"unknown"}</tool_call>"#,
            r#"<tool_call>{"name":"read","arguments":{"path":"a"#,
            "<tool_call>read</tool_call>",
            "```json\n{\"a\":1}\n```",
        ] {
            assert_eq!(found(text), Vec::new(), "{text}");
        }
    }
}
