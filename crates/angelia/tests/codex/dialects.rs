//! The three dialects of the model APIs, as far as these tests use them.

use serde_json::{Value, json};

use crate::{
    daemon_fixture::DaemonFixture,
    post::{PlainResponse, post_to},
};

const MODEL: &str = "codex/gpt-5.5";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiDialect {
    Messages,
    Chat,
    Responses,
}

pub(crate) const ALL_DIALECTS: [ApiDialect; 3] =
    [ApiDialect::Messages, ApiDialect::Chat, ApiDialect::Responses];

/// A tool call, independent of the dialect.
#[derive(Clone, Debug)]
pub(crate) struct ToolInvocation {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

impl ApiDialect {
    pub(crate) fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    pub(crate) fn request(self, told: &[Value]) -> Value {
        match self {
            Self::Messages => json!({"model": MODEL, "max_tokens": 4096, "messages": told}),
            Self::Chat => json!({"model": MODEL, "messages": told}),
            Self::Responses => json!({"model": MODEL, "input": told}),
        }
    }

    /// Returns a request of a client with one tool.
    pub(crate) fn with_tool(self, told: &[Value], name: &str) -> Value {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let mut request = self.request(told);
        request["tools"] = match self {
            Self::Messages => json!([{"name": name, "input_schema": schema}]),
            Self::Chat => {
                json!([{"type": "function", "function": {"name": name, "parameters": schema}}])
            }
            Self::Responses => json!([{"type": "function", "name": name, "parameters": schema}]),
        };
        request
    }

    pub(crate) fn post(self, bench: &DaemonFixture, request: &Value) -> PlainResponse {
        let path = match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        };
        post_to(bench, path, request)
    }

    #[track_caller]
    pub(crate) fn text(self, answer: &PlainResponse) -> String {
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = &answer.body;
        let texts = |blocks: &Value| -> String {
            let blocks = blocks.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect()
        };
        match self {
            Self::Messages => texts(&body["content"]),
            Self::Chat => {
                let content = &body["choices"][0]["message"]["content"];
                content.as_str().unwrap_or_default().to_owned()
            }
            Self::Responses => {
                let items = body["output"].as_array().into_iter().flatten();
                items.map(|item| texts(&item["content"])).collect()
            }
        }
    }

    /// Returns the text of a stream, and asserts that the stream has ended properly.
    #[track_caller]
    pub(crate) fn streamed_text(self, answer: &PlainResponse) -> String {
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = decode_chunks(answer.body.as_str().unwrap());
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let piece = |event: &Value| -> Option<String> {
            let text = match self {
                Self::Messages => &event["delta"]["text"],
                Self::Chat => &event["choices"][0]["delta"]["content"],
                Self::Responses if event["type"] == "response.output_text.delta" => &event["delta"],
                Self::Responses => return None,
            };
            Some(text.as_str()?.to_owned())
        };
        let end = match self {
            Self::Messages => "message_stop",
            Self::Chat => "[DONE]",
            Self::Responses => "response.completed",
        };
        assert!(body.contains(end), "{body}");
        events.iter().filter_map(piece).collect()
    }

    #[track_caller]
    pub(crate) fn tool_calls(self, answer: &PlainResponse) -> Vec<ToolInvocation> {
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parsed = |value: &Value| serde_json::from_str(value.as_str().unwrap()).unwrap();
        let body = &answer.body;
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let of_type = |value: &Value, kind: &str| -> Vec<Value> {
            let items = items(value).into_iter();
            items.filter(|item| item["type"] == kind).collect()
        };
        let called = |id: &Value, name: &Value, input: Value| ToolInvocation {
            id: text(id),
            name: text(name),
            input,
        };
        match self {
            Self::Messages => of_type(&body["content"], "tool_use")
                .iter()
                .map(|it| called(&it["id"], &it["name"], it["input"].clone()))
                .collect(),
            Self::Chat => items(&body["choices"][0]["message"]["tool_calls"])
                .iter()
                .map(|it| {
                    let function = &it["function"];
                    called(&it["id"], &function["name"], parsed(&function["arguments"]))
                })
                .collect(),
            Self::Responses => of_type(&body["output"], "function_call")
                .iter()
                .map(|it| called(&it["call_id"], &it["name"], parsed(&it["arguments"])))
                .collect(),
        }
    }

    /// Returns the messages that the answer adds to the conversation.
    pub(crate) fn answer_messages(self, answer: &PlainResponse) -> Vec<Value> {
        match self {
            Self::Messages => {
                vec![json!({"role": "assistant", "content": answer.body["content"]})]
            }
            Self::Chat => vec![answer.body["choices"][0]["message"].clone()],
            Self::Responses => answer.body["output"].as_array().unwrap().clone(),
        }
    }

    pub(crate) fn results(self, results: &[(String, String)]) -> Vec<Value> {
        let one = |(id, text): &(String, String)| match self {
            Self::Messages => {
                json!({"type": "tool_result", "tool_use_id": id, "content": text})
            }
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Self::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": text})
            }
        };
        let all: Vec<Value> = results.iter().map(one).collect();
        match self {
            Self::Messages => vec![json!({"role": "user", "content": all})],
            Self::Chat | Self::Responses => all,
        }
    }
}

/// Returns a body without its chunk sizes.
fn decode_chunks(body: &str) -> String {
    let mut rest = body;
    let mut whole = String::new();
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let Ok(size @ 1..) = usize::from_str_radix(size.trim(), 16) else {
            break;
        };
        whole.push_str(&behind[..size]);
        rest = behind[size..].trim_start_matches("\r\n");
    }
    whole
}
