//! Cards: messages with buttons, and answers that grow. They use the variables of the AI card in DingTalk's own
//! library, so its public template works, and so does any other template with the same variables.

use std::time::Duration;

use angelia_core::ports::{OutgoingMessage, RichText, SendError, SendErrorKind, SentMessage};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    adapter::DingTalk,
    open_api::SERVER,
    writing::{PERSON_PREFIX, Recipient},
};
use crate::chat::{formatting::to_common_markdown, send_budget::SendRate};

/// The template variable for the text.
const TEXT_KEY: &str = "msgContent";

/// The period is a little shorter than the interval of previews.
const PREVIEW_RATES: [SendRate; 1] = [SendRate { count: 1, period: Duration::from_millis(900) }];

/// The progress of a card, as its template shows it.
#[derive(Clone, Copy, Debug)]
enum CardStatus {
    Begun,
    Growing,
    Complete,
}

impl CardStatus {
    const fn code(self) -> &'static str {
        match self {
            Self::Begun => "1",
            Self::Growing => "2",
            Self::Complete => "3",
        }
    }
}

/// Returns the id of a card. It is the same for every attempt, so that the platform creates the card only once.
/// It contains the chat, because a press does not name it.
pub(super) fn card_id(chat: &str, message: &str) -> String {
    let digest = hex::encode(Sha256::digest(message.as_bytes()));
    format!("{}.{}", URL_SAFE_NO_PAD.encode(chat), &digest[..16])
}

/// Returns the chat of a card, or `None` if the card is not ours.
pub(super) fn chat_of_card(id: &str) -> Option<String> {
    let (chat, digest) = id.split_once('.')?;
    let is_ours = digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let chat = String::from_utf8(URL_SAFE_NO_PAD.decode(chat).ok()?).ok()?;
    (is_ours && !chat.is_empty()).then_some(chat)
}

impl DingTalk {
    /// Sends a message with buttons.
    pub(super) async fn send_card(
        &self,
        template: &str,
        chat: &str,
        recipient: Recipient<'_>,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let id = card_id(chat, &message.id);
        let variables = variables(CardStatus::Complete, message);
        self.create_card(template, &id, recipient, variables).await?;
        Ok(SentMessage { message_id: Some(id.into()) })
    }

    pub(super) async fn begin_growing(
        &self,
        chat: &str,
        first: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let recipient = Recipient::parse(chat)?;
        let Some(template) = self.template.as_deref() else {
            return Err(SendError::new(SendErrorKind::Refused, "no template for cards is set"));
        };
        self.take_preview(chat)?;
        let id = card_id(chat, &first.id);
        let nothing = OutgoingMessage::default();
        self.create_card(template, &id, recipient, variables(CardStatus::Begun, &nothing)).await?;
        self.put_variables(&id, variables(CardStatus::Growing, &nothing)).await?;
        self.put_text(&id, first, false).await?;
        Ok(SentMessage { message_id: Some(id.into()) })
    }

    pub(super) async fn grow(
        &self,
        chat: &str,
        begun: &SentMessage,
        so_far: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = require_card(begun)?;
        self.take_preview(chat)?;
        self.put_text(id, so_far, false).await
    }

    /// Writes the last text of a card and ends its growth. Repeating this does no harm.
    pub(super) async fn end_growing(
        &self,
        begun: &SentMessage,
        last: &OutgoingMessage,
    ) -> Result<(), SendError> {
        let id = require_card(begun)?;
        match self.put_text(id, last, true).await {
            // An already ended stream does not matter: the variables decide what the card shows.
            Err(error) if error.kind == SendErrorKind::Refused => {}
            outcome => outcome?,
        }
        self.put_variables(id, variables(CardStatus::Complete, last)).await
    }

    pub(super) async fn edit_card(
        &self,
        sent: &SentMessage,
        new: &OutgoingMessage,
    ) -> Result<(), SendError> {
        self.put_variables(require_card(sent)?, variables(CardStatus::Complete, new)).await
    }

    /// Creates a card and shows it. An attempt that may have succeeded is repeated with the same
    /// id.
    async fn create_card(
        &self,
        template: &str,
        id: &str,
        recipient: Recipient<'_>,
        variables: Value,
    ) -> Result<(), SendError> {
        let mut body = json!({
            "cardTemplateId": template,
            "outTrackId": id,
            "callbackType": "STREAM",
            "cardData": {"cardParamMap": variables},
            "userIdType": 1,
            "imGroupOpenSpaceModel": {"supportForward": true},
            "imRobotOpenSpaceModel": {"supportForward": true},
        });
        match recipient {
            Recipient::Group(conversation) => {
                body["openSpaceId"] = format!("dtv1.card//IM_GROUP.{conversation}").into();
                body["imGroupOpenDeliverModel"] = json!({"robotCode": &*self.api.client_id});
            }
            Recipient::Person(staff) => {
                body["openSpaceId"] = format!("dtv1.card//IM_ROBOT.{staff}").into();
                body["imRobotOpenDeliverModel"] = json!({"spaceType": "IM_ROBOT"});
            }
        }
        let path = "/v1.0/card/instances/createAndDeliver";
        let first = self.api.call(Method::POST, path, &body).await.map_err(SendError::from);
        let answer = match first {
            Err(error) if error.kind == SendErrorKind::Unknown => {
                self.api.call(Method::POST, path, &body).await?
            }
            outcome => outcome?,
        };
        let results = answer["result"]["deliverResults"].as_array();
        let failed = results.into_iter().flatten().find(|one| one["success"] == false);
        match failed {
            None => Ok(()),
            Some(failed) => {
                let why = failed["errorMsg"].as_str().unwrap_or_default();
                let message = format!("{SERVER} does not show the card: {why}");
                Err(SendError::new(SendErrorKind::Refused, message))
            }
        }
    }

    async fn put_variables(&self, id: &str, variables: Value) -> Result<(), SendError> {
        let body = json!({
            "outTrackId": id,
            "cardData": {"cardParamMap": variables},
            "cardUpdateOptions": {"updateCardDataByKey": true},
        });
        self.api.call(Method::PUT, "/v1.0/card/instances", &body).await?;
        Ok(())
    }

    /// Replaces the text of a growing card.
    async fn put_text(
        &self,
        id: &str,
        message: &OutgoingMessage,
        is_last: bool,
    ) -> Result<(), SendError> {
        let body = json!({
            "outTrackId": id,
            "guid": self.clock.fresh_uuid().to_string(),
            "key": TEXT_KEY,
            "content": card_text(message),
            "isFull": true,
            "isFinalize": is_last,
            "isError": false,
        });
        self.api.call(Method::PUT, "/v1.0/card/streaming", &body).await?;
        Ok(())
    }

    /// Returns an error if a preview would come too early. It does not wait, because the next
    /// preview is newer anyway.
    fn take_preview(&self, chat: &str) -> Result<(), SendError> {
        if self.preview_budget.try_take(chat, &PREVIEW_RATES) {
            return Ok(());
        }
        let error = SendError::new(SendErrorKind::NotSent, "the preview is too early");
        Err(SendError { retry_after: Some(Duration::from_secs(1)), ..error })
    }

    /// Sends a text to the person who pressed a button, because cards have no place that only this
    /// person sees.
    pub(super) async fn answer_presser(&self, staff: &str, text: &str) -> Result<(), SendError> {
        let message = OutgoingMessage {
            text: text.into(),
            rich: Some(RichText::plain(text)),
            ..OutgoingMessage::default()
        };
        self.send_message(&format!("{PERSON_PREFIX}{staff}"), &message).await.map(drop)
    }
}

fn require_card(sent: &SentMessage) -> Result<&str, SendError> {
    let id = sent.message_id.as_deref().filter(|id| chat_of_card(id).is_some());
    let message = "only cards can be changed in DingTalk";
    id.ok_or_else(|| SendError::new(SendErrorKind::Refused, message))
}

fn card_text(message: &OutgoingMessage) -> String {
    message.rich.as_ref().map_or_else(|| message.text.to_string(), to_common_markdown)
}

/// Returns the variables of a card. Structured values are JSON strings.
fn variables(status: CardStatus, message: &OutgoingMessage) -> Value {
    let buttons: Vec<Value> = message
        .buttons
        .iter()
        .enumerate()
        .map(|(index, button)| {
            let color = if index == 0 { "blue" } else { "gray" };
            json!({"text": &*button.label, "id": &*button.value, "color": color, "request": true})
        })
        .collect();
    let mut layout = json!({"order": [TEXT_KEY, "msgButtons"]});
    if !buttons.is_empty() {
        layout["msgButtons"] = buttons.into();
    }
    json!({
        "flowStatus": status.code(),
        TEXT_KEY: card_text(message),
        "staticMsgContent": "",
        "sys_full_json_obj": layout.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_card_is_stable_and_names_its_chat() {
        let id = card_id("cid+/1==", "approval-1");
        assert_eq!(id, card_id("cid+/1==", "approval-1"));
        assert_ne!(id, card_id("cid+/1==", "approval-2"));
        assert_eq!(chat_of_card(&id).as_deref(), Some("cid+/1=="));
        for foreign in ["", ".", "abc", "YQ.xyz", "YQ.0123456789abcdeg", "?.0123456789abcdef"] {
            assert_eq!(chat_of_card(foreign), None, "{foreign}");
        }
        let sent = SentMessage { message_id: Some("approval-1".into()) };
        assert_eq!(require_card(&sent).unwrap_err().kind, SendErrorKind::Refused);
    }
}
