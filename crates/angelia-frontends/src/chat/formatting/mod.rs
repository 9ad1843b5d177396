//! Formats answers for chats. Pure.
//!
//! - [`parse_markdown`]: Markdown as blocks of formatted text.
//! - [`split_text`]: cuts formatted text into messages that are short enough; [`split_to_fit`]: where formatting
//!   counts too.

mod markdown;
mod split;
mod table;

pub use markdown::parse_markdown;
pub use split::{split_text, split_to_fit};
