//! The DingTalk adapter: states the platform's capabilities and checks the set-up.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, Clock, ConnectionError,
    EventInbox, InboundFile, LengthLimit, LengthUnit, OutgoingFile, OutgoingMessage, ReplyRoute,
    SendFuture, SentMessage, StreamMeans,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    open_api::{OpenApi, OpenApiError},
    session_webhook::SessionWebhooks,
    writing::OVERALL_RATE,
};
use crate::chat::{platform_http::AddressProblem, send_budget::SendBudget};

const PLATFORM: &str = "dingtalk";

const STREAM_INTERVAL: Duration = Duration::from_secs(1);

/// How long a card may grow. The platform documents no limit; older cards are ended.
const STREAM_LIFETIME: Duration = Duration::from_mins(30);

#[derive(Debug, thiserror::Error)]
pub enum DingTalkError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("the {0} is empty")]
    Empty(&'static str),
}

/// The credentials from DingTalk's developer console.
#[derive(Clone, Copy)]
pub struct DingTalkSecrets<'a> {
    /// Also serves as the robot code.
    pub client_id: &'a str,
    pub client_secret: &'a str,
    /// Without a template, answers arrive as a whole, and buttons write commands into the chat.
    pub card_template_id: Option<&'a str>,
}

/// A DingTalk robot in Stream mode.
pub struct DingTalk {
    pub(super) api: OpenApi,
    pub(super) template: Option<Arc<str>>,
    pub(super) webhooks: SessionWebhooks,
    pub(super) budget: SendBudget,
    /// Previews are not messages, so messages do not wait for them.
    pub(super) preview_budget: SendBudget,
    pub(super) clock: Arc<dyn Clock>,
}

impl DingTalk {
    /// Creates the adapter. `base_url` names another server with the same protocol.
    pub fn new(
        secrets: DingTalkSecrets<'_>,
        base_url: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, DingTalkError> {
        let DingTalkSecrets { client_id, client_secret, card_template_id } = secrets;
        if client_id.is_empty() {
            return Err(DingTalkError::Empty("client id"));
        }
        if client_secret.is_empty() {
            return Err(DingTalkError::Empty("client secret"));
        }
        Ok(Self {
            api: OpenApi::new(base_url, client_id, client_secret)?,
            template: card_template_id.map(Arc::from),
            webhooks: SessionWebhooks::default(),
            budget: SendBudget::new(OVERALL_RATE),
            preview_budget: SendBudget::new(OVERALL_RATE),
            clock,
        })
    }

    /// Checks what is most often wrong: the credentials, Stream mode, and the app's permissions.
    async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        self.api.check_credentials().await?;
        let fine = |text: String| ChannelFinding { is_problem: false, text };
        let mut findings = vec![fine(format!("the app is {}", self.api.client_id))];
        self.api.open_connection(&[super::frame::MESSAGE_TOPIC]).await?;
        findings.push(fine("a stream can be opened".to_owned()));
        // Probe with a message to nobody and with an unknown card: only the permission errors matter.
        let nobody = json!({
            "robotCode": &*self.api.client_id, "userIds": [], "msgKey": "sampleText",
            "msgParam": json!({"content": "check"}).to_string(),
        });
        let path = "/v1.0/robot/oToMessages/batchSend";
        findings.extend(self.probe(Method::POST, path, &nobody, "send messages").await?);
        if self.template.is_some() {
            let no_card = json!({
                "outTrackId": "angelia-check", "guid": self.clock.fresh_uuid().to_string(),
                "key": "msgContent", "content": "", "isFull": true, "isFinalize": false, "isError": false,
            });
            let path = "/v1.0/card/streaming";
            findings.extend(self.probe(Method::PUT, path, &no_card, "write cards").await?);
        } else {
            findings.push(fine(
                "no card_template_id: answers arrive whole, and buttons write /approve and /deny"
                    .to_owned(),
            ));
        }
        Ok(findings)
    }

    /// Returns a problem if the app lacks the permission for a call.
    async fn probe(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        what: &str,
    ) -> Result<Option<ChannelFinding>, ConnectionError> {
        let refusal = match self.api.call(method, path, body).await {
            Err(OpenApiError::Refused(refusal)) => refusal,
            Err(error @ OpenApiError::Transport(_)) => return Err(error.into()),
            Ok(_) => return Ok(None),
        };
        Ok(refusal.missing_permission().map(|scopes| ChannelFinding {
            is_problem: true,
            text: format!(
                "the app may not {what}: give it the permission {scopes} in open-dev.dingtalk.com, under \
                 Permissions, and publish a version"
            ),
        }))
    }
}

impl Channel for DingTalk {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn capabilities(&self) -> ChannelCapabilities {
        let has_cards = self.template.is_some();
        ChannelCapabilities {
            receive: true,
            edit: has_cards,
            typing: false,
            buttons: has_cards,
            files: true,
            home: true,
            rich_text: true,
            idempotent: false,
            // The platform allows 20,000 bytes per message.
            max_length: Some(LengthLimit { max: 3800, unit: LengthUnit::CodePoints }),
        }
    }

    fn stream_means(&self, _chat: &str) -> StreamMeans {
        match self.template {
            Some(_) => StreamMeans::Stream { interval: STREAM_INTERVAL, lifetime: STREAM_LIFETIME },
            None => StreamMeans::None,
        }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.send_message(chat, message))
    }

    fn edit<'a>(
        &'a self,
        _chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.edit_card(sent, new))
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.begin_growing(chat, first))
    }

    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.grow(chat, begun, so_far))
    }

    fn end_stream<'a>(
        &'a self,
        _chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.end_growing(begun, last))
    }

    fn send_file<'a>(
        &'a self,
        chat: &'a str,
        file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.upload_file(chat, file))
    }

    fn fetch_file<'a>(&'a self, file: &'a InboundFile, limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(self.download_file(file, limit))
    }

    fn answer_press<'a>(&'a self, press: &'a ButtonPress, text: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.answer_presser(&press.id, text))
    }

    fn recall_routes(&self, routes: Vec<(Arc<str>, ReplyRoute)>) {
        for (chat, route) in routes {
            self.webhooks.keep(chat, route);
        }
    }

    fn receive<'a>(
        &'a self,
        _cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let Err(error) = self.stream_events(inbox).await;
            error
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for DingTalkSecrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DingTalkSecrets").finish_non_exhaustive()
    }
}

impl fmt::Debug for DingTalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DingTalk").field("api", &self.api).finish_non_exhaustive()
    }
}
