//! Formats answers for chats. Pure.
//!
//! - [`parse_markdown`]: Markdown as blocks of formatted text.
//! - [`to_common_markdown`]: formatted text as Markdown again, as most platforms read it.
//! - [`split_text`]: cuts formatted text into messages that are short enough; [`split_to_fit`]: where formatting
//!   counts too.
//! - [`write_markdown`]: formatted text as ordinary Markdown, for platforms that read it.

mod common_markdown;
mod markdown;
mod markdown_writer;
mod split;
mod table;

pub use common_markdown::to_common_markdown;
pub use markdown::parse_markdown;
pub use markdown_writer::{Escapes, remove_controls, write_markdown};
pub use split::{split_text, split_to_fit};
