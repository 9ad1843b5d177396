//! The items of an answer while they are being written. A finished item replaces what its deltas
//! have built up. If a server sends no finished item, the deltas are all there is.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    super::{AnswerPart, Reasoning, ReasoningSeal, ReceivedCall},
    wire::{ItemText, OutputItem},
};

#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) content: ItemContent,
    /// The index of the summary's paragraph that is being written.
    pub(super) paragraph: u64,
}

#[derive(Debug)]
pub(super) enum ItemContent {
    Text(String),
    Reasoning { text: String, seal: ReasoningSeal },
    Call { id: String, name: String, arguments: String },
}

impl ItemContent {
    /// Returns the content of an item; `None` if its kind is unknown.
    pub(super) fn of(item: &OutputItem<'_>) -> Option<Self> {
        let texts = || joined(item.content.0.iter().flatten());
        match item.kind.as_str()? {
            "message" => Some(Self::Text(texts())),
            "reasoning" => {
                let summary = item.summary.map_or("[]", RawValue::get);
                let parts: Vec<ItemText<'_>> = serde_json::from_str(summary).unwrap_or_default();
                let text = if parts.is_empty() {
                    texts()
                } else {
                    let parts = parts.iter().filter_map(|part| part.text.as_str());
                    parts.collect::<Vec<_>>().join("\n\n")
                };
                Some(Self::Reasoning { text, seal: seal(item, summary) })
            }
            "function_call" => {
                let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
                let arguments = item.arguments.map(RawValue::get).unwrap_or_default();
                let arguments = serde_json::from_str(arguments).unwrap_or(arguments.to_owned());
                let id = text(item.call_id.as_str().or(item.id.as_str()));
                Some(Self::Call { id, name: text(item.name.as_str()), arguments })
            }
            _ => None,
        }
    }

    pub(super) fn has_text(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning { text, .. } => !text.is_empty(),
            Self::Call { arguments, .. } => !arguments.is_empty(),
        }
    }

    /// Returns the finished item, with the text of this one if the finished item omits it.
    pub(super) fn replaced_by(self, mut finished: Self) -> Self {
        if !finished.has_text() {
            let (Self::Text(kept)
            | Self::Reasoning { text: kept, .. }
            | Self::Call { arguments: kept, .. }) = self;
            let (Self::Text(text)
            | Self::Reasoning { text, .. }
            | Self::Call { arguments: text, .. }) = &mut finished;
            *text = kept;
        }
        finished
    }

    /// Returns the part; `None` if it is empty. `made_id` returns the id for a call without one.
    pub(super) fn into_part(self, made_id: impl FnOnce() -> Arc<str>) -> Option<AnswerPart> {
        match self {
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(AnswerPart::Text(text.into())),
            Self::Reasoning { text, seal: ReasoningSeal::Plain } if text.is_empty() => None,
            Self::Reasoning { text, seal } => {
                Some(AnswerPart::Reasoning(Reasoning { text: text.into(), seal }))
            }
            Self::Call { id, name, arguments } => {
                let id = if id.is_empty() { made_id() } else { id.into() };
                let (name, arguments) = (name.into(), arguments.into());
                Some(AnswerPart::Call(ReceivedCall { id, name, arguments, extra: None }))
            }
        }
    }
}

fn seal(item: &OutputItem<'_>, summary: &str) -> ReasoningSeal {
    let summary = RawValue::from_string(summary.to_owned());
    match (item.encrypted_content.as_str(), summary) {
        (Some(content), Ok(summary)) if !content.is_empty() => {
            ReasoningSeal::Encrypted { summary: summary.into(), content: content.into() }
        }
        _ => ReasoningSeal::Plain,
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a ItemText<'a>>) -> String {
    texts.filter_map(|part| part.text.as_str().or(part.refusal.as_str())).collect()
}
