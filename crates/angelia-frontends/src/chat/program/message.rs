//! Converts messages for a program, and reads files from it.

use std::{io, path::Path};

use angelia_core::ports::{
    OutgoingMessage, RichText, SendError, SendErrorKind, SentMessage, split_thread,
};
use tokio::io::AsyncReadExt as _;

use super::protocol::{Edit, Message, MessageButton, MessagePlace};
use crate::chat::formatting::{Escapes, write_markdown};

pub(super) fn place(chat: &str) -> MessagePlace<'_> {
    let (chat, thread) = split_thread(chat);
    MessagePlace { chat, thread }
}

pub(super) fn write_message(message: &OutgoingMessage) -> Message<'_> {
    let markdown = match &message.rich {
        Some(rich) => write_markdown(rich, Escapes::Backslashes),
        None => write_markdown(&RichText::plain(&message.text), Escapes::Backslashes),
    };
    let buttons = message.buttons.iter().map(|button| MessageButton {
        label: &button.label,
        value: &button.value,
        words: button.words.as_deref(),
    });
    Message {
        id: &message.id,
        markdown,
        text: &message.text,
        may_repeat: message.may_repeat,
        buttons: buttons.collect(),
        reply_to: message.reply_to.as_deref(),
    }
}

pub(super) fn write_edit<'a>(
    chat: &'a str,
    sent: &'a SentMessage,
    message: &'a OutgoingMessage,
) -> Result<Edit<'a>, SendError> {
    let message_id = sent.message_id.as_deref().ok_or_else(|| {
        SendError::new(SendErrorKind::Refused, "the message has no id, so it cannot be changed")
    })?;
    Ok(Edit { place: place(chat), message_id, message: write_message(message) })
}

/// Reads a file that the program names. Reads one byte beyond `limit`, so that the caller notices a
/// file that is too large.
pub(super) async fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
