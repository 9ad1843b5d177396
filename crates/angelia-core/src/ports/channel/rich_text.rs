//! Formatted text as a list of blocks, which every adapter can write in its platform's dialect. Blocks are
//! not nested, so the text can be cut anywhere.

use std::sync::Arc;

/// Blocks in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RichText {
    pub blocks: Vec<RichBlock>,
}

/// Text on its own lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RichBlock {
    pub kind: BlockKind,
    pub spans: Vec<Span>,
    /// Whether an empty line precedes the block, unless it is the first one.
    pub has_gap: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Paragraphs, headings, and list items with their bullets or numbers.
    Text,
    Quote,
    /// Monospaced text, including tables.
    Code {
        language: Option<Arc<str>>,
    },
}

/// Text in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub style: SpanStyle,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanStyle {
    pub bold: bool,
    pub italic: bool,
    pub strike: bool,
    pub code: bool,
    pub link: Option<Arc<str>>,
}

/// Maximum length of a platform's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthLimit {
    pub max: usize,
    pub unit: LengthUnit,
}

/// How a platform counts the length of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthUnit {
    Utf16,
    CodePoints,
    Bytes,
}

impl LengthUnit {
    pub fn measure(self, text: &str) -> usize {
        match self {
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
            Self::CodePoints => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }
}

impl RichText {
    /// Returns text without formatting.
    pub fn plain(text: &str) -> Self {
        let spans = vec![Span { text: text.to_owned(), style: SpanStyle::default() }];
        Self { blocks: vec![RichBlock { kind: BlockKind::Text, spans, has_gap: false }] }
    }

    /// Returns only the characters, without formatting.
    pub fn visible_text(&self) -> String {
        let mut text = String::new();
        for (index, block) in self.blocks.iter().enumerate() {
            if index > 0 {
                text.push_str(block.separator());
            }
            text.extend(block.spans.iter().map(|span| span.text.as_str()));
        }
        text
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.spans.iter().all(|span| span.text.is_empty()))
    }
}

impl RichBlock {
    /// Returns the text between the previous block and this one.
    pub const fn separator(&self) -> &'static str {
        if self.has_gap { "\n\n" } else { "\n" }
    }

    pub fn measure(&self, unit: LengthUnit) -> usize {
        self.spans.iter().map(|span| unit.measure(&span.text)).sum()
    }

    pub const fn is_code(&self) -> bool {
        matches!(self.kind, BlockKind::Code { .. })
    }
}
