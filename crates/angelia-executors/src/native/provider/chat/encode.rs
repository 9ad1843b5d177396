//! Encodes a conversation as the body of a Chat Completions request.

use angelia_core::model::{Content, ReasoningEffort};
use serde_json::value::RawValue;

use super::{
    super::{
        AssistantMessage, AssistantPart, Message, ModelCall, ProviderRequest, Quirks,
        ReasoningSeal, ResultBatch,
        element_list::ElementList,
        image::data_url,
        messages::CacheMark,
        quirks::{MaxTokensField, ReasoningEcho},
        request::to_bytes,
    },
    wire::{
        ChatBody, ChatContent, ChatMessage, ChatPart, ChatTool, ImageUrl, NamedSchema, RequestCall,
        RequestFunction, ResponseFormat, StreamOptions, ToolFunction, tool_choice,
    },
};

/// The name of an answer's schema, which the API requires.
pub(in super::super) const ANSWER_NAME: &str = "answer";

/// Encodes everything except the conversation's messages. The system prompt is included, as the
/// first message.
pub(in super::super) fn encode_head(request: &ProviderRequest<'_>) -> Vec<u8> {
    let (settings, quirks) = (request.settings, request.quirks);
    let limit_if = |field| settings.max_output_tokens.filter(|_| quirks.max_tokens_field == field);
    let tools = ToolFunction::of_request(request).map(|function| ChatTool { function });
    to_bytes(&ChatBody {
        model: &request.issuer.model,
        stream: true,
        stream_options: quirks.stream_options.then_some(StreamOptions { include_usage: true }),
        store: quirks.store.then_some(false),
        max_tokens: limit_if(MaxTokensField::MaxTokens),
        max_completion_tokens: limit_if(MaxTokensField::MaxCompletionTokens),
        reasoning_effort: settings.effort.map(effort_word),
        response_format: settings.output_schema.as_deref().map(|schema| {
            ResponseFormat::JsonSchema { json_schema: NamedSchema { name: ANSWER_NAME, schema } }
        }),
        prompt_cache_key: settings.cache_key.as_deref().filter(|_| quirks.cache_key),
        tools: tools.collect(),
        tool_choice: tool_choice(request, |function| ChatTool { function }),
        messages: system_message(request).into_iter().collect(),
    })
}

/// Returns the name of an effort, which is the same in the Chat Completions and Responses APIs.
pub(in super::super) const fn effort_word(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Off => "none",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::Max => "xhigh",
    }
}

fn system_message<'a>(request: &ProviderRequest<'a>) -> Option<ChatMessage<'a>> {
    let (system, quirks) = (&*request.conversation.system, request.quirks);
    if system.trim().is_empty() {
        return None;
    }
    let content = if quirks.list_content {
        ChatContent::Parts(vec![ChatPart::Text { text: system, cache_control: cache_mark(quirks) }])
    } else {
        ChatContent::Text(system.to_owned())
    };
    Some(if quirks.developer_role {
        ChatMessage::Developer { content }
    } else {
        ChatMessage::System { content }
    })
}

pub(in super::super) fn push_message(
    message: &Message,
    request: &ProviderRequest<'_>,
    out: &mut ElementList,
) {
    match message {
        Message::User(content) => push_user(encode_content(content, request.quirks), request, out),
        Message::Assistant(answer) => out.push(&assistant_message(answer, request)),
        Message::Results(batch) => push_results(batch, request, out),
    }
}

/// Returns a cache mark if the server accepts marks, which must be on a part of a list.
fn cache_mark(quirks: &Quirks) -> Option<CacheMark> {
    (quirks.cache_marks && quirks.list_content).then_some(CacheMark {})
}

fn push_user(content: ChatContent<'_>, request: &ProviderRequest<'_>, out: &mut ElementList) {
    let message = ChatMessage::User { content };
    if cache_mark(request.quirks).is_some() {
        out.push_marked(&message);
    } else {
        out.push(&message);
    }
}

fn push_results(batch: &ResultBatch, request: &ProviderRequest<'_>, out: &mut ElementList) {
    let quirks = request.quirks;
    let mut images = Vec::new();
    for result in &batch.results {
        // Every server accepts a string; images follow in a user message.
        let mut text = String::new();
        for part in &result.content {
            match part {
                Content::Text(more) if text.is_empty() => text.push_str(more),
                Content::Text(more) => text.extend(["\n", more]),
                Content::Image { media_type, data } => images.push(image_part(media_type, data)),
            }
        }
        if text.is_empty() {
            text.push_str("(the image follows)");
        }
        out.push(&ChatMessage::Tool {
            tool_call_id: &result.id,
            name: quirks.tool_result_name.then_some(&*result.name),
            content: ChatContent::Text(text),
        });
    }
    if !images.is_empty() {
        images.extend(parts(&batch.steering, quirks));
        push_user(ChatContent::Parts(images), request, out);
    } else if !batch.steering.is_empty() {
        push_user(encode_content(&batch.steering, quirks), request, out);
    }
}

fn assistant_message<'a>(
    answer: &'a AssistantMessage,
    request: &ProviderRequest<'a>,
) -> ChatMessage<'a> {
    let quirks = request.quirks;
    let mut text = String::new();
    let mut thoughts = String::new();
    let mut details = None;
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            AssistantPart::Text(more) if text.is_empty() => text.push_str(more),
            AssistantPart::Text(more) => text.extend(["\n", more]),
            AssistantPart::Reasoning(reasoning) => match &reasoning.seal {
                ReasoningSeal::Details(list) => details = Some(&**list),
                _ => thoughts.push_str(&reasoning.text),
            },
            AssistantPart::Call(call) => calls.push(request_call(call)),
        }
    }
    if answer.issuer != *request.issuer
        && let (Some(first), Some(extra)) = (calls.first_mut(), quirks.foreign_call_extra)
    {
        first.extra_content = serde_json::from_str::<&RawValue>(extra).ok();
    }
    let wants_text = quirks.reasoning_echo == ReasoningEcho::ReasoningContent && !calls.is_empty();
    if thoughts.is_empty() {
        thoughts.push(' '); // such servers refuse an empty text
    }
    ChatMessage::Assistant {
        content: (!text.is_empty()).then_some(ChatContent::Text(text)),
        reasoning_content: wants_text.then_some(thoughts),
        reasoning_details: details
            .filter(|_| quirks.reasoning_echo == ReasoningEcho::ReasoningDetails),
        tool_calls: calls,
    }
}

fn request_call(call: &ModelCall) -> RequestCall<'_> {
    RequestCall {
        id: &call.id,
        function: RequestFunction { name: &call.name, arguments: call.arguments.get() },
        extra_content: call.extra.as_deref(),
    }
}

/// Encodes content as a string if it is only text and the server does not require a list.
fn encode_content<'a>(content: &'a [Content], quirks: &Quirks) -> ChatContent<'a> {
    let text_of = |part: &'a Content| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    };
    let texts: Option<Vec<&str>> = content.iter().map(text_of).collect();
    match texts {
        Some(texts) if !quirks.list_content => ChatContent::Text(texts.join("\n\n")),
        _ => ChatContent::Parts(parts(content, quirks)),
    }
}

/// Encodes content as parts. The last text gets the cache mark.
fn parts<'a>(content: &'a [Content], quirks: &Quirks) -> Vec<ChatPart<'a>> {
    let mark = cache_mark(quirks);
    let last_text = content.iter().rposition(|part| matches!(part, Content::Text(_)));
    let part = |(place, part): (usize, &'a Content)| match part {
        Content::Text(text) => {
            let cache_control = mark.filter(|_| last_text == Some(place));
            ChatPart::Text { text, cache_control }
        }
        Content::Image { media_type, data } => image_part(media_type, data),
    };
    content.iter().enumerate().map(part).collect()
}

fn image_part(media_type: &str, data: &[u8]) -> ChatPart<'static> {
    ChatPart::ImageUrl { image_url: ImageUrl { url: data_url(media_type, data) } }
}
