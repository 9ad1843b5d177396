//! Divides a delivery into messages, and sends one of them.

use std::sync::Arc;

use angelia_core::ports::{
    Channel, ChannelDelivery, ChannelTarget, DeliveryFormat, LengthLimit, OutgoingFile,
    OutgoingMessage, RichBlock, RichText, SendError, SendErrorKind, SentMessage,
};

use super::formatting::{parse_markdown, split_to_fit};

/// Marks a text that an earlier attempt may already have delivered.
const REPEAT_MARK: &str = "(may be a repeat) ";

/// One message of a delivery.
#[derive(Debug)]
pub(super) struct DeliveryPart {
    content: PartContent,
    /// The message that this one replaces.
    replaces: Option<SentMessage>,
}

#[derive(Debug)]
enum PartContent {
    Message(OutgoingMessage),
    File(OutgoingFile),
}

/// Divides a delivery into messages that fit the platform's limits. The result is deterministic: the
/// same delivery always gives the same messages.
pub(super) fn compose_parts(
    delivery: &ChannelDelivery,
    adapter: &dyn Channel,
) -> Vec<DeliveryPart> {
    let capabilities = adapter.capabilities();
    let text = &delivery.text;
    let messages = match &delivery.format {
        DeliveryFormat::File(path) => {
            let (id, name) = (Arc::clone(&delivery.id), Arc::clone(text));
            let file = OutgoingFile { id, path: path.clone(), name };
            return vec![DeliveryPart { content: PartContent::File(file), replaces: None }];
        }
        _ if !capabilities.rich_text => {
            let whole = OutgoingMessage { text: Arc::clone(text), ..OutgoingMessage::default() };
            vec![whole]
        }
        format => {
            let rich = match format {
                DeliveryFormat::Markdown => parse_markdown(text),
                DeliveryFormat::Plain | DeliveryFormat::File(_) => RichText::plain(text),
            };
            let rich = match capabilities.max_length {
                Some(limit) => split_to_fit(&rich, leave_room_for_mark(limit), &|part| {
                    adapter.written_length(part)
                }),
                None => vec![rich],
            };
            rich.into_iter().map(rich_message).collect()
        }
    };
    let replaces = delivery.replaces.clone();
    let mut replaces = replaces.map(|id| SentMessage { message_id: Some(id) });
    let parts = messages.into_iter().enumerate().map(|(index, message)| {
        let id = match index {
            0 => Arc::clone(&delivery.id),
            later => format!("{}/{}", delivery.id, later + 1).into(),
        };
        let reply_to = delivery.reply_to.clone().filter(|_| index == 0);
        let message = OutgoingMessage { id, reply_to, ..message };
        DeliveryPart { content: PartContent::Message(message), replaces: replaces.take() }
    });
    parts.collect()
}

/// Returns a message with this formatted text.
pub(super) fn rich_message(rich: RichText) -> OutgoingMessage {
    OutgoingMessage {
        text: rich.visible_text().into(),
        rich: Some(rich),
        ..OutgoingMessage::default()
    }
}

fn leave_room_for_mark(limit: LengthLimit) -> LengthLimit {
    LengthLimit { max: limit.max.saturating_sub(REPEAT_MARK.len() + 1), ..limit }
}

/// Sends a part, with a visible mark if an earlier attempt may have arrived.
pub(super) async fn send_part(
    target: &ChannelTarget,
    part: &DeliveryPart,
    may_repeat: bool,
) -> Result<SentMessage, SendError> {
    let message = match &part.content {
        PartContent::File(file) => return target.adapter.send_file(&target.chat, file).await,
        PartContent::Message(message) => message,
    };
    if let Some(sent) = &part.replaces {
        // Editing twice does no harm, so an edit needs no mark.
        match target.adapter.end_stream(&target.chat, sent, message).await {
            // The message is gone: send a new one.
            Err(error) if error.kind == SendErrorKind::Refused => {}
            edited => return edited.map(|()| sent.clone()),
        }
    }
    if !may_repeat {
        return target.adapter.send(&target.chat, message).await;
    }
    let mut marked = OutgoingMessage {
        text: format!("{REPEAT_MARK}{}", message.text).into(),
        may_repeat,
        ..message.clone()
    };
    if let Some(rich) = &mut marked.rich {
        let mark: RichBlock = RichText::plain(REPEAT_MARK.trim_end()).blocks.remove(0);
        rich.blocks.insert(0, mark);
    }
    target.adapter.send(&target.chat, &marked).await
}
