//! Extracts the user's prompt from a model request, without the context that the client adds.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request_log::RecordedRequest;

/// The user's last prompt and the tool results since then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedPrompt {
    pub(super) text: String,
    /// Rounds of tool results after the prompt.
    pub(super) rounds: usize,
    /// Whether the newest tool result is an error.
    pub(super) tool_failed: bool,
}

/// The request fields that decide the form of the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a Chat Completions stream should end with the token counts.
    pub(super) wants_usage: bool,
}

#[derive(Deserialize, Default)]
struct ModelRequestBody<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(borrow, default)]
    messages: Option<Vec<ConversationEntry<'a>>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// A message of the Messages or Chat dialect, or an input item of the Responses dialect.
#[derive(Deserialize)]
struct ConversationEntry<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    is_error: Option<bool>,
}

impl RequestHead {
    pub(super) fn of(body: &[u8]) -> Self {
        let request: ModelRequestBody<'_> = serde_json::from_slice(body).unwrap_or_default();
        Self {
            model: request.model.unwrap_or_default().into_owned(),
            stream: request.stream.unwrap_or_default(),
            wants_usage: request.stream_options.is_some_and(|options| options.include_usage),
        }
    }
}

impl ParsedPrompt {
    pub(super) fn from_request(request: &RecordedRequest) -> Self {
        let parsed: ModelRequestBody<'_> =
            serde_json::from_slice(&request.body).unwrap_or_default();
        match (parsed.messages, parsed.input) {
            (Some(messages), _) => Self::from_messages(&messages),
            (None, Some(input)) => Self::from_input(input),
            (None, None) => super::acp_gemini::prompt(&request.body),
        }
    }

    /// Searches from the newest message back to the one with the user's text. The last message
    /// often has the role `system`. Tool results are messages of their own, or share a message with
    /// text.
    fn from_messages(messages: &[ConversationEntry<'_>]) -> Self {
        let mut found = Self::default();
        let mut in_results = false;
        for message in messages.iter().rev() {
            let role = message.role.as_deref().unwrap_or_default();
            if role == "tool" {
                found.rounds += usize::from(!in_results);
                in_results = true;
                continue;
            }
            in_results = false;
            if role != "user" {
                continue;
            }
            let parts = parts(message.content);
            let texts = parts.iter().filter(|part| part.kind == "text").filter_map(user_text);
            if let Some(text) = choose_prompt_text(texts.collect()) {
                found.text = text;
                return found;
            }
            if let Some(result) = parts.iter().rfind(|part| part.kind == "tool_result") {
                if found.rounds == 0 {
                    found.tool_failed = result.is_error.unwrap_or_default();
                }
                found.rounds += 1;
            }
        }
        found
    }

    fn from_input(input: &RawValue) -> Self {
        if let Ok(text) = serde_json::from_str::<String>(input.get()) {
            return Self { text, ..Self::default() };
        }
        let items: Vec<ConversationEntry<'_>> =
            serde_json::from_str(input.get()).unwrap_or_default();
        let mut found = Self::default();
        let mut in_results = false;
        for item in items.iter().rev() {
            let kind = item.kind.as_deref().unwrap_or("message");
            if kind.ends_with("_call_output") {
                found.rounds += usize::from(!in_results);
                in_results = true;
                continue;
            }
            in_results = false;
            if kind != "message" || item.role.as_deref() != Some("user") {
                continue;
            }
            let parts = parts(item.content);
            let texts = parts.iter().filter(|part| part.kind == "input_text").filter_map(user_text);
            // Codex wraps each piece of context that it adds in a tag.
            let own = texts.filter(|text| !(text.starts_with('<') && text.ends_with('>')));
            if let Some(text) = choose_prompt_text(own.collect()) {
                found.text = text;
                return found;
            }
        }
        found
    }
}

fn parts(content: Option<&RawValue>) -> Vec<ContentPart<'_>> {
    let Some(content) = content else {
        return Vec::new();
    };
    if content.get().starts_with('"') {
        let text = serde_json::from_str(content.get()).ok();
        // Every dialect allows a plain string; return it under each dialect's part type.
        let part =
            |kind| ContentPart { kind: Cow::Borrowed(kind), text: text.clone(), is_error: None };
        return vec![part("text"), part("input_text")];
    }
    serde_json::from_str(content.get()).unwrap_or_default()
}

/// Returns the user's own text in a part, without the client's reminders and status lines.
fn user_text(part: &ContentPart<'_>) -> Option<String> {
    // Angelia uses the second tag to carry a client's system messages.
    const TAGS: [(&str, &str); 2] =
        [("<system-reminder>", "</system-reminder>"), ("<system>", "</system>")];
    let mut text = part.text.as_deref()?.to_owned();
    for (open, close) in TAGS {
        while let Some(start) = text.find(open) {
            let end = text[start..].find(close).map_or(text.len(), |end| start + end + close.len());
            text.replace_range(start..end, "");
        }
    }
    let text = text.trim();
    let is_trace = text.starts_with("[Request interrupted")
        || text.starts_with("<local-command")
        || text.starts_with("<command-name>");
    (!text.is_empty() && !is_trace).then(|| text.to_owned())
}

/// Picks from the texts of one message the last one with a directive, or else the last one.
fn choose_prompt_text(mut texts: Vec<String>) -> Option<String> {
    let telling =
        texts.iter().rposition(|text| super::directive::Directives::parse(text).is_some());
    match telling {
        Some(index) => Some(texts.swap_remove(index)),
        None => texts.pop(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::{Value, json};

    use super::*;

    fn prompt(body: &Value) -> ParsedPrompt {
        ParsedPrompt::from_request(&RecordedRequest {
            method: "POST".into(),
            path: "/v1/messages".into(),
            query: None,
            headers: Vec::new(),
            body: body.to_string().into(),
            at: Instant::now(),
        })
    }

    #[test]
    fn skips_reminders_and_trailing_system_messages() {
        let found = prompt(&json!({"messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nToday is WORDS:9\n</system-reminder>"},
                {"type": "text", "text": "ECHO:hi"},
                {"type": "text", "text": "<system-reminder>more</system-reminder>\n"},
            ]},
            {"role": "system", "content": "# Environment"},
        ]}));
        assert_eq!(found, ParsedPrompt { text: "ECHO:hi".into(), ..ParsedPrompt::default() });
    }

    #[test]
    fn counts_rounds_of_tool_results_since_the_prompt() {
        let found = prompt(&json!({"messages": [
            {"role": "user", "content": "ROUNDS:3"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            {"role": "user", "content": [{"type": "tool_result", "content": "x", "is_error": true}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "b"}]},
            {"role": "user", "content": [{"type": "tool_result", "content": "x"},
                {"type": "tool_result", "content": "y"},
                {"type": "text", "text": "<system-reminder>r</system-reminder>"}]},
        ]}));
        assert_eq!(found, ParsedPrompt { text: "ROUNDS:3".into(), rounds: 2, tool_failed: false });
    }

    #[test]
    fn words_after_an_interrupted_tool_are_a_new_prompt() {
        let found = prompt(&json!({"messages": [
            {"role": "user", "content": "TOOL:{}:END"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            {"role": "user", "content": [
                {"type": "tool_result", "content": "rejected", "is_error": true},
                {"type": "text", "text": "[Request interrupted by user for tool use]"},
                {"type": "text", "text": "next"}]},
        ]}));
        assert_eq!(found, ParsedPrompt { text: "next".into(), ..ParsedPrompt::default() });
    }

    #[test]
    fn reads_the_responses_dialect() {
        let found = prompt(&json!({"input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "<environment_context>x</environment_context>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "function_call", "name": "shell", "call_id": "1", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "ok"},
        ]}));
        assert_eq!(found, ParsedPrompt { text: "hello".into(), rounds: 1, tool_failed: false });
        assert_eq!(prompt(&json!({"input": "plain"})).text, "plain");
    }

    #[test]
    fn reads_the_chat_dialect() {
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a"}]});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": "WORDS:9"});
        let found = prompt(&json!({"messages": [
            {"role": "system", "content": "WORDS:8"},
            {"role": "user", "content": "ROUNDS:2"},
            call, result, result, call, result,
        ]}));
        assert_eq!(found, ParsedPrompt { text: "ROUNDS:2".into(), rounds: 2, tool_failed: false });
        let body = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}});
        assert!(RequestHead::of(body.to_string().as_bytes()).wants_usage);
    }

    #[test]
    fn anything_else_is_an_empty_prompt() {
        for body in [json!(null), json!({}), json!({"messages": [{"role": "user"}]}), json!([1])] {
            assert_eq!(prompt(&body), ParsedPrompt::default());
        }
        assert_eq!(RequestHead::of(b"not json"), RequestHead::default());
    }
}
