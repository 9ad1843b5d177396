//! Sends messages within DingTalk's rates: through the chat's session webhook while that is open, otherwise
//! through the API.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{OutgoingMessage, SendError, SendErrorKind, SentMessage};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    adapter::DingTalk,
    form::Form,
    open_api::SERVER,
    session_webhook::{SessionError, post},
};
use crate::chat::send_budget::SendRate;

/// Precedes a person's staff id in the address of a direct chat.
pub(super) const PERSON_PREFIX: &str = "user:";

const SECOND: Duration = Duration::from_secs(1);
pub(super) const OVERALL_RATE: SendRate = SendRate { count: 20, period: SECOND };
const PERSON_RATES: [SendRate; 1] = [SendRate { count: 5, period: SECOND }];
/// The limit for group robots. Other robots may have a higher one, but none is documented.
const GROUP_RATES: [SendRate; 1] = [SendRate { count: 20, period: Duration::from_secs(61) }];

/// The recipient of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient<'a> {
    /// A conversation id.
    Group(&'a str),
    /// A staff id.
    Person(&'a str),
}

impl<'a> Recipient<'a> {
    pub(super) fn parse(chat: &'a str) -> Result<Self, SendError> {
        match chat.strip_prefix(PERSON_PREFIX) {
            Some("") => {
                let message = format!("`{chat}` names nobody; write `{PERSON_PREFIX}STAFF_ID`");
                Err(SendError::new(SendErrorKind::Refused, message))
            }
            Some(staff) => Ok(Self::Person(staff)),
            None => Ok(Self::Group(chat)),
        }
    }
}

impl DingTalk {
    pub(super) async fn send_message(
        &self,
        chat: &str,
        message: &OutgoingMessage,
    ) -> Result<SentMessage, SendError> {
        let recipient = Recipient::parse(chat)?;
        if let Some(template) = self.template.as_deref().filter(|_| !message.buttons.is_empty()) {
            self.wait_for_budget(chat).await;
            match self.send_card(template, chat, recipient, message).await {
                // A person must see the question in any case, so fall back to plain text.
                Err(error) if error.kind == SendErrorKind::Refused => {
                    tracing::warn!("a card was refused, its text goes alone: {error}");
                }
                outcome => return outcome,
            }
        }
        self.wait_for_budget(chat).await;
        self.send_form(chat, recipient, &Form::of(message)).await?;
        // The platform returns no message id. A question gets ours: the message cannot be edited, but the id
        // records that it was shown.
        let has_buttons = !message.buttons.is_empty();
        let message_id = has_buttons.then(|| Arc::clone(&message.id));
        Ok(SentMessage { message_id })
    }

    /// Sends a message through the session webhook, or through the API if the webhook is closed or
    /// about to close.
    async fn send_form(
        &self,
        chat: &str,
        recipient: Recipient<'_>,
        form: &Form,
    ) -> Result<(), SendError> {
        if let Some(url) = self.webhooks.find(chat, self.clock.now()) {
            match post(&self.api.client, &url, &form.webhook_body()).await {
                Ok(()) => return Ok(()),
                Err(SessionError::Failed(error)) => return Err(error),
                Err(SessionError::Closed(why)) => {
                    tracing::info!(
                        "a session webhook is closed, the message goes by the API: {why}"
                    );
                    self.webhooks.forget(chat, &url);
                }
            }
        }
        let (key, parameters) = form.api_parameters();
        self.send_by_api(recipient, &key, &parameters).await
    }

    /// Sends a message with the API calls for groups and persons.
    pub(super) async fn send_by_api(
        &self,
        recipient: Recipient<'_>,
        key: &str,
        parameters: &Value,
    ) -> Result<(), SendError> {
        let robot = &*self.api.client_id;
        // The parameters are JSON in a string.
        let parameters = parameters.to_string();
        match recipient {
            Recipient::Group(conversation) => {
                let body = json!({
                    "robotCode": robot, "openConversationId": conversation,
                    "msgKey": key, "msgParam": parameters,
                });
                self.api.call(Method::POST, "/v1.0/robot/groupMessages/send", &body).await?;
                Ok(())
            }
            Recipient::Person(staff) => {
                let body = json!({
                    "robotCode": robot, "userIds": [staff], "msgKey": key, "msgParam": parameters,
                });
                let path = "/v1.0/robot/oToMessages/batchSend";
                check_receipt(&self.api.call(Method::POST, path, &body).await?)
            }
        }
    }

    pub(super) async fn wait_for_budget(&self, chat: &str) {
        let rates: &[SendRate] =
            if chat.starts_with(PERSON_PREFIX) { &PERSON_RATES } else { &GROUP_RATES };
        self.budget.wait(chat, rates).await;
    }
}

/// Checks a successful response, which can still name people who got nothing.
fn check_receipt(answer: &Value) -> Result<(), SendError> {
    let has_some =
        |name: &str| answer[name].as_array().is_some_and(|list: &Vec<Value>| !list.is_empty());
    if has_some("flowControlledStaffIdList") {
        let error = SendError::new(SendErrorKind::NotSent, "too many messages for this person");
        return Err(SendError { retry_after: Some(Duration::from_mins(1)), ..error });
    }
    if has_some("invalidStaffIdList") || has_some("filteredStaffIdList") {
        let message = format!("{SERVER} does not let the robot write to this person");
        return Err(SendError::new(SendErrorKind::Refused, message));
    }
    Ok(())
}
