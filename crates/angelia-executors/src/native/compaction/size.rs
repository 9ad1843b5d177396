//! Estimates the tokens of messages, without a tokenizer. The provider reports the true count with
//! every answer, so an estimate only has to compare messages and to cover those added since.

use angelia_core::model::{CallerTool, Content};

use crate::native::provider::{AssistantPart, Conversation, Message, Reasoning, ReasoningSeal};

/// The maximum number of tokens of an image in all current APIs.
const IMAGE_TOKENS: u64 = 1_600;

/// The tokens of the role, ids and brackets of a message, a call or a result.
const FRAME_TOKENS: u64 = 4;

/// Estimates the tokens of a text: one per 3.5 bytes.
pub fn text_tokens(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(2).div_ceil(7)
}

/// Estimates how many bytes of text fit into this many tokens.
pub fn text_bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(7) / 2).unwrap_or(usize::MAX)
}

pub fn message_tokens(message: &Message) -> u64 {
    let tokens = match message {
        Message::User(content) => content_tokens(content),
        Message::Assistant(answer) => answer.parts.iter().map(part_tokens).sum(),
        Message::Results(batch) => {
            let results = batch.results.iter();
            let results: u64 =
                results.map(|result| FRAME_TOKENS + content_tokens(&result.content)).sum();
            results + content_tokens(&batch.steering)
        }
    };
    FRAME_TOKENS + tokens
}

pub fn messages_tokens(messages: &[Message]) -> u64 {
    messages.iter().map(message_tokens).sum()
}

/// Estimates the tokens of a whole request.
pub fn request_tokens(conversation: &Conversation, tools: &[CallerTool]) -> u64 {
    let tools = tools.iter().map(|tool| {
        let bytes = tool.name.len() + tool.description.len() + tool.input_schema.get().len();
        FRAME_TOKENS + text_tokens(bytes)
    });
    let tools: u64 = tools.sum();
    tools + text_tokens(conversation.system.len()) + messages_tokens(&conversation.messages)
}

fn content_tokens(content: &[Content]) -> u64 {
    let parts = content.iter().map(|part| match part {
        Content::Text(text) => text_tokens(text.len()),
        Content::Image { .. } => IMAGE_TOKENS,
    });
    parts.sum()
}

fn part_tokens(part: &AssistantPart) -> u64 {
    match part {
        AssistantPart::Text(text) => text_tokens(text.len()),
        AssistantPart::Reasoning(Reasoning { text, seal }) => {
            let seal = match seal {
                ReasoningSeal::Plain => 0,
                ReasoningSeal::Signature(seal) | ReasoningSeal::Redacted(seal) => seal.len(),
                ReasoningSeal::Encrypted { summary, content } => {
                    summary.get().len() + content.len()
                }
                ReasoningSeal::Details(details) => details.get().len(),
            };
            text_tokens(text.len() + seal)
        }
        AssistantPart::Call(call) => {
            FRAME_TOKENS + text_tokens(call.name.len() + call.arguments.get().len())
        }
    }
}

/// The ratio of the provider's token count to our estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenScale {
    reported: u64,
    estimated: u64,
}

impl Default for TokenScale {
    fn default() -> Self {
        Self { reported: 1, estimated: 1 }
    }
}

impl TokenScale {
    /// Creates the ratio from the reported and the estimated tokens of a request. It is limited to
    /// a factor of four: a greater difference is not due to the text, but to parts that were cut
    /// off or that we do not know about.
    pub fn new(reported: u64, estimated: u64) -> Self {
        let estimated = estimated.max(1);
        let reported = reported.clamp(estimated.div_ceil(4), estimated.saturating_mul(4));
        Self { reported, estimated }
    }

    pub fn to_reported(self, estimate: u64) -> u64 {
        scale(estimate, self.reported, self.estimated)
    }

    pub fn to_estimated(self, reported: u64) -> u64 {
        scale(reported, self.estimated, self.reported)
    }
}

fn scale(count: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(count) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_corrects_the_estimate() {
        assert_eq!((text_tokens(35), text_tokens(36), text_bytes(10)), (10, 11, 35));
        let scale = TokenScale::new(3_000, 1_500);
        assert_eq!((scale.to_reported(100), scale.to_estimated(100)), (200, 50));
        assert_eq!(TokenScale::new(1, 1_000).to_reported(1_000), 250);
        assert_eq!(TokenScale::default().to_reported(7), 7);
        assert_eq!(TokenScale::new(9, 0).to_reported(1), 4);
    }
}
