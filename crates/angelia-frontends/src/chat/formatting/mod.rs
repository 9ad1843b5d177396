//! Formats answers for chats. Pure.
//!
//! - [`parse_markdown`]: parses Markdown into blocks of formatted text.
//! - [`to_common_markdown`]: writes formatted text as the Markdown that most platforms read.
//! - [`split_text`]: splits formatted text into messages that are short enough; [`split_to_fit`]: the same for
//!   platforms that count formatting too.
//! - [`write_markdown`]: writes formatted text as ordinary Markdown, for platforms that read it.

mod common_markdown;
mod markdown;
mod markdown_writer;
mod split;
mod table;

pub use common_markdown::to_common_markdown;
pub use markdown::parse_markdown;
pub use markdown_writer::{Escapes, remove_controls, write_markdown};
pub use split::{split_text, split_to_fit};
