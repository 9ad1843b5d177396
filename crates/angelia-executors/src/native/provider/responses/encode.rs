//! Encodes a conversation as the body of a Responses request.

use angelia_core::model::Content;

use super::{
    super::{
        AssistantPart, Message, ProviderRequest, Quirks, ReasoningSeal,
        chat::{ANSWER_NAME, ToolFunction, effort_word, tool_choice},
        element_list::ElementList,
        image::data_url,
        quirks::ReasoningEcho,
        request::to_bytes,
    },
    wire::{
        CallOutput, InputItem, InputPart, ReasoningRequest, ResponsesBody, ResponsesTool,
        TextFormat, TextSettings,
    },
};

/// Asks for reasoning in a form that can be sent back, because the provider stores nothing.
const SEALED_REASONING: &str = "reasoning.encrypted_content";

/// Encodes everything except the items.
pub(in super::super) fn encode_head(request: &ProviderRequest<'_>) -> Vec<u8> {
    let (settings, quirks) = (request.settings, request.quirks);
    let echoes = quirks.reasoning_echo == ReasoningEcho::Encrypted;
    let tools = ToolFunction::of_request(request).map(|function| ResponsesTool { function });
    let reasoning = settings.effort.map(|effort| ReasoningRequest {
        effort: effort_word(effort),
        summary: (effort_word(effort) != "none").then_some("auto"),
    });
    to_bytes(&ResponsesBody {
        model: &request.issuer.model,
        stream: true,
        store: quirks.store.then_some(false),
        include: echoes.then_some(SEALED_REASONING).into_iter().collect(),
        max_output_tokens: settings.max_output_tokens,
        reasoning,
        text: settings.output_schema.as_deref().map(|schema| TextSettings {
            format: TextFormat::JsonSchema { name: ANSWER_NAME, schema },
        }),
        prompt_cache_key: settings.cache_key.as_deref().filter(|_| quirks.cache_key),
        instructions: request.conversation.system.trim(),
        tools: tools.collect(),
        tool_choice: tool_choice(request, |function| ResponsesTool { function }),
        input: [],
    })
}

pub(in super::super) fn push_message(message: &Message, quirks: &Quirks, out: &mut ElementList) {
    match message {
        Message::User(content) => out.push(&user_item(content)),
        Message::Assistant(answer) => {
            for item in answer.parts.iter().filter_map(|part| assistant_item(part, quirks)) {
                out.push(&item);
            }
        }
        Message::Results(batch) => {
            for result in &batch.results {
                let output = call_output(&result.content);
                out.push(&InputItem::FunctionCallOutput { call_id: &result.id, output });
            }
            if !batch.steering.is_empty() {
                out.push(&user_item(&batch.steering));
            }
        }
    }
}

fn user_item(content: &[Content]) -> InputItem<'_> {
    InputItem::Message { role: "user", content: input_parts(content) }
}

fn assistant_item<'a>(part: &'a AssistantPart, quirks: &Quirks) -> Option<InputItem<'a>> {
    match part {
        AssistantPart::Text(text) => Some(InputItem::Message {
            role: "assistant",
            content: vec![InputPart::OutputText { text }],
        }),
        AssistantPart::Call(call) => Some(InputItem::FunctionCall {
            call_id: &call.id,
            name: &call.name,
            arguments: call.arguments.get(),
        }),
        AssistantPart::Reasoning(reasoning) => match &reasoning.seal {
            ReasoningSeal::Encrypted { summary, content }
                if quirks.reasoning_echo == ReasoningEcho::Encrypted =>
            {
                Some(InputItem::Reasoning { summary, encrypted_content: content })
            }
            _ => None,
        },
    }
}

/// Encodes the output of a call. A single text becomes a string, which every server accepts.
fn call_output(content: &[Content]) -> CallOutput<'_> {
    match content {
        [Content::Text(text)] => CallOutput::Text(text),
        _ => CallOutput::Parts(input_parts(content)),
    }
}

fn input_parts<'a>(content: &'a [Content]) -> Vec<InputPart<'a>> {
    let part = |part: &'a Content| match part {
        Content::Text(text) => InputPart::InputText { text },
        Content::Image { media_type, data } => {
            InputPart::InputImage { image_url: data_url(media_type, data) }
        }
    };
    content.iter().map(part).collect()
}
