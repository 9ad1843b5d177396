//! Formats answers for chats. Pure.
//!
//! - [`parse_markdown`]: Markdown as blocks of formatted text.
//! - [`to_common_markdown`]: formatted text as Markdown again, as most platforms read it.
//! - [`split_text`]: cuts formatted text into messages that are short enough; [`split_to_fit`]: where formatting
//!   counts too.

mod common_markdown;
mod markdown;
mod split;
mod table;

pub use common_markdown::to_common_markdown;
pub use markdown::parse_markdown;
pub use split::{split_text, split_to_fit};
