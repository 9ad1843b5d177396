//! Encodes a conversation as the body of a Messages request.

use angelia_core::model::{Content, ReasoningEffort, ToolChoice};

use super::{
    super::{
        AssistantPart, Message, ProviderRequest, Quirks, ReasoningSeal,
        element_list::ElementList,
        image::base64_of,
        quirks::{ReasoningEcho, ThinkingForm},
        request::{input_schema, to_bytes},
    },
    wire::{
        CacheMark, ChosenTool, ImageSource, MessagesBody, MessagesTool, OutputConfig, OutputFormat,
        RequestBlock, RequestMessage, Thinking,
    },
};

/// The API requires an output limit; this one suits every current model.
const DEFAULT_MAX_TOKENS: u64 = 16_384;

/// The minimum thinking budget that the API accepts.
const MIN_THINKING_TOKENS: u64 = 1_024;

/// Encodes everything except the messages.
pub(in super::super) fn encode_head(request: &ProviderRequest<'_>) -> Vec<u8> {
    let (settings, quirks) = (request.settings, request.quirks);
    let max_tokens = settings.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let mark = quirks.cache_marks.then_some(CacheMark {});
    let mut tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| MessagesTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: input_schema(tool, settings.plain_schemas),
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = mark;
    }
    let system = &*request.conversation.system;
    let system = (!system.trim().is_empty())
        .then_some(RequestBlock::Text { text: system, cache_control: mark });
    let tool_choice = tool_choice(request);
    // The API does not allow thinking before a forced tool call.
    let is_forced = matches!(tool_choice, Some(ChosenTool::Any | ChosenTool::Tool { .. }));
    let effort = settings.effort.filter(|_| !is_forced);
    let (thinking, effort) = thinking(effort, max_tokens, quirks);
    let format =
        settings.output_schema.as_deref().map(|schema| OutputFormat::JsonSchema { schema });
    let output_config =
        (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format });
    to_bytes(&MessagesBody {
        model: &request.issuer.model,
        max_tokens,
        stream: true,
        thinking,
        output_config,
        tools,
        tool_choice,
        system: system.into_iter().collect(),
        messages: [],
    })
}

pub(in super::super) fn push_message(message: &Message, quirks: &Quirks, out: &mut ElementList) {
    match message {
        Message::User(content) => {
            push_user_side(blocks(content), quirks, out);
        }
        Message::Assistant(answer) => {
            let content = answer.parts.iter().filter_map(|part| assistant_block(part, quirks));
            out.push(&RequestMessage { role: "assistant", content: content.collect() });
        }
        Message::Results(batch) => {
            let results = batch.results.iter().map(|result| RequestBlock::ToolResult {
                tool_use_id: &result.id,
                content: blocks(&result.content),
                is_error: !result.ok,
                cache_control: None,
            });
            // Results come first, before anything that the person wrote in the meantime.
            let content = results.chain(blocks(&batch.steering)).collect();
            push_user_side(content, quirks, out);
        }
    }
}

fn push_user_side(mut content: Vec<RequestBlock<'_>>, quirks: &Quirks, out: &mut ElementList) {
    if quirks.cache_marks {
        mark_last_block(&mut content);
        out.push_marked(&RequestMessage { role: "user", content });
    } else {
        out.push(&RequestMessage { role: "user", content });
    }
}

/// Returns the tool choice of a request. `None` lets the model choose, which is the default.
fn tool_choice<'a>(request: &ProviderRequest<'a>) -> Option<ChosenTool<'a>> {
    match &request.settings.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(ChosenTool::None),
        ToolChoice::Required => Some(ChosenTool::Any),
        ToolChoice::Named(name) => Some(ChosenTool::Tool { name }),
    }
}

fn thinking(
    effort: Option<ReasoningEffort>,
    max_tokens: u64,
    quirks: &Quirks,
) -> (Option<Thinking>, Option<&'static str>) {
    let (effort, budget) = match effort {
        None | Some(ReasoningEffort::Off) => return (None, None),
        Some(ReasoningEffort::Low) => ("low", 2_048),
        Some(ReasoningEffort::Medium) => ("medium", 8_192),
        Some(ReasoningEffort::High) => ("high", 16_384),
        Some(ReasoningEffort::Max) => ("max", 32_768),
    };
    match quirks.thinking {
        ThinkingForm::Adaptive => {
            let thinking = Thinking::Adaptive { display: "summarized" };
            (Some(thinking), Some(effort))
        }
        ThinkingForm::Budget => {
            // The budget is part of the output, and there must be room left for the answer.
            let budget_tokens = budget.min(max_tokens / 2);
            let fits = budget_tokens >= MIN_THINKING_TOKENS;
            (fits.then_some(Thinking::Enabled { budget_tokens }), None)
        }
    }
}

fn assistant_block<'a>(part: &'a AssistantPart, quirks: &Quirks) -> Option<RequestBlock<'a>> {
    match part {
        AssistantPart::Text(text) => Some(RequestBlock::Text { text, cache_control: None }),
        AssistantPart::Call(call) => {
            Some(RequestBlock::ToolUse { id: &call.id, name: &call.name, input: &call.arguments })
        }
        AssistantPart::Reasoning(_) if quirks.reasoning_echo != ReasoningEcho::Signature => None,
        AssistantPart::Reasoning(reasoning) => match &reasoning.seal {
            ReasoningSeal::Signature(signature) => {
                Some(RequestBlock::Thinking { thinking: &reasoning.text, signature })
            }
            ReasoningSeal::Redacted(data) => Some(RequestBlock::RedactedThinking { data }),
            _ => None,
        },
    }
}

fn blocks<'a>(content: &'a [Content]) -> Vec<RequestBlock<'a>> {
    let block = |part: &'a Content| match part {
        Content::Text(text) => RequestBlock::Text { text, cache_control: None },
        Content::Image { media_type, data } => RequestBlock::Image {
            source: ImageSource { media_type, data: base64_of(data) },
            cache_control: None,
        },
    };
    content.iter().map(block).collect()
}

fn mark_last_block(content: &mut [RequestBlock<'_>]) {
    if let Some(
        RequestBlock::Text { cache_control, .. }
        | RequestBlock::Image { cache_control, .. }
        | RequestBlock::ToolResult { cache_control, .. },
    ) = content.last_mut()
    {
        *cache_control = Some(CacheMark {});
    }
}
